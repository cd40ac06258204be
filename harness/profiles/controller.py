"""Profiles of the controller: elections, commands, and unfinished operations of earlier controllers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from harness import faults
from harness.profiles.profile import QUICK, Profile, exactly
from harness.script.brokers import BROKERS_MAX, TOPICS_MAX
from harness.script.names import WAYS
from harness.script.values import Draw, Upto

TOPICS: Final = range(1, TOPICS_MAX + 1)


def controller_fails_in_reassignment(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let the controller fail during reassignments. It is a replica of only some partitions, and some reassignments
    change only the order of replicas."""
    everywhere = draw.chance(0.3)
    factor = BROKERS_MAX if everywhere else draw.upto(1, 2)
    ops: list[faults.Op] = [faults.CreateTopic(400, topic, 2, factor) for topic in TOPICS]
    for at in range(800, length_ms - 400, draw.upto(700, 1_000)):
        for topic in TOPICS:
            partition, first, later = draw.upto(0, 1), draw.upto(1, BROKERS_MAX), draw.upto(0, 10)
            ops.append(faults.Reassign(at + later, topic, partition, first, factor, draw.among(WAYS)))
        goes = at + draw.upto(8, 60)
        ops.append(faults.Resign(goes) if draw.chance(0.2) else faults.KillBroker(goes, draw.upto(200, 400)))
    return ops


