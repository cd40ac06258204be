"""The creation and deletion of topics with many partitions, on a store of znodes that counts requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kraft_controller.core import controller_events as events
from kraft_controller.core.commands import LeaderAndIsr, StopReplica
from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.event_queue import EventQueue, process_event
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.names import BrokerId, ControllerEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment
from kraft_controller.core.store_requests import (
    Check,
    Children,
    Create,
    Delete,
    Done,
    Exists,
    Failed,
    Get,
    Listing,
    Multi,
    Node,
    Operation,
    Result,
    Set,
    StoreRequests,
    Sync,
    Why,
)
from kraft_controller.core.topics import topic_changes
from kraft_controller.core.topics.topic_deletion import PARTITIONS_DELETED_MAX
from kraft_controller.wire import znodes
from kraft_controller.wire.epoch_fence import Fence
from kraft_controller.wire.znode_store import ZnodeStore
from tests.unit.kraft_controller.cluster import Sent
from tests.unit.kraft_controller.store_double import broker

MANY = 2 * PARTITIONS_DELETED_MAX + 1
REQUEST = f"{znodes.DELETE_TOPICS}/big"


class Nodes:
    """The nodes of a store. Records the operations, and counts the round trips."""

    def __init__(self) -> None:
        self.data: dict[str, bytes | None] = {znodes.CONTROLLER_EPOCH: b"1"}
        self.versions: dict[str, Version] = {}
        self.operations: list[Operation] = []
        self.rounds = 0

    def run(self, procedure: StoreRequests[Any]) -> Any:
        results: list[Result] | None = None
        while True:
            try:
                operations = next(procedure) if results is None else procedure.send(results)
            except StopIteration as end:
                return end.value
            results = self.answer(operations)

    def answer(self, operations: Sequence[Operation]) -> list[Result]:
        self.rounds += 1
        self.operations += operations
        return [self._answer(operation) for operation in operations]

    def below(self, path: str) -> list[str]:
        """Return the names of a node's children."""
        names = (other.removeprefix(f"{path}/") for other in self.data if other.startswith(f"{path}/"))
        return [name for name in names if "/" not in name]

    def _answer(self, operation: Operation) -> Result:
        match operation:
            case Sync():
                return Done()
            case Multi(changes):
                return self._multi(changes)
            case Children(path):
                return Listing(tuple(self.below(path))) if path in self.data else Failed(Why.NO_NODE)
            case Get(path) | Exists(path):
                if path not in self.data:
                    return Failed(Why.NO_NODE)
                return Node(self.data[path], self._version(path), 1, 0)

    def _version(self, path: str) -> Version:
        return self.versions.get(path, Version(0))

    def _multi(self, changes: Sequence[Check | Create | Set | Delete]) -> Result:
        data, versions = dict(self.data), dict(self.versions)
        for place, change in enumerate(changes):
            why = self._change(change)
            if why is not None:
                self.data, self.versions = data, versions
                return Failed(why, place)
        return Done(tuple(self._version(change.path) if isinstance(change, Set) else None for change in changes))

    def _change(self, change: Check | Create | Set | Delete) -> Why | None:
        path = change.path
        if isinstance(change, Create):
            if path in self.data:
                return Why.EXISTS
            if path.rpartition("/")[0] not in self.data:
                return Why.NO_NODE
            self.data[path] = change.data
            return None
        if path not in self.data:
            return Why.NO_NODE
        if change.version not in (-1, self._version(path)):
            return Why.BAD_VERSION
        if isinstance(change, Set):
            self.data[path], self.versions[path] = change.data, Version(change.version + 1)
        elif isinstance(change, Delete):
            # A search through all nodes for each partition would be slow.
            if f"{path}/state" in self.data or (path.count("/") < 5 and self.below(path)):
                return Why.NOT_EMPTY
            del self.data[path]
        return None


class Term:
    """A controller term with its event queue. Brokers confirm each deletion of a replica when `confirm` is called."""

    def __init__(self, nodes: Nodes, epoch: int = 1) -> None:
        self.nodes = nodes
        self.sent = Sent()
        self.queue = EventQueue(lambda: 0.0)
        self.controller = KafkaController(
            ControllerContext(BrokerId(1), ControllerEpoch(epoch)), ZnodeStore(Fence(Version(0))), self.sent,
            self.queue.note, lambda message: None, lambda: TopicId("x" * 22),
        )  # fmt: skip
        self.queue.note(events.ControllerElected())

    def process(self) -> events.Event | None:
        """Process the next event and return it."""
        queued = self.queue.take()
        if queued is None:
            return None
        self.nodes.run(process_event(self.controller, queued))
        return queued.event

    def process_all(self) -> None:
        while self.process() is not None:
            pass

    def confirm(self, topic: str) -> None:
        context = self.controller.context
        for number, known in context.brokers.items():
            done = tuple(tp for tp in context.partitions_of(topic) if number in context.replicas_of(tp))
            self.queue.note(events.StopReplicaReplied(number, known.epoch, done, ()))

    def delete_big(self) -> None:
        """Request the deletion of topic big, and let all brokers confirm it."""
        self.nodes.data[REQUEST] = b""
        self.queue.note(events.TopicDeletionRequested())
        self.process_all()
        self.confirm("big")


