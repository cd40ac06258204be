"""What a controller's procedures ask of the store, as work on its nodes: reads as they are, changes behind the fence.

States of many partitions are written many in one multi. If one of them has changed meanwhile, nothing of that multi
was done: that one is answered so, and the others are written without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from attrs import evolve, frozen

from kraft_controller.core import asks
from kraft_controller.core.asks import Answer, Ask, Changed, Damaged, Missing
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition, decimal
from kraft_controller.wire import znodes
from kraft_controller.wire.reign import TRIES_MAX, AnswersLost, Fence, synced
from kraft_controller.wire.work import (
    Children,
    Create,
    Delete,
    Done,
    Exists,
    Failed,
    Get,
    Listing,
    Node,
    Set,
    Why,
    Work,
    together,
)
from kraft_controller.wire.znodes import DamagedNode

STATES_MAX: Final = 100
"""So many states are written in one multi: it is far from what a frame may hold, and hardly a round trip is left."""

T = TypeVar("T")


@frozen
class _Absent(Exception):
    """What was to be read is not there."""


@frozen
class _Unreadable(Exception):
    """It is there, and nobody can tell what it says."""

    why: str
    written: int


def _read(node: Node, read: Callable[[bytes | None], T]) -> T:
    try:
        return read(node.data)
    except DamagedNode as damaged:
        raise _Unreadable(str(damaged), node.written) from None


class Asking:
    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def answer(self, asked: Sequence[Ask]) -> Work[list[Answer]]:
        answers: list[Answer] = [Missing()] * len(asked)
        groups: dict[type, list[int]] = {asks.WriteState: [], asks.MakeState: []}
        places: list[list[int]] = []
        works: list[Work[list[Answer]]] = []
        for place, ask in enumerate(asked):
            group = groups.get(type(ask))
            if group is None:
                places.append([place])
                works.append(self._one(ask))
            else:
                group.append(place)
        for kind, write in ((asks.WriteState, self._write_states), (asks.MakeState, self._make_states)):
            group = groups[kind]
            for start in range(0, len(group), STATES_MAX):
                chunk = group[start : start + STATES_MAX]
                places.append(chunk)
                some: Any = [asked[place] for place in chunk]
                works.append(write(some))
        for chunk, found in zip(places, (yield from together(works)), strict=True):
            for place, answer in zip(chunk, found, strict=True):
                answers[place] = answer
        return answers

    def _one(self, ask: Ask) -> Work[list[Answer]]:
        try:
            return [(yield from self._ANSWERS[type(ask)](self, ask))]
        except _Unreadable as unreadable:
            return [Damaged(unreadable.why, unreadable.written)]
        except _Absent:
            return [Missing()]

    # -- reading -----------------------------------------------------------------------------------------

    @staticmethod
    def _get(path: str, watched: bool) -> Work[Node]:
        """With a watch also on what is not there, so that its coming is heard."""
        while True:
            [found] = yield [Get(path, watched)]
            if isinstance(found, Node):
                return found
            if not watched:
                raise _Absent
            [there] = yield [Exists(path, watch=True)]
            if not isinstance(there, Node):
                raise _Absent

    @staticmethod
    def _children(path: str) -> Work[list[str]]:
        """Where there is no such list its coming is heard: somebody may remove it by hand, and others make it again."""
        while True:
            [found] = yield [Children(path, watch=True)]
            if isinstance(found, Listing):
                return sorted(found.names)
            [there] = yield [Exists(path, watch=True)]
            if not isinstance(there, Node):
                raise _Absent

    def _brokers(self, _: asks.ListBrokers) -> Work[Answer]:
        names = yield from self._children(znodes.BROKERS)
        ids = sorted(BrokerId(number) for name in names if (number := decimal(name)) is not None)
        if not ids:
            return asks.Brokers({})
        found = yield [Exists(znodes.broker_path(broker)) for broker in ids]
        return asks.Brokers(
            {broker: BrokerEpoch(node.made) for broker, node in zip(ids, found, strict=True) if isinstance(node, Node)}
        )

    def _broker(self, ask: asks.ReadBroker) -> Work[Answer]:
        node = yield from self._get(znodes.broker_path(ask.id), True)
        return _read(node, lambda data: znodes.read_broker(ask.id, data, BrokerEpoch(node.made)))

    def _topics(self, _: asks.ListTopics) -> Work[Answer]:
        return asks.Names(tuple((yield from self._children(znodes.TOPICS))))

    def _topic(self, ask: asks.ReadTopic) -> Work[Answer]:
        node = yield from self._get(znodes.topic_path(ask.name), True)
        return _read(node, lambda data: znodes.read_topic(ask.name, data, node.version))

    def _state(self, ask: asks.ReadState) -> Work[Answer]:
        node = yield from self._get(znodes.state_path(ask.where), ask.watch)
        state = _read(node, lambda data: znodes.read_partition_state(ask.where, data, node.version))
        return evolve(state, written=node.written)

    def _config(self, ask: asks.ReadConfig) -> Work[Answer]:
        path = znodes.config_path("topics", ask.topic)
        node = yield from self._get(path, False)
        return asks.Config(_read(node, partial(znodes.read_config, path)))

    def _broker_config(self, ask: asks.ReadBrokerConfig) -> Work[Answer]:
        path = znodes.config_path("brokers", znodes.DEFAULT if ask.broker is None else str(ask.broker))
        node = yield from self._get(path, False)
        return asks.Config(_read(node, partial(znodes.read_config, path)))

    def _config_changes(self, ask: asks.TakeConfigChanges) -> Work[Answer]:
        [there] = yield [Exists(znodes.CONFIG_CHANGES)]
        of = there.made if isinstance(there, Node) else 0
        notes = sorted(
            (number, path)
            for path in (yield from self._below(znodes.CONFIG_CHANGES))
            if (number := znodes.sequence_of(path)) is not None
        )
        newest = notes[-1][0] if notes else -1
        if ask.seen is None:
            return asks.ConfigChanges((), newest, of)
        seen = ask.seen if ask.of == of else -1
        news = [path for number, path in notes if number > seen]
        found = (yield [Get(path) for path in news]) if news else []
        entities: dict[str, None] = {}
        for path, node in zip(news, found, strict=True):
            if isinstance(node, Node):
                try:
                    entities[znodes.read_config_change(path, node.data)] = None
                except DamagedNode:
                    continue  # it names nobody; whoever wrote it has to say it again
        return asks.ConfigChanges(tuple(entities), max(newest, seen), of)

    def _below(self, parent: str) -> Work[list[str]]:
        return [f"{parent}/{name}" for name in (yield from self._children(parent))]

    def _deletions(self, _: asks.ListDeletions) -> Work[Answer]:
        return asks.Names(tuple((yield from self._children(znodes.DELETE_TOPICS))))

    def _moves(self, _: asks.ReadMoves) -> Work[Answer]:
        node = yield from self._get(znodes.REASSIGN, True)
        return asks.Moves(_read(node, znodes.read_reassignment))

    def _preferred(self, _: asks.ReadPreferred) -> Work[Answer]:
        node = yield from self._get(znodes.PREFERRED, True)
        named, unclean = _read(node, znodes.read_elections)
        return asks.Partitions(named, unclean)

    # -- changing states ---------------------------------------------------------------------------------

    def _write_states(self, writes: Sequence[asks.WriteState]) -> Work[list[Answer]]:
        sets = [
            Set(znodes.state_path(each.where), znodes.partition_state(each.state), each.state.version)
            for each in writes
        ]
        return (yield from self._set_all(sets))

    def _set_all(self, sets: Sequence[Set]) -> Work[list[Answer]]:
        """Each under its version, as many as possible at once."""
        answers: list[Answer | None] = [None] * len(sets)
        for _ in range(TRIES_MAX):
            left = [place for place, answer in enumerate(answers) if answer is None]
            if not left:
                break
            outcome = yield from self._fence.change(*(sets[place] for place in left))
            if isinstance(outcome, Done):
                for place, version in zip(left, outcome.versions, strict=True):
                    assert version is not None
                    answers[place] = asks.Done(version)
            elif outcome.why is Why.UNKNOWN:
                found = yield from synced(*(sets[place].path for place in left))
                for place, node in zip(left, found, strict=True):
                    answers[place] = _became(sets[place], node)
            else:
                answers[left[outcome.part]] = _refused(outcome.why)
                # Where one has changed others may have: two halves, so that many such are found in few rounds.
                del left[outcome.part]
                half = (len(left) + 1) // 2
                parts = [part for part in (left[:half], left[half:]) if part]
                found_ = yield from together([self._set_all([sets[place] for place in part]) for part in parts])
                for part, heard in zip(parts, found_, strict=True):
                    for place, answer in zip(part, heard, strict=True):
                        answers[place] = answer
        if None in answers:
            raise AnswersLost(sets[answers.index(None)].path)
        return [answer for answer in answers if answer is not None]

    def _make_states(self, makes: Sequence[asks.MakeState]) -> Work[list[Answer]]:
        """The partitions and their states in one; what is above them is made first."""
        topics = list(dict.fromkeys(each.where.topic for each in makes))
        above = yield from together([self._fence.create(Create(znodes.partitions_path(topic))) for topic in topics])
        gone = {topic for topic, why in zip(topics, above, strict=True) if why is Why.NO_NODE}
        answers: dict[TopicPartition, Answer] = {each.where: Missing() for each in makes if each.where.topic in gone}
        left = [each for each in makes if each.where not in answers]
        if left and (yield from self._fence.create(*(node for each in left for node in _nodes(each)))) is None:
            answers.update((each.where, asks.Done()) for each in left)
        else:
            one_by_one = yield from together([self._make_state(each) for each in left])
            answers.update(zip((each.where for each in left), one_by_one, strict=True))
        return [answers[each.where] for each in makes]

    def _make_state(self, make: asks.MakeState) -> Work[Answer]:
        """Some of it may be there."""
        partition, state = _nodes(make)
        why = yield from self._fence.create(partition, state)
        if why is Why.EXISTS:
            why = yield from self._fence.create(state)
        return asks.Done() if why is None else Changed() if why is Why.EXISTS else Missing()

    # -- changing the rest -------------------------------------------------------------------------------

    def _write_topic(self, ask: asks.WriteTopic) -> Work[Answer]:
        topic = ask.topic
        data = znodes.topic(topic.id, topic.partitions)
        written = yield from self._fence.set(znodes.topic_path(topic.name), data, topic.version)
        return _refused(written.why) if isinstance(written, Failed) else asks.Done(written)

    def _forget(self, ask: asks.ForgetTopic) -> Work[Answer]:
        """The request goes last, and only when nothing else is left: by it a deletion that did not end is found."""
        if not (yield from self._fence.delete_tree(znodes.topic_path(ask.name))):
            return Changed()
        request = f"{znodes.DELETE_TOPICS}/{ask.name}"
        yield from self._fence.delete(znodes.config_path("topics", ask.name), request)
        return asks.Done()

    def _drop_deletion(self, ask: asks.DropDeletion) -> Work[Answer]:
        """Where the topic is gone already, whoever deleted it may have died before its configuration went."""
        [there] = yield [Exists(znodes.topic_path(ask.name))]
        if not isinstance(there, Node):
            yield from self._fence.delete(znodes.config_path("topics", ask.name))
        yield from self._fence.delete(f"{znodes.DELETE_TOPICS}/{ask.name}")
        return asks.Done()

    def _drop_moves(self, ask: asks.DropMoves) -> Work[Answer]:
        while True:
            node = yield from self._get(znodes.REASSIGN, False)
            wanted = _read(node, znodes.read_reassignment)
            left = ask.left(wanted)
            if not left:
                outcome = yield from self._fence.change(Delete(znodes.REASSIGN, node.version))
                if isinstance(outcome, Done) or outcome.why is Why.NO_NODE:
                    return asks.Done()
                continue  # somebody has asked for something else meanwhile, or nobody knows
            if left == wanted:
                return asks.Done()
            written = yield from self._fence.set(znodes.REASSIGN, znodes.reassignment(left), node.version)
            if not isinstance(written, Failed):
                return asks.Done(written)

    def _drop_preferred(self, _: asks.DropPreferred) -> Work[Answer]:
        yield from self._fence.delete(znodes.PREFERRED)
        return asks.Done()

    def _raise_epoch(self, ask: asks.RaiseEpoch) -> Work[Answer]:
        written = yield from self._fence.raise_epoch(ask.to)
        return _refused(written.why) if isinstance(written, Failed) else asks.Done(written)

    # -- taking notes ------------------------------------------------------------------------------------

    def _isr_changes(self, _: asks.TakeIsrChanges) -> Work[Answer]:
        named: dict[TopicPartition, None] = {}
        for path, data in (yield from self._notes(znodes.ISR_CHANGES)):
            try:
                named.update(dict.fromkeys(znodes.read_partitions(path, data)))
            except DamagedNode:
                continue  # it is gone, and what it would have said is found where the partitions are read
        return asks.Partitions(tuple(named))

    def _log_dir_events(self, _: asks.TakeLogDirEvents) -> Work[Answer]:
        brokers: dict[BrokerId, BrokerEpoch] = {}
        for path, data in (yield from self._notes(znodes.LOG_DIR_EVENTS)):
            try:
                brokers[znodes.read_log_dir_event(path, data)] = BrokerEpoch(-1)
            except DamagedNode:
                continue
        return asks.Brokers(brokers)

    def _notes(self, parent: str) -> Work[list[tuple[str, bytes | None]]]:
        """All sequential nodes there, in order; then they are removed."""
        paths = yield from self._below(parent)
        if not paths:
            return []
        found = yield [Get(path) for path in paths]
        yield from together([self._fence.delete(path) for path in paths])
        return [(path, node.data) for path, node in zip(paths, found, strict=True) if isinstance(node, Node)]

    _ANSWERS: Final[dict[type, Callable[[Any, Any], Work[Answer]]]] = {
        asks.ListBrokers: _brokers,
        asks.ReadBroker: _broker,
        asks.ListTopics: _topics,
        asks.ReadTopic: _topic,
        asks.ReadState: _state,
        asks.ReadConfig: _config,
        asks.ReadBrokerConfig: _broker_config,
        asks.TakeConfigChanges: _config_changes,
        asks.ListDeletions: _deletions,
        asks.ReadMoves: _moves,
        asks.ReadPreferred: _preferred,
        asks.WriteTopic: _write_topic,
        asks.ForgetTopic: _forget,
        asks.DropDeletion: _drop_deletion,
        asks.DropMoves: _drop_moves,
        asks.DropPreferred: _drop_preferred,
        asks.TakeIsrChanges: _isr_changes,
        asks.TakeLogDirEvents: _log_dir_events,
        asks.RaiseEpoch: _raise_epoch,
    }


def _nodes(make: asks.MakeState) -> tuple[Create, Create]:
    data = znodes.partition_state(make.state)
    return Create(znodes.partition_path(make.where)), Create(znodes.state_path(make.where), data)


def _became(wanted: Set, node: Node | Failed) -> Answer | None:
    """Of a write whose answer was lost, by what is there; None: it was not done."""
    if not isinstance(node, Node):
        return Missing()
    if node.data == wanted.data and node.version == wanted.version + 1:
        return asks.Done(node.version)
    return None if node.version == wanted.version else Changed()


def _refused(why: Why) -> Answer:
    return Changed() if why is Why.BAD_VERSION else Missing()