def replica_leaves_in_reassignment(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    topics = range(1, 5)
    ops: list[faults.Op] = [faults.CreateTopic(400, topic, 1, 2) for topic in topics]
    first = 1
    for at in range(800, length_ms - 700, draw.upto(1_000, 1_200)):
        first = (first + 1) % BROKERS_MAX + 1
        second = first % BROKERS_MAX + 1
        late, early = (first, second) if draw.chance(0.5) else (second, first)
        stands = draw.upto(150, 250)
        ops += [faults.Reassign(at, topic, 0, first, 2, "call") for topic in topics]
        ops.append(faults.LoseController(at - 5, stands + 250 - draw.upto(0, 150), late))
        ops.append(faults.PauseBroker(at + stands, draw.upto(350, 450), early))
    return ops


def topic_grows_in_reassignment(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops: list[faults.Op] = [faults.CreateTopic(400, topic, 1, 2) for topic in TOPICS]
    for at in range(700, length_ms - 200, draw.upto(150, 250)):
        for topic in TOPICS:
            ops.append(faults.Reassign(at, topic, 0, draw.upto(1, BROKERS_MAX), draw.upto(1, 2), "call"))
            ops.append(faults.GrowTopic(at + draw.upto(-6, 10), topic, 1))
    return ops


def commands_held_back(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops: list[faults.Op] = [faults.CreateTopic(400, 1, 2, 3)]
    for at in range(800, length_ms - 400, draw.upto(900, 1_200)):
        away = draw.upto(200, 700)
        ops += [
            faults.LoseController(at + draw.upto(0, 20), away + draw.upto(0, 400), broker) for broker in range(1, 5)
        ]
        ops.append(faults.CreateTopic(at + 30, draw.upto(2, TOPICS_MAX), 2, 3))
        ops.append(faults.DeleteTopic(at + draw.upto(30, 300), draw.upto(1, TOPICS_MAX)))
        ops.append(faults.LoseStore(at + draw.upto(40, 150), draw.upto(600, 1_500)))
        ops.append(faults.CreateTopic(at + away, draw.upto(2, TOPICS_MAX), 2, 3))
    return ops


def brokers_restart_in_session(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops: list[faults.Op] = [faults.CreateTopic(400, topic, 2, 2) for topic in (1, 2)]
    for at in range(800, length_ms, draw.upto(200, 500)):
        ops.append(faults.KillBroker(at, draw.upto(1, 20), draw.upto(1, 4)))
        ops.append(faults.Reassign(at + draw.upto(1, 100), draw.upto(1, 2), draw.upto(0, 1), draw.upto(1, 4), 2))
    return ops


def controller_cut_off(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops: list[faults.Op] = [faults.CreateTopic(400, topic, 3, 2) for topic in (1, 2)]
    for at in range(800, length_ms - 300, draw.upto(500, 700)):
        ops.append(faults.LoseStore(at, draw.upto(60, 180)))
        for _ in range(draw.upto(1, 3)):
            moved = draw.upto(1, 2), draw.upto(0, 2), draw.upto(1, BROKERS_MAX), draw.upto(1, 3)
            ops.append(faults.Reassign(at + draw.upto(1, 8), *moved, "call"))
        ops.append(faults.Resign(at + draw.upto(6, 20)))
        if draw.chance(0.5):
            ops.append(faults.DeleteTopic(at + draw.upto(20, 60), draw.upto(1, 2)))
            ops.append(faults.CreateTopic(at + 300, draw.upto(1, 2), 3, 2))
    return ops


def candidates_cut_off(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops: list[faults.Op] = [faults.CreateTopic(400, topic, 2, 2) for topic in (1, 2)]
    for at in range(700, length_ms - 300, draw.upto(180, 260)):
        ops.append(faults.Resign(at))
        away = [broker for broker in range(1, BROKERS_MAX + 1) if draw.chance(0.75)]
        ops += [faults.LoseStore(at + draw.upto(1, 9), draw.upto(5, 60), broker) for broker in away]
    return ops


def controller_fails_in_deletion(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let the controller fail during deletions. It is a replica of the topic, so the next controller must wait for it.
    Meanwhile other brokers restart."""
    ops: list[faults.Op] = [faults.CreateTopic(400, topic, 3, 4) for topic in TOPICS]
    for at in range(800, length_ms - 600, draw.upto(600, 800)):
        for topic in TOPICS:
            ops += [faults.DeleteTopic(at, topic), faults.CreateTopic(at + 550, topic, 3, 4)]
        goes = at + draw.upto(5, 100)
        ops.append(faults.BounceBroker(goes) if draw.chance(0.5) else faults.KillBroker(goes, draw.upto(350, 500)))
        ops += [faults.BounceBroker(goes + draw.upto(20, 450), draw.upto(1, 4)) for _ in range(draw.upto(1, 3))]
    return ops


_profile: Final = partial(Profile, machine="controller")

# fmt: off
PROFILES: Final = (
    _profile("controller-crash-in-reassignment", "the controller fails during reassignments, or during changes of the replica order",
             ops=controller_fails_in_reassignment, brokers=BROKERS_MAX),
    _profile("topic-grows-in-reassignment", "a topic gets more partitions just when the controller reads its node for a reassignment",
             ops=topic_grows_in_reassignment, brokers=BROKERS_MAX),
    _profile("replica-leaves-in-reassignment", "one of the new replicas of a reassignment leaves the ISR just when the last one joins it",
             ops=replica_leaves_in_reassignment, brokers=BROKERS_MAX, knobs={"tick_ms": exactly(100)},
             timing={**QUICK, "delay_us_max": Upto(600, 3_000), "spike_percent": Upto(10, 25),
                     "spike_us_max": Upto(60_000, 150_000)}),
    _profile("stale-controller-commands", "brokers receive commands of a new controller before the last commands of the old one",
             ops=commands_held_back, brokers=4),
    _profile("broker-restart-in-session", "brokers crash and restart before their sessions expire",
             ops=brokers_restart_in_session, brokers=4),
    _profile("controller-cut-off", "a controller that cannot reach the store receives requests, and is not notified of its successor",
             ops=controller_cut_off),
    _profile("election-reply-lost", "candidates lose the replies to their candidacies, and another candidate is elected meanwhile",
             ops=candidates_cut_off),
    _profile("controller-crash-in-deletion", "controllers fail while a topic's nodes are being removed",
             ops=controller_fails_in_deletion, brokers=4),
)
# fmt: on
