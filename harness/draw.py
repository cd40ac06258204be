"""Generate a script from a seed. The same seed always gives the same script.

This is swarm testing: each run has a random few of the kinds of faults and operations, with its own weights, speed and
settings, because a run with a little of everything seldom reaches deep states. The weights favour crashes and
partitions during elections and synchronization.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

from attrs import evolve

from harness import faults
from harness.faults import LEADER, MACHINES, WITH_BROKERS, Fault, Knobs, Op, Script, is_users
from harness.script import workload
from harness.script.brokers import BROKER_KINDS, BROKERS_MAX, BROKERS_MIN, HELD_MAX, PARTITION_KINDS, TOPICS_MAX
from harness.script.constants import CONSTANTS, Drawn
from harness.script.faults import KINDS, LOSS
from harness.script.names import FATES, OFFSETS, PARTS, TRANSACTIONS
from harness.script.script import INNER_BOUNDS
from harness.script.values import Among, Draw, Kind, Upto, Value, apart, fields_of

Item = TypeVar("Item", Fault, Op)

JOINERS: Final = 2
"""The number of servers that a script may add to those at its beginning."""
COUNTER_OF_CLIENTS_MIN: Final = 20
"""The least `counter_max` with clients. Each epoch needs a transaction for each client, which moves its session. With
few more than these, every epoch ends before a session can expire."""

# -- faults ----------------------------------------------------------------------------------------------

PROMISES: Final = tuple(
    moment
    for moment in faults.MOMENTS
    if moment.endswith(("FollowerInfo", "LeaderInfo", "AckEpoch", "NewLeader", "AckNewLeader", "writing SaveEpochs"))
)
"""The moments at which two leaders could come to lead in one epoch."""


def _around_promises(draw: Draw, at: int) -> Fault:
    share = draw.random.random()
    who = LEADER if draw.chance(0.6) else draw.server()
    if share < 0.45:
        return faults.Isolate(at, draw.short(20, 400), who)
    if share < 0.55:
        return faults.CutLinks(at, who)
    if share < 0.65:
        between = {"source": draw.who(), "target": draw.server()}
        return faults.OneWay(at, draw.short(20, 400), **apart(between, draw.servers))
    moment, does = draw.among(PROMISES), draw.among(("crash", "cut", "isolate", "pause", "lose disk"))
    return faults.When(at, draw.short(1, 60), None, moment, draw.short(1, 3), does, draw.value(LOSS))


def _faults(draw: Draw, most: int, length_ms: int) -> list[Fault]:
    if draw.chance(0.15):
        return _close_faults(draw, most, length_ms)
    kinds = [draw.varied(kind) for kind in KINDS if draw.chance(0.1 + 0.08 * min(kind.weight, 3.0))] or KINDS[:1]
    found: list[Fault] = []
    at = draw.upto(0, 600)
    for _ in range(draw.short(1, most)):
        # Some follow closely, so that a fault occurs during the recovery from the previous one.
        at = draw.upto(0, length_ms - 1) if draw.chance(0.4) else min(length_ms - 1, at + draw.short(1, 800))
        found.append(draw.one_of(kinds, at=at))
    return found


def _close_faults(draw: Draw, most: int, length_ms: int) -> list[Fault]:
    """Return faults in quick succession: the leader changes again before all servers have noticed the last change."""
    found: list[Fault] = []
    at = draw.upto(min(200, length_ms - 1), min(500, length_ms - 1))
    while at < length_ms and len(found) < most:
        found.append(_around_promises(draw, at))
        at += draw.short(5, 300)
    return found


# -- operations of the list ------------------------------------------------------------------------------


def _change(draw: Draw, at: int) -> Op:
    share = draw.random.random()
    change, leader = ("add", 0.0) if share < 0.35 else ("remove", 0.4) if share < 0.65 else ("observe", 0.2)
    if share >= 0.8:
        change = "promote"
    who = LEADER if leader and draw.chance(leader) else draw.upto(1, draw.servers + JOINERS)
    return faults.Reconfigure(at, change, who)


def _list_ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
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
            ops.append(faults.Barrier(at, LEADER if draw.chance(0.5) else draw.server()))
        elif share < barriers + changes:
            ops.append(_change(draw, at))
        elif share < barriers + changes + snapshots:
            ops.append(faults.Snapshot(at, draw.upto(0, draw.servers)))
        else:
            ops.append(faults.Write(at, draw.short(1, largest), draw.short(0, size)))
    return ops


def _together(ops: Sequence[Op], most: int) -> list[Op]:
    """Merge writes into earlier ones of up to `most` transactions. Each is a batch of the log, as if clients wrote
    faster than a disk syncs."""
    gathered: list[Op] = []
    batch: faults.Write | None = None
    place = 0
    for op in ops:
        if not isinstance(op, faults.Write):
            gathered.append(op)
        elif batch is not None and batch.count + op.count <= most:
            gathered[place] = batch = evolve(batch, count=batch.count + op.count)
        else:
            batch, place = op, len(gathered)
            gathered.append(op)
    return gathered


# -- clients of the store --------------------------------------------------------------------------------


def _ask(draw: Draw, at: int, client: int, multis: float) -> faults.Ask:
    if draw.chance(multis):
        return faults.Ask(
            at, client, tuple(draw.one_of(workload.MULTI_STEPS) for _ in range(draw.upto(2, workload.MULTI_MAX)))
        )
    return faults.Ask(at, client, (draw.one_of(workload.STEPS),))


def _at_once(draw: Draw, at: int, client: int, other: int) -> list[Op]:
    """Return requests of one or two clients about a node and its child. Most are outstanding at the same time."""
    family = draw.among(workload.FAMILIES)
    count = draw.upto(2, workload.AT_ONCE_MAX)
    return [faults.Ask(at, other if draw.chance(0.2) else client, (draw.one_of(family),)) for _ in range(count)]


def _hearsay(draw: Draw, at: int, client: int, other: int, length_ms: int) -> list[Op]:
    """Return a write of one client, and syncs of another one soon after the reply, which must see that write."""
    path = draw.among(workload.PARENTS)
    syncs = (
        faults.Ask(min(length_ms - 1, at + wait), other, (faults.Step("sync", path),)) for wait in (4, 6, 8, 11, 15, 20)
    )
    return [faults.Ask(at, client, (faults.Step("set", path),)), *syncs]


def _flood(draw: Draw, at: int, client: int, other: int) -> list[Op]:
    """Return many writes at one time, and a watch of another client. Slow servers fall far behind."""
    parent = draw.among(workload.PARENTS)
    watch = faults.Step("watch", parent, watch=draw.among(("persistent", "recursive")))
    before = max(0, at - draw.short(30, 300))
    flood = [
        faults.Ask(at, client, (draw.one_of(workload.FLOODS[parent]),))
        for _ in range(draw.upto(workload.FLOOD_MAX // 4, workload.FLOOD_MAX))
    ]
    return [faults.Ask(before, other, (watch,)), *flood]


def _connect(draw: Draw, at: int, client: int) -> faults.Connect:
    """Return a connection. Most session timeouts are short, so that some sessions expire during the run."""
    return faults.Connect(at, client, draw.server(), draw.short(4, 20) * 100)


def _store_ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
    """Clients connect, send requests, and now and then move to another server, vanish, or leave and return."""
    clients = draw.upto(1, workload.CLIENTS_MAX)
    multis = 0.25 * draw.random.random() if draw.chance(0.6) else 0.0
    moves = 0.12 * draw.random.random() if draw.chance(0.6) else 0.0
    gone = moves + (0.01 + 0.05 * draw.random.random() if draw.chance(0.6) else 0.0)
    changes = gone + (0.05 if draw.chance(0.15) else 0.0)
    snapshots = changes + (0.02 if draw.chance(0.3) else 0.0)
    at_once = snapshots + (0.06 * draw.random.random() if draw.chance(0.4) else 0.0)
    floods = at_once + (0.02 if draw.chance(0.25) else 0.0)
    hearsay = floods + (0.03 if draw.chance(0.3) else 0.0)
    begin = min(draw.upto(20, 300), length_ms - 1)
    ops: list[Op] = [_connect(draw, begin, client) for client in range(1, clients + 1)]
    soon = min(begin + 200, length_ms - 1)
    ops += [faults.Ask(soon, 1, (faults.Step("create", path),)) for path in workload.PARENTS]
    first = len(ops)
    for _ in range(draw.upto(most // 3, most)):
        if len(ops) - first >= most:
            break
        at, client = draw.upto(soon, length_ms - 1), draw.upto(1, clients)
        share = draw.random.random()
        if share < moves:
            ops.append(_connect(draw, at, client))
        elif share < gone:
            ops += _goes(draw, soon, at, client, length_ms)
        elif share < changes:
            ops.append(_change(draw, at))
        elif share < snapshots:
            ops.append(faults.Snapshot(at, draw.upto(0, draw.servers)))
        elif share < at_once:
            ops += _at_once(draw, at, client, draw.upto(1, clients))
        elif share < floods:
            ops += _flood(draw, at, client, draw.upto(1, clients))
        elif share < hearsay:
            ops += _hearsay(draw, at, client, draw.upto(1, clients), length_ms)
        else:
            ops.append(_ask(draw, at, client, multis))
    return ops[: first + most]


def _goes(draw: Draw, soon: int, at: int, client: int, length_ms: int) -> list[Op]:
    if draw.chance(0.35):
        # The session expires, and the client returns before all faults end.
        away_ms = draw.upto(700, 2_000)
        return [faults.Vanish(max(soon, min(at, length_ms - away_ms - 200)), away_ms, client)]
    if draw.chance(0.4):
        return [faults.Vanish(at, draw.short(10, 3_000), client)]
    return [faults.Leave(at, client), _connect(draw, min(length_ms - 1, at + draw.short(1, 300)), client)]


def _lagging(draw: Draw, script: Script, most: int) -> Script:
    """Cut a server off from the leader at some floods of writes, so that it needs a snapshot. Its clients may stay
    connected."""
    floods = sorted(at for at, count in Counter(op.at for op in script.ops).items() if count >= workload.FLOOD_MAX // 4)
    if not floods or draw.chance(0.3):
        return script
    found: list[Fault] = []
    for at in floods:
        before, who = max(0, at - draw.upto(0, 10)), draw.server()
        if draw.chance(0.7):
            found.append(faults.Overflow(before, draw.upto(10, 60), LEADER, who, draw.upto(1, 3)))
        else:
            found.append(faults.Apart(before, draw.short(20, 200), LEADER, who))
    knobs = evolve(script.knobs, window_entries=draw.upto(2, 6), log_sync_entries_max=draw.upto(0, 3))
    return evolve(script, knobs=knobs, faults=_in_order([*found, *script.faults][:most]))


ABSENCES_SHARE: Final = 0.25
"""The share of scripts with absences, among scripts with several clients."""
BEFORE_MS, AFTER_MS = 30, 80
"""The time before and after an absence in which clients send no other requests."""
ABSENCES_MAX: Final = 3


def _with_absences(draw: Draw, script: Script) -> Script:
    """Add absences: a client with a watch is disconnected while the watched node changes once.

    A client that returns sends its watches and its last zxid, and receives the events that it missed. An off-by-one
    error shows only if the next transaction is the change, and the node does not change again until the client is back.
    """
    clients = sorted({op.client for op in script.ops if isinstance(op, faults.Connect)})
    begin, end = 300 + BEFORE_MS, script.length_ms - AFTER_MS - 200
    if len(clients) < 2 or end <= begin or not draw.chance(ABSENCES_SHARE):
        return script
    ops = list(script.ops)
    for _ in range(draw.upto(1, ABSENCES_MAX)):
        who = draw.among(clients)
        others = [client for client in clients if client != who]
        absence = _absence(draw, draw.upto(begin, end), who, draw.among(others))
        first, last = absence[0].at - BEFORE_MS, absence[-1].at + AFTER_MS
        ops = [op for op in ops if not (isinstance(op, faults.Ask) and first <= op.at <= last)] + absence
    return evolve(script, ops=_in_order(ops)[: len(script.ops)])


def _absence(draw: Draw, at: int, who: int, other: int) -> list[Op]:
    parent = draw.among(workload.PARENTS)
    watch, change = draw.among((
        (faults.Step("children", parent, watch="once"), faults.Step("create", f"{parent}/s-", mode="sequential")),
        (faults.Step("get", parent, watch="once"), faults.Step("set", parent)),
    ))  # fmt: skip
    gone = at + draw.short(10, 60)
    away_ms = draw.upto(15, 60)
    return [
        faults.Ask(at, who, (watch,)),
        faults.Vanish(gone, away_ms, who),
        faults.Ask(gone + draw.upto(1, 5), other, (change,)),
    ]


BURSTS_SHARE: Final = 0.3
"""The share of scripts with bursts. All requests of a burst are of one kind."""
BURSTS_MAX: Final = 3
BURST_MIN, BURST_MAX = 4, 12
"""The number of requests that follow the write of a burst."""
LATE_MS: Final = 30
"""Half of the bursts begin this late before the end of all faults. Their clients send nothing more until then."""


def _with_bursts(draw: Draw, script: Script) -> Script:
    """Add bursts: a client sends a write, many requests of one kind, and then nothing.

    So no later request hides that one of them is never answered.
    """
    clients = sorted({op.client for op in script.ops if isinstance(op, faults.Connect)})
    begin, end = 300, script.length_ms - 1
    if not clients or end - LATE_MS <= begin or not draw.chance(BURSTS_SHARE):
        return script
    ops = list(script.ops)
    bursts: list[Op] = []
    for _ in range(draw.upto(1, BURSTS_MAX)):
        client = draw.among(clients)
        late = draw.chance(0.5)
        at = draw.upto(end - LATE_MS, end) if late else draw.upto(begin, end)
        silent_ms = script.length_ms if late else draw.upto(50, 500)
        burst = _burst(draw, at, client)
        ops = [op for op in ops if not _is_of(op, client) or not at <= op.at <= at + silent_ms]
        bursts = [op for op in bursts if not _is_of(op, client)] + burst
    kept = _fewer(draw, ops, len(script.ops) - len(bursts))
    return evolve(script, ops=_in_order([*kept, *bursts])) if len(kept) + len(bursts) <= len(script.ops) else script


def _burst(draw: Draw, at: int, client: int) -> list[Op]:
    kind = draw.among(workload.BURSTS)
    write = faults.Ask(at, client, (draw.one_of(workload.BURST_WRITES),))
    return [write, *(faults.Ask(at, client, (draw.one_of((kind,)),)) for _ in range(draw.upto(BURST_MIN, BURST_MAX)))]


def _is_of(op: Op, client: int) -> bool:
    return isinstance(op, faults.Ask | faults.Connect | faults.Leave | faults.Vanish) and op.client == client


def _fewer(draw: Draw, ops: list[Op], most: int) -> list[Op]:
    """Drop random requests of clients until at most `most` operations, or no requests, are left."""
    asks = [place for place, op in enumerate(ops) if isinstance(op, faults.Ask)]
    draw.random.shuffle(asks)
    dropped = set(asks[: max(0, len(ops) - most)])
    return [op for place, op in enumerate(ops) if place not in dropped]


# -- brokers ---------------------------------------------------------------------------------------------

BUSY_FROM_MS: Final = 400
"""The time by which a controller is elected in a run without faults."""
SERVER_FAULTS_MAX: Final = 3
"""The limit of server faults in scripts for the machine `partitions`. Other machines test the servers."""


def _topics(draw: Draw, begin: int, most: int, partitions_max: int, factor_min: int) -> list[Op]:
    return [
        faults.CreateTopic(begin, topic, draw.upto(1, partitions_max), draw.upto(factor_min, 3))
        for topic in range(1, draw.upto(1, most) + 1)
    ]


def _of_kinds(
    draw: Draw, kinds: Sequence[Kind], count: tuple[int, int], begin: int, end: int, *, share: float, cancelled: float
) -> list[Op]:
    """Choose a share of the kinds, and generate operations of these, often several almost at the same time. A share of
    the reassignments is cancelled soon."""
    kinds = [draw.varied(kind) for kind in kinds]
    kinds = [kind for kind in kinds if draw.chance(share)] or kinds
    ops: list[Op] = []
    at = begin
    for _ in range(draw.upto(*count)):
        close = draw.chance(0.5)
        at = min(end, at + draw.short(1, 150)) if close else draw.upto(begin, end)
        op: Op = draw.one_of(kinds, at=at)
        ops.append(op)
        if cancelled and isinstance(op, faults.Reassign) and draw.chance(cancelled):
            ops.append(faults.CancelMove(min(end, at + draw.short(1, 500)), op.topic, op.partition))
    return ops


def _controller_ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
    begin = min(BUSY_FROM_MS, length_ms - 1)
    ops = _topics(draw, begin, TOPICS_MAX, 3, 1)
    return ops + _of_kinds(draw, BROKER_KINDS, (most // 8, most // 3), begin, length_ms - 1, share=0.6, cancelled=0)


def _partition_ops(draw: Draw, most: int, length_ms: int) -> list[Op]:
    begin = min(BUSY_FROM_MS, length_ms - 1)
    soon = min(begin + 150, length_ms - 1)
    ops: list[Op] = [faults.Replication(0, **draw.fields(fields_of(faults.Replication)))]
    ops += _topics(draw, begin, HELD_MAX, 2, 2)
    ops += [faults.Consume(soon, **draw.fields(fields_of(faults.Consume))) for _ in range(draw.upto(1, 3))]
    for _ in range(draw.upto(most // 8, most // 3)):
        ops.append(faults.Produce(draw.upto(soon, length_ms - 1), **draw.fields(fields_of(faults.Produce))))
    count = most // 30, most // 7
    return ops + _of_kinds(draw, PARTITION_KINDS, count, soon, length_ms - 1, share=0.35, cancelled=0.4)


def _group_ops(draw: Draw, length_ms: int) -> list[Op]:
    """Return commits of one to three group members or standalone consumers, spread over the whole run."""
    begin = min(BUSY_FROM_MS, length_ms - 1)
    ops: list[Op] = [faults.CreateTopic(begin, OFFSETS, draw.upto(1, 2), draw.upto(2, 3))]
    kinds = [draw.among(PARTS) for _ in range(draw.upto(1, 3))]
    for at in range(begin + 200, length_ms, draw.upto(60, 200)):
        client = draw.upto(1, len(kinds))
        ops.append(faults.CommitPositions(at, client, 1, kinds[client - 1], draw.upto(1, 4)))
    return ops


TRANSACTIONS_SHARE: Final = 0.25
"""The share of scripts of partitions with transactions, of those without groups."""
TRANSACTIONAL_OFFSETS_SHARE: Final = 0.5
"""The share of scripts with transactions whose transactions also commit offsets of groups."""


def _with_transactions(draw: Draw, script: Script) -> Script:
    """Two to four producers have transactions; the first and the fourth share their id. Others write less."""
    begin, length_ms = min(BUSY_FROM_MS, script.length_ms - 1), script.length_ms
    ops: list[Op] = [faults.CreateTopic(begin, TRANSACTIONS, 2, draw.upto(2, 3))]
    ops += [faults.Consume(begin + 150, partition + 1, TRANSACTIONS, partition) for partition in (0, 1)]
    clients, every_ms = draw.upto(2, 4), draw.upto(130, 350)
    for at in range(begin + 200, length_ms, every_ms):
        fate = draw.among((FATES[0], *FATES))
        ops.append(faults.Transact(at, draw.upto(1, clients), TRANSACTIONS, 0, 1, draw.upto(1, 2), fate))
    others = [op for op in script.ops if not isinstance(op, faults.Produce) or draw.chance(0.3)]
    return evolve(script, ops=_in_order([*others, *ops]))


def _with_offsets_topic(draw: Draw, script: Script) -> Script:
    """Perhaps create the topic of offsets, so that the transactions also commit offsets of groups."""
    if not draw.chance(TRANSACTIONAL_OFFSETS_SHARE):
        return script
    begin = min(BUSY_FROM_MS, script.length_ms - 1)
    topic = faults.CreateTopic(begin, OFFSETS, draw.upto(1, 2), draw.upto(2, 3))
    return evolve(script, ops=_in_order([*script.ops, topic]))


STRIKES_SHARE: Final = {"controller": 0.5, "partitions": 0.25}
"""The share of scripts with faults at a broker's writes to the store, by machine."""
STRIKES_MAX: Final = 5
MANY_WRITES: Final = (faults.Reassign, faults.DeleteTopic, faults.Depart)
"""The operations whose procedures write to the store most often."""


