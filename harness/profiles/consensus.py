"""Profiles of the list, which test the consensus: leaders, quorums, synchronization, disks and members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import evolve

from harness import faults
from harness.draw import PROMISES
from harness.faults import FOLLOWER, LEADER, Fault, Op
from harness.profiles.profile import QUICK, TICK, Profile, Ranges, exactly
from harness.script.faults import KINDS
from harness.script.values import Draw, Short, Upto


def _writes(length_ms: int, step_ms: int) -> list[Op]:
    return [faults.Write(at, 1, 8) for at in range(200, length_ms, step_ms)]


def steady_writes(draw: Draw, length_ms: int) -> Sequence[Op]:
    return _writes(length_ms, draw.upto(5, 15))


# -- deposed leaders -------------------------------------------------------------------------------------


def frozen_leader(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Freeze the clock of the leader and isolate it, so that it does not notice the loss of its followers."""
    return faults.ClockFreeze(at, gap - 50, LEADER), faults.Isolate(
        at + draw.upto(0, 20), gap - draw.upto(60, 150), LEADER
    )


def barriers_everywhere(draw: Draw, length_ms: int) -> Sequence[Op]:
    return [*_writes(length_ms, 12), *(faults.Barrier(at, draw.server()) for at in range(300, length_ms, 9))]


