"""The controller's metadata as znodes: `ControllerStore` implemented by requests to the coordination store.

All writes use the controller epoch fence. The states of many partitions are written in one multi. If one of the nodes
is missing or has another version, the multi changes nothing. The write of that state fails, and the other states are
written without it. The nodes of many partitions are deleted in one multi, too. If one of the nodes is missing or has
unexpected children, the partitions of this multi are deleted separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from attrs import evolve

from kraft_controller.core.controller_store import (
    Changed,
    Config,
    ConfigChanges,
    Damaged,
    ElectionRequest,
    Missing,
    Reassignments,
    WriteResult,
    Written,
    remaining_reassignments,
)
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition, decimal
from kraft_controller.core.state import Broker, PartitionState, Topic
from kraft_controller.core.store_requests import (
    TRIES_MAX,
    Children,
    Create,
    Delete,
    Done,
    Exists,
    Failed,
    Get,
    Listing,
    Node,
    RepliesLost,
    Set,
    StoreRequests,
    Why,
    in_parallel,
)
from kraft_controller.wire import znodes
from kraft_controller.wire.epoch_fence import Fence, read_synced
from kraft_controller.wire.znodes import DamagedNode

STATES_MAX: Final = 100
"""The maximum number of states in one multi. A frame could hold many more, but that would save hardly any round
trips."""

DELETIONS_MAX: Final = STATES_MAX // 2
"""The maximum number of partitions deleted in one multi. Each has two nodes."""

T = TypeVar("T")


class ZnodeStore:
    """The `ControllerStore` of one controller epoch (KafkaZkClient in Apache Kafka)."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    # -- brokers -----------------------------------------------------------------------------------------

    def registered_brokers(self) -> StoreRequests[Mapping[BrokerId, BrokerEpoch]]:
        names = yield from _children(znodes.BROKERS)
        ids = sorted(BrokerId(number) for name in names if (number := decimal(name)) is not None)
        if not ids:
            return {}
        found = yield [Exists(znodes.broker_path(broker)) for broker in ids]
        return {
            broker: BrokerEpoch(node.made) for broker, node in zip(ids, found, strict=True) if isinstance(node, Node)
        }

    def read_brokers(self, ids: Sequence[BrokerId]) -> StoreRequests[list[Broker | Damaged | Missing]]:
        def read(ident: BrokerId, node: Node) -> Broker:
            return znodes.read_broker(ident, node.data, BrokerEpoch(node.made))

        return (
            yield from in_parallel(
                [_read(znodes.broker_path(ident), partial(read, ident), watch=True) for ident in ids]
            )
        )

    # -- topics and partitions -----------------------------------------------------------------------------

    def topic_names(self) -> StoreRequests[tuple[str, ...]]:
        return tuple((yield from _children(znodes.TOPICS)))

    def read_topics(self, names: Sequence[str]) -> StoreRequests[list[Topic | Damaged | Missing]]:
        def read(name: str, node: Node) -> Topic:
            return znodes.read_topic(name, node.data, node.version)

        return (
            yield from in_parallel([_read(znodes.topic_path(name), partial(read, name), watch=True) for name in names])
        )

    def write_topic(self, topic: Topic) -> StoreRequests[WriteResult]:
        data = znodes.topic(topic.id, topic.partitions)
        written = yield from self._fence.set(znodes.topic_path(topic.name), data, topic.version)
        return _refused(written.why) if isinstance(written, Failed) else Written(written)

    def delete_partitions(self, topic: str, limit: int) -> StoreRequests[int]:
        [found] = yield [Children(znodes.partitions_path(topic))]
        names = found.names if isinstance(found, Listing) else ()
        nodes = [znodes.nodes_of_partition(topic, name) for name in names[:limit]]
        chunks = [nodes[at : at + DELETIONS_MAX] for at in range(0, len(nodes), DELETIONS_MAX)]
        yield from in_parallel([self._fence.delete_trees(chunk) for chunk in chunks])
        return len(names) - len(nodes)

    def delete_topic(self, name: str) -> StoreRequests[bool]:
        if not (yield from self._fence.delete_tree(znodes.topic_path(name))):
            return False
        yield from self._fence.delete(znodes.config_path("topics", name), f"{znodes.DELETE_TOPICS}/{name}")
        return True

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool = False
    ) -> StoreRequests[list[PartitionState | Damaged | Missing]]:
        def read(tp: TopicPartition, node: Node) -> PartitionState:
            return evolve(znodes.read_partition_state(tp, node.data, node.version), written=node.written)

        return (
            yield from in_parallel([_read(znodes.state_path(tp), partial(read, tp), watch=watch) for tp in partitions])
        )

    def write_states(self, states: Mapping[TopicPartition, PartitionState]) -> StoreRequests[list[WriteResult]]:
        sets = [
            Set(znodes.state_path(tp), znodes.partition_state(state), state.version) for tp, state in states.items()
        ]
        chunks = [sets[at : at + STATES_MAX] for at in range(0, len(sets), STATES_MAX)]
        results = yield from in_parallel([self._set_all(chunk) for chunk in chunks])
        return [result for chunk in results for result in chunk]

    def _set_all(self, sets: Sequence[Set]) -> StoreRequests[list[WriteResult]]:
        """Write each node that still has the expected version. Try all of them in one multi.

        After a conflict, record its result, and write each half of the rest in a multi of its own. Conflicts are often
        close to each other, so a few rounds find all of them.
        """
        results: list[WriteResult | None] = [None] * len(sets)
        for _ in range(TRIES_MAX):
            left = [place for place, result in enumerate(results) if result is None]
            if not left:
                break
            outcome = yield from self._fence.change(*(sets[place] for place in left))
            if isinstance(outcome, Done):
                for place, version in zip(left, outcome.versions, strict=True):
                    assert version is not None
                    results[place] = Written(version)
            elif outcome.why is Why.UNKNOWN:
                nodes = yield from read_synced(*(sets[place].path for place in left))
                for place, node in zip(left, nodes, strict=True):
                    results[place] = _outcome(sets[place], node)
            else:
                results[left[outcome.part]] = _refused(outcome.why)
                del left[outcome.part]
                half = (len(left) + 1) // 2
                halves = [part for part in (left[:half], left[half:]) if part]
                found = yield from in_parallel([self._set_all([sets[place] for place in part]) for part in halves])
                for part, written in zip(halves, found, strict=True):
                    for place, result in zip(part, written, strict=True):
                        results[place] = result
        if None in results:
            raise RepliesLost(sets[results.index(None)].path)
        return [result for result in results if result is not None]

    def create_states(self, states: Mapping[TopicPartition, PartitionState]) -> StoreRequests[list[WriteResult]]:
        items = list(states.items())
        chunks = [dict(items[at : at + STATES_MAX]) for at in range(0, len(items), STATES_MAX)]
        results = yield from in_parallel([self._create_all(chunk) for chunk in chunks])
        return [result for chunk in results for result in chunk]

    def _create_all(self, states: Mapping[TopicPartition, PartitionState]) -> StoreRequests[list[WriteResult]]:
        """Create the nodes of partitions and their states in one multi, after their parents. If the multi fails, for
        example because some nodes already exist, create them one by one."""
        topics = list(dict.fromkeys(tp.topic for tp in states))
        parents = yield from in_parallel(
            [self._fence.create(Create(znodes.partitions_path(topic))) for topic in topics]
        )
        gone = {topic for topic, why in zip(topics, parents, strict=True) if why is Why.NO_NODE}
        results: dict[TopicPartition, WriteResult] = {tp: Missing() for tp in states if tp.topic in gone}
        left = [(tp, state) for tp, state in states.items() if tp not in results]
        if left and (yield from self._fence.create(*(node for each in left for node in _nodes(*each)))) is None:
            results.update((tp, Written()) for tp, _ in left)
        else:
            one_by_one = yield from in_parallel([self._create(*each) for each in left])
            results.update(zip((tp for tp, _ in left), one_by_one, strict=True))
        return [results[tp] for tp in states]

    def _create(self, tp: TopicPartition, state: PartitionState) -> StoreRequests[WriteResult]:
        """Create a state. The partition's node may already exist."""
        parent, node = _nodes(tp, state)
        why = yield from self._fence.create(parent, node)
        if why is Why.EXISTS:
            why = yield from self._fence.create(node)
        return Written() if why is None else Changed() if why is Why.EXISTS else Missing()

    # -- configurations ------------------------------------------------------------------------------------

    def read_topic_configs(self, names: Sequence[str]) -> StoreRequests[list[Config | Damaged | Missing]]:
        return (yield from _read_configs([znodes.config_path("topics", name) for name in names]))

    def read_broker_configs(
        self, brokers: Sequence[BrokerId | None]
    ) -> StoreRequests[list[Config | Damaged | Missing]]:
        names = [znodes.DEFAULT if broker is None else str(broker) for broker in brokers]
        return (yield from _read_configs([znodes.config_path("brokers", name) for name in names]))

    def config_changes(self, seen: int | None, of: int = 0) -> StoreRequests[ConfigChanges | Missing]:
        """Read the change notifications after number `seen`; with None, only the newest number.

        `of`: the zxid that created the parent node whose children `seen` counts. The children of a re-created parent
        are numbered from 0 again, so all of them are read.
        """
        [parent] = yield [Exists(znodes.CONFIG_CHANGES)]
        made = parent.made if isinstance(parent, Node) else 0
        names = yield from _list(znodes.CONFIG_CHANGES)
        if names is None:
            return Missing()
        notes = znodes.in_sequence(znodes.CONFIG_CHANGES, names)
        newest = notes[-1][0] if notes else -1
        if seen is None:
            return ConfigChanges((), newest, made, len(notes))
        seen = seen if of == made else -1
        new = [path for number, path in notes if number > seen]
        nodes = (yield [Get(path) for path in new]) if new else []
        entities: dict[str, None] = {}
        for path, node in zip(new, nodes, strict=True):
            if isinstance(node, Node):
                try:
                    entities[znodes.read_config_change(path, node.data)] = None
                except DamagedNode:
                    continue  # the notification names no valid entity, so it is ignored
        return ConfigChanges(tuple(entities), max(newest, seen), made, len(notes))

    # -- requests of administrators and notifications of brokers -------------------------------------------

    def topic_deletions(self) -> StoreRequests[tuple[str, ...]]:
        return tuple((yield from _children(znodes.DELETE_TOPICS)))

    def drop_topic_deletion(self, name: str) -> StoreRequests[None]:
        [there] = yield [Exists(znodes.topic_path(name))]
        if not isinstance(there, Node):
            yield from self._fence.delete(znodes.config_path("topics", name))
        yield from self._fence.delete(f"{znodes.DELETE_TOPICS}/{name}")

    def reassignments(self) -> StoreRequests[Reassignments | Damaged | Missing]:
        return (yield from _read(znodes.REASSIGN, lambda node: znodes.read_reassignment(node.data), watch=True))

    def drop_reassignments(
        self, partitions: Sequence[TopicPartition], targets: Sequence[tuple[BrokerId, ...]] = ()
    ) -> StoreRequests[None]:
        while True:
            [node] = yield [Get(znodes.REASSIGN)]
            if not isinstance(node, Node):
                return
            try:
                requested = znodes.read_reassignment(node.data)
            except DamagedNode:
                return
            left = remaining_reassignments(requested, partitions, targets)
            if not left:
                outcome = yield from self._fence.change(Delete(znodes.REASSIGN, node.version))
                if isinstance(outcome, Done) or outcome.why is Why.NO_NODE:
                    return
                if outcome.why is Why.NOT_EMPTY and not (yield from self._fence.delete_children(znodes.REASSIGN)):
                    return
                continue  # the node has changed, the reply was lost, or its children were deleted first
            if left == requested:
                return
            written = yield from self._fence.set(znodes.REASSIGN, znodes.reassignment(left), node.version)
            if not isinstance(written, Failed):
                return

    def preferred_elections(self) -> StoreRequests[ElectionRequest | Damaged | Missing]:
        def read(node: Node) -> ElectionRequest:
            return ElectionRequest(*znodes.read_elections(node.data))

        return (yield from _read(znodes.PREFERRED, read, watch=True))

    def drop_preferred_elections(self) -> StoreRequests[None]:
        yield from self._fence.delete(znodes.PREFERRED)

    def take_isr_changes(self) -> StoreRequests[tuple[TopicPartition, ...]]:
        named: dict[TopicPartition, None] = {}
        for path, data in (yield from self._take_notes(znodes.ISR_CHANGES)):
            try:
                named.update(dict.fromkeys(znodes.read_partitions(path, data)))
            except DamagedNode:
                continue  # a later read of the states finds the changes, for example after a write conflict
        return tuple(named)

    def take_log_dir_events(self) -> StoreRequests[tuple[BrokerId, ...]]:
        brokers: dict[BrokerId, None] = {}
        for path, data in (yield from self._take_notes(znodes.LOG_DIR_EVENTS)):
            try:
                brokers[znodes.read_log_dir_event(path, data)] = None
            except DamagedNode:
                continue
        return tuple(brokers)

    def _take_notes(self, parent: str) -> StoreRequests[list[tuple[str, bytes | None]]]:
        """Read all notifications below a node in order, and delete them."""
        paths = [f"{parent}/{name}" for name in (yield from _children(parent))]
        if not paths:
            return []
        nodes = yield [Get(path) for path in paths]
        yield from in_parallel([self._fence.delete(path) for path in paths])
        return [(path, node.data) for path, node in zip(paths, nodes, strict=True) if isinstance(node, Node)]

    # -- the controller itself -----------------------------------------------------------------------------

    def raise_controller_epoch(self, to: ControllerEpoch) -> StoreRequests[WriteResult]:
        written = yield from self._fence.raise_epoch(to)
        return _refused(written.why) if isinstance(written, Failed) else Written(written)


