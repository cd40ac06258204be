"""Hypothesis strategies of scripts. A script is one value, so that a failing one can be printed, stored and shrunk.

The strategies use swarm testing, as `harness.draw`. They shrink towards no faults, no operations, the earliest time,
the first server and the default settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve
from hypothesis import strategies as st

from harness import faults
from harness.draw import BUSY_FROM_MS
from harness.faults import MACHINES, WITH_BROKERS, Fault, Knobs, Op, Script
from harness.script import values
from harness.script.brokers import BROKER_KINDS, BROKERS_MAX, BROKERS_MIN, HELD_MAX, PARTITION_KINDS, TOPICS_MAX
from harness.script.faults import KINDS
from harness.script.values import Kind, Value, apart, fields_of, kinds
from harness.script.workload import CLIENTS_MAX, MULTI_MAX, MULTI_STEPS, PARENTS, STEPS


def _value(value: Value, servers: int) -> st.SearchStrategy[Any]:
    """Return the strategy of a value that `harness.draw` generates from a seed. The simplest value is first."""
    sid = st.integers(1, servers)
    server = st.one_of(st.just(faults.LEADER), sid, st.just(faults.FOLLOWER))
    match value:
        case values.Upto(least, most) | values.Short(least, most) | values.Scale(least, most):
            return st.integers(least, most)
        case values.Among(options):
            return st.sampled_from(options)
        case values.Who():
            return server
        case values.Sid():
            return sid
        case values.Anyone():
            return st.one_of(st.none(), server)
        case values.Groups():
            group = st.lists(sid, unique=True, max_size=servers).map(tuple)
            return st.lists(group, min_size=1, max_size=3).map(tuple).filter(any)
        case values.Together(options):
            return st.one_of([_fields(option, servers) for option in options])


def _fields(fields: Mapping[str, Value], servers: int) -> st.SearchStrategy[dict[str, Any]]:
    def flat(made: dict[str, Any]) -> dict[str, Any]:
        for name, value in fields.items():
            if isinstance(value, values.Together):
                made = {**made, **made[name]}
        return apart(made, servers)

    return st.fixed_dictionaries({name: _value(value, servers) for name, value in fields.items()}).map(flat)


def _one_of(kinds: Sequence[Kind], servers: int, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return the strategy of items of one of these kinds. The given fields are generated first."""
    return st.one_of([
        st.builds(lambda rest, make=kind.make, **given: make(**given, **rest), _fields(kind.fields, servers), **given)
        for kind in kinds
    ])  # fmt: skip


def _list_ops(servers: int, length_ms: int) -> st.SearchStrategy[Op]:
    at, anyone = st.integers(0, length_ms), st.integers(0, servers)
    write = st.builds(faults.Write, at=at, count=st.integers(1, 6), size=st.integers(0, 40))
    return st.one_of(
        write,
        write,
        write,
        st.builds(faults.Barrier, at=at, server=anyone),
        st.builds(faults.Snapshot, at=at, server=anyone),
        st.builds(
            faults.Reconfigure, at=at, change=st.sampled_from(faults.CHANGES), server=st.integers(0, servers + 1)
        ),
    )


def _store_ops(servers: int, length_ms: int) -> st.SearchStrategy[Op]:
    at, client, server = st.integers(0, length_ms), st.integers(1, CLIENTS_MAX), st.integers(1, servers)
    single = st.tuples(_one_of(STEPS, servers))
    multi = st.lists(_one_of(MULTI_STEPS, servers), min_size=2, max_size=MULTI_MAX).map(tuple)
    ask = st.builds(faults.Ask, at=at, client=client, steps=st.one_of(single, single, single, multi))
    return st.one_of(
        ask,
        ask,
        ask,
        st.builds(
            faults.Connect, at=at, client=client, server=server, timeout_ms=st.integers(4, 20).map(lambda n: n * 100)
        ),
        st.builds(faults.Vanish, at=at, for_ms=st.integers(10, 3_000), client=client),
        st.builds(faults.Leave, at=at, client=client),
        st.builds(faults.Snapshot, at=at, server=st.integers(0, servers)),
    )


def _broker_ops(draw: st.DrawFn, machine: str, length_ms: int, ops_max: int) -> list[Op]:
    begin = min(BUSY_FROM_MS, length_ms)
    at, upto = st.integers(begin, length_ms), st.integers(1, 3)
    whole = machine == "partitions"
    ops: list[Op] = [faults.Replication(0, **draw(_fields(fields_of(faults.Replication), 1)))] if whole else []
    topics = draw(st.integers(1, HELD_MAX if whole else TOPICS_MAX))
    ops += [faults.CreateTopic(begin, topic, draw(upto), draw(upto)) for topic in range(1, topics + 1)]
    asks = kinds({faults.Produce: 1.0, faults.Consume: 1.0})
    some = (*asks, *asks, *PARTITION_KINDS) if whole else BROKER_KINDS
    return [*ops, *draw(st.lists(_one_of(some, 1, at=at), max_size=ops_max))]


def _clients(draw: st.DrawFn, servers: int, length_ms: int) -> list[Op]:
    begin, clients = min(100, length_ms), draw(st.integers(1, CLIENTS_MAX))
    ops: list[Op] = [faults.Connect(begin, client, draw(st.integers(1, servers))) for client in range(1, clients + 1)]
    return [*ops, *(faults.Ask(min(300, length_ms), 1, (faults.Step("create", path),)) for path in PARENTS)]


timings: Final = st.builds(
    faults.Timing,
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
    voters, observers = draw(st.sampled_from(sizes)), draw(st.integers(0, 1))
    servers = voters + observers
    chosen = draw(st.lists(st.sampled_from(KINDS), unique_by=lambda kind: kind.make, max_size=6))
    found: list[Fault] = []
    if chosen:
        found = draw(st.lists(_one_of(chosen, servers, at=st.integers(0, length_ms)), max_size=faults_max))
    made, brokers = draw(knobs), 0
    if machine in WITH_BROKERS:
        brokers, made = draw(st.integers(BROKERS_MIN, BROKERS_MAX)), evolve(made, counter_max=Knobs().counter_max)
        ops = _broker_ops(draw, machine, length_ms, ops_max)
    elif machine == MACHINES[0]:
        ops = draw(st.lists(_list_ops(servers, length_ms), max_size=ops_max))
    else:
        made = evolve(
            made, local_sessions=draw(st.integers(0, 2)), read_only_ms=draw(st.sampled_from((0, 50, 300))),
            open_requests=draw(st.sampled_from((0, 0, 2))), wait_ms=draw(st.sampled_from((0, 50))),
        )  # fmt: skip
        ops = _clients(draw, servers, length_ms) + draw(st.lists(_store_ops(servers, length_ms), max_size=ops_max))
    return Script(
        seed=draw(st.integers(0, 2**32 - 1)),
        voters=voters,
        observers=observers,
        machine=machine,
        brokers=brokers,
        length_ms=length_ms,
        timing=draw(timings),
        knobs=made,
        ops=tuple(sorted(ops, key=lambda op: op.at)),
        faults=tuple(sorted(found, key=lambda fault: fault.at)),
    )
