"""Administrative requests through nodes of the store: create, grow and delete topics, reassign, elect leaders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from harness.faults import OFFSETS, CreateTopic, DeleteTopic, ElectPreferred, GrowTopic, Reassign
from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, BrokerId, TopicId, TopicPartition
from kraft_controller.core.state import Assignment
from kraft_controller.core.store_requests import Create, Get, Multi, Node, Set, StoreRequests
from kraft_controller.wire import znodes


def name_of(topic: int) -> str:
    return OFFSETS_TOPIC if topic == OFFSETS else f"t{topic}"


def where_of(topic: int, partition: int) -> TopicPartition:
    return TopicPartition(name_of(topic), partition)


def in_turn(brokers: int, first: int, factor: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId((first - 1 + place) % brokers + 1) for place in range(min(factor, brokers)))


def wanted_by(op: Reassign, brokers: int) -> tuple[BrokerId, ...]:
    return in_turn(brokers, op.first, op.factor)


def create_topic(op: CreateTopic, brokers: int, ident: TopicId) -> StoreRequests[None]:
    held = {number: Assignment(in_turn(brokers, op.topic + number, op.factor)) for number in range(op.partitions)}
    yield [Multi((Create(znodes.topic_path(name_of(op.topic)), znodes.topic(ident, held)),))]


def create_transactions_topic(brokers: int, ident: TopicId) -> StoreRequests[None]:
    held = {0: Assignment(in_turn(brokers, 1, 3))}
    yield [Multi((Create(znodes.topic_path(TRANSACTIONS_TOPIC), znodes.topic(ident, held)),))]


def grow_topic(op: GrowTopic) -> StoreRequests[None]:
    path = znodes.topic_path(name_of(op.topic))
    [node] = yield [Get(path)]
    if not isinstance(node, Node):
        return
    topic = znodes.read_topic(name_of(op.topic), node.data, node.version)
    model = topic.partitions[0].target
    more = {
        len(topic.partitions) + place: Assignment(model[place % len(model) :] + model[: place % len(model)])
        for place in range(op.partitions)
    }
    grown = evolve(topic, partitions={**topic.partitions, **more})
    yield [Multi((Set(path, znodes.topic(grown.id, grown.partitions), node.version),))]


def delete_topic(op: DeleteTopic) -> StoreRequests[None]:
    name = name_of(op.topic)
    [node] = yield [Get(znodes.topic_path(name))]
    if isinstance(node, Node):
        yield [Multi((Create(f"{znodes.DELETE_TOPICS}/{name}"),))]


def reassign(op: Reassign, brokers: int) -> StoreRequests[None]:
    wanted = {where_of(op.topic, op.partition): wanted_by(op, brokers)}
    yield [Multi((Create(znodes.REASSIGN, znodes.reassignment(wanted)),))]


def elect_preferred(op: ElectPreferred) -> StoreRequests[None]:
    asked = znodes.partitions([where_of(op.topic, op.partition)])
    yield [Multi((Create(znodes.PREFERRED, asked),))]


def prepare(paths: Sequence[str]) -> StoreRequests[None]:
    """Create the nodes that every broker needs, and their parents. Other brokers may be doing the same."""
    every: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")[1:]
        every.update(dict.fromkeys("/" + "/".join(parts[: place + 1]) for place in range(len(parts))))
    while True:  # a create has an unknown outcome if its server crashes
        found = yield [Get(path) for path in every]
        missing = [path for path, node in zip(every, found, strict=True) if not isinstance(node, Node)]
        if not missing:
            return
        for path in missing:
            yield [Multi((Create(path, b""),))]


def topic_ids() -> Callable[[], TopicId]:
    """Return a generator of topic ids."""
    made = 0

    def ident() -> TopicId:
        nonlocal made
        made += 1
        return TopicId(f"T{made:021}")

    return ident


NEEDED = (
    znodes.BROKERS, znodes.TOPICS, znodes.DELETE_TOPICS, znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS, "/config/topics",
)  # fmt: skip
"""The nodes that the harness needs, of those that brokers create when they start."""