def _get(path: str, watch: bool) -> StoreRequests[Node | None]:
    """Read a node. With `watch`, also watch for the creation of a missing node."""
    while True:
        [found] = yield [Get(path, watch)]
        if isinstance(found, Node):
            return found
        if not watch:
            return None
        [there] = yield [Exists(path, watch=True)]
        if not isinstance(there, Node):
            return None


def _read(path: str, parse: Callable[[Node], T], *, watch: bool) -> StoreRequests[T | Damaged | Missing]:
    node = yield from _get(path, watch)
    if node is None:
        return Missing()
    try:
        return parse(node)
    except DamagedNode as damaged:
        return Damaged(str(damaged), node.written)


def _read_configs(paths: Sequence[str]) -> StoreRequests[list[Config | Damaged | Missing]]:
    def read(path: str, node: Node) -> Config:
        return znodes.read_config(path, node.data)

    return (yield from in_parallel([_read(path, partial(read, path), watch=False) for path in paths]))


def _list(path: str) -> StoreRequests[list[str] | None]:
    """Return a node's children and watch them; None if the node does not exist.

    A missing node is watched, too: an administrator may have removed it, and brokers create it again.
    """
    while True:
        [found] = yield [Children(path, watch=True)]
        if isinstance(found, Listing):
            return sorted(found.names)
        [there] = yield [Exists(path, watch=True)]
        if not isinstance(there, Node):
            return None


def _children(path: str) -> StoreRequests[list[str]]:
    return (yield from _list(path)) or []


def _nodes(tp: TopicPartition, state: PartitionState) -> tuple[Create, Create]:
    return Create(znodes.partition_path(tp)), Create(znodes.state_path(tp), znodes.partition_state(state))


def _outcome(wanted: Set, node: Node | Failed) -> WriteResult | None:
    """Return the result of a write whose reply was lost, by comparison with the node; None if it was not applied."""
    if not isinstance(node, Node):
        return Missing()
    if node.data == wanted.data and node.version == wanted.version + 1:
        return Written(node.version)
    return None if node.version == wanted.version else Changed()


def _refused(why: Why) -> WriteResult:
    return Changed() if why is Why.BAD_VERSION else Missing()
