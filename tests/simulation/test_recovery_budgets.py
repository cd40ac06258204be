"""Recoveries of simulated runs stay within their budget, and bugs that elect again and again exceed it."""

from __future__ import annotations

import pytest
from attrs import evolve

from harness.budgets import INVARIANT, USED_UP
from harness.draw import script_from_seed
from harness.faults import Ask, Connect, Knobs, Script, Step
from harness.mutants.edit import Edit, planted
from harness.mutants.table import BY_NAME
from harness.profiles import drawn
from harness.worlds.cores.world import run


@pytest.mark.parametrize("seed", [9, 13, 25])
def test_repeated_elections_after_the_last_fault_break_the_promise(seed: int) -> None:
    script = script_from_seed(seed)
    script = evolve(script, knobs=evolve(script.knobs, quiet_stage=0))  # which has a bound, and no budget
    assert run(script).valid
    with planted(BY_NAME["looking-server-disturbs"].edits):
        outcome = run(script)
    assert outcome.invariant == INVARIANT
    assert "servers that found a leader" in outcome.what


@pytest.mark.parametrize("seed", [61_000_008, 61_000_010])
def test_number_of_chunks_of_a_snapshot_is_not_limited(seed: int) -> None:
    """The first script sends 239 chunks in 20 ms; the second draws a sync after every few bytes of a snapshot."""
    assert run(drawn("log-rolls-in-snapshot", seed, voters=3, machine="list")).valid


def burst_of_writes(counter_max: int) -> Script:
    """Return a script whose clients request many more writes at its end than an epoch has zxids."""
    clients = range(1, 5)
    parent = Ask(260, 1, (Step("create", "/a"),))
    writes = (
        Ask(300 + at, client, (Step("create", "/a/s-", mode="sequential"),)) for at in range(40) for client in clients
    )
    connects = (Connect(60 + client, client, 1 + client % 3, 2_000) for client in clients)
    return Script(
        0,
        machine="store",
        length_ms=400,
        ops=(*connects, parent, *writes),
        knobs=Knobs(tick_ms=50, counter_max=counter_max),
    )


def test_run_counts_the_epochs_that_writes_use_up() -> None:
    outcome = run(burst_of_writes(20))
    assert outcome.valid
    counts = dict(outcome.counts)
    assert counts["established"] == counts[USED_UP] + 1 > 8
    assert USED_UP not in dict(run(burst_of_writes(1_000)).counts)


def test_leader_that_resigns_before_its_epoch_is_used_up_breaks_the_budget() -> None:
    limit = "self._log_state.settings.counter_max"
    early = Edit("zab.core.leader.leader_broadcast:LeaderBroadcast._next_zxid", limit, f"{limit} // 4")
    with planted((early,)):
        outcome = run(burst_of_writes(20))
    assert outcome.invariant == INVARIANT
    assert "epochs established" in outcome.what