def _with_strikes(draw: Draw, script: Script) -> Script:
    """Add faults at writes of brokers to the store, mostly during an operation that writes often."""
    if not draw.chance(STRIKES_SHARE[script.machine]):
        return script
    begin = min(BUSY_FROM_MS, script.length_ms - 1)
    busy = [op.at for op in script.ops if isinstance(op, MANY_WRITES)]
    strikes: list[Op] = []
    for _ in range(draw.upto(1, STRIKES_MAX)):
        at = draw.among(busy) if busy and draw.chance(0.7) else draw.upto(begin, script.length_ms - 1)
        strikes.append(faults.StrikeWrite(at, **draw.fields(fields_of(faults.StrikeWrite))))
    return evolve(script, ops=_in_order([*strikes, *script.ops]))


THROTTLES_SHARE: Final = 0.35
"""The share of scripts of partitions with throttled replicas."""
THROTTLES_MAX: Final = 3


def _with_throttles(draw: Draw, script: Script) -> Script:
    """Restart brokers, so that their replicas join the ISR again, and throttle one of these while all partitions are
    written. Each broker has several replicas."""
    begin, end = BUSY_FROM_MS + 300, script.length_ms - 1_300
    if end <= begin or not draw.chance(THROTTLES_SHARE):
        return script
    ops = [evolve(op, partitions=2, factor=3) if isinstance(op, faults.CreateTopic) else op for op in script.ops]
    topics = {op.topic for op in ops if isinstance(op, faults.CreateTopic) and op.topic <= HELD_MAX}
    for _ in range(draw.upto(1, THROTTLES_MAX)):
        at = draw.upto(begin, end)
        throttled = at + draw.upto(200, 700)
        ops.append(faults.BounceBroker(at, draw.upto(1, script.brokers)))
        ops.append(faults.ThrottleReplica(throttled, **draw.fields(fields_of(faults.ThrottleReplica))))
        for topic in sorted(topics):
            ops += [faults.Produce(throttled + draw.upto(1, 500), draw.upto(1, 3), topic, part, 1) for part in (0, 1)]
    return evolve(script, ops=_in_order(ops))


