"""Partitions: their leaders, the versions under which their states are written, and their replicas.

There is one leader in each leader epoch, it is in sync, and was so before; leader epochs only go up. A state is written
by the controller, which counts the leader epoch up by one for each decision, or by the partition's leader, which
changes nothing but the ISR. The replicas of a partition are stored without a contradiction, no partition is lost, and
each topic has an id of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from harness.checkers.broken import Broken
from harness.checkers.controller.case import ANY, STATE, TOPIC, Case
from harness.history import Invoke, Request
from kraft_controller.core.names import NO_LEADER, TopicPartition, Version
from kraft_controller.core.state import Recovery, Topic
from kraft_controller.wire import znodes

ONE: Final = "one leader per leader epoch"
IN_SYNC: Final = "the leader is in the ISR"
CLEAN: Final = "an elected leader was in the ISR before"
UPWARDS: Final = "leader epochs increase"
ASSIGNED: Final = "ISR members are assigned replicas"


def leaders(case: Case) -> Iterator[Broken]:
    led: dict[tuple[object, int, int], int] = {}
    for write, where, state, before in case.states():
        if write.topic is None:
            continue  # its topic was taken away by hand
        if not state.isr:
            yield Broken(IN_SYNC, f"{where}: nobody is in sync")
        if state.leader != NO_LEADER and state.leader not in state.isr:
            yield Broken(IN_SYNC, f"{where}: led by {state.leader}, and {list(state.isr)} are in sync")
        held = write.topic.partitions.get(where.partition)
        if held is None or not set(state.isr) <= set(held.replicas):
            replicas = [] if held is None else list(held.replicas)
            yield Broken(ASSIGNED, f"{where}: {list(state.isr)} are in sync, and {replicas} hold it")
        if before is not None:
            if state.leader_epoch < before.leader_epoch:
                yield Broken(UPWARDS, f"{where}: from leader epoch {before.leader_epoch} to {state.leader_epoch}")
            if state.leader not in (NO_LEADER, before.leader, *before.isr) and not write.free:
                yield Broken(CLEAN, f"{where}: {state.leader} was elected, and {list(before.isr)} were in sync")
        if state.leader != NO_LEADER:
            key = (write.topic.id, where.partition, state.leader_epoch)
            if led.setdefault(key, state.leader) != state.leader:
                yield Broken(
                    ONE, f"{where}: {led[key]} and {state.leader} lead in the same leader epoch {state.leader_epoch}"
                )


VERSIONS: Final = "partition states are written with a version check"


def versions(case: Case) -> Iterator[Broken]:
    for event in case.history.events:
        if isinstance(event, Invoke):
            for request in event.request.parts or (event.request,):
                if request.op == "set" and request.version < 0 and _is_shared(request):
                    yield Broken(VERSIONS, f"{case.who(event.session)} wrote {request.path} at whatever version it was")
    for write, where, state, before in case.states():
        if before is None:
            continue
        if state.leader_epoch != before.leader_epoch:
            if state.leader_epoch != before.leader_epoch + 1:
                yield Broken(VERSIONS, f"{where}: leader epoch {before.leader_epoch}, and then {state.leader_epoch}")
        elif evolve(state, isr=before.isr, version=before.version, recovery=before.recovery) != before or (
            state.recovery not in (before.recovery, Recovery.RECOVERED)
        ):
            yield Broken(VERSIONS, f"{where}: {state} was written over {before} in one leader epoch")
        elif case.brokers.get(write.session) != before.leader and write.session != write.ruler:
            yield Broken(VERSIONS, f"{where}: {case.who(write.session)} wrote the ISR, and {before.leader} leads")


def _is_shared(request: Request) -> bool:
    path = request.path
    return path == znodes.CONTROLLER_EPOCH or bool(STATE.fullmatch(path) or TOPIC.fullmatch(path))


LEGAL: Final = "assignments are legal"
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


def assignments(case: Case) -> Iterator[Broken]:
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
                yield Broken(LEGAL, f"topic {topic.name} has the id {topic.id} of one that was there before")
            ids[topic.id] = write.zxid
            continue
        yield from _forgotten(topic, before)
        if topic.id != before.id:
            yield Broken(LEGAL, f"topic {topic.name} had the id {before.id}, and has {topic.id}")
        lost = sorted(set(before.partitions) - set(topic.partitions))
        if lost and topic.name not in doomed:  # what it grew by while it was being deleted is taken back
            yield Broken(LEGAL, f"topic {topic.name} lost its partitions {lost}")


def _legal(topic: Topic) -> Iterator[Broken]:
    """Beyond what whoever reads the node has refused: replicas that stand there twice, and moves of others."""
    for number, held in topic.partitions.items():
        if not held.target or not held.origin:
            yield Broken(LEGAL, f"{topic.name}-{number} moves {held}")


def _forgotten(topic: Topic, before: Topic) -> Iterator[Broken]:
    """A move may be cancelled by a controller that knows of it from this node alone."""
    for number, held in topic.partitions.items():
        was = before.partitions.get(number)
        if was is not None and held.moving and held.origin != was.origin:
            yield Broken(LEGAL, f"{topic.name}-{number} was on {was.origin}, and its move says {held.origin}")
