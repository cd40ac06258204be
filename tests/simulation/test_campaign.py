"""A few hundred histories under faults, none of which may break a promise. `make fuzz` runs ten thousand."""

from __future__ import annotations

import pytest

from harness.many import Plan, Tally, campaign, run_some
from harness.scripts import describe


@pytest.mark.slow
@pytest.mark.parametrize(
    ("voters", "base", "runs"), [(3, 0, 100), (3, 100, 100), (5, 0, 70), (5, 100, 70), (1, 0, 20), (4, 0, 30)]
)
def test_no_promise_is_broken(voters: int, base: int, runs: int) -> None:
    plan = Plan(runs, base, (voters,))
    total = run_some(plan, range(runs))
    if total.failures:
        failure = total.failures[0]
        pytest.fail(
            f"{failure.promise}: {failure.what}\n\n{describe(failure.script)}\n\n"
            f"zab-harness replay --seed {failure.script.seed} --servers {voters}"
        )
    assert total.runs == runs
    assert total.acknowledged > 10 * runs, "most runs do something"


SITUATIONS = (
    "sync diff", "sync trunc", "sync snap", "log", "crash", "disk failed", "readmitted", "learner_dropped",
    "activated", "barrier", "damage", "snapshot_received",
)  # fmt: skip
"""What must have occurred somewhere in a campaign, or it searched in the wrong place."""


def test_a_campaign_sees_what_there_is_to_see() -> None:
    total = campaign(Plan(150, 1_000, ops=50))
    assert not total.failures
    assert [name for name in SITUATIONS if not total.counts.get(name)] == []
    assert total.epochs > 1.5 * total.runs


def test_it_does_not_matter_who_runs_the_seeds() -> None:
    plan = Plan(60, 300, ops=20, faults=3, length_ms=800)
    alone, together = campaign(plan), campaign(plan, jobs=2)

    def result(total: Tally) -> tuple[object, ...]:
        return total.runs, total.failures, total.events, total.committed, total.counts

    assert result(alone) == result(together)