# -- settings --------------------------------------------------------------------------------------------


def _timing(draw: Draw) -> faults.Timing:
    slow = draw.chance(0.2)
    return faults.Timing(
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
        tick_ms=draw.among((50, 100, 200)),
        window_entries=draw.short(2, 60),
        log_sync_entries_max=draw.upto(0, 20) if draw.chance(0.3) else 1_000,
        counter_max=draw.upto(5, 80) if draw.chance(0.08) else 0xFFFF_FFFF,
        outstanding_max=draw.upto(2, 20) if draw.chance(0.1) else 1_000,
        snapshot_every=draw.upto(3, 60),
        segment_bytes=draw.upto(300, 3_000),
        chunk_bytes=draw.upto(20, 600),
    )


def _client_ports(draw: Draw) -> dict[str, int]:
    """Settings of the client ports. Most runs have them off, like most servers."""
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


INNER_SHARE: Final = 0.25
"""The share of scripts in which one internal limit of the product is small. Each limit is chosen independently."""
IMPOLITE_SHARE: Final = 0.25
"""The share of scripts whose clients present earlier sessions. Read-only mode and local sessions double it."""


def _inner_bounds(draw: Draw) -> dict[str, int]:
    """Return small values for internal limits of the product, so that the few requests of a run reach them."""
    return {bound: draw.upto(1, 3) for bound in INNER_BOUNDS if draw.chance(INNER_SHARE)}


