"""The controller's store as dictionaries. Each access is a value that a test may observe, precede or interrupt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import evolve, frozen

from kraft_controller.core.controller_store import (
    Changed,
    ConfigChanges,
    Damaged,
    ElectionRequest,
    Missing,
    Written,
    remaining_reassignments,
)
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState, Topic

# -- accesses --------------------------------------------------------------------------------------------


@frozen
class Access:
    """One access to the store."""


@frozen
class ListBrokers(Access):
    pass


@frozen
class ReadBroker(Access):
    id: BrokerId


@frozen
class ListTopics(Access):
    pass


@frozen
class ReadTopic(Access):
    name: str


@frozen
class WriteTopic(Access):
    topic: Topic


@frozen
class ReadState(Access):
    where: TopicPartition
    watch: bool = False


@frozen
class CreateState(Access):
    where: TopicPartition
    state: PartitionState


@frozen
class WriteState(Access):
    where: TopicPartition
    state: PartitionState


@frozen
class ReadConfig(Access):
    topic: str


@frozen
class ReadBrokerConfig(Access):
    broker: BrokerId | None


@frozen
class ReadConfigChanges(Access):
    seen: int | None


@frozen
class DeletePartitions(Access):
    topic: str
    limit: int


@frozen
class DeleteTopic(Access):
    topic: str


@frozen
class ListDeletions(Access):
    pass


@frozen
class DropDeletion(Access):
    name: str


@frozen
class ReadReassignments(Access):
    pass


@frozen
class DropReassignments(Access):
    partitions: tuple[TopicPartition, ...]
    targets: tuple[tuple[BrokerId, ...], ...] = ()


@frozen
class ReadElections(Access):
    pass


@frozen
class DropElections(Access):
    pass


@frozen
class TakeIsrChanges(Access):
    pass


@frozen
class TakeLogDirEvents(Access):
    pass


@frozen
class RaiseEpoch(Access):
    to: ControllerEpoch


Procedure: TypeAlias = Any
"""A procedure that yields accesses in place of operations."""


def broker(number: int, epoch: int = 1) -> Broker:
    return Broker(BrokerId(number), BrokerEpoch(epoch), (Endpoint("PLAINTEXT", f"h{number}", 9092),))


class Store:
    """Implements `ControllerStore`; `answer` carries out the accesses."""

    def __init__(self, brokers: int = 3) -> None:
        self.brokers = {BrokerId(number): broker(number) for number in range(1, brokers + 1)}
        self.topics: dict[str, Topic] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.config_notes: list[str] = []
        self.deletions: list[str] = []
        self.keeps: set[str] = set()
        """Topics below whose node another client creates nodes as fast as they are deleted."""
        self.moves: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.preferred: tuple[TopicPartition, ...] = ()
        self.isr_changes: tuple[TopicPartition, ...] = ()
        self.damaged: dict[object, str] = {}
        self.before: Callable[[Access], None] = lambda access: None
        """Called before each access: what other clients do meanwhile."""
        self.rounds = 0
        self.accesses: list[Access] = []

    def topic(self, name: str, *replicas: tuple[int, ...], ident: str | None = "x" * 22) -> None:
        made = {number: Assignment(tuple(map(BrokerId, held))) for number, held in enumerate(replicas)}
        self.topics[name] = Topic(name, None if ident is None else TopicId(ident), made)

    def shrink(self, where: TopicPartition, *isr: int) -> None:
        """Write another ISR, as the leader does."""
        state = self.states[where]
        self.states[where] = evolve(state, isr=tuple(map(BrokerId, isr)), version=Version(state.version + 1))

    # -- ControllerStore ---------------------------------------------------------------------------------

    def registered_brokers(self) -> Procedure:
        return _one(ListBrokers())

    def read_brokers(self, ids: Sequence[BrokerId]) -> Procedure:
        return _each(map(ReadBroker, ids))

    def topic_names(self) -> Procedure:
        return _one(ListTopics())

    def read_topics(self, names: Sequence[str]) -> Procedure:
        return _each(map(ReadTopic, names))

    def write_topic(self, topic: Topic) -> Procedure:
        return _one(WriteTopic(topic))

    def delete_partitions(self, topic: str, limit: int) -> Procedure:
        return _one(DeletePartitions(topic, limit))

    def delete_topic(self, name: str) -> Procedure:
        return _one(DeleteTopic(name))

    def read_states(self, partitions: Sequence[TopicPartition], *, watch: bool = False) -> Procedure:
        return _each(ReadState(where, watch) for where in partitions)

    def create_states(self, states: Mapping[TopicPartition, PartitionState]) -> Procedure:
        return _each(CreateState(where, state) for where, state in states.items())

    def write_states(self, states: Mapping[TopicPartition, PartitionState]) -> Procedure:
        return _each(WriteState(where, state) for where, state in states.items())

    def read_topic_configs(self, names: Sequence[str]) -> Procedure:
        return _each(map(ReadConfig, names))

    def read_broker_configs(self, brokers: Sequence[BrokerId | None]) -> Procedure:
        return _each(map(ReadBrokerConfig, brokers))

    def config_changes(self, seen: int | None, of: int = 0) -> Procedure:
        return _one(ReadConfigChanges(seen))

    def topic_deletions(self) -> Procedure:
        return _one(ListDeletions())

    def drop_topic_deletion(self, name: str) -> Procedure:
        return _one(DropDeletion(name))

    def reassignments(self) -> Procedure:
        return _one(ReadReassignments())

    def drop_reassignments(
        self, partitions: Sequence[TopicPartition], targets: Sequence[tuple[BrokerId, ...]] = ()
    ) -> Procedure:
        return _one(DropReassignments(tuple(partitions), tuple(targets)))

    def preferred_elections(self) -> Procedure:
        return _one(ReadElections())

    def drop_preferred_elections(self) -> Procedure:
        return _one(DropElections())

    def take_isr_changes(self) -> Procedure:
        return _one(TakeIsrChanges())

    def take_log_dir_events(self) -> Procedure:
        return _one(TakeLogDirEvents())

    def raise_controller_epoch(self, to: ControllerEpoch) -> Procedure:
        return _one(RaiseEpoch(to))

    # -- carrying out ------------------------------------------------------------------------------------

    def answer(self, accesses: Sequence[Access]) -> list[Any]:
        self.rounds += 1
        answers = []
        for access in accesses:
            self.before(access)
            self.accesses.append(access)
            answers.append(self._answer(access))
        return answers

    def _answer(self, access: Access) -> Any:
        match access:
            case ListBrokers():
                return {known.id: known.epoch for known in self.brokers.values()}
            case ReadBroker(ident):
                return self.brokers.get(ident, Missing())
            case ListTopics():
                return tuple(self.topics)
            case ReadTopic(name):
                return Damaged(self.damaged[name]) if name in self.damaged else self.topics.get(name, Missing())
            case WriteTopic(topic):
                return self._write(self.topics, topic.name, topic, self.topics.get(topic.name), topic.version)
            case ReadState(where):
                return Damaged(self.damaged[where]) if where in self.damaged else self.states.get(where, Missing())
            case CreateState(where, state):
                if where in self.states or where in self.damaged:
                    return Changed()
                self.states[where] = state
                return Written()
            case WriteState(where, state):
                return self._write(self.states, where, state, self.states.get(where), state.version)
            case ReadConfig(name):
                if ("config", name) in self.damaged:
                    return Damaged(self.damaged["config", name])
                return self.configs.get(name, {})
            case ReadBrokerConfig(ident):
                name = "<default>" if ident is None else str(ident)
                return self.configs.get(name, Missing())
            case ReadConfigChanges(seen):
                news = () if seen is None else tuple(dict.fromkeys(self.config_notes[seen + 1 :]))
                return ConfigChanges(news, len(self.config_notes) - 1)
            case DeletePartitions(topic, limit):
                states = [where for where in self.states if where.topic == topic]
                for where in states[:limit]:
                    del self.states[where]
                return len(states[limit:])
            case DeleteTopic(name):
                for where in [where for where in self.states if where.topic == name]:
                    del self.states[where]
                if name in self.keeps:
                    return False
                self.topics.pop(name, None)
                self.deletions.remove(name)
                return True
            case ListDeletions():
                return tuple(self.deletions)
            case DropDeletion(name):
                self.deletions.remove(name)
            case ReadReassignments():
                return self.moves
            case DropReassignments(partitions, targets):
                self.moves = remaining_reassignments(self.moves, partitions, targets)
            case ReadElections():
                return ElectionRequest(self.preferred) if self.preferred else Missing()
            case DropElections():
                self.preferred = ()
            case TakeIsrChanges():
                return self.isr_changes
            case TakeLogDirEvents():
                return ()
            case _:
                pass
        return Written()

    @staticmethod
    def _write(where: dict[Any, Any], key: object, value: Any, held: Any, expect: Version) -> Any:
        if held is None:
            return Missing()
        if held.version != expect:
            return Changed()
        where[key] = evolve(value, version=Version(expect + 1))
        return Written(Version(expect + 1))


def _one(access: Access) -> Procedure:
    [answer] = yield [access]
    return answer


def _each(accesses: Any) -> Procedure:
    listed = list(accesses)
    if not listed:
        return []
    answers = yield listed
    return list(answers)