def cluster(partitions: int = MANY) -> Nodes:
    """Three brokers, topic x with one partition led by broker 2, and topic big with many partitions."""
    nodes = Nodes()
    for path in (
        "/brokers", znodes.BROKERS, znodes.TOPICS, "/config", "/config/topics", "/config/brokers", "/admin",
        znodes.DELETE_TOPICS, znodes.CONFIG_CHANGES, znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS,
    ):  # fmt: skip
        nodes.data[path] = b""
    for number in (1, 2, 3):
        nodes.data[znodes.broker_path(BrokerId(number))] = znodes.broker(broker(number), 0)
    x = {0: Assignment((BrokerId(2), BrokerId(3)))}
    big = {number: Assignment((BrokerId(number % 3 + 1),)) for number in range(partitions)}
    for name, assignments in (("x", x), ("big", big)):
        nodes.data[znodes.topic_path(name)] = znodes.topic(TopicId("x" * 22), assignments)
    return nodes


def taken_over(nodes: Nodes) -> Term:
    term = Term(nodes)
    term.process_all()
    assert len(nodes.below(znodes.partitions_path("big"))) > 0
    return term


def left(nodes: Nodes) -> int:
    return len(nodes.below(znodes.partitions_path("big")))


def test_nodes_of_a_large_topic_are_deleted_with_few_requests() -> None:
    """Each event costs two round trips, and each request deletes the nodes of 50 partitions."""
    nodes = cluster()
    term = taken_over(nodes)
    term.delete_big()
    for _ in range(3):
        term.process()  # the replies of the brokers
    nodes.operations.clear()
    nodes.rounds = 0
    term.process_all()
    assert not any(path.startswith(znodes.topic_path("big")) for path in nodes.data)
    assert REQUEST not in nodes.data
    assert nodes.rounds <= 2 * 3 + 6
    assert len(nodes.operations) <= MANY / 50 + 12
    sizes = [len(operation.changes) for operation in nodes.operations if isinstance(operation, Multi)]
    assert max(sizes) == 101  # with the check of the controller epoch
    assert all(
        operation.changes[0] == Check(znodes.CONTROLLER_EPOCH, Version(0))
        for operation in nodes.operations
        if isinstance(operation, Multi)
    )


def test_failed_broker_is_replaced_before_the_deletion_of_a_large_topic_is_complete() -> None:
    nodes = cluster()
    term = taken_over(nodes)
    term.delete_big()
    while left(nodes) == MANY:
        term.process()
    del nodes.data[znodes.broker_path(BrokerId(2))]
    term.queue.note(events.BrokersChanged())
    term.sent.commands.clear()
    assert term.process() == events.BrokersChanged()
    assert term.controller.context.states[TopicPartition("x", 0)].leader == 3
    roles = [role for _, command in term.sent.commands if isinstance(command, LeaderAndIsr) for role in command.roles]
    assert [(str(role.where), role.state.leader) for role in roles] == [("x-0", 3)]
    assert left(nodes) == MANY - PARTITIONS_DELETED_MAX
    term.process_all()
    assert (left(nodes), REQUEST in nodes.data) == (0, False)


def test_failed_broker_is_replaced_before_the_creation_of_a_large_topic_is_complete() -> None:
    nodes = cluster(1)
    term = taken_over(nodes)
    part = topic_changes.PARTITIONS_CREATED_MAX
    ids = [BrokerId(number) for number in (1, 2, 3, 1)]
    huge = {number: Assignment((ids[number % 3], ids[number % 3 + 1])) for number in range(2 * part)}
    nodes.data[znodes.topic_path("huge")] = znodes.topic(TopicId("y" * 22), huge)
    term.queue.note(events.TopicsChanged())
    assert term.process() == events.TopicsChanged()
    states = term.controller.context.states
    assert len(states) == 2 + part
    del nodes.data[znodes.broker_path(BrokerId(2))]
    term.queue.note(events.BrokersChanged())
    assert term.process() == events.BrokersChanged()
    assert states[TopicPartition("x", 0)].leader == 3
    assert term.process() == events.PartitionCreationResumed()
    assert term.process() is None
    assert len(states) == 2 + 2 * part
    assert {state.leader for tp, state in states.items() if tp.topic == "huge"} == {1, 3}


