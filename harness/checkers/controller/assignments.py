"""Topics: who holds a partition is told without a contradiction, none is lost, and each topic has an id of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.controller.case import ANY, TOPIC, Broken, Case
from kraft_controller.core.names import TopicPartition, Version
from kraft_controller.core.state import Topic
from kraft_controller.wire import znodes

PROMISE: Final = "assignments are legal"
ARRIVED: Final = "a reassignment ends when all target replicas are in sync"
"""By a decision of the controller, under the version of the state that says so: what a leader has written before may
have changed since somebody looked at it, and what he writes later may be of another moment."""


def arrived(case: Case) -> Iterator[Broken]:
    """For one decision since it began; who is in sync then may be so no more when it is written that it has ended."""
    isrs: dict[TopicPartition, list[set[int]]] = {}
    """For which the controller has decided, since the newest move of this partition began."""
    for write in case.writes:
        if write.where is not None and write.decides:
            state = None if write.kind == "delete" else write.state
            if state is None:
                isrs.pop(write.where, None)
            else:
                isrs.setdefault(write.where, []).append(set(state.isr))
        named = TOPIC.fullmatch(write.path)
        if named is None or write.kind != "set":
            continue
        topic = znodes.read_topic(named[1], write.data, ANY)
        before = znodes.read_topic(named[1], write.before, ANY)
        for number, held in topic.partitions.items():
            where, origin = TopicPartition(topic.name, number), before.partitions.get(number)
            seen = isrs.get(where, [])
            if origin is None or origin == held:
                continue
            if held.moving:
                isrs[where] = []
                continue
            ended = origin.moving and held.replicas == origin.target
            if ended and not any(set(origin.target) <= isr for isr in seen):
                in_sync = sorted(seen[-1]) if seen else []
                yield Broken(ARRIVED, f"{where} has moved to {list(held.replicas)}, and {in_sync} are in sync")


def check(case: Case) -> Iterator[Broken]:
    ids: dict[object, int] = {}
    doomed: set[str] = set()
    for write in case.writes:
        if write.path.startswith(znodes.DELETE_TOPICS + "/"):
            (doomed.discard if write.kind == "delete" else doomed.add)(write.path.rpartition("/")[2])
        named = TOPIC.fullmatch(write.path)
        if named is None or write.kind == "delete":
            continue
        topic = znodes.read_topic(named[1], write.data, Version(write.version))
        before = None if write.kind == "create" else znodes.read_topic(named[1], write.before, ANY)
        yield from _legal(topic)
        if before is None:
            if topic.id in ids:
                yield Broken(PROMISE, f"topic {topic.name} has the id {topic.id} of one that was there before")
            ids[topic.id] = write.zxid
            continue
        yield from _forgotten(topic, before)
        if topic.id != before.id:
            yield Broken(PROMISE, f"topic {topic.name} had the id {before.id}, and has {topic.id}")
        lost = sorted(set(before.partitions) - set(topic.partitions))
        if lost and topic.name not in doomed:  # what it grew by while it was being deleted is taken back
            yield Broken(PROMISE, f"topic {topic.name} lost its partitions {lost}")


def _legal(topic: Topic) -> Iterator[Broken]:
    """Beyond what whoever reads the node has refused: replicas that stand there twice, and moves of others."""
    for number, held in topic.partitions.items():
        if not held.target or not held.origin:
            yield Broken(PROMISE, f"{topic.name}-{number} moves {held}")


def _forgotten(topic: Topic, before: Topic) -> Iterator[Broken]:
    """A move may be cancelled by a controller that knows of it from this node alone."""
    for number, held in topic.partitions.items():
        was = before.partitions.get(number)
        if was is not None and held.moving and held.origin != was.origin:
            yield Broken(PROMISE, f"{topic.name}-{number} was on {was.origin}, and its move says {held.origin}")
