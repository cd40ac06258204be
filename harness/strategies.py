"""Scripts for Hypothesis: whole values, so that a failing one can be printed, kept and made smaller.

Swarm style: which kinds of faults a script may contain is drawn first. Everything shrinks towards less: no
faults, no operations, the earliest time, the first server, the calm world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve
from hypothesis import strategies as st

from harness.draw import BUSY_FROM_MS
from harness.faults import (
    CHANGES,
    FOLLOWER,
    LEADER,
    MACHINES,
    WITH_BROKERS,
    Ask,
    Barrier,
    Connect,
    Consume,
    CreateTopic,
    Fault,
    Knobs,
    Leave,
    Op,
    Produce,
    Reconfigure,
    Replication,
    Script,
    Snapshot,
    Step,
    Timing,
    Vanish,
    Write,
)
from harness.script.chance import apart
from harness.script.kinds import (
    BROKER_KINDS,
    BROKERS_MAX,
    BROKERS_MIN,
    CLIENTS_MAX,
    CONSUME,
    HELD_MAX,
    KINDS,
    PARENTS,
    PARTITION_KINDS,
    PARTS,
    PARTS_MAX,
    PRODUCE,
    SET_UP,
    STEPS,
    TOPICS_MAX,
    Among,
    Anyone,
    Groups,
    Kind,
    Short,
    Sid,
    Together,
    Upto,
    Value,
    Who,
)


def _value(value: Value, servers: int) -> st.SearchStrategy[Any]:
    """The same values as a seed draws from; those that are simplest come first."""
    sid = st.integers(1, servers)
    who = st.one_of(st.just(LEADER), sid, st.just(FOLLOWER))
    match value:
        case Upto(least, most) | Short(least, most):
            return st.integers(least, most)
        case Among(values):
            return st.sampled_from(values)
        case Who():
            return who
        case Sid():
            return sid
        case Anyone():
            return st.one_of(st.none(), who)
        case Groups():
            group = st.lists(sid, unique=True, max_size=servers).map(tuple)
            return st.lists(group, min_size=1, max_size=3).map(tuple).filter(any)
        case Together(options):
            return st.one_of([_fields(option, servers) for option in options])


def _fields(fields: Mapping[str, Value], servers: int) -> st.SearchStrategy[dict[str, Any]]:
    """Of one kind, as arguments."""
    made = {name: _value(value, servers) for name, value in fields.items() if name}
    whole = st.fixed_dictionaries(made)
    if "" not in fields:
        return whole
    return st.builds(lambda one, other: {**one, **other}, whole, _value(fields[""], servers))


def _fault(kind: type[Fault], servers: int, length_ms: int) -> st.SearchStrategy[Fault]:
    at = st.integers(0, length_ms)
    return st.builds(lambda at, given: kind(at=at, **apart(given, servers)), at, _fields(KINDS[kind].fields, servers))


def _list_ops(servers: int, length_ms: int) -> st.SearchStrategy[Op]:
    at = st.integers(0, length_ms)
    anyone = st.integers(0, servers)
    write = st.builds(Write, at=at, count=st.integers(1, 6), size=st.integers(0, 40))
    return st.one_of(
        write,
        write,
        write,
        st.builds(Barrier, at=at, server=anyone),
        st.builds(Snapshot, at=at, server=anyone),
        st.builds(Reconfigure, at=at, change=st.sampled_from(CHANGES), server=st.integers(0, servers + 1)),
    )


def _steps(kinds: Sequence[Kind], servers: int) -> st.SearchStrategy[Step]:
    return st.one_of([_fields(kind.fields, servers).map(lambda given: Step(**given)) for kind in kinds])


def _store_ops(servers: int, length_ms: int) -> st.SearchStrategy[Op]:
    at, client, server = st.integers(0, length_ms), st.integers(1, CLIENTS_MAX), st.integers(1, servers)
    single = st.builds(lambda step: (step,), _steps(STEPS, servers))
    multi = st.lists(_steps(PARTS, servers), min_size=2, max_size=PARTS_MAX).map(tuple)
    ask = st.builds(Ask, at=at, client=client, steps=st.one_of(single, single, single, multi))
    return st.one_of(
        ask,
        ask,
        ask,
        st.builds(Connect, at=at, client=client, server=server, timeout_ms=st.integers(4, 20).map(lambda n: n * 100)),
        st.builds(Vanish, at=at, for_ms=st.integers(10, 3_000), client=client),
        st.builds(Leave, at=at, client=client),
        st.builds(Snapshot, at=at, server=st.integers(0, servers)),
    )


def _of_kinds(kinds: Mapping[type[Any], Kind], begin: int, length_ms: int) -> list[st.SearchStrategy[Op]]:
    at = st.integers(begin, length_ms)
    return [
        st.builds(lambda at, given, kind=kind: kind(at=at, **given), at, _fields(known.fields, 1))
        for kind, known in kinds.items()
    ]


def _topics(draw: st.DrawFn, begin: int, most: int) -> list[Op]:
    """To begin with."""
    upto = st.integers(1, 3)
    return [CreateTopic(begin, topic, draw(upto), draw(upto)) for topic in range(1, draw(st.integers(1, most)) + 1)]


def _with_brokers(draw: st.DrawFn, machine: str, length_ms: int, ops_max: int) -> list[Op]:
    """When there are brokers: they need a moment until there is a controller."""
    begin = min(BUSY_FROM_MS, length_ms)
    if machine == "controller":
        kinds = st.one_of(_of_kinds(BROKER_KINDS, begin, length_ms))
        return [*_topics(draw, begin, TOPICS_MAX), *draw(st.lists(kinds, max_size=ops_max))]
    made: list[Op] = [draw(_fields(SET_UP, 1).map(lambda given: Replication(0, **given)))]
    asks = _of_kinds({Produce: Kind(1.0, PRODUCE), Consume: Kind(1.0, CONSUME)}, begin, length_ms)
    kinds = st.one_of(*asks, *asks, *_of_kinds(PARTITION_KINDS, begin, length_ms))
    return [*made, *_topics(draw, begin, HELD_MAX), *draw(st.lists(kinds, max_size=ops_max))]


def _beginning(draw: st.DrawFn, servers: int, length_ms: int) -> list[Op]:
    """Clients who are there, and nodes for them to begin with."""
    begin = min(100, length_ms)
    clients = draw(st.integers(1, CLIENTS_MAX))
    ops: list[Op] = [Connect(begin, client, draw(st.integers(1, servers))) for client in range(1, clients + 1)]
    return [*ops, *(Ask(min(300, length_ms), 1, (Step("create", path),)) for path in PARENTS)]


timings: Final = st.builds(
    Timing,
    delay_us_min=st.integers(50, 500),
    delay_us_max=st.integers(600, 20_000),
    spike_percent=st.integers(0, 10),
    fsync_us_min=st.integers(50, 500),
    fsync_us_max=st.integers(600, 30_000),
    turn_us_max=st.sampled_from((0, 0, 300, 2_000)),
    loss_percent=st.integers(0, 20),
    double_percent=st.integers(0, 20),
    break_ms_max=st.integers(20, 500),
)
knobs: Final = st.builds(
    Knobs,
    tick_ms=st.sampled_from((100, 50, 200)),
    window_entries=st.integers(2, 60),
    log_sync_entries_max=st.sampled_from((60, 0, 10)),
    counter_max=st.sampled_from((0xFFFF_FFFF, 40)),
    snapshot_every=st.integers(3, 60),
    segment_bytes=st.integers(300, 3_000),
    chunk_bytes=st.integers(20, 600),
)


@st.composite
def scripts(
    draw: st.DrawFn,
    *,
    sizes: tuple[int, ...] = (3, 5),
    length_ms: int = 2_000,
    faults_max: int = 8,
    ops_max: int = 40,
    machine: str = MACHINES[0],
) -> Script:
    members, watchers = draw(st.sampled_from(sizes)), draw(st.integers(0, 1))
    servers = members + watchers
    chosen = draw(st.lists(st.sampled_from(list(KINDS)), unique=True, max_size=6))
    faults: list[Fault] = []
    if chosen:
        faults = draw(st.lists(st.one_of([_fault(kind, servers, length_ms) for kind in chosen]), max_size=faults_max))
    made = draw(knobs)
    brokers = 0
    if machine in WITH_BROKERS:
        brokers, made = draw(st.integers(BROKERS_MIN, BROKERS_MAX)), evolve(made, counter_max=Knobs().counter_max)
        ops = _with_brokers(draw, machine, length_ms, ops_max)
    elif machine == MACHINES[0]:
        ops = draw(st.lists(_list_ops(servers, length_ms), max_size=ops_max))
    else:
        made = evolve(
            made, local_sessions=draw(st.integers(0, 2)), read_only_ms=draw(st.sampled_from((0, 50, 300))),
            open_requests=draw(st.sampled_from((0, 0, 2))), wait_ms=draw(st.sampled_from((0, 50))),
        )  # fmt: skip
        ops = _beginning(draw, servers, length_ms)
        ops += draw(st.lists(_store_ops(servers, length_ms), max_size=ops_max))
    return Script(
        seed=draw(st.integers(0, 2**32 - 1)),
        voters=members,
        observers=watchers,
        machine=machine,
        brokers=brokers,
        length_ms=length_ms,
        timing=draw(timings),
        knobs=made,
        ops=tuple(sorted(ops, key=lambda op: op.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )
