"""After the last fault: a quorum serves and answers without the minority that is away, and without a new write."""

from __future__ import annotations

from typing import Final

import pytest
from attrs import evolve

from harness.draw import script_from_seed
from harness.faults import Barrier, Knobs, Script, Write
from harness.mutants.edit import Edit, planted
from harness.mutants.table import BY_NAME
from harness.worlds.cores.minority import DOWN
from harness.worlds.cores.world import run

NO_ACK: Final = BY_NAME["no-ack-for-proposals-saved-with-newleader"]
STUCK_SEED: Final = 16
ALL_ARE_NEEDED: Final = Edit(
    "zab.core.ensemble:Ensemble.is_quorum",
    "return len(self._voter_set.intersection(acks)) > self._half",
    "return len(self._voter_set.intersection(acks)) == len(self._voter_set)",
)
BARRIERS_ARE_FORGOTTEN: Final = Edit(
    "harness.worlds.cores.server:Server.ask", "self.node.barrier(token, self.now_ms)", "pass"
)


def calm(quiet_stage: int, seed: int = 1, machine: str = "list") -> Script:
    """A script without faults."""
    ops = (Write(400, 3, 10), Barrier(500, 2)) if machine == "list" else (Barrier(500, 2),)
    return Script(seed, machine=machine, length_ms=600, knobs=Knobs(quiet_stage=quiet_stage), ops=ops)


@pytest.mark.parametrize("machine", ["list", "store"])
@pytest.mark.parametrize("quiet_stage", [0, DOWN, 2])
def test_a_minority_is_away_if_the_script_says_so(machine: str, quiet_stage: int) -> None:
    for seed in range(5):
        outcome = run(calm(quiet_stage, seed, machine))
        counts = dict(outcome.counts)
        assert outcome.valid
        assert counts.get("minority down", 0) == (quiet_stage == DOWN)
        assert counts.get("minority cut off", 0) == (quiet_stage == 2)


def test_a_quorum_that_needs_the_minority_is_a_violation() -> None:
    with planted([ALL_ARE_NEEDED]):
        assert run(calm(0)).valid
        outcomes = [run(calm(1 + seed % 2, seed)) for seed in range(10)]
    found = [outcome.what for outcome in outcomes if outcome.invariant == "liveness"]
    assert len(found) > 3, "the others are done before the leader notices that a server is away"
    assert all(" are away" in what for what in found)


@pytest.mark.parametrize("quiet_stage", [DOWN, 2])
def test_a_barrier_without_an_answer_is_a_violation(quiet_stage: int) -> None:
    with planted([BARRIERS_ARE_FORGOTTEN]):
        assert run(calm(0)).valid, "without a quiet stage only a new write is waited for"
        outcome = run(calm(quiet_stage))
    assert outcome.invariant == "liveness"
    assert "server 2 does not answer barrier 1" in outcome.what


def test_a_proposal_that_only_a_later_one_would_free_is_a_violation() -> None:
    script = script_from_seed(STUCK_SEED)
    assert run(script).valid
    with planted(NO_ACK.edits):
        outcome = run(script)
        assert run(evolve(script, knobs=evolve(script.knobs, quiet_stage=0))).valid
    assert outcome.invariant == "liveness"
    assert "are idle for" in outcome.what
