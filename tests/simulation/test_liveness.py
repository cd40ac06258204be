"""After the last fault: the servers recover without the minority that is away, and without a new write."""

from __future__ import annotations

from typing import Final

import pytest

from harness.faults import Barrier, Script, Write
from harness.mutants.edit import Edit, planted
from harness.worlds.cores.minority import Minority
from harness.worlds.cores.world import run, world_of

LENGTH_MS: Final = 600
GOES = [seed for seed in range(40) if Minority(world_of(Script(seed))).wanted]
STAYS = [seed for seed in range(40) if seed not in GOES]
ALL_ARE_NEEDED: Final = Edit(
    "zab.core.ensemble:Ensemble.is_quorum",
    "return len(self._voter_set.intersection(acks)) > self._half",
    "return len(self._voter_set.intersection(acks)) == len(self._voter_set)",
)
LAST_BARRIER_IS_FORGOTTEN: Final = Edit(
    "harness.worlds.cores.server:Server.ask", "self.node.barrier(token, self.now_ms)", "pass"
)


def quiet(seed: int) -> Script:
    """A script without faults."""
    return Script(seed, length_ms=LENGTH_MS, ops=(Write(400, 3, 10), Barrier(500, 2)))


def test_a_minority_goes_away_in_a_share_of_runs() -> None:
    counts = [dict(outcome.counts) for seed in GOES if (outcome := run(quiet(seed))).held]
    assert len(counts) == len(GOES)
    assert all("minority down" in each or "minority cut off" in each for each in counts)
    assert any("minority down" in each for each in counts)
    assert any("minority cut off" in each for each in counts)


def test_no_minority_goes_away_in_other_runs() -> None:
    outcome = run(quiet(STAYS[0]))
    assert outcome.held
    assert not any(name.startswith("minority") for name, _ in outcome.counts)


def test_a_quorum_that_needs_the_minority_is_a_violation() -> None:
    with planted([ALL_ARE_NEEDED]):
        assert run(quiet(STAYS[0])).held
        outcome = run(quiet(GOES[0]))
    assert outcome.promise == "liveness"
    assert " are away: " in outcome.what


@pytest.mark.parametrize("seed", STAYS[:2])
def test_a_barrier_without_an_answer_is_a_violation(seed: int) -> None:
    with planted([LAST_BARRIER_IS_FORGOTTEN]):
        outcome = run(quiet(seed))
    assert outcome.promise == "liveness"
    assert "server 2 does not answer barrier " in outcome.what
