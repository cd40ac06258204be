"""A few hundred histories under faults, none of which may break a promise. `make fuzz` runs ten thousand."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
import trio

from harness.cli import main
from harness.run.plan import Plan
from harness.run.runner import campaign
from harness.run.tally import Tally
from harness.scripts import describe
from harness.worlds.stack import members

SITUATIONS = (
    "sync diff", "sync trunc", "sync snap", "log", "crash", "disk failed", "readmitted", "learner_dropped",
    "activated", "barrier", "damage", "snapshot_received",
)  # fmt: skip
"""What must have occurred somewhere in a campaign, or it searched in the wrong place."""


@pytest.mark.slow
@pytest.mark.parametrize(("voters", "runs"), [(3, 60), (5, 40), (1, 6), (4, 15)])
def test_no_promise_is_broken(voters: int, runs: int) -> None:
    total = campaign(Plan(runs, voters=(voters,)))
    if total.failures:
        failure = total.failures[0]
        pytest.fail(
            f"{failure.invariant}: {failure.what}\n\n{describe(failure.script)}\n\n"
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
def test_no_run_starts_after_time_limit(jobs: int) -> None:
    assert campaign(Plan(1_000_000, voters=(3,)), jobs=jobs, seconds=0.0).runs == 0
    assert campaign(Plan(2, voters=(3,)), jobs=jobs, seconds=600.0).runs == 2


def test_interrupted_fuzz_prints_results(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def ended(plan: Plan, *, seen: Callable[[Tally], None], **_: object) -> Tally:
        seen(Tally(runs=3))
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.cli.fuzz.campaign", ended)
    assert main(["fuzz", "--servers", "3"]) == 130
    assert "3 histories of 3 voters" in capsys.readouterr().out


class _Ends(trio.abc.Instrument):
    """In the midst of Trio's own code, where nothing may be raised."""

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        trio.lowlevel.remove_instrument(self)
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("keyboard", [signal.default_int_handler, signal.SIG_IGN])
def test_terminated_fuzz_of_trio_world_prints_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], keyboard: signal.Handlers
) -> None:
    main_of_world = members.World._main

    async def ended(self: members.World) -> None:
        trio.lowlevel.add_instrument(_Ends())
        await main_of_world(self)

    before = signal.signal(signal.SIGINT, keyboard)
    try:
        monkeypatch.setattr(members.World, "_main", ended)
        assert main(["fuzz", "--world", "stack", "--runs", "2", "--jobs", "1"]) == 143
        assert signal.getsignal(signal.SIGINT) == keyboard
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr()
    assert said.out.startswith("0 histories of 3 and 5 voters")
    assert said.err.startswith("terminated\n")