def deposed_leader_returns(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Isolate the leader until its former followers have just lost the next leader."""
    freeze = faults.ClockFreeze(at, gap, LEADER)
    if draw.chance(0.5):
        moment = "quorum promised" if draw.chance(0.7) else draw.among(PROMISES)
        alone = faults.When(at + 20, draw.upto(500, 900), None, moment, 1, "isolate", "keep")
        return freeze, faults.Isolate(at, draw.upto(150, 350), LEADER), alone
    lost = at + draw.upto(200, 400)
    return (
        freeze,
        faults.Isolate(at, lost - at + draw.upto(-20, 60), LEADER),
        faults.Isolate(lost - 2, draw.upto(500, 900), LEADER),
        faults.LoseDisk(lost, draw.upto(1, 30), FOLLOWER),
    )


# -- disks -----------------------------------------------------------------------------------------------


def power_fails_in_synchronization(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    if draw.chance(0.5):
        return (faults.CrashAll(at, draw.upto(1, 40), "lose"),)
    who, away = draw.server(), draw.upto(60, 250)
    return faults.Isolate(at, away, who), faults.Crash(at + away + draw.upto(5, 150), draw.upto(1, 60), who, "lose")


def power_tears_writes(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    return (faults.CrashAll(at, draw.upto(5, 40), "tear"),)


def power_fails_after_crash(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Crash all servers. They read their last writes from the page cache; then the power fails."""
    down = draw.upto(1, 20)
    return faults.CrashAll(at, down, "keep"), faults.CrashAll(at + down + draw.upto(40, 200), draw.upto(1, 40), "lose")


def power_fails_after_truncation(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    moment = "after writing Truncate"
    isolated = faults.Isolate(at, draw.upto(200, gap - 100), LEADER)
    return isolated, faults.When(at + 20, draw.upto(1, 60), None, moment, 1, "crash", "lose")


def link_breaks_in_snapshot(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Break the link of a server that lost its disk while it receives a snapshot. The rest may come from another leader,
    whose snapshot at the same zxid has other chunks."""
    who, nth = draw.server(), draw.upto(1, 6)
    found: list[Fault] = [
        faults.LoseDisk(at, 10, who),
        faults.When(at + 5, 60, None, "after writing SnapshotChunk", nth, "cut"),
    ]
    if draw.chance(0.6):
        found.append(faults.Crash(at + draw.upto(20, 80), draw.upto(40, 120), LEADER, "keep"))
    return found


def writes_with_pauses(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Return writes with pauses, in which servers take their snapshots at the same zxid."""
    return [faults.Write(at, 4, 60) for at in range(200, length_ms, draw.upto(60, 120))]


def slow_disk_and_crash(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    who = draw.server()
    return faults.SlowDisk(at, gap, who, draw.upto(2, 6)), faults.Crash(
        at + draw.upto(20, gap), draw.upto(1, 60), who, "keep"
    )


def large_writes(draw: Draw, length_ms: int) -> Sequence[Op]:
    return [faults.Write(at, 1, draw.upto(100, 250)) for at in range(200, length_ms, draw.upto(4, 10))]


def slow_leader_disk(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Slow down the leader's disk, so that transactions commit before the leader has logged them. The observer
    synchronizes repeatedly."""
    found: list[Fault] = [faults.SlowDisk(at, gap - 20, LEADER, draw.upto(20, 60))]
    for cut in range(at + draw.upto(20, 60), at + gap, draw.upto(50, 120)):
        who = draw.voters + 1 if draw.chance(0.8) else draw.server()
        found.append(faults.CutLinks(cut, who) if draw.chance(0.6) else faults.Isolate(cut, draw.upto(10, 60), who))
    return found


def barriers_at_leader(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Return writes, and barriers at the leader and at the observer, which forwards them to the leader."""
    ops: list[Op] = [faults.Write(at, draw.short(1, 3), 8) for at in range(200, length_ms, draw.upto(8, 16))]
    who = (LEADER, LEADER, draw.voters + 1)
    return [*ops, *(faults.Barrier(at, draw.among(who)) for at in range(300, length_ms, draw.upto(7, 14)))]


# -- members ---------------------------------------------------------------------------------------------

CHANGE_MS: Final = 400
"""The time between two changes of the membership."""


def leader_crashes_seldom(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    return (faults.Crash(at, draw.upto(1, 100), LEADER),) if draw.chance(0.3) else ()


def leaders_removed(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops = _writes(length_ms, 15)
    for at in range(500, length_ms, draw.upto(200, 400)):
        change = draw.among(("remove", "observe", "add"))
        ops.append(faults.Reconfigure(at, change, draw.upto(1, draw.servers + 1) if change == "add" else LEADER))
    return ops


def observer_back_in_change(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Let the observer reconnect when the membership changes, before the leader synchronizes it, so that its snapshot
    contains the change."""
    changes = (at // CHANGE_MS + 1) * CHANGE_MS
    gone = changes - draw.upto(120, 250)
    back = changes - draw.upto(0, 30)
    found: list[Fault] = [faults.Crash(gone, back - gone, draw.voters + 1, "keep")]
    if draw.chance(0.3):
        found.append(faults.Crash(changes + draw.upto(0, 100), draw.upto(1, 100), LEADER, "keep"))
    return found


def voter_observes_and_votes(draw: Draw, length_ms: int) -> Sequence[Op]:
    changes = enumerate(range(2 * CHANGE_MS, length_ms, CHANGE_MS))
    return [
        *_writes(length_ms, 12),
        *(faults.Reconfigure(at, ("observe", "promote")[number % 2], 1) for number, at in changes),
    ]


def leader_cut_off_in_change(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Isolate the leader at a change, until the next leader has transactions of its own but not the change."""
    changes = (at // CHANGE_MS + 1) * CHANGE_MS
    return (faults.Isolate(changes - draw.upto(0, 3), draw.upto(120, 300), LEADER),)


def leader_purged_in_change(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Isolate the leader at a change, until the others have purged the logs that it needs."""
    changes = (at // CHANGE_MS + 1) * CHANGE_MS
    return (faults.Isolate(changes - draw.upto(0, 3), draw.upto(300, 390), LEADER),)


def changes_of_observer(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Return changes with writes after them, so that a pending change takes effect."""
    times = range(2 * CHANGE_MS, length_ms, CHANGE_MS)
    changes = (
        faults.Reconfigure(at, change, draw.voters + 1) for at in times for change in ("promote", "remove", "add")
    )
    return [*_writes(length_ms, 12), *changes]


def disk_lost_in_change(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Delete the disk of a voter. When it is back, delay the messages of the other voters to the leader."""
    who = draw.upto(1, draw.voters)
    back = at + draw.upto(20, 60)
    others = [sid for sid in range(1, draw.voters + 1) if sid != who]
    return faults.LoseDisk(at, back - at, who), *(faults.Clog(back, draw.upto(20, 90), sid, LEADER) for sid in others)


def constant_changes(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops = _writes(length_ms, draw.upto(4, 10))
    for number, at in enumerate(range(300, length_ms, draw.upto(25, 60))):
        ops.append(faults.Reconfigure(at, ("remove", "add")[number % 2], draw.voters + 1))
    return ops


# -- links -----------------------------------------------------------------------------------------------

TURN_MS: Final = 500
"""The time after which the link of the next voter is replaced."""
ASKING_MS: Final = 120


def _voter_in_turn(draw: Draw, turn: int) -> int:
    return 1 + turn // TURN_MS % draw.voters


def link_replaced_unnoticed(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Let a follower with open requests reconnect and repeat them before the leader has noticed the end of the old
    link. Messages of the others to the leader are delayed, among them those that confirm its leadership."""
    turn = (at // TURN_MS + 1) * TURN_MS
    who = _voter_in_turn(draw, turn)
    breaks = turn + draw.upto(4, 11)
    silent = turn + draw.upto(0, 10)
    lasts = draw.upto(60, ASKING_MS)
    return (
        faults.CutLinks(turn - 150, who),  # the follower dials anew, and numbers the requests on the new link from 1
        faults.OneWay(breaks, draw.upto(3, 6), who, LEADER),
        faults.CutLinks(breaks, who) if draw.chance(0.7) else faults.Crash(breaks, 1, who, "keep"),
        *(faults.Clog(silent, lasts, sid, LEADER) for sid in range(1, draw.servers + 1) if sid != who),
    )


def barriers_of_one(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops = _writes(length_ms, 3)
    for turn in range(TURN_MS, length_ms, TURN_MS):
        who = _voter_in_turn(draw, turn)
        ops += [faults.Barrier(at, who) for at in range(turn, min(length_ms, turn + ASKING_MS), 2)]
    return ops


# -- hierarchical quorums --------------------------------------------------------------------------------


def groups_of_voters(draw: Draw) -> dict[str, Any]:
    """Return two to four groups; in some runs servers have different weights."""
    sids = list(range(1, draw.voters + 1))
    draw.random.shuffle(sids)
    count = min(len(sids), draw.upto(2, 4))
    groups: list[list[int]] = [[] for _ in range(count)]
    for place, sid in enumerate(sids):
        groups[place if place < count else draw.upto(0, count - 1)].append(sid)
    weights = tuple(draw.upto(0, 3) for _ in sids) if draw.chance(0.4) else ()
    return {"groups": tuple(tuple(sorted(group)) for group in groups), "weights": weights if any(weights) else ()}


def parts_of_groups(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Divide the servers, often so that the connected ones are a majority but no quorum of groups, or the reverse."""
    lasts, share = draw.upto(100, gap), draw.random.random()
    if share < 0.6:
        return (faults.Partition(at, lasts, draw.groups()),)
    if share < 0.8:
        return faults.Isolate(at, lasts, LEADER), faults.Isolate(at + draw.upto(0, 50), lasts, draw.server())
    return (faults.Crash(at, lasts, LEADER if draw.chance(0.5) else draw.server(), "keep"),)


# -- peers of ZooKeeper ----------------------------------------------------------------------------------

_LOSSES: Final = (faults.LoseDisk, faults.OldDisk, faults.FlipBit, faults.MisdirectRecord, faults.LoseFsync)
"""Faults after which a server may have lost promises. No leader readmits it in an ensemble of ZooKeeper."""
_SPARING: Final = tuple(kind for kind in KINDS if kind.make not in _LOSSES)


def followers_return(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Let followers come back while the leader has open proposals, among other faults that lose no disk."""
    share = draw.random.random()
    if share < 0.3:
        return (faults.CutLinks(at, LEADER if share < 0.2 else draw.server()),)
    if share < 0.4:
        who = draw.server()
        return faults.Isolate(at, draw.upto(20, 120), who), faults.SlowDisk(at, gap, who, draw.upto(5, 40))
    fault: Fault = draw.one_of(_SPARING, at=at)
    if isinstance(fault, faults.When) and fault.does == "lose disk":
        return (evolve(fault, does="crash"),)
    return (fault,)


# -- the table -------------------------------------------------------------------------------------------

DAMPED: Final[Ranges] = {**TICK, "finalize_wait_ms": Upto(5, 20)}
UNLIMITED: Final = exactly(0xFFFF_FFFF)
NO_LOG_SYNC: Final[Ranges] = {"window_entries": exactly(2), "log_sync_entries_max": exactly(0)}
"""Settings with which a server that was away receives a snapshot."""
EVENLY: Final[Ranges] = {
    **QUICK,
    "delay_us_min": exactly(4_000),
    "delay_us_max": exactly(5_000),
    "fsync_us_min": Upto(100, 200),
    "fsync_us_max": Upto(300, 500),
    "double_percent": exactly(0),
    "break_ms_max": Upto(400, 500),
}
"""Even delays, so that the times of faults and of messages match."""


def fsync(least: tuple[int, int], most: tuple[int, int]) -> Ranges:
    return {"fsync_us_min": Upto(*least), "fsync_us_max": Upto(*most)}


# fmt: off
PROFILES: Final = (
    Profile("deposed-leader-serves", "a deposed leader that has not noticed its deposition receives requests",
            frozen_leader, (700, 1_100), barriers_everywhere),
    Profile("stale-leader-messages",
            "messages of a deposed leader reach servers that have promised a newer epoch, or have lost their record of it",
            deposed_leader_returns, (900, 1_300), steady_writes,
            {**TICK, "init_limit": Upto(3, 4), "outstanding_max": exactly(1_000)}, {**QUICK, "break_ms_max": Upto(20, 60)}),
    Profile("power-loss-in-sync", "the power fails while a slow disk writes the data of a synchronization",
            power_fails_in_synchronization, (150, 400), None,
            DAMPED, {**QUICK, **fsync((2_000, 8_000), (10_000, 40_000))}),
    Profile("crash-then-power-loss", "servers crash during a write, and the power fails shortly after their restart",
            power_fails_after_crash, (400, 700), steady_writes,
            DAMPED, {**QUICK, **fsync((2_000, 8_000), (10_000, 40_000))}),
    Profile("torn-writes", "the power fails while every server writes its log, and tears the records that are not durable yet",
            power_tears_writes, (300, 400), steady_writes,
            DAMPED, {**QUICK, **fsync((4_000, 8_000), (10_000, 20_000))}),
    Profile("power-loss-after-truncation", "the power fails just after a server truncated transactions that no other server had",
            power_fails_after_truncation, (500, 900), steady_writes, {**TICK, "log_sync_entries_max": exactly(1_000)}),
    Profile("snapshot-interrupted", "links break during snapshots, and the rest arrives on another link or from another leader",
            link_breaks_in_snapshot, (300, 500), writes_with_pauses,
            {**DAMPED, "chunk_bytes": Upto(20, 60), "snapshot_every": Upto(3, 4)},
            {**QUICK, **fsync((100, 200), (300, 500))}),
    Profile("log-rolls-in-snapshot", "the log rolls again and again while a snapshot is being stored",
            slow_disk_and_crash, (200, 500), large_writes,
            {"segment_bytes": Upto(300, 350), "snapshot_every": Short(3, 20)}, fsync((500, 2_000), (4_000, 20_000))),
    Profile("slow-leader-disk", "transactions commit before the leader's own disk has them",
            slow_leader_disk, (300, 600), barriers_at_leader,
            TICK, {**QUICK, **fsync((300, 1_000), (1_500, 4_000))}, observers=1),
    Profile("leader-removed", "the leader leaves the membership",
            leader_crashes_seldom, (300, 700), leaders_removed, {}, {}),
    Profile("reconfig-in-snapshot",
            "the membership changes while a server receives a snapshot, so the change is not among its transactions",
            observer_back_in_change, (CHANGE_MS, CHANGE_MS), voter_observes_and_votes,
            {"tick_ms": exactly(200), **NO_LOG_SYNC, "counter_max": UNLIMITED}, EVENLY, observers=1),
    Profile("reconfig-truncated", "only an isolated leader has a membership change in its log, and later truncates it",
            leader_cut_off_in_change, (CHANGE_MS, CHANGE_MS), changes_of_observer,
            {**TICK, "window_entries": Upto(2, 16), "log_sync_entries_max": Upto(0, 20), "counter_max": UNLIMITED},
            observers=1),
    Profile("reconfig-replaced-by-snapshot", "only an isolated leader has a membership change in its log, and later receives a snapshot",
            leader_purged_in_change, (CHANGE_MS, CHANGE_MS), changes_of_observer,
            {**TICK, **NO_LOG_SYNC, "snapshot_every": Upto(3, 4), "segment_bytes": Upto(300, 350),
             "counter_max": UNLIMITED}, observers=1),
    Profile("rejoin-in-reconfig", "a server that lost its promises is readmitted during a membership change",
            disk_lost_in_change, (300, 500), constant_changes, {**TICK, "counter_max": UNLIMITED}, observers=1),
    Profile("link-replaced",
            "a follower repeats requests on a new link before its leader has noticed the end of the old one",
            link_replaced_unnoticed, (TURN_MS, TURN_MS), barriers_of_one,
            {"tick_ms": exactly(200), "counter_max": UNLIMITED}, EVENLY),
    Profile("hierarchical-quorums", "hierarchical quorums with weights, where parts of the groups are cut off",
            parts_of_groups, (200, 500), timing={}, quorums=groups_of_voters),
)
SET_APART: Final = (
    Profile("peers-of-zookeeper", "the servers speak ZooKeeper's protocol, and some make durable what a server of ZooKeeper does",
            followers_return, (60, 500), None, {"zookeeper_peers": Upto(1, 3)}, {}),
)
"""Profiles that run only by name: a further profile among the others would give their seeds other scripts."""
# fmt: on