def _with_impolite_clients(draw: Draw, knobs: Knobs) -> Knobs:
    share = IMPOLITE_SHARE * (2 if knobs.read_only_ms or knobs.local_sessions else 1)
    return evolve(knobs, impolite_percent=draw.upto(20, 80)) if draw.chance(share) else knobs


LATE_SHARE: Final = 0.3
"""The share of scripts in which messages of links that break may still arrive."""


def _with_late_messages(seed: int, script: Script) -> Script:
    draw = Draw(Random(f"late messages/{seed}/{script.voters}/{script.machine}"), script.voters, script.observers)
    if not draw.chance(LATE_SHARE):
        return script
    return evolve(script, timing=evolve(script.timing, late_percent=draw.upto(20, 100)))


LOOP_SHARE: Final = 0.02
"""The share of scripts with a closed loop."""
LOOP_MAX: Final = 64
LOOP_FAULTS_MAX: Final = 4
LOOP_LENGTH_MS: Final = 1_500
"""The longest script with a closed loop, which has many times as many writes as others."""


def _with_closed_loop(seed: int, script: Script) -> Script:
    """Keep a leader busy for several times `sync_limit`, mostly while disks take so long that acknowledgements lag."""
    draw = Draw(Random(f"closed loop/{seed}/{script.voters}"), script.voters, script.observers)
    if script.machine != MACHINES[0] or not draw.chance(LOOP_SHARE):
        return script
    timing = script.timing
    if draw.chance(0.8):
        timing = evolve(timing, fsync_us_min=draw.upto(500, 10_000), fsync_us_max=draw.upto(15_000, 40_000))
    length_ms = min(script.length_ms, LOOP_LENGTH_MS)
    found = [fault for fault in script.faults if fault.at < length_ms]
    return evolve(
        script,
        length_ms=length_ms,
        timing=timing,
        knobs=evolve(script.knobs, closed_loop=draw.short(1, LOOP_MAX), tick_ms=50),
        faults=tuple(found[: draw.upto(0, LOOP_FAULTS_MAX)]),
        ops=tuple(op for op in script.ops if not isinstance(op, faults.Write) and op.at < length_ms),
    )