def test_partitions_of_a_topic_deleted_during_its_creation_are_not_created() -> None:
    nodes = cluster(1)
    term = taken_over(nodes)
    part = topic_changes.PARTITIONS_CREATED_MAX
    huge = {number: Assignment((BrokerId(1),)) for number in range(part + 1)}
    nodes.data[znodes.topic_path("huge")] = znodes.topic(TopicId("y" * 22), huge)
    nodes.data[f"{znodes.DELETE_TOPICS}/huge"] = b""
    term.queue.note(events.TopicsChanged())
    term.queue.note(events.TopicDeletionRequested())
    term.process_all()
    assert len(term.controller.context.states) == 2 + part
    term.confirm("huge")
    term.process_all()
    assert nodes.below(znodes.DELETE_TOPICS) == []
    assert "huge" not in term.controller.context.topics


def test_failed_broker_is_replaced_while_deletions_of_replicas_are_ordered() -> None:
    """The deletion then waits for the broker, without orders for its replicas."""
    nodes = cluster()
    term = taken_over(nodes)
    nodes.data[REQUEST] = b""
    term.queue.note(events.TopicDeletionRequested())
    assert term.process() == events.TopicDeletionRequested()
    term.sent.commands.clear()
    assert term.process() == events.TopicDeletionResumed("big")
    assert stops(term) == PARTITIONS_DELETED_MAX
    del nodes.data[znodes.broker_path(BrokerId(2))]
    term.queue.note(events.BrokersChanged())
    assert term.process() == events.BrokersChanged()
    assert term.controller.context.states[TopicPartition("x", 0)].leader == 3
    term.process_all()
    assert stops(term) == 0
    assert term.controller.context.deletion_waits["big"].startswith("broker 2")
    nodes.data[znodes.broker_path(BrokerId(2))] = znodes.broker(broker(2), 0)
    term.queue.note(events.BrokersChanged())
    term.process_all()
    assert stops(term) > 0
    term.confirm("big")
    term.process_all()
    assert (left(nodes), REQUEST in nodes.data) == (0, False)


def stops(term: Term) -> int:
    """Return the number of replicas whose deletion was ordered since the last call."""
    commands = [command for _, command in term.sent.commands if isinstance(command, StopReplica)]
    term.sent.commands.clear()
    return len({stop.where for command in commands for stop in command.stops if stop.delete})


def test_other_events_are_processed_between_two_parts_of_a_deletion() -> None:
    nodes = cluster()
    term = taken_over(nodes)
    term.delete_big()
    while left(nodes) == MANY:
        term.process()
    term.queue.note(events.TopicsChanged())
    assert term.process() == events.TopicDeletionResumed("big")
    assert term.process() == events.TopicsChanged()
    assert left(nodes) == MANY - 2 * PARTITIONS_DELETED_MAX


def test_next_controller_completes_the_deletion() -> None:
    nodes = cluster()
    term = taken_over(nodes)
    term.delete_big()
    while left(nodes) == MANY:
        term.process()
    after = Term(nodes, epoch=2)
    after.process_all()
    assert left(nodes) == MANY - PARTITIONS_DELETED_MAX
    after.confirm("big")
    after.process_all()
    assert not any(path.startswith(znodes.topic_path("big")) for path in nodes.data)
    assert REQUEST not in nodes.data


@pytest.mark.parametrize("spoilt", ["without a state", "with another node"])
def test_unusual_partition_is_deleted_with_the_others(spoilt: str) -> None:
    nodes = cluster(60)
    term = taken_over(nodes)
    path = znodes.partition_path(TopicPartition("big", 7))
    if spoilt == "without a state":
        del nodes.data[f"{path}/state"]
    else:
        nodes.data[f"{znodes.partitions_path('big')}/other"] = b""
    term.delete_big()
    term.process_all()
    assert not any(node.startswith(znodes.topic_path("big")) for node in nodes.data)
    assert REQUEST not in nodes.data


def test_request_node_with_a_child_is_deleted() -> None:
    nodes = cluster(1)
    term = taken_over(nodes)
    nodes.data[REQUEST] = nodes.data[f"{REQUEST}/child"] = b""
    nodes.data[f"{znodes.DELETE_TOPICS}/unknown"] = nodes.data[f"{znodes.DELETE_TOPICS}/unknown/child"] = b""
    term.delete_big()
    term.process_all()
    assert nodes.below(znodes.DELETE_TOPICS) == []


def test_reassignment_request_with_a_child_is_deleted() -> None:
    """The controller must not try again and again to delete a node that has children."""
    nodes = cluster(1)
    term = taken_over(nodes)
    wanted = {TopicPartition("missing", 0): (BrokerId(1),)}
    nodes.data[znodes.REASSIGN] = znodes.reassignment(wanted)
    nodes.data[f"{znodes.REASSIGN}/child"] = b""
    term.queue.note(events.ReassignmentRequested())
    term.process_all()
    assert znodes.REASSIGN not in nodes.data
    assert f"{znodes.REASSIGN}/child" not in nodes.data
