"""From a seed to a script, quickly: the same seed gives the same script, always.

Swarm style: each run has a random few of the kinds of faults and operations, with its own weights, speed
and settings, because a run in which everything happens a little seldom gets anywhere deep. The weights
favour what leads to different histories: crashes and partitions in the middle of elections and syncs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from attrs import evolve, frozen

from harness.absences import with_absences
from harness.faults import (
    LEADER,
    MACHINES,
    MOMENTS,
    WITH_BROKERS,
    Apart,
    Ask,
    Barrier,
    CancelMove,
    Connect,
    Consume,
    CreateTopic,
    CutLinks,
    Fault,
    Isolate,
    Knobs,
    Leave,
    OneWay,
    Op,
    Overflow,
    Produce,
    Reassign,
    Reconfigure,
    Replication,
    Script,
    Snapshot,
    Step,
    Timing,
    Vanish,
    When,
    Write,
)
from harness.script.chance import Draw, apart
from harness.script.kinds import (
    AT_ONCE_MAX,
    BROKER_KINDS,
    BROKERS_MAX,
    BROKERS_MIN,
    CLIENTS_MAX,
    CONSUME,
    FAMILIES,
    FAMILY,
    FLOOD,
    FLOOD_MAX,
    HELD_MAX,
    KINDS,
    LOSS,
    PARENTS,
    PARTITION_KINDS,
    PARTS,
    PARTS_MAX,
    PRODUCE,
    SET_UP,
    STEPS,
    TOPICS_MAX,
    Kind,
)
from harness.script.names import is_users

JOINERS: Final = 2
"""How many servers a script may add to those that it begins with."""
COUNTER_OF_CLIENTS_MIN: Final = 20
"""So many transactions an epoch has room for where there are clients. Each takes one to go on with its session in a new
epoch: with hardly more than that there is one epoch after the other, and none lasts as long as a session."""


# -- faults --------------------------------------------------------------------------------------------

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
        between = {"source": draw.who(), "target": draw.upto(1, draw.servers)}
        return OneWay(at, draw.short(20, 400), **apart(between, draw.servers))
    moment = PROMISES[draw.upto(0, len(PROMISES) - 1)]
    does = ("crash", "cut", "isolate", "pause", "lose disk")[draw.upto(0, 4)]
    return When(at, draw.short(1, 60), None, moment, draw.short(1, 3), does, draw.value(LOSS))


@frozen
class Chosen:
    """A kind of fault that this run has, and how often it has it."""

    weight: float
    kind: type[Any]


def _chosen(draw: Draw) -> list[Chosen]:
    kinds = [
        Chosen(kind.weight * (0.3 + draw.random.random()), fault)
        for fault, kind in KINDS.items()
        if draw.chance(0.1 + 0.08 * min(kind.weight, 3.0))
    ]
    return kinds or [Chosen(1.0, next(iter(KINDS)))]


def _faults(draw: Draw, most: int, length_ms: int) -> list[Fault]:
    if draw.chance(0.15):
        return _close_faults(draw, most, length_ms)
    kinds = _chosen(draw)
    total = sum(chosen.weight for chosen in kinds)
    faults: list[Fault] = []
    at = draw.upto(0, 600)
    for _ in range(draw.short(1, most)):
        # Some follow each other closely, so that one strikes while the last one is still being dealt with.
        at = draw.upto(0, length_ms - 1) if draw.chance(0.4) else min(length_ms - 1, at + draw.short(1, 800))
        left = draw.random.random() * total
        for chosen in kinds:
            left -= chosen.weight
            if left <= 0:
                faults.append(chosen.kind(at=at, **draw.fields(KINDS[chosen.kind].fields)))
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


def _together(ops: Sequence[Op], most: int) -> list[Op]:
    """The same transactions, of which some are asked for with an earlier one: they go to the log as one batch, as
    they do wherever clients ask faster than a disk syncs."""
    gathered: list[Op] = []
    batch: Write | None = None
    place = 0
    for op in ops:
        if not isinstance(op, Write):
            gathered.append(op)
        elif batch is not None and batch.count + op.count <= most:
            gathered[place] = batch = evolve(batch, count=batch.count + op.count)
        else:
            batch, place = op, len(gathered)
            gathered.append(op)
    return gathered


# -- clients of the store ------------------------------------------------------------------------------


def _step(draw: Draw, kinds: Sequence[Kind]) -> Step:
    return Step(**draw.fields(draw.weighted(kinds).fields))


def _asked(draw: Draw, at: int, client: int, multis: float) -> Ask:
    if draw.chance(multis):
        return Ask(at, client, tuple(_step(draw, PARTS) for _ in range(draw.upto(2, PARTS_MAX))))
    return Ask(at, client, (_step(draw, STEPS),))


def _at_once(draw: Draw, at: int, client: int, other: int) -> list[Op]:
    """One client or two ask all at once about a node and its child: most is outstanding when the rest is judged."""
    family = FAMILY[FAMILIES[draw.upto(0, len(FAMILIES) - 1)]]
    count = draw.upto(2, AT_ONCE_MAX)
    return [Ask(at, other if draw.chance(0.2) else client, (_step(draw, family),)) for _ in range(count)]


def _hearsay(draw: Draw, at: int, client: int, other: int, length_ms: int) -> list[Op]:
    """One writes, and as soon as it is told tells another by a way that no server sees, who wants to be shown it."""
    path = PARENTS[draw.upto(0, len(PARENTS) - 1)]
    ops: list[Op] = [Ask(at, client, (Step("set", path),))]
    for wait in (4, 6, 8, 11, 15, 20):
        ops.append(Ask(min(length_ms - 1, at + wait), other, (Step("sync", path),)))
    return ops


def _flood(draw: Draw, at: int, client: int, other: int) -> list[Op]:
    """A client writes as fast as it can, and leaves whoever lags behind far behind; somebody watches that."""
    parent = PARENTS[draw.upto(0, len(PARENTS) - 1)]
    watch = Step("watch", parent, watch=("persistent", "recursive")[draw.upto(0, 1)])
    before = max(0, at - draw.short(30, 300))
    flood = [Ask(at, client, (_step(draw, FLOOD[parent]),)) for _ in range(draw.upto(FLOOD_MAX // 4, FLOOD_MAX))]
    return [Ask(before, other, (watch,)), *flood]


def _timeout(draw: Draw) -> int:
    """Of a session. Most are short for a run of a few seconds, so that some come to their end in it."""
    return draw.short(4, 20) * 100


def _client_ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
    """Clients who connect, ask, now and then move to another server, vanish, or leave and come again."""
    clients = draw.upto(1, CLIENTS_MAX)
    multis = 0.25 * draw.random.random() if draw.chance(0.6) else 0.0
    moves = 0.12 * draw.random.random() if draw.chance(0.6) else 0.0
    gone = 0.01 + 0.05 * draw.random.random() if draw.chance(0.6) else 0.0
    changes = 0.05 if draw.chance(0.15) else 0.0
    snapshots = 0.02 if draw.chance(0.3) else 0.0
    at_once = 0.06 * draw.random.random() if draw.chance(0.4) else 0.0
    floods = 0.02 if draw.chance(0.25) else 0.0
    hearsay = 0.03 if draw.chance(0.3) else 0.0
    begin = min(draw.upto(20, 300), length_ms - 1)
    ops: list[Op] = []
    for client in range(1, clients + 1):
        ops.append(Connect(begin, client, draw.upto(1, draw.servers), _timeout(draw)))
    soon = min(begin + 200, length_ms - 1)
    ops += [Ask(soon, 1, (Step("create", path),)) for path in PARENTS]
    first = len(ops)
    for _ in range(draw.upto(most // 3, most)):
        if len(ops) - first >= most:
            break
        at, client = draw.upto(soon, length_ms - 1), draw.upto(1, clients)
        share = draw.random.random()
        if share < moves:
            ops.append(Connect(at, client, draw.upto(1, draw.servers), _timeout(draw)))
        elif share < moves + gone:
            ops += _goes(draw, soon, at, client, length_ms)
        elif share < moves + gone + changes:
            ops.append(_change(draw, at))
        elif share < moves + gone + changes + snapshots:
            ops.append(Snapshot(at, draw.upto(0, draw.servers)))
        elif share < moves + gone + changes + snapshots + at_once:
            ops += _at_once(draw, at, client, draw.upto(1, clients))
        elif share < moves + gone + changes + snapshots + at_once + floods:
            ops += _flood(draw, at, client, draw.upto(1, clients))
        elif share < moves + gone + changes + snapshots + at_once + floods + hearsay:
            ops += _hearsay(draw, at, client, draw.upto(1, clients), length_ms)
        else:
            ops.append(_asked(draw, at, client, multis))
    del ops[first + most :]
    ops.sort(key=lambda op: op.at)
    return ops


def _goes(draw: Draw, soon: int, at: int, client: int, length_ms: int) -> list[Op]:
    if draw.chance(0.35):
        # Long enough for its session to end, and back early enough to be told so before all is healed.
        away_ms = draw.upto(700, 2_000)
        return [Vanish(max(soon, min(at, length_ms - away_ms - 200)), away_ms, client)]
    if draw.chance(0.4):
        return [Vanish(at, draw.short(10, 3_000), client)]
    again = min(length_ms - 1, at + draw.short(1, 300))
    return [Leave(at, client), Connect(again, client, draw.upto(1, draw.servers), _timeout(draw))]


# -- brokers and their controller ----------------------------------------------------------------------

BUSY_FROM_MS: Final = 400
"""Brokers need a moment until there is a controller."""


def _broker_ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
    """Topics to begin with, and then a random few of the kinds. Often several at almost the same time."""
    begin = min(BUSY_FROM_MS, length_ms - 1)
    ops: list[Op] = [
        CreateTopic(begin, topic, draw.upto(1, 3), draw.upto(1, 3)) for topic in range(1, draw.upto(1, TOPICS_MAX) + 1)
    ]
    kinds = [Chosen(kind.weight * (0.3 + draw.random.random()), op) for op, kind in BROKER_KINDS.items()]
    kinds = [chosen for chosen in kinds if draw.chance(0.6)] or kinds
    at = begin
    for _ in range(draw.upto(most // 8, most // 3)):
        close = draw.chance(0.5)
        at = min(length_ms - 1, at + draw.short(1, 150)) if close else draw.upto(begin, length_ms - 1)
        chosen = draw.weighted(kinds)
        ops.append(chosen.kind(at=at, **draw.fields(BROKER_KINDS[chosen.kind].fields)))
    ops.sort(key=lambda op: op.at)
    return ops


SERVER_FAULTS_MAX: Final = 3
"""Where brokers have data, little happens to the servers of the store: they have runs of their own."""


def _partition_ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
    """Topics with somebody who reads them, records all the time, and a random few of the kinds of trouble."""
    begin = min(BUSY_FROM_MS, length_ms - 1)
    soon = min(begin + 150, length_ms - 1)
    ops: list[Op] = [Replication(0, **draw.fields(SET_UP))]
    ops += [
        CreateTopic(begin, topic, draw.upto(1, 2), draw.upto(2, 3)) for topic in range(1, draw.upto(1, HELD_MAX) + 1)
    ]
    ops += [Consume(soon, **draw.fields(CONSUME)) for _ in range(draw.upto(1, 3))]
    for _ in range(draw.upto(most // 8, most // 3)):
        ops.append(Produce(draw.upto(soon, length_ms - 1), **draw.fields(PRODUCE)))
    kinds = [Chosen(kind.weight * (0.3 + draw.random.random()), op) for op, kind in PARTITION_KINDS.items()]
    kinds = [chosen for chosen in kinds if draw.chance(0.35)] or kinds
    at = soon
    for _ in range(draw.upto(most // 30, most // 7)):
        close = draw.chance(0.5)
        at = min(length_ms - 1, at + draw.short(1, 150)) if close else draw.upto(soon, length_ms - 1)
        chosen = draw.weighted(kinds)
        op = chosen.kind(at=at, **draw.fields(PARTITION_KINDS[chosen.kind].fields))
        ops.append(op)
        if isinstance(op, Reassign) and draw.chance(0.4):  # most moves are over soon, and what is over stays
            ops.append(CancelMove(min(length_ms - 1, at + draw.short(1, 500)), op.topic, op.partition))
    ops.sort(key=lambda op: op.at)
    return ops


def _lag(draw: Draw, script: Script, most: int) -> Script:
    """Where clients write in floods, a server is now and then away for as long, and too far behind for anything but
    a snapshot when it is back. Its clients may have stayed with it."""
    floods = sorted(at for at, count in Counter(op.at for op in script.ops).items() if count >= FLOOD_MAX // 4)
    if not floods or draw.chance(0.3):
        return script
    faults: list[Fault] = []
    for at in floods:
        before, who = max(0, at - draw.upto(0, 10)), draw.upto(1, draw.servers)
        if draw.chance(0.7):
            faults.append(Overflow(before, draw.upto(10, 60), LEADER, who, draw.upto(1, 3)))
        else:
            faults.append(Apart(before, draw.short(20, 200), LEADER, who))
    knobs = evolve(script.knobs, window_entries=draw.upto(2, 6), log_sync_entries_max=draw.upto(0, 3))
    kept = [*faults, *script.faults][:most]
    return evolve(script, knobs=knobs, faults=tuple(sorted(kept, key=lambda fault: fault.at)))


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


def _of_client_ports(draw: Draw) -> dict[str, int]:
    """Settings of the client ports. Most runs have them off, as most servers do."""
    knobs: dict[str, int] = {}
    if draw.chance(0.2):
        knobs["local_sessions"] = draw.upto(1, 2)
    if draw.chance(0.3):
        knobs["read_only_ms"] = draw.short(20, 400)
    if draw.chance(0.2):
        knobs["open_requests"] = draw.upto(1, 4)
        knobs["wait_ms"] = draw.upto(20, 200) if draw.chance(0.5) else 0
    if draw.chance(0.1):
        knobs["large_bytes"] = draw.upto(60, 120)
    if draw.chance(0.15):
        knobs["connection_tokens"] = draw.upto(1, 3)
    return knobs


def script_from_seed(
    seed: int,
    *,
    voters: int = 3,
    observers: int | None = None,
    faults: int = 20,
    ops: int = 100,
    length_ms: int = 3_000,
    machine: str = MACHINES[0],
    together: int = 1,
) -> Script:
    """At most so many faults and operations; without a number of observers there is sometimes one.

    `together`: of the transactions of a list at most so many are asked for at one moment; what is drawn as more stays.
    """
    random = Random(f"script/{seed}/{voters}" + ("" if machine == MACHINES[0] or is_users(machine) else f"/{machine}"))
    if observers is None:
        observers = int(random.random() < 0.2)
    draw = Draw(random, voters, observers)
    timing, knobs = _timing(draw), _knobs(draw)
    if machine in WITH_BROKERS:
        knobs = evolve(
            knobs, counter_max=Knobs().counter_max
        )  # brokers would not come to their work between two epochs
    if machine == "store":
        knobs = evolve(knobs, counter_max=max(knobs.counter_max, COUNTER_OF_CLIENTS_MIN))
    drawn_as = MACHINES[0] if is_users(machine) else machine
    ask = {"list": _ops, "store": _client_ops, "controller": _broker_ops, "partitions": _partition_ops}[drawn_as]
    brokers = draw.upto(BROKERS_MIN, BROKERS_MAX) if machine == "controller" else 0
    if machine == "partitions":
        brokers = draw.upto(BROKERS_MIN, BROKERS_MIN + 1)
        faults = min(faults, SERVER_FAULTS_MAX) if draw.chance(0.4) else 0
    asked = ask(draw, ops, length_ms) if ops else []
    script = Script(
        seed=seed,
        voters=voters,
        observers=observers,
        machine=machine,
        brokers=brokers,
        length_ms=length_ms,
        timing=timing,
        knobs=knobs,
        ops=tuple(_together(asked, together) if together > 1 else asked),
        faults=tuple(_faults(draw, faults, length_ms)) if faults else (),
    )
    if machine != "store":
        return script
    script = _lag(draw, script, faults) if faults else script
    ports = Draw(Random(f"client ports/{seed}/{voters}"), voters, observers)
    script = evolve(script, knobs=evolve(script.knobs, **_of_client_ports(ports)))
    return with_absences(Draw(Random(f"absences/{seed}/{voters}"), voters, observers), script) if ops else script
