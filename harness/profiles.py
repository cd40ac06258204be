"""Scripts that lead where random ones seldom get: each profile draws one situation again and again.

A profile takes a script that was drawn as usual and puts other faults, speeds, settings or operations into it; all
else in it stays as it was drawn, so that no two of its scripts are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from attrs import evolve, frozen

from harness.bearers import transactions
from harness.draw import PROMISES, script_from_seed
from harness.faults import (
    FOLLOWER,
    LEADER,
    Ask,
    Barrier,
    ClockFreeze,
    Connect,
    Crash,
    CrashAll,
    CutLinks,
    Fault,
    Isolate,
    Leave,
    LoseDisk,
    Op,
    Reconfigure,
    Script,
    SlowDisk,
    Step,
    When,
    Write,
)
from harness.nodes import not_for_all, passing, within_limits
from harness.reigns import (
    asked_in_vain,
    late_commits,
    led_again,
    led_before,
    let_in_by_what_is_over,
    moves_taken_back,
    names_outlive_ids,
    shares_on_the_way,
)
from harness.script.chance import Draw
from harness.script.kinds import BROKERS_MAX, CHILDREN, CLIENTS_MAX, PARENTS, Short, Upto, Value
from harness.situations import (
    bounced,
    contested,
    coordinators_go,
    cut_and_kept,
    cut_within_an_epoch,
    epochs_apart,
    gone_on_arrival,
    grown_meanwhile,
    half_deleted,
    in_doubt,
    leaders_in_turn,
    left_alone,
    moves,
    positions,
    power_fails,
    too_long,
    too_old,
    unheard,
    who_comes_back,
)
from harness.situations_of_servers import (
    CHANGE_MS,
    TURN_MS,
    changes_all_the_time,
    changes_unseen,
    groups_of_voters,
    healed_meanwhile,
    hidden,
    leader_cut_off,
    leader_replaced,
    proposed_alone,
    questions_of_one,
    replaced,
    some_without_the_others,
)

Pattern = Callable[[Draw, int, int], Sequence[Fault]]
"""What strikes from a time on, which the next pattern follows after so many milliseconds."""
Asks = Callable[[Draw, int], Sequence[Op]]


@frozen
class Profile:
    name: str
    what: str
    """The situation that its scripts lead to."""
    faults: Pattern
    every_ms: tuple[int, int]
    knobs: Mapping[str, Value]
    timing: Mapping[str, Value]
    ops: Asks | None = None
    """What is asked; None: what was drawn as usual."""
    machine: str = "list"
    """Whose situation it is."""
    brokers: int = 0
    """So many, and not as many as were drawn."""
    observers: int = 0
    """So many at least."""
    quorums: Callable[[Draw], Mapping[str, Any]] | None = None
    """Groups and weights; None: a majority is a quorum."""

    def script(self, seed: int, *, voters: int, machine: str = "") -> Script:
        machine = machine or self.machine
        usual = script_from_seed(seed, voters=voters, machine=machine)
        usual = evolve(usual, observers=max(usual.observers, self.observers))
        draw = Draw(Random(f"profile/{self.name}/{seed}/{voters}"), voters, usual.observers)
        faults: list[Fault] = []
        at = draw.upto(300, 600)
        while at < usual.length_ms - 300:
            gap = draw.upto(*self.every_ms)
            faults += self.faults(draw, at, gap)
            at += gap
        if self.quorums is not None:
            usual = evolve(usual, **self.quorums(draw))
        return evolve(
            usual,
            brokers=self.brokers or usual.brokers,
            knobs=evolve(usual.knobs, **_drawn(draw, self.knobs)),
            timing=evolve(usual.timing, **_drawn(draw, self.timing)),
            ops=usual.ops if self.ops is None else tuple(sorted(self.ops(draw, usual.length_ms), key=_at)),
            faults=tuple(sorted((each for each in faults if each.at < usual.length_ms), key=_at)),
        )


def _drawn(draw: Draw, wanted: Mapping[str, Value]) -> dict[str, Any]:
    return {name: draw.value(value) for name, value in wanted.items()}


def _at(what: Fault | Op) -> int:
    return what.at


SNAPSHOTS_TRAVEL: Final[Mapping[str, Value]] = {
    "tick_ms": Upto(50, 50),
    "snapshot_every": Short(3, 20),
    "window_entries": Upto(2, 6),
    "log_sync_entries_max": Upto(0, 3),
}
"""Whoever was away is soon so far behind that it is sent a snapshot."""

QUICK: Final[Mapping[str, Value]] = {"turn_us_max": Upto(0, 0), "loss_percent": Upto(0, 0), "spike_percent": Upto(0, 0)}
EVENLY: Final[Mapping[str, Value]] = {
    "delay_us_min": Upto(4_000, 4_000),
    "delay_us_max": Upto(5_000, 5_000),
    "fsync_us_min": Upto(100, 200),
    "fsync_us_max": Upto(300, 500),
    "double_percent": Upto(0, 0),
}
"""Where moments must fit each other."""


# -- leaders that do not know that they are none any more ------------------------------------------------


def _deposed(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Its clock stands still, so it does not notice that nobody is there."""
    return ClockFreeze(at, gap - 50, LEADER), Isolate(at + draw.upto(0, 20), gap - draw.upto(60, 150), LEADER)


