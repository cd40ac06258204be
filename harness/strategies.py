"""Scripts for Hypothesis: whole values, so that a failing one can be printed, kept and made smaller.

Swarm style: which kinds of faults a script may contain is drawn first. Everything shrinks towards less: no
faults, no operations, the earliest time, the first server, the calm world.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from harness.faults import (
    CHANGES,
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

LASTING_MS: Final = 1_500
DOWN_MS: Final = 900


def _faults(servers: int, length_ms: int) -> dict[type, st.SearchStrategy[Fault]]:
    """One strategy for each kind."""
    at = st.integers(0, length_ms)
    lasting, down = st.integers(1, LASTING_MS), st.integers(1, DOWN_MS)
    sid = st.integers(1, servers)
    who = st.one_of(st.just(LEADER), sid, st.just(FOLLOWER))
    loss = st.sampled_from(LOSSES)
    groups = st.lists(st.lists(sid, unique=True, max_size=servers).map(tuple), min_size=1, max_size=3).map(tuple)
    fields: dict[type, dict[str, st.SearchStrategy[Any]]] = {
        Crash: {"down_ms": down, "server": who, "loss": loss},
        CrashAll: {"down_ms": down, "loss": loss},
        CrashIn: {"down_ms": down, "server": who, "acts": st.integers(1, 60), "loss": loss},
        When: {
            "for_ms": down,
            "server": st.one_of(st.none(), who),
            "moment": st.sampled_from(MOMENTS),
            "nth": st.integers(1, 5),
            "does": st.sampled_from(DEEDS),
            "loss": loss,
        },
        Isolate: {"for_ms": lasting, "server": who},
        Partition: {"for_ms": lasting, "groups": groups},
        OneWay: {"for_ms": lasting, "source": who, "target": sid},
        Deaf: {"for_ms": lasting, "server": who},
        Clog: {"for_ms": st.integers(1, 600), "source": who, "target": sid},
        CutLinks: {"server": who},
        Flaky: {
            "for_ms": lasting,
            "loss_percent": st.integers(0, 40),
            "double_percent": st.integers(0, 40),
            "slower": st.integers(1, 6),
        },
        Pause: {"for_ms": lasting, "server": who},
        LoseDisk: {"down_ms": down, "server": who},
        FlipBit: {"down_ms": down, "server": who, "where": st.integers(0, 999)},
        FailDisk: {"down_ms": down, "server": who, "error": st.sampled_from(DISK_ERRORS), "nth": st.integers(1, 8)},
        SlowDisk: {"for_ms": lasting, "server": who, "slower": st.integers(1, 60)},
    }
    return {kind: st.builds(kind, at=at, **given) for kind, given in fields.items()}


def _ops(servers: int, length_ms: int) -> st.SearchStrategy[Op]:
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
) -> Script:
    members, watchers = draw(st.sampled_from(sizes)), draw(st.integers(0, 1))
    servers = members + watchers
    kinds = _faults(servers, length_ms)
    chosen = draw(st.lists(st.sampled_from(sorted(kinds, key=lambda kind: kind.__name__)), unique=True, max_size=6))
    faults: list[Fault] = []
    if chosen:
        faults = draw(st.lists(st.one_of([kinds[kind] for kind in chosen]), max_size=faults_max))
    return Script(
        seed=draw(st.integers(0, 2**32 - 1)),
        voters=members,
        observers=watchers,
        length_ms=length_ms,
        timing=draw(timings),
        knobs=draw(knobs),
        ops=tuple(sorted(draw(st.lists(_ops(servers, length_ms), max_size=ops_max)), key=lambda op: op.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )
