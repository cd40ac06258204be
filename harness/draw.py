"""From a seed to a script, quickly: the same seed gives the same script, always.

Swarm style: each run has a random few of the kinds of faults and operations, with its own weights, speed
and settings, because a run in which everything happens a little seldom gets anywhere deep. The weights
favour what leads to different histories: crashes and partitions in the middle of elections and syncs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from harness.faults import (
    DEEDS,
    DISK_ERRORS,
    FOLLOWER,
    LEADER,
    LOSSES,
    MOMENTS,
    Barrier,
    Clog,
    Crash,
    CrashAll,
    CrashIn,
    CutLinks,
    Deaf,
    FailDisk,
    Fault,
    Flaky,
    FlipBit,
    Isolate,
    Knobs,
    LoseDisk,
    OneWay,
    Op,
    Partition,
    Pause,
    Reconfigure,
    Script,
    SlowDisk,
    Snapshot,
    Timing,
    When,
    Write,
)

JOINERS: Final = 2
"""How many servers a script may add to those that it begins with."""


class Draw:
    """The chances of one script."""

    def __init__(self, random: Random, voters: int, observers: int) -> None:
        self.random = random
        self.voters = voters
        self.servers = voters + observers

    def upto(self, least: int, most: int) -> int:
        return least + int(self.random.random() * (most - least + 1))

    def short(self, least: int, most: int) -> int:
        """Rather near the least."""
        share = self.random.random()
        return least + int(share * share * share * (most - least + 1))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def who(self) -> int:
        """Often the leader: that is where things happen."""
        share = self.random.random()
        if share < 0.35:
            return LEADER
        if share < 0.5:
            return FOLLOWER
        return self.upto(1, self.servers)

    def loss(self) -> str:
        return LOSSES[self.upto(0, len(LOSSES) - 1)]

    def down(self) -> int:
        return self.short(1, 900)

    def lasting(self) -> int:
        return self.short(10, 1_500)


# -- faults --------------------------------------------------------------------------------------------


def _partition(draw: Draw, at: int) -> Fault:
    ids = list(range(1, draw.servers + 1))
    draw.random.shuffle(ids)
    cut = draw.upto(1, len(ids) - 1) if len(ids) > 1 else 1
    one, other = ids[:cut], ids[cut:]
    if draw.chance(0.2):
        other = [*other, one[0]]  # one server is a bridge: it hears both sides
    return Partition(at, draw.lasting(), (tuple(sorted(one)), tuple(sorted(other))))


def _one_way(draw: Draw, at: int) -> Fault:
    return OneWay(at, draw.lasting(), draw.who(), draw.upto(1, draw.servers))


def _clog(draw: Draw, at: int) -> Fault:
    return Clog(at, draw.short(5, 600), draw.who(), draw.upto(1, draw.servers))


def _flaky(draw: Draw, at: int) -> Fault:
    return Flaky(at, draw.lasting(), draw.upto(0, 40), draw.upto(0, 40), draw.upto(1, 6))


def _crash_in(draw: Draw, at: int) -> Fault:
    return CrashIn(at, draw.down(), draw.who(), draw.short(1, 60), draw.loss())


def _when(draw: Draw, at: int) -> Fault:
    moment = MOMENTS[draw.upto(0, len(MOMENTS) - 1)]
    who = None if draw.chance(0.7) else draw.who()
    does = "crash" if draw.chance(0.4) else DEEDS[draw.upto(1, len(DEEDS) - 1)]
    return When(at, draw.down(), who, moment, draw.short(1, 4), does, draw.loss())


def _fail_disk(draw: Draw, at: int) -> Fault:
    return FailDisk(at, draw.down(), draw.who(), DISK_ERRORS[draw.upto(0, 2)], draw.short(1, 8))


PROMISES: Final = tuple(
    moment
    for moment in MOMENTS
    if moment.endswith(("FollowerInfo", "LeaderInfo", "AckEpoch", "NewLeader", "AckNewLeader", "writing SaveEpochs"))
)
"""The moments around which two leaders could come to believe in one epoch."""


def _around_promises(draw: Draw, at: int) -> Fault:
    """Short and close to each other: leadership changes hands before everybody has noticed the last change."""
    share = draw.random.random()
    who = LEADER if draw.chance(0.6) else draw.upto(1, draw.servers)
    if share < 0.45:
        return Isolate(at, draw.short(20, 400), who)
    if share < 0.55:
        return CutLinks(at, who)
    if share < 0.65:
        return OneWay(at, draw.short(20, 400), draw.who(), draw.upto(1, draw.servers))
    moment = PROMISES[draw.upto(0, len(PROMISES) - 1)]
    does = ("crash", "cut", "isolate", "pause", "lose disk")[draw.upto(0, 4)]
    return When(at, draw.short(1, 60), None, moment, draw.short(1, 3), does, draw.loss())


FAULTS: Final[tuple[tuple[float, Callable[[Draw, int], Fault]], ...]] = (
    (3.0, lambda draw, at: Crash(at, draw.down(), draw.who(), draw.loss())),
    (1.0, lambda draw, at: CrashAll(at, draw.down(), draw.loss())),
    (2.0, _crash_in),
    (4.0, _when),
    (2.0, _partition),
    (2.0, lambda draw, at: Isolate(at, draw.lasting(), draw.who())),
    (1.0, _one_way),
    (0.7, lambda draw, at: Deaf(at, draw.lasting(), draw.who())),
    (1.5, _clog),
    (1.0, lambda draw, at: CutLinks(at, draw.who())),
    (0.7, _flaky),
    (1.0, lambda draw, at: Pause(at, draw.lasting(), draw.who())),
    (1.0, lambda draw, at: LoseDisk(at, draw.down(), draw.who())),
    (1.0, lambda draw, at: FlipBit(at, draw.down(), draw.who(), draw.upto(0, 999))),
    (0.7, _fail_disk),
    (0.7, lambda draw, at: SlowDisk(at, draw.lasting(), draw.who(), draw.upto(2, 60))),
)
"""How often a kind of fault is part of a run, and how often it strikes when it is."""


def _faults(draw: Draw, most: int, length_ms: int) -> list[Fault]:
    if draw.chance(0.15):
        return _close_faults(draw, most, length_ms)
    kinds = [(weight * (0.3 + draw.random.random()), make) for weight, make in FAULTS if draw.chance(0.35)]
    if not kinds:
        kinds = [FAULTS[0]]
    total = sum(weight for weight, _ in kinds)
    faults = []
    at = draw.upto(0, 600)
    for _ in range(draw.short(1, most)):
        # Some follow each other closely, so that one strikes while the last one is still being dealt with.
        at = draw.upto(0, length_ms - 1) if draw.chance(0.4) else min(length_ms - 1, at + draw.short(1, 800))
        left = draw.random.random() * total
        for weight, make in kinds:
            left -= weight
            if left <= 0:
                faults.append(make(draw, at))
                break
    faults.sort(key=lambda fault: fault.at)
    return faults


def _close_faults(draw: Draw, most: int, length_ms: int) -> list[Fault]:
    faults: list[Fault] = []
    at = draw.upto(min(200, length_ms - 1), min(500, length_ms - 1))
    while at < length_ms and len(faults) < most:
        faults.append(_around_promises(draw, at))
        at += draw.short(5, 300)
    return faults


# -- workload ------------------------------------------------------------------------------------------


def _change(draw: Draw, at: int) -> Op:
    share = draw.random.random()
    if share < 0.35:
        return Reconfigure(at, "add", draw.upto(1, draw.servers + JOINERS))
    if share < 0.65:
        return Reconfigure(at, "remove", LEADER if draw.chance(0.4) else draw.upto(1, draw.servers + JOINERS))
    change = "observe" if share < 0.8 else "promote"
    return Reconfigure(at, change, LEADER if draw.chance(0.2) else draw.upto(1, draw.servers + JOINERS))


def _ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
    barriers = draw.random.random() * 0.4 if draw.chance(0.6) else 0.0
    changes = draw.random.random() * (0.2 if draw.chance(0.7) else 0.7) if draw.chance(0.35) else 0.0
    snapshots = 0.03 if draw.chance(0.3) else 0.0
    largest = draw.short(1, 12)
    size = draw.short(0, 200)
    ops: list[Op] = []
    begin = draw.upto(20, 300)
    for _ in range(draw.upto(most // 3, most)):
        at = draw.upto(begin, length_ms - 1)
        share = draw.random.random()
        if share < barriers:
            ops.append(Barrier(at, LEADER if draw.chance(0.5) else draw.upto(1, draw.servers)))
        elif share < barriers + changes:
            ops.append(_change(draw, at))
        elif share < barriers + changes + snapshots:
            ops.append(Snapshot(at, draw.upto(0, draw.servers)))
        else:
            ops.append(Write(at, draw.short(1, largest), draw.short(0, size)))
    ops.sort(key=lambda op: op.at)
    return ops


# -- the rest ------------------------------------------------------------------------------------------


def _timing(draw: Draw) -> Timing:
    slow = draw.chance(0.2)
    return Timing(
        delay_us_min=draw.upto(50, 500),
        delay_us_max=draw.upto(600, 20_000 if slow else 3_000),
        spike_percent=draw.upto(1, 10) if draw.chance(0.25) else 0,
        spike_us_max=draw.upto(5_000, 60_000),
        fsync_us_min=draw.upto(50, 500),
        fsync_us_max=draw.upto(600, 30_000 if draw.chance(0.25) else 4_000),
        turn_us_max=draw.upto(50, 2_000) if draw.chance(0.4) else 0,
        loss_percent=draw.upto(1, 20) if draw.chance(0.2) else 0,
        double_percent=draw.upto(1, 20) if draw.chance(0.2) else 0,
        break_ms_max=draw.upto(20, 500),
    )


def _knobs(draw: Draw) -> Knobs:
    return Knobs(
        tick_ms=(50, 100, 200)[draw.upto(0, 2)],
        window_entries=draw.short(2, 60),
        log_sync_entries_max=draw.upto(0, 20) if draw.chance(0.3) else 1_000,
        counter_max=draw.upto(5, 80) if draw.chance(0.08) else 0xFFFF_FFFF,
        outstanding_max=draw.upto(2, 20) if draw.chance(0.1) else 1_000,
        snapshot_every=draw.upto(3, 60),
        segment_bytes=draw.upto(300, 3_000),
        chunk_bytes=draw.upto(20, 600),
    )


def script_from_seed(
    seed: int,
    *,
    voters: int = 3,
    observers: int | None = None,
    faults: int = 20,
    ops: int = 100,
    length_ms: int = 3_000,
) -> Script:
    """At most so many faults and operations; without a number of observers there is sometimes one."""
    random = Random(f"script/{seed}/{voters}")
    if observers is None:
        observers = int(random.random() < 0.2)
    draw = Draw(random, voters, observers)
    timing, knobs = _timing(draw), _knobs(draw)
    return Script(
        seed=seed,
        voters=voters,
        observers=observers,
        length_ms=length_ms,
        timing=timing,
        knobs=knobs,
        ops=tuple(_ops(draw, ops, length_ms)) if ops else (),
        faults=tuple(_faults(draw, faults, length_ms)) if faults else (),
    )