QUIET_SHARE: Final = 0.25
"""The share of scripts with a quiet stage after the faults."""
WITH_QUIET_STAGE: Final = ("list", "store")


def _with_quiet_stage(seed: int, script: Script) -> Script:
    random = Random(f"quiet stage/{seed}/{script.voters}/{script.machine}").random
    if script.machine not in WITH_QUIET_STAGE or random() >= QUIET_SHARE:
        return script
    return evolve(script, knobs=evolve(script.knobs, quiet_stage=1 + int(random() * 2)))


TIMES: Final[Mapping[str, Value]] = {
    "init_limit": Upto(4, 12), "sync_limit": Upto(2, 8), "finalize_wait_ms": Among((0, 1, 50)),
    "notification_ms_min": Upto(1, 60), "notification_ms_max": Upto(60, 600), "dial_retry_ms": Among((1, 40, 100)),
}  # fmt: skip
CONSTANTS_SHARE: Final = 1 / 3
"""The share of scripts that change constants of the product, and some of the settings that others leave as they are."""
CONSTANTS_SHARES: Final = (0.05, 0.15, 0.5)
"""The probabilities of each constant in such a script: in some scripts few change, in others half of all."""


def _with_constants(seed: int, script: Script) -> Script:
    draw = Draw(Random(f"constants/{seed}/{script.voters}/{script.machine}"), script.voters, script.observers)
    if not draw.chance(CONSTANTS_SHARE):
        return script
    share = draw.among(CONSTANTS_SHARES)
    drawn = [
        Drawn(name, draw.among(constant.values))
        for name, constant in CONSTANTS.items()
        if script.machine in constant.machines and draw.chance(share)
    ]
    knobs = {name: draw.value(value) for name, value in TIMES.items() if draw.chance(share)}
    return evolve(script, constants=tuple(drawn), knobs=evolve(script.knobs, **knobs))


