"""A few hundred histories under faults, none of which may break a promise. `make fuzz` runs ten thousand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.cli import fuzz, main
from harness.many import Plan, Tally, campaign, run_some
from harness.scripts import describe

SITUATIONS = (
    "sync diff", "sync trunc", "sync snap", "log", "crash", "disk failed", "readmitted", "learner_dropped",
    "activated", "barrier", "damage", "snapshot_received",
)  # fmt: skip
"""What must have occurred somewhere in a campaign, or it searched in the wrong place."""


@pytest.mark.slow
@pytest.mark.parametrize(("voters", "runs"), [(3, 60), (5, 40), (1, 6), (4, 15)])
def test_no_promise_is_broken(voters: int, runs: int) -> None:
    total = run_some(Plan(runs, voters=(voters,)), range(runs))
    if total.failures:
        failure = total.failures[0]
        pytest.fail(
            f"{failure.promise}: {failure.what}\n\n{describe(failure.script)}\n\n"
            f"zab-harness replay --seed {failure.script.seed} --servers {voters}"
        )
    assert total.runs == runs
    assert total.acknowledged > 10 * runs, "most runs do something"
    if voters in (3, 5):
        assert [name for name in SITUATIONS if not total.counts.get(name)] == []
        assert total.epochs > 1.5 * total.runs


def test_it_does_not_matter_who_runs_the_seeds() -> None:
    plan = Plan(30, 300, ops=20, faults=3, length_ms=800)
    alone, together = campaign(plan), campaign(plan, jobs=2)

    def result(total: Tally) -> tuple[object, ...]:
        return total.runs, total.failures, total.events, total.committed, total.counts

    assert result(alone) == result(together)


@pytest.mark.parametrize("jobs", [1, 2])
def test_none_is_begun_when_the_time_is_over(jobs: int) -> None:
    assert campaign(Plan(1_000_000, voters=(3,)), jobs=jobs, seconds=0.0).runs == 0
    assert campaign(Plan(2, voters=(3,)), jobs=jobs, seconds=600.0).runs == 2


def test_who_ends_a_search_is_told_what_it_came_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(plan: Plan, *, seen: Callable[[Tally], None], **_: object) -> Tally:
        seen(Tally(runs=3))
        raise KeyboardInterrupt

    monkeypatch.setattr(fuzz, "campaign", ended)
    assert main(["fuzz", "--servers", "3"]) == 130
    assert "3 histories of 3 voters" in capsys.readouterr().out
