"""Partitions: their leaders, the versions under which their states are written, and their replicas.

Each leader epoch has one leader, which is in the ISR and was in it before. Leader epochs never decrease. The controller
increments the leader epoch by one for each decision. The partition's leader also writes the state, but changes only the
ISR. The stored assignments are consistent, no partition is lost, and each topic has its own id.
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
            continue  # a client deleted the topic's node by hand
        if not state.isr:
            yield Broken(IN_SYNC, f"{where}: the ISR is empty")
        if state.leader != NO_LEADER and state.leader not in state.isr:
            yield Broken(IN_SYNC, f"{where}: leader {state.leader} is not in the ISR {list(state.isr)}")
        held = write.topic.partitions.get(where.partition)
        if held is None or not set(state.isr) <= set(held.replicas):
            replicas = [] if held is None else list(held.replicas)
            yield Broken(ASSIGNED, f"{where}: the ISR {list(state.isr)} is not part of the replicas {replicas}")
        if before is not None:
            if state.leader_epoch < before.leader_epoch:
                what = f"{where}: leader epoch {state.leader_epoch} follows {before.leader_epoch}"
                yield Broken(UPWARDS, what)
            if state.leader not in (NO_LEADER, before.leader, *before.isr) and not write.unclean:
                yield Broken(CLEAN, f"{where}: leader {state.leader} was not in the ISR {list(before.isr)}")
        if state.leader != NO_LEADER:
            key = (write.topic.id, where.partition, state.leader_epoch)
            if led.setdefault(key, state.leader) != state.leader:
                yield Broken(
                    ONE,
                    f"{where}: {led[key]} and {state.leader} are leaders of the same leader epoch {state.leader_epoch}",
                )


VERSIONS: Final = "partition states are written with a version check"


def versions(case: Case) -> Iterator[Broken]:
    for event in case.history.events:
        if isinstance(event, Invoke):
            for request in event.request.parts or (event.request,):
                if request.op == "set" and request.version < 0 and _is_shared(request):
                    yield Broken(VERSIONS, f"{case.name(event.session)} writes {request.path} without a version check")
    for write, where, state, before in case.states():
        if before is None:
            continue
        if state.leader_epoch != before.leader_epoch:
            if state.leader_epoch != before.leader_epoch + 1:
                what = f"{where}: leader epoch {state.leader_epoch} follows {before.leader_epoch}"
                yield Broken(VERSIONS, what)
        elif evolve(state, isr=before.isr, version=before.version, recovery=before.recovery) != before or (
            state.recovery not in (before.recovery, Recovery.RECOVERED)
        ):
            yield Broken(VERSIONS, f"{where}: {state} replaces {before} within one leader epoch")
        elif case.brokers.get(write.session) != before.leader and write.session != write.controller:
            yield Broken(VERSIONS, f"{where}: {case.name(write.session)} writes the ISR, but {before.leader} leads")


def _is_shared(request: Request) -> bool:
    path = request.path
    return path == znodes.CONTROLLER_EPOCH or bool(STATE.fullmatch(path) or TOPIC.fullmatch(path))


LEGAL: Final = "assignments are legal"
ARRIVED: Final = "a reassignment ends when all target replicas are in sync"
"""Only a decision of the controller counts, because it checks the version of the state. An ISR that the leader wrote
may have changed before the controller ended the reassignment."""


def arrived(case: Case) -> Iterator[Broken]:
    """Check that each finished reassignment has a decision of the controller, since it began, with all target replicas
    in sync. Replicas may leave the ISR again before the end of the reassignment is written."""
    isrs: dict[TopicPartition, list[set[int]]] = {}
    """The ISRs in the controller's decisions since the newest reassignment of each partition began."""
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
                what = f"{where}: the reassignment to {list(held.replicas)} ends with the ISR {in_sync}"
                yield Broken(ARRIVED, what)


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
                yield Broken(LEGAL, f"topic {topic.name} has the id {topic.id}, which another topic has had")
            ids[topic.id] = write.zxid
            continue
        yield from _forgotten(topic, before)
        if topic.id != before.id:
            yield Broken(LEGAL, f"topic {topic.name} changes its id from {before.id} to {topic.id}")
        lost = sorted(set(before.partitions) - set(topic.partitions))
        if lost and topic.name not in doomed:  # partitions that are added during a deletion are removed again
            yield Broken(LEGAL, f"topic {topic.name} loses its partitions {lost}")


def _legal(topic: Topic) -> Iterator[Broken]:
    """Check the replica sets of reassignments. The decoder has refused duplicate replicas, and reassignments of
    others."""
    for number, held in topic.partitions.items():
        if not held.target or not held.origin:
            yield Broken(LEGAL, f"{topic.name}-{number}: the reassignment {held} has an empty set of replicas")


def _forgotten(topic: Topic, before: Topic) -> Iterator[Broken]:
    """Check that a reassignment keeps the original replicas: a later controller needs them to cancel it."""
    for number, held in topic.partitions.items():
        was = before.partitions.get(number)
        if was is not None and held.moving and held.origin != was.origin:
            what = f"{topic.name}-{number}: the reassignment has the original replicas {held.origin}"
            yield Broken(LEGAL, f"{what}, but they were {was.origin}")