def _asked_everywhere(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops: list[Op] = [Write(at, 1, 8) for at in range(200, length_ms, 12)]
    return [*ops, *(Barrier(at, draw.upto(1, draw.servers)) for at in range(300, length_ms, 9))]


def _two_reigns(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """The deposed leader is heard again by those who left it, when they have just lost the next one."""
    freeze = ClockFreeze(at, gap, LEADER)
    if draw.chance(0.5):
        moment = "quorum promised" if draw.chance(0.7) else PROMISES[draw.upto(0, len(PROMISES) - 1)]
        alone = When(at + 20, draw.upto(500, 900), None, moment, 1, "isolate", "keep")
        return freeze, Isolate(at, draw.upto(150, 350), LEADER), alone
    lost = at + draw.upto(200, 400)
    return (
        freeze,
        Isolate(at, lost - at + draw.upto(-20, 60), LEADER),
        Isolate(lost - 2, draw.upto(500, 900), LEADER),
        LoseDisk(lost, draw.upto(1, 30), FOLLOWER),
    )


def _steadily(draw: Draw, length_ms: int) -> Sequence[Op]:
    return [Write(at, 1, 8) for at in range(200, length_ms, draw.upto(5, 15))]


# -- disks -----------------------------------------------------------------------------------------------


def _behind(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Somebody is brought up to date, and the power fails while that is on its way to a slow disk."""
    if draw.chance(0.5):
        return (CrashAll(at, draw.upto(1, 40), "lose"),)
    who = draw.upto(1, draw.servers)
    away = draw.upto(60, 250)
    return (Isolate(at, away, who), Crash(at + away + draw.upto(5, 150), draw.upto(1, 60), who, "lose"))


def _torn_writes(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    return (CrashAll(at, draw.upto(5, 40), "tear"),)


def _power_after(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """All processes die, and what they wrote is read from the cache; then the power fails, too."""
    down = draw.upto(1, 20)
    return CrashAll(at, down, "keep"), CrashAll(at + down + draw.upto(40, 200), draw.upto(1, 40), "lose")


def _cut_back(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """A leader writes where nobody hears it, has to take that back, and loses its power when it has."""
    away = draw.upto(200, gap - 100)
    return Isolate(at, away, LEADER), When(
        at + 20, draw.upto(1, 60), None, "after writing Truncate", 1, "crash", "lose"
    )


def _broken_off(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """A server has lost its disk, and its link breaks in the middle of the snapshot that heals it. Its leader may be
    another one when it asks for the rest, and may have a snapshot at the same zxid that is made of other chunks."""
    who = draw.upto(1, draw.servers)
    nth = draw.upto(1, 6)
    faults: list[Fault] = [LoseDisk(at, 10, who), When(at + 5, 60, None, "after writing SnapshotChunk", nth, "cut")]
    if draw.chance(0.6):
        faults.append(Crash(at + draw.upto(20, 80), draw.upto(40, 120), LEADER, "keep"))
    return faults


def _crowded(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    who = draw.upto(1, draw.servers)
    return SlowDisk(at, gap, who, draw.upto(2, 6)), Crash(at + draw.upto(20, gap), draw.upto(1, 60), who, "keep")


def _leader_lags(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """All others have on their disks what the leader has not, so that it is committed and not applied there. Whoever
    only watches has to be synchronized again and again meanwhile."""
    watches = draw.voters + 1
    faults: list[Fault] = [SlowDisk(at, gap - 20, LEADER, draw.upto(20, 60))]
    for cut in range(at + draw.upto(20, 60), at + gap, draw.upto(50, 120)):
        who = watches if draw.chance(0.8) else draw.upto(1, draw.servers)
        faults.append(CutLinks(cut, who) if draw.chance(0.6) else Isolate(cut, draw.upto(10, 60), who))
    return faults


def _asked_of_the_leader(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Also of who only watches, who asks it in turn."""
    ops: list[Op] = [Write(at, draw.short(1, 3), 8) for at in range(200, length_ms, draw.upto(8, 16))]
    who = (LEADER, LEADER, draw.voters + 1)
    return [*ops, *(Barrier(at, who[draw.upto(0, 2)]) for at in range(300, length_ms, draw.upto(7, 14)))]


def _now_and_then(draw: Draw, length_ms: int) -> Sequence[Op]:
    """So that servers have time to take their snapshots at the same zxid."""
    return [Write(at, 4, 60) for at in range(200, length_ms, draw.upto(60, 120))]


def _much(draw: Draw, length_ms: int) -> Sequence[Op]:
    return [Write(at, 1, draw.upto(100, 250)) for at in range(200, length_ms, draw.upto(4, 10))]


# -- members ---------------------------------------------------------------------------------------------


def _little(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    return (Crash(at, draw.upto(1, 100), LEADER),) if draw.chance(0.3) else ()


def _leaders_leave(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops: list[Op] = [Write(at, 1, 8) for at in range(200, length_ms, 15)]
    for at in range(500, length_ms, draw.upto(200, 400)):
        change = ("remove", "observe", "add")[draw.upto(0, 2)]
        ops.append(Reconfigure(at, change, draw.upto(1, draw.servers + 1) if change == "add" else LEADER))
    return ops


# -- clients of servers that fall behind -----------------------------------------------------------------


def _cut_off(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """A follower misses so much that only a snapshot helps it, and its clients are still there."""
    who = FOLLOWER if draw.chance(0.7) else draw.upto(1, draw.servers)
    faults: list[Fault] = [Isolate(at, draw.upto(150, gap), who)]
    if draw.chance(0.3):
        faults.append(Crash(at + draw.upto(50, gap), draw.upto(1, 100), LEADER))
    return faults


def _connected(draw: Draw, clients: int) -> list[Op]:
    ops: list[Op] = [Connect(60 + each, each, draw.upto(1, draw.servers), 2_000) for each in range(1, clients + 1)]
    return [*ops, *(Ask(260, 1, (Step("create", path),)) for path in PARENTS)]


def _watchers(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Everybody watches everything, and changes it, from a server of its own."""
    clients = draw.upto(2, CLIENTS_MAX)
    ops = _connected(draw, clients)
    for at in range(300, length_ms - 20, draw.upto(10, 25)):
        client, share = draw.upto(1, clients), draw.random.random()
        path = CHILDREN[draw.upto(0, len(CHILDREN) - 1)]
        if share < 0.25:
            watch = ("persistent", "recursive", "recursive")[draw.upto(0, 2)]
            ops.append(Ask(at, client, (Step("watch", PARENTS[draw.upto(0, 1)], watch=watch),)))
        elif share < 0.4:
            ops.append(Ask(at, client, (Step("exists", path, watch="once"),)))
        elif share < 0.7:
            ops.append(Ask(at, client, (Step("create", path),)))
        elif share < 0.9:
            ops.append(Ask(at, client, (Step("delete", path),)))
        else:
            ops.append(Ask(at, client, (Step("get", path),)))
    return ops


def _leaders_go(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """What it has been asked for is on its way to the others, or is not: who asked does not know."""
    if draw.chance(0.5):
        return (Isolate(at, draw.upto(60, 200), LEADER),)
    return (Crash(at, draw.upto(1, 100), LEADER, "keep"),)


def _writers(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Everybody writes without a pause, at servers of their own."""
    ops = _connected(draw, CLIENTS_MAX)
    for at in range(300, length_ms - 20, draw.upto(6, 12)):
        step = Step("create", f"{PARENTS[draw.upto(0, 1)]}/s-", mode="sequential")
        ops += [Ask(at, client, (step,)) for client in range(1, CLIENTS_MAX + 1) if draw.chance(0.5)]
    return ops


def _links_break(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """One server is back on another link long before what it had asked on the last one has its turn at the leader: the
    disks of all others are slow, and what is in flight waits for two of them."""
    who = draw.upto(1, draw.servers)
    slow = draw.upto(20, 60)
    faults: list[Fault] = [SlowDisk(at, gap, sid, slow) for sid in range(1, draw.servers + 1) if sid != who]
    return [*faults, *(CutLinks(cut, who) for cut in range(at + draw.upto(30, 80), at + gap, draw.upto(80, 160)))]


def _owners_leave(draw: Draw, length_ms: int) -> Sequence[Op]:
    """What is a client's own is taken from it, or given to it, in the moment in which it leaves."""
    ops = _connected(draw, CLIENTS_MAX)
    for at in range(400, length_ms - 150, draw.upto(90, 140)):
        owner, other = draw.upto(2, CLIENTS_MAX), 1
        path = CHILDREN[draw.upto(0, len(CHILDREN) - 1)]
        own, anybodys = Step("create", path, mode="ephemeral"), Step("create", path)
        ops += [Ask(at, other, (Step("delete", path),)), Ask(at + 1, owner if draw.chance(0.8) else other, (own,))]
        leaves = at + draw.upto(40, 60)
        taken = leaves - draw.short(1, 20)
        again = (anybodys, anybodys, own)[draw.upto(0, 2)]
        if draw.chance(0.5):
            ops += [Ask(taken, other, (Step("delete", path),)), Ask(taken, other, (again,))]
        else:
            ops.append(Ask(taken, other, (Step("delete", path), again)))
        if draw.chance(0.3):
            ops.append(Ask(taken, owner, (own,)))
        if draw.chance(0.9):
            ops += [Leave(leaves, owner), Connect(leaves + 20, owner, draw.upto(1, draw.servers), 2_000)]
    return ops


def _syncs(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Of sessions that outlive an election, without a pause."""
    ops = _connected(draw, CLIENTS_MAX)
    for at in range(300, length_ms - 20, draw.upto(5, 10)):
        ops.append(Ask(at, draw.upto(1, CLIENTS_MAX), (Step("sync" if draw.chance(0.8) else "set", "/a"),)))
    return ops


def _for_a_while(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Long enough for another one to be elected; then nothing, until sessions would end by the clock of the first."""
    return (Isolate(at, draw.upto(300, 500), LEADER),)


def _calm(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A sync that is answered shows that the leader has heard of the session, and a write between that and its end
    that the end was not under way then.

    Most are so short that a leader that is cut off sees them run out before it knows that it is none any more.
    """
    clients = range(1, CLIENTS_MAX + 1)
    times = {each: 2_000 if each == 1 else draw.upto(100, 220) for each in clients}
    ops: list[Op] = [Connect(60 + each, each, draw.upto(1, draw.servers), times[each]) for each in clients]
    ops += [Ask(260, 1, (Step("create", path),)) for path in PARENTS]
    for number, at in enumerate(range(300, length_ms - 20, 40)):
        ops.append(Ask(at, draw.upto(1, CLIENTS_MAX), (Step(("sync", "get")[number % 2], "/a"),)))
        ops.append(Ask(at + 20, 1, (Step("set", "/a"),)))
    return ops


def _half_open(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Each stays at its server, mostly; what the old connection leaves behind must not harm the new one."""
    ops = _connected(draw, CLIENTS_MAX)
    places = [draw.upto(1, draw.servers) for _ in range(CLIENTS_MAX)]
    for at in range(300, length_ms - 20, draw.upto(40, 90)):
        client = draw.upto(1, CLIENTS_MAX)
        if draw.chance(0.15):
            places[client - 1] = draw.upto(1, draw.servers)
        ops.append(Connect(at, client, places[client - 1], 2_000, late_ms=draw.short(10, 400)))
        ops.append(Ask(at + 1, client, (Step("create", "/a/x", mode="ephemeral"),)))
    return ops


# -- brokers ---------------------------------------------------------------------------------------------


def _nothing(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    return ()


PROFILES: Final = (
    Profile(
        "deposed",
        "a deposed leader that has not noticed its deposition receives requests",
        _deposed,
        (700, 1_100),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        _asked_everywhere,
    ),
    Profile(
        "two reigns",
        "messages of a deposed leader reach servers that have promised a newer epoch, or have lost their record of it",
        _two_reigns,
        (900, 1_300),
        {"tick_ms": Upto(50, 50), "init_limit": Upto(3, 4), "outstanding_max": Upto(1_000, 1_000)},
        {**QUICK, "break_ms_max": Upto(20, 60)},
        _steadily,
    ),
    Profile(
        "behind",
        "the power fails while a slow disk writes the data of a synchronization",
        _behind,
        (150, 400),
        {"tick_ms": Upto(50, 50), "finalize_wait_ms": Upto(5, 20)},
        {**QUICK, "fsync_us_min": Upto(2_000, 8_000), "fsync_us_max": Upto(10_000, 40_000)},
    ),
    Profile(
        "power after",
        "servers crash during a write, and the power fails shortly after their restart",
        _power_after,
        (400, 700),
        {"tick_ms": Upto(50, 50), "finalize_wait_ms": Upto(5, 20)},
        {**QUICK, "fsync_us_min": Upto(2_000, 8_000), "fsync_us_max": Upto(10_000, 40_000)},
        _steadily,
    ),
    Profile(
        "torn writes",
        "the power fails while every server writes its log, and tears the records that are not durable yet",
        _torn_writes,
        (300, 400),
        {"tick_ms": Upto(50, 50), "finalize_wait_ms": Upto(5, 20)},
        {**QUICK, "fsync_us_min": Upto(4_000, 8_000), "fsync_us_max": Upto(10_000, 20_000)},
        _steadily,
    ),
    Profile(
        "cut back",
        "the power fails just after a server truncated transactions that no other server had",
        _cut_back,
        (500, 900),
        {"tick_ms": Upto(50, 50), "log_sync_entries_max": Upto(1_000, 1_000)},
        QUICK,
        _steadily,
    ),
    Profile(
        "snapshots broken off",
        "links break during snapshots, and the rest arrives on another link or from another leader",
        _broken_off,
        (300, 500),
        {
            "tick_ms": Upto(50, 50),
            "finalize_wait_ms": Upto(5, 20),
            "chunk_bytes": Upto(20, 60),
            "snapshot_every": Upto(3, 4),
        },
        {**QUICK, "fsync_us_min": Upto(100, 200), "fsync_us_max": Upto(300, 500)},
        _now_and_then,
    ),
    Profile(
        "crowded disk",
        "the log rolls again and again while a snapshot is being stored",
        _crowded,
        (200, 500),
        {"segment_bytes": Upto(300, 350), "snapshot_every": Short(3, 20)},
        {"fsync_us_min": Upto(500, 2_000), "fsync_us_max": Upto(4_000, 20_000)},
        _much,
    ),
    Profile(
        "leader's disk lags",
        "transactions commit before the leader's own disk has them",
        _leader_lags,
        (300, 600),
        {"tick_ms": Upto(50, 50)},
        {**QUICK, "fsync_us_min": Upto(300, 1_000), "fsync_us_max": Upto(1_500, 4_000)},
        _asked_of_the_leader,
        observers=1,
    ),
    Profile(
        "leaders leave", "the leader leaves the membership", _little, (300, 700), {}, {}, _leaders_leave
    ),
    Profile(
        "unseen change",
        "the membership changes while a server receives a snapshot, so the change is not among its transactions",
        hidden,
        (CHANGE_MS, CHANGE_MS),
        {
            "tick_ms": Upto(200, 200),
            "window_entries": Upto(2, 2),
            "log_sync_entries_max": Upto(0, 0),
            "counter_max": Upto(0xFFFF_FFFF, 0xFFFF_FFFF),
        },
        {**QUICK, **EVENLY, "break_ms_max": Upto(400, 500)},
        changes_unseen,
        observers=1,
    ),
    Profile(
        "change cut off",
        "only an isolated leader has a membership change in its log, and later truncates it",
        leader_cut_off,
        (CHANGE_MS, CHANGE_MS),
        {
            "tick_ms": Upto(50, 50),
            "window_entries": Upto(2, 16),
            "log_sync_entries_max": Upto(0, 20),
            "counter_max": Upto(0xFFFF_FFFF, 0xFFFF_FFFF),
        },
        QUICK,
        proposed_alone,
        observers=1,
    ),
    Profile(
        "change replaced",
        "only an isolated leader has a membership change in its log, and later receives a snapshot",
        leader_replaced,
        (CHANGE_MS, CHANGE_MS),
        {
            "tick_ms": Upto(50, 50),
            "window_entries": Upto(2, 2),
            "log_sync_entries_max": Upto(0, 0),
            "snapshot_every": Upto(3, 4),
            "segment_bytes": Upto(300, 350),
            "counter_max": Upto(0xFFFF_FFFF, 0xFFFF_FFFF),
        },
        QUICK,
        proposed_alone,
        observers=1,
    ),
    Profile(
        "healed in a change",
        "a server that lost its promises is readmitted during a membership change",
        healed_meanwhile,
        (300, 500),
        {"tick_ms": Upto(50, 50), "counter_max": Upto(0xFFFF_FFFF, 0xFFFF_FFFF)},
        QUICK,
        changes_all_the_time,
        observers=1,
    ),
    Profile(
        "links replaced",
        "a follower repeats requests on a new link before its leader has noticed the end of the old one",
        replaced,
        (TURN_MS, TURN_MS),
        {"tick_ms": Upto(200, 200), "counter_max": Upto(0xFFFF_FFFF, 0xFFFF_FFFF)},
        {**QUICK, **EVENLY, "break_ms_max": Upto(400, 500)},
        questions_of_one,
    ),
    Profile(
        "groups",
        "hierarchical quorums with weights, where parts of the groups are cut off",
        some_without_the_others,
        (200, 500),
        {"tick_ms": Upto(50, 50)},
        {},
        quorums=groups_of_voters,
    ),
    Profile(
        "cut off",
        "clients are connected to a server that catches up by a snapshot",
        _cut_off,
        (300, 700),
        {"window_entries": Upto(2, 2), "log_sync_entries_max": Upto(0, 0), "tick_ms": Upto(50, 50)},
        QUICK,
        _watchers,
        "store",
    ),
    Profile(
        "leaders go",
        "the leader crashes while clients of all servers write, and the next leader has some of its proposals",
        _leaders_go,
        (250, 500),
        {"tick_ms": Upto(50, 50)},
        {**QUICK, "fsync_us_min": Upto(500, 4_000), "fsync_us_max": Upto(5_000, 20_000)},
        _writers,
        "store",
    ),
    Profile(
        "full desk",
        "links break and are replaced before the leader has processed the requests that arrived on them",
        _links_break,
        (400, 800),
        {"tick_ms": Upto(50, 50), "finalize_wait_ms": Upto(5, 20)},
        {**QUICK, "fsync_us_min": Upto(1_000, 2_000), "fsync_us_max": Upto(3_000, 5_000), "break_ms_max": Upto(1, 20)},
        _writers,
        "store",
    ),
    Profile(
        "syncs in doubt",
        "clients wait for syncs across a change of the leader",
        _leaders_go,
        (400, 700),
        {"tick_ms": Upto(50, 50), "finalize_wait_ms": Upto(5, 20)},
        QUICK,
        _syncs,
        "store",
    ),
    Profile(
        "owners leave",
        "clients delete and recreate a client's ephemeral nodes at the moment of its close",
        _leaders_go,
        (900, 1_500),
        {"tick_ms": Upto(50, 50)},
        {**QUICK, "fsync_us_min": Upto(2_000, 8_000), "fsync_us_max": Upto(10_000, 30_000)},
        _owners_leave,
        "store",
    ),
    Profile(
        "not for all",
        "users create nodes with ACLs, change the ACLs, and try operations that these forbid",
        _leaders_go,
        (600, 1_200),
        SNAPSHOTS_TRAVEL,
        QUICK,
        not_for_all,
        "store",
    ),
    Profile(
        "passing",
        "containers lose their last child, and TTL nodes expire, just when a client adds a child or writes",
        _leaders_go,
        (900, 1_500),
        {"tick_ms": Upto(50, 50)},
        {**QUICK, "fsync_us_min": Upto(2_000, 8_000), "fsync_us_max": Upto(10_000, 40_000)},
        passing,
        "store",
    ),
    Profile(
        "within limits",
        "clients write below a node with quotas, which grows and shrinks, while servers catch up by snapshots",
        _leaders_go,
        (600, 1_200),
        SNAPSHOTS_TRAVEL,
        QUICK,
        within_limits,
        "store",
    ),
    Profile(
        "leader for a while",
        "a leader is cut off, deposed and reconnected, while its clients continue at other servers",
        _for_a_while,
        (1_500, 2_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        _calm,
        "store",
    ),
    Profile(
        "half open",
        "clients reconnect before the server has noticed the end of their last connection",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        _half_open,
        "store",
    ),
    Profile(
        "moves",
        "the controller fails during reassignments, or during changes of the replica order",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        moves,
        "controller",
        BROKERS_MAX,
    ),
    Profile(
        "grown meanwhile",
        "a topic gets more partitions just when the controller reads its node for a reassignment",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        grown_meanwhile,
        "controller",
        BROKERS_MAX,
    ),
    Profile(
        "gone on arrival",
        "one of the new replicas of a reassignment leaves the ISR just when the last one joins it",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(100, 100)},
        {
            **QUICK,
            "delay_us_max": Upto(600, 3_000),
            "spike_percent": Upto(10, 25),
            "spike_us_max": Upto(60_000, 150_000),
        },
        gone_on_arrival,
        "controller",
        BROKERS_MAX,
    ),
    Profile(
        "unheard",
        "brokers receive commands of a new controller before the last commands of the old one",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        unheard,
        "controller",
        4,
    ),
    Profile(
        "bounced",
        "brokers crash and restart before their sessions expire",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        bounced,
        "controller",
        4,
    ),
    Profile(
        "contested",
        "a controller that cannot reach the store receives requests, and is not notified of its successor",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        contested,
        "controller",
    ),
    Profile(
        "in doubt",
        "candidates lose the replies to their candidacies, and another candidate is elected meanwhile",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        in_doubt,
        "controller",
    ),
    Profile(
        "leaders in turn",
        "the leader of a partition changes often, while producers write to it all the time",
        _nothing,
        (700, 1_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        leaders_in_turn,
        "partitions",
        3,
    ),
    Profile(
        "counted too early",
        "a replica returns with missing or with extra records, and its leader's responses are slow",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        who_comes_back,
        "partitions",
        3,
    ),
    Profile(
        "half deleted",
        "controllers fail while a topic's nodes are being removed",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        half_deleted,
        "controller",
        4,
    ),
    Profile(
        "epochs apart",
        "leaders that cannot reach each other write in turn, in leader epochs that the others never receive",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        epochs_apart,
        "partitions",
        3,
    ),
    Profile(
        "cut and kept",
        "a follower truncates durable records, and the records after them must be durable before they count",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        cut_and_kept,
        "partitions",
        3,
    ),
    Profile(
        "cut within an epoch",
        "a short-lived leader lacks the tail of the previous epoch, receives it, then leads a replica that diverged",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        cut_within_an_epoch,
        "partitions",
        3,
    ),
    Profile(
        "too long",
        "a leader's log exceeds its retention size, and most of it is not committed",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50), "segment_bytes": Upto(300, 400)},
        QUICK,
        too_long,
        "partitions",
        3,
    ),
    Profile(
        "too old",
        "retention deletes old records during writes, while followers leave and return",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50), "segment_bytes": Upto(300, 600)},
        QUICK,
        too_old,
        "partitions",
        3,
    ),
    Profile(
        "positions",
        "groups commit offsets while their topic is cleaned and changes its leader often",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50), "segment_bytes": Upto(300, 900)},
        QUICK,
        positions,
        "partitions",
        3,
    ),
    Profile(
        "power fails",
        "the power of all brokers fails while they write much data",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        power_fails,
        "partitions",
        3,
    ),
    Profile(
        "left alone",
        "only clients can reach a leader, and no other broker can",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        left_alone,
        "partitions",
        3,
    ),
    Profile(
        "coordinators go",
        "the coordinators of groups that commit all the time fail one after the other",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        coordinators_go,
        "partitions",
        3,
    ),
    Profile(
        "led before",
        "a broker leads for the second time, and receives only the second command",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        led_before,
        "partitions",
        3,
    ),
    Profile(
        "led again",
        "producers wait at a leader that is deposed, and that leads again before their timeout",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        led_again,
        "partitions",
        3,
    ),
    Profile(
        "moves taken back",
        "a reassignment is cancelled when only its adding replicas have all records",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        moves_taken_back,
        "partitions",
        3,
    ),
    Profile(
        "asked in vain",
        "the store does not reply to a leader that expands its ISR, and the controller writes the state meanwhile",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(100, 100)},
        QUICK,
        asked_in_vain,
        "partitions",
        BROKERS_MAX,
    ),
    Profile(
        "late commits",
        "members join and leave, and their offset commits arrive after the next rebalance",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50), "segment_bytes": Upto(300, 900)},
        QUICK,
        late_commits,
        "partitions",
        3,
    ),
    Profile(
        "names outlive ids",
        "static members restart, and their earlier requests arrive late",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        names_outlive_ids,
        "partitions",
        3,
    ),
    Profile(
        "shares on the way",
        "a group rebalances again before the assignment of the first rebalance is committed",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        shares_on_the_way,
        "partitions",
        3,
    ),
    Profile(
        "let in too late",
        "a replica crashes and restarts before the store receives the ISR that includes it",
        _nothing,
        (3_000, 3_000),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        let_in_by_what_is_over,
        "partitions",
        BROKERS_MAX,
    ),
    Profile(
        "transactions",
        "transactional producers commit, abort or just stop, while leaders and coordinators fail; in stack alone",
        _nothing,
        (1_800, 1_800),
        {"tick_ms": Upto(50, 50)},
        QUICK,
        transactions,
        "partitions",
        3,
    ),
)  # fmt: skip
BY_NAME: Final = {profile.name: profile for profile in PROFILES}

ALL: Final = "all"
"""In place of the name of one profile: half of the scripts are drawn as usual, the others by each in turn."""


def of_machine(machine: str) -> list[Profile]:
    return [profile for profile in PROFILES if profile.machine == machine]


def profile_of(name: str, seed: int, machine: str) -> Profile | None:
    """Which one draws the script of this seed; None: it is drawn as usual.

    Two seeds in a row are treated alike, so that ensembles of either size have their share of both.
    """
    if name != ALL:
        return BY_NAME[name]
    there = of_machine(machine)
    return there[seed // 4 % len(there)] if there and seed // 2 % 2 else None


def drawn(name: str, seed: int, *, voters: int, machine: str, **sizes: Any) -> Script:
    """The script of a seed: as usual, of these sizes, or as the profile that is named draws it."""
    profile = profile_of(name, seed, machine) if name else None
    if profile is None:
        return script_from_seed(seed, voters=voters, machine=machine, **sizes)
    return profile.script(seed, voters=voters, machine=machine)
