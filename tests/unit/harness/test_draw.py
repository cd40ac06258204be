"""What seeds draw: no nonsense, and what is needed for rare situations."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from harness import draw
from harness.draw import script_from_seed
from harness.faults import (
    OFFSETS,
    Ask,
    CancelMove,
    CommitPositions,
    Connect,
    CreateTopic,
    Overflow,
    Reassign,
    Replication,
    Script,
    Transact,
    Vanish,
    Write,
)
from harness.script.script import INNER_BOUNDS
from harness.script.values import apart


@pytest.mark.parametrize("voters", [1, 2, 3])
def test_no_fault_is_between_a_server_and_itself(voters: int) -> None:
    between = [
        fault
        for seed in range(300)
        for fault in script_from_seed(seed, voters=voters, observers=0 if voters > 1 else 1).faults
        if getattr(fault, "target", None) is not None
    ]
    assert between
    assert all(attrs.asdict(fault)["source"] != attrs.asdict(fault)["target"] for fault in between)


def test_target_of_single_server_remains_the_source() -> None:
    assert apart({"source": 1, "target": 1}, 1) == {"source": 1, "target": 1}
    assert apart({"source": 3, "target": 3}, 3) == {"source": 3, "target": 1}
    assert apart({"server": 3}, 3) == {"server": 3}


def busiest(script: Script) -> int:
    return max(Counter(op.at for op in script.ops if isinstance(op, Ask)).values(), default=0)


def test_store_scripts_have_floods_that_a_server_misses() -> None:
    scripts = [script_from_seed(seed, machine="store") for seed in range(200)]
    floods = [script for script in scripts if busiest(script) >= 10]
    assert 20 < len(floods) < 80
    assert any(isinstance(fault, Overflow) for script in floods for fault in script.faults)


def test_some_clients_of_the_store_are_away_for_longer_than_their_sessions_last() -> None:
    scripts = [script_from_seed(seed, machine="store") for seed in range(200)]
    assert 40 < sum(outlived(script) for script in scripts) < 120


def outlived(script: Script) -> bool:
    """Whether some session should come to its end, with its client back before all is healed."""
    lasts = {op.client: op.timeout_ms for op in script.ops if isinstance(op, Connect)}
    return any(
        op.for_ms > lasts[op.client] and op.at + op.for_ms < script.length_ms
        for op in script.ops
        if isinstance(op, Vanish)
    )


@pytest.mark.parametrize("machine", ["list", "store"])
def test_script_respects_limits_of_faults_and_operations(machine: str) -> None:
    for seed in range(100):
        script = script_from_seed(seed, machine=machine, faults=3, ops=12)
        assert len(script.faults) <= 3
        assert sum(isinstance(op, Ask) for op in script.ops) <= 12 + 2, "two make the nodes to begin with"


def test_merged_writes_have_the_same_transactions() -> None:
    for seed in range(20):
        alone, together = (script_from_seed(seed, ops=200, together=most) for most in (1, 16))
        writes = [[op for op in script.ops if isinstance(op, Write)] for script in (alone, together)]
        assert sum(op.count for op in writes[0]) == sum(op.count for op in writes[1])
        assert [op for op in alone.ops if not isinstance(op, Write)] == [
            op for op in together.ops if not isinstance(op, Write)
        ]
        assert {op.at for op in writes[1]} <= {op.at for op in writes[0]}
        assert max((op.count for op in writes[1]), default=0) <= 16
        assert len(writes[1]) <= 1 + len(writes[0]) // 2
        assert (alone.faults, alone.knobs, alone.timing) == (together.faults, together.knobs, together.timing)
        assert alone == script_from_seed(seed, ops=200)


def test_clients_remove_watches_of_every_kind() -> None:
    scripts = [script_from_seed(seed, machine="store") for seed in range(200)]
    steps = [step for script in scripts for op in script.ops if isinstance(op, Ask) for step in op.steps]
    taken = Counter(step.watch for step in steps if step.op == "unwatch")
    assert set(taken) == {"", "data", "children", "persistent", "recursive"}
    assert min(taken.values()) > 20


def test_some_producers_wait_long_and_most_of_the_others_not() -> None:
    scripts = [script_from_seed(seed, voters=1, machine="partitions") for seed in range(200)]
    waits = Counter(op.timeout_ms for script in scripts for op in script.ops if isinstance(op, Replication))
    assert (min(waits), max(waits)) == (300, 3_000)
    assert waits[300] + waits[3_000] > sum(waits.values()) // 2


def test_some_moves_of_partitions_are_cancelled_soon() -> None:
    scripts = [script_from_seed(seed, voters=1, machine="partitions") for seed in range(200)]
    assert sum(cancelled_soon(script) for script in scripts) > 20


def cancelled_soon(script: Script) -> bool:
    begun = [(op.at, op.topic, op.partition) for op in script.ops if isinstance(op, Reassign)]
    return any(
        0 <= op.at - at <= 500 and (topic, partition) == (op.topic, op.partition)
        for op in script.ops
        if isinstance(op, CancelMove)
        for at, topic, partition in begun
    )


def test_some_clients_of_the_store_send_many_requests_of_one_kind_behind_a_write() -> None:
    scripts = [script_from_seed(seed, machine="store") for seed in range(30)]
    assert 2 <= sum(listed(script) for script in scripts) <= 20


def listed(script: Script) -> bool:
    """Return whether a client asks for at least four listings at once."""
    asks = Counter((op.at, op.client, op.steps[0].op) for op in script.ops if isinstance(op, Ask))
    return any(count >= 4 for (_, _, op), count in asks.items() if op == "children")


def test_some_scripts_of_the_store_make_inner_bounds_small_and_have_impolite_clients() -> None:
    knobs = [script_from_seed(seed, machine="store").knobs for seed in range(30)]
    for name in (*INNER_BOUNDS, "impolite_percent"):
        assert 2 <= sum(getattr(each, name) > 0 for each in knobs) <= 25, name


def test_a_share_of_scripts_has_a_quiet_stage_a_closed_loop_or_late_messages() -> None:
    scripts = [script_from_seed(seed) for seed in range(600)]
    assert 100 < sum(script.knobs.quiet_stage > 0 for script in scripts) < 200
    assert {script.knobs.quiet_stage for script in scripts} == {0, 1, 2}
    assert 130 < sum(script.timing.late_percent > 0 for script in scripts) < 230
    loops = [script for script in scripts if script.knobs.closed_loop]
    assert 4 <= len(loops) <= 24
    assert not any(isinstance(op, Write) for script in loops for op in script.ops)
    assert all(item.at <= script.length_ms for script in loops for item in script.items)
    assert not any(script_from_seed(seed, machine="controller").knobs.quiet_stage for seed in range(60))


def test_topic_of_offsets_of_transactions_shifts_no_other_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = [script_from_seed(seed, machine="partitions") for seed in range(200)]
    monkeypatch.setattr(draw, "TRANSACTIONAL_OFFSETS_SHARE", 0.0)
    found = Counter[str]()
    for seed, script in enumerate(scripts):
        topics = [op for op in script.ops if isinstance(op, CreateTopic) and op.topic == OFFSETS]
        if any(isinstance(op, CommitPositions) for op in script.ops):
            assert len(topics) == 1
            topics = []
        elif any(isinstance(op, Transact) for op in script.ops):
            found["with" if topics else "without"] += 1
        else:
            assert topics == []
        others = tuple(op for op in script.ops if op not in topics)
        assert attrs.evolve(script, ops=others) == script_from_seed(seed, machine="partitions")
    assert min(found["with"], found["without"]) >= 10