# -- the script ------------------------------------------------------------------------------------------

_OPS: Final = {"list": _list_ops, "store": _store_ops, "controller": _controller_ops, "partitions": _partition_ops}


def _in_order(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: item.at))


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
    """Return a script with at most `faults` faults and `ops` operations. If `observers` is None, it sometimes has one.

    `together`: the most transactions of the list that are merged into one write.
    """
    drawn_as = MACHINES[0] if is_users(machine) else machine
    random = Random(f"script/{seed}/{voters}" + ("" if drawn_as == MACHINES[0] else f"/{machine}"))
    if observers is None:
        observers = int(random.random() < 0.2)
    draw = Draw(random, voters, observers)
    timing, knobs = _timing(draw), _knobs(draw)
    if machine in WITH_BROKERS:  # short epochs would leave brokers no time to work
        knobs = evolve(knobs, counter_max=Knobs().counter_max)
    if machine == "store":
        knobs = evolve(knobs, counter_max=max(knobs.counter_max, COUNTER_OF_CLIENTS_MIN))
    brokers = 0
    if machine == "controller":
        brokers = draw.upto(BROKERS_MIN, BROKERS_MAX)
    if machine == "partitions":
        brokers = draw.upto(BROKERS_MIN, BROKERS_MIN + 1)
        faults = min(faults, SERVER_FAULTS_MAX) if draw.chance(0.4) else 0
    asked = _in_order(_OPS[drawn_as](draw, ops, length_ms)) if ops else ()
    script = Script(
        seed=seed,
        voters=voters,
        observers=observers,
        machine=machine,
        brokers=brokers,
        length_ms=length_ms,
        timing=timing,
        knobs=knobs,
        ops=tuple(_together(asked, together)) if together > 1 else asked,
        faults=_in_order(_faults(draw, faults, length_ms)) if faults else (),
    )
    script = _with_late_messages(seed, script)
    if ops:
        script = _with_closed_loop(seed, script)
    script = _with_constants(seed, _with_quiet_stage(seed, script))
    if machine == "partitions" and ops:
        groups = Draw(Random(f"groups/{seed}/{voters}"), voters, observers)
        if groups.chance(0.3):
            script = evolve(script, ops=_in_order([*script.ops, *_group_ops(groups, length_ms)]))
        else:
            transactions = Draw(Random(f"transactions/{seed}/{voters}"), voters, observers)
            if transactions.chance(TRANSACTIONS_SHARE):
                script = _with_transactions(transactions, script)
                offsets = Draw(Random(f"offsets in transactions/{seed}/{voters}"), voters, observers)
                script = _with_offsets_topic(offsets, script)
    if machine == "partitions" and ops:
        script = _with_throttles(Draw(Random(f"throttles/{seed}/{voters}"), voters, observers), script)
    if machine in WITH_BROKERS:
        strikes = Draw(Random(f"strikes/{seed}/{voters}/{machine}"), voters, observers)
        return _with_strikes(strikes, script) if ops else script
    if machine != "store":
        return script
    script = _lagging(draw, script, faults) if faults else script
    ports = Draw(Random(f"client ports/{seed}/{voters}"), voters, observers)
    script = evolve(script, knobs=evolve(script.knobs, **_client_ports(ports)))
    inner = Draw(Random(f"inner bounds/{seed}/{voters}"), voters, observers)
    knobs = _with_impolite_clients(inner, evolve(script.knobs, **_inner_bounds(inner)))
    script = evolve(script, knobs=knobs)
    if not ops:
        return script
    script = _with_absences(Draw(Random(f"absences/{seed}/{voters}"), voters, observers), script)
    return _with_bursts(Draw(Random(f"bursts/{seed}/{voters}"), voters, observers), script)
