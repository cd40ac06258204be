"""An embedder's machine under faults: a right one holds, and each mistake that people make is found and told."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st

import harness
from harness.checkers import Violation
from harness.draw import script_from_seed
from harness.embed import roundtrip
from harness.embed.calls import Call, Objection, Verdict, judge
from harness.embed.client_history import explain, history_lines, reply_of
from harness.embed.model import system_of
from harness.embed.report import Failure
from harness.embed.world import run
from harness.faults import CrashAll, Invoke, Knobs, Script, Write
from harness.outcome import Outcome
from harness.scripts import describe, from_json, loads
from tests.simulation import embedded
from tests.simulation.embedded import (
    Bank,
    Falls,
    FollowsHashes,
    ForgetsTheRich,
    Gambles,
    KeepsTheOld,
    Ledger,
    LooksOnlyAtWhatIsApplied,
    Names,
    Overdraws,
    Prepares,
    RefusesOverdrafts,
    StoresChance,
    StoresTheOrderOfASet,
    StoresTheTime,
    StoresTheTimeOfDay,
    StrictLedger,
    TakesItsTime,
)
from zab import Zxid


def said(machine: type, runs: int = 6) -> str:
    report = harness.campaign(
        machine, model=Ledger, runs=runs, servers=(3,), operations=30, length_ms=1_000, shrink_runs=1
    )
    assert not report.valid
    with pytest.raises(AssertionError):
        report.check()
    return str(report)


def test_a_right_machine_holds() -> None:
    report = harness.campaign(Bank, model=Ledger, runs=2, servers=(3,), operations=30, length_ms=700).check()
    assert report.requests > 20
    assert str(report).startswith("Bank valid: 2 runs")


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"runs": 0}, ValueError, "runs=0: expected 1 or more"),
        ({"runs": -3}, ValueError, "runs=-3: expected 1 or more"),
        ({"runs": "x"}, TypeError, "runs='x': expected a whole number, 1 or more"),
        ({"runs": True}, TypeError, "runs=True: expected a whole number, 1 or more"),
        ({"seed": -1}, ValueError, "seed=-1: expected 0 or more"),
        ({"servers": (0,)}, ValueError, "servers[0]=0: expected from 1 to 28"),
        ({"servers": (3, 29)}, ValueError, "servers[1]=29: expected from 1 to 28"),
        ({"servers": (3, "x")}, TypeError, "servers[1]='x': expected a whole number, from 1 to 28"),
        ({"servers": ()}, ValueError, "servers=(): at least one number of servers is needed, such as (3, 5)"),
        ({"servers": 3}, TypeError, "servers=3: expected a sequence of numbers of servers, such as (3, 5)"),
        ({"servers": "35"}, TypeError, "servers='35': expected a sequence of numbers of servers, such as (3, 5)"),
        ({"faults": -1}, ValueError, "faults=-1: expected 0 or more"),
        ({"operations": 1.5}, TypeError, "operations=1.5: expected a whole number, 0 or more"),
        ({"length_ms": 0}, ValueError, "length_ms=0: expected 1 or more"),
        ({"length_ms": float("nan")}, TypeError, "length_ms=nan: expected a whole number, 1 or more"),
        ({"shrink_runs": -1}, ValueError, "shrink_runs=-1: expected 0 or more"),
        ({"script": 5}, TypeError, "script=5: expected a Script, or the path of a file with one"),
        ({"script": Script(1, length_ms=0)}, ValueError, "script.length_ms: 0 is not from 1"),
        ({"script": Script(1, machine="store")}, ValueError, "script: its machine is 'store'"),
        ({"keep": 5}, TypeError, "keep=5: expected the path of a folder"),
        ({"keep": __file__}, ValueError, "this exists, but is not a folder"),
    ],
)
def test_invalid_argument_is_refused_by_name(given: dict[str, Any], kind: type[Exception], words: str) -> None:
    """Before a machine is made: a campaign without a run would hold, and one of no servers blame the machine."""

    def made() -> Bank:
        raise AssertionError("nothing may run")

    with pytest.raises(kind) as refused:
        harness.campaign(made, model=Ledger, **given)
    assert words in str(refused.value)


def test_a_snapshot_that_forgets() -> None:
    assert "restore(snapshot()) is the same machine" in said(ForgetsTheRich)


def test_requests_that_need_no_ensemble_are_few_and_told() -> None:
    """An account becomes rich after three deposits at most, and the snapshot of this bank omits rich accounts."""
    lines = said(ForgetsTheRich).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("History: one process, no faults."))
    steps = lines[first + 1 : lines.index("", first)]
    assert sum("restore(snapshot())" in step for step in steps) <= 1
    assert len(steps) <= 6
    assert re.search(r"#\d+ b'\w+ \d' -> \d+", steps[0])


def test_a_restore_that_is_not_the_snapshot() -> None:
    assert "restore(snapshot()) is the same machine" in said(KeepsTheOld)


def test_a_snapshot_that_changes_while_it_is_written() -> None:
    """Only a run shows it: the chunks are taken while more is applied. Six of the first eight seeds show it."""
    script = Script(
        3,
        length_ms=700,
        knobs=Knobs(snapshot_every=5),
        ops=tuple(Write(at, 2, 0) for at in range(200, 690, 6)),
        faults=(CrashAll(500, 10, "keep"), CrashAll(650, 10, "keep")),
    )
    report = harness.campaign(TakesItsTime, model=Ledger, script=script, shrink_runs=1)
    assert report.failure is not None
    assert report.failure.invariant in ("all servers return the same results", "results match the model")
    assert "The smallest script found (shrinking stopped after 1 run; a smaller one may fail, too):" in str(report)
    assert harness.campaign(Bank, model=Ledger, script=script).valid


def test_chance_in_apply() -> None:
    assert "in one process, show the violation" in said(Gambles)


@pytest.mark.parametrize("machine", [StoresChance, StoresTheTimeOfDay, StoresTheTime, StoresTheOrderOfASet])
def test_state_that_diverges_behind_right_answers_is_found(machine: type[Bank]) -> None:
    assert "the same transactions make the same state" in said(machine)


@pytest.mark.parametrize("name", list(embedded.CLOCKS))
def test_state_with_the_hour_of_any_clock_is_found(name: str) -> None:
    told = said(getattr(embedded, name), runs=1)
    assert "the state in another process differs" in told


@pytest.mark.parametrize("machine", [StoresChance, StoresTheTime])
def test_diverging_state_is_found_between_the_servers_of_a_run(
    machine: type[Bank], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the checks that need no ensemble."""
    monkeypatch.setattr(roundtrip, "_compare", lambda *_: None)
    report = harness.campaign(lambda: machine(), model=Ledger, runs=3, shrink_runs=1)
    assert report.failure is not None
    assert report.failure.invariant == "the same transactions make the same state"
    assert report.failure.script is not None


def test_state_function_says_what_counts() -> None:
    def accounts(machine: Bank) -> object:
        return {who: have for who, have in machine.accounts.items() if who != "at"}

    assert harness.campaign(StoresTheTime, model=Ledger, state=accounts, runs=3).valid
    with pytest.raises(TypeError, match="state='accounts': expected a function"):
        harness.campaign(Bank, model=Ledger, state="accounts")


def test_state_function_may_return_an_attribute_that_changes_later() -> None:
    report = harness.campaign(Bank, model=Ledger, state=lambda machine: machine.accounts, runs=3)
    assert report.valid, report


@pytest.mark.parametrize("machine", [StoresTheOrderOfASet, StoresChance])
def test_different_states_are_shown_in_one_form(machine: type[Bank]) -> None:
    text = re.search(r"differs?[^:]*: (\[b.*) and (\[b.*)\. If these", said(machine))
    assert text is not None


def test_a_result_in_the_order_of_a_set() -> None:
    assert "in another process" in said(FollowsHashes)


def test_an_exception_in_apply() -> None:
    assert "raises ValueError('four')" in said(Falls)


def test_machine_that_differs_from_the_model() -> None:
    words = said(Overdraws)
    assert "the model returns 'no'" in words
    assert "campaign(..., seed=" in words


NAMES = st.integers(0, 400).map(lambda number: b"name %d" % number)


def test_a_machine_that_refuses_holds() -> None:
    harness.campaign(Prepares, model=Names, requests=NAMES, runs=1, operations=40, length_ms=700).check()


@pytest.mark.parametrize("seed", [36, 115])
def test_refusal_that_is_lost_breaks_no_order(seed: int) -> None:
    """A refused request was asked again at the next leader, and succeeded behind later ones of its member."""
    harness.campaign(RefusesOverdrafts, model=StrictLedger, seed=seed, runs=1).check()


def test_a_prepare_that_forgets_what_is_outstanding() -> None:
    report = harness.campaign(
        LooksOnlyAtWhatIsApplied,
        model=Names,
        requests=[b"one", b"two", b"three"],
        runs=20,
        length_ms=1_000,
        shrink_runs=1,
    )
    assert "the model refuses it" in str(report)


def test_the_same_seed_is_the_same_report(tmp_path: Path) -> None:
    reports = [
        harness.campaign(
            Overdraws, model=Ledger, runs=1, seed=8, servers=(3,), operations=20, keep=tmp_path, shrink_runs=1
        )
        for _ in range(2)
    ]
    first, second = (report.failure for report in reports)
    assert first is not None
    assert first == second
    kept = tmp_path / f"Overdraws-{first.seed}.json"
    assert loads(kept.read_text()) == first.script
    assert harness.campaign(Bank, model=Ledger, script=kept).valid


def test_any_number_of_processes_gives_the_same_report() -> None:
    same = [
        attrs.evolve(
            harness.campaign(
                Overdraws, model=Ledger, runs=5, servers=(3,), operations=20, length_ms=600, shrink_runs=1,
                jobs=jobs, stop_after=0,
            ),
            seconds=0.0,
        )
        for jobs in (1, 2)
    ]  # fmt: skip
    assert same[0] == same[1]
    assert same[0].runs == 5


def test_failures_are_grouped_by_promise(monkeypatch: pytest.MonkeyPatch) -> None:

    def broken(script: Script, **given: Any) -> Outcome:
        outcome = run(script, **given)
        return attrs.evolve(
            outcome, invariant=None if script.seed == 2 else f"promise {script.seed % 2}", what="it broke"
        )

    monkeypatch.setattr("harness.embed.runs.run", broken)
    report = harness.campaign(
        Bank, model=Ledger, runs=5, servers=(3,), operations=5, length_ms=300, shrink_runs=1, stop_after=0
    )
    assert [(each.invariant, each.seed, each.runs) for each in report.failures] == [
        ("promise 0", 0, 2),
        ("promise 1", 1, 2),
    ]
    assert str(report).count("Bank VIOLATED: promise") == 2
    assert "(2 of 5 runs, " in str(report)
    stored = json.loads(json.dumps(report.as_json()))
    assert (stored["valid"], stored["runs"], [each["runs"] for each in stored["failures"]]) == (False, 5, [2, 2])
    assert from_json(stored["failures"][0]["script"]) == report.failures[0].script
    two = harness.campaign(
        Bank, model=Ledger, runs=5, servers=(3,), operations=5, length_ms=300, shrink_runs=1, stop_after=2
    )
    assert two.runs == 2


def test_interrupted_campaign_prints_the_report_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def interrupted(script: Script, **given: Any) -> Outcome:
        if script.seed == 2:
            raise KeyboardInterrupt
        return run(script, **given)

    monkeypatch.setattr("harness.embed.runs.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        harness.campaign(Bank, model=Ledger, runs=5, servers=(3,), operations=5, length_ms=300)
    printed = capsys.readouterr().err
    assert printed.startswith("interrupted after 2 of 5 runs\nBank valid: 2 runs, ")


def test_a_run_that_is_given_up_has_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.worlds.stack.simulation.STEPS_MAX", 100)
    report = harness.campaign(Bank, model=Ledger, runs=2, seed=5, operations=10, length_ms=400)
    assert (report.runs, report.failure, report.valid) == (2, None, False)
    assert [each.seed for each in report.unknown] == [5, 6]
    assert str(report).startswith("Bank UNKNOWN in 2 of 2 runs")
    assert "UNKNOWN with seed 6: the run reached its budget of 100 events" in str(report)
    with pytest.raises(AssertionError, match="campaign\\(..., seed=5, runs=1\\)"):
        report.check()


# -- a failure in the user's words -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def failed() -> harness.Report:
    """A bank that overdraws, found by a campaign whose calls are generated by chance."""
    return harness.campaign(
        Overdraws, model=Ledger, runs=1, seed=8, servers=(3,), operations=20, length_ms=800, faults=2, shrink_runs=300
    )


def test_history_names_the_calls_and_the_objection(failed: harness.Report) -> None:
    failure = failed.failure
    assert failure is not None
    lines = failure.explanation.splitlines()
    invoked = [line for line in lines if re.search(r"client \d  invoke #\d+ b'\w+ -?\d+'", line)]
    ok = re.compile(r"client \d  ok     #\d+ b'\w+ -?\d+' -> -?\d+  \(zxid \d/\d+\)")
    replies = [line for line in lines if ok.search(line)]
    assert invoked
    assert replies
    assert any("leader           server" in line for line in lines)
    marked = [line for line in lines if line.startswith("  *")]
    assert len(marked) == 3, "the call, its reply, and its place in the order of commits"
    assert re.search(r"-> -\d+ ", marked[1]), "an account below zero"
    assert re.search(r"\* +\d/\d+ +#\d+ b'\w+ -\d+' +-\d+ +'no'$", marked[2]), "the machine, and the model"
    assert "Checker: results match the model" in lines
    assert failure.explanation in str(failed)


def test_requests_are_shrunk_to_those_that_matter(failed: harness.Report) -> None:
    assert failed.failure is not None
    script = failed.failure.script
    assert script is not None
    assert script.faults == ()
    assert len(script.ops) <= 1, "the first withdrawal from an empty account is enough"
    assert all(isinstance(op, Invoke) for op in script.ops)
    assert "requests" not in describe(script)


def test_script_with_listed_requests_is_the_same_run() -> None:
    """The smallest script is searched from it."""
    for seed in (1, 2, 8):
        system = system_of(Overdraws, "m:Overdraws", model=Ledger, requests=None, state=None)
        drawn = script_from_seed(seed, observers=0, faults=4, ops=30, length_ms=1_000, machine="m:Overdraws")
        first = run(drawn, system)
        assert first.invariant is not None
        assert not any(isinstance(op, Write) for op in first.script.ops)
        again = run(first.script, system)
        assert (again.invariant, again.what, again.at_ms) == (first.invariant, first.what, first.at_ms)
        assert again.script == first.script
        assert again.explanation == first.explanation


def test_replay_line_finds_the_machine_and_its_parts(tmp_path: Path) -> None:
    report = harness.campaign(
        Overdraws, model=Ledger, runs=1, seed=8, servers=(3,), operations=5, keep=tmp_path, shrink_runs=1
    )
    assert report.failure is not None
    kept = tmp_path / "Overdraws-8.json"
    assert report.failure.kept == kept
    assert report.failure.replay == f"harness.replay(Overdraws, {str(kept)!r}, model=Ledger)"
    again = harness.replay(Overdraws, str(kept), model=Ledger)
    assert again.failure is not None
    assert again.failure.explanation == report.failure.explanation
    assert harness.replay(Bank, kept, model=Ledger).valid


def test_failure_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "run.html"
    report = harness.campaign(
        Overdraws, model=Ledger, runs=1, seed=8, servers=(3,), operations=5, diagram=picture, shrink_runs=1
    )
    assert f"The picture: {picture.as_uri()}" in str(report)
    text = picture.read_text()
    assert "Overdraws: results match the model" in text
    assert "client 1" in text
    assert re.search(r"invoke b.\w+ -?\d", text)
    assert "harness.replay(Overdraws" in text
    held = harness.replay(Bank, report.failure.script, model=Ledger, diagram=picture)  # type: ignore[union-attr,arg-type]
    assert held.valid
    assert "Bank is valid" in picture.read_text()


def test_search_for_a_smaller_script_ends_in_time() -> None:
    began = time.monotonic()
    report = harness.campaign(
        Overdraws, model=Ledger, runs=1, seed=8, servers=(3,), shrink_runs=10_000, shrink_seconds=0
    )
    assert time.monotonic() - began < 20
    assert report.failure is not None
    assert report.failure.script is not None
    assert report.failure.explanation


def test_interrupted_search_keeps_the_smallest_script_and_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def interrupted(script: Script, **given: Any) -> Outcome:
        nonlocal tries
        tries += 1
        if tries == 6:
            raise KeyboardInterrupt
        return run(script, **given)

    monkeypatch.setattr("harness.embed.runs.run", interrupted)
    report = harness.campaign(Overdraws, model=Ledger, runs=1, seed=8, servers=(3,), operations=30, length_ms=800)
    assert tries == 6
    assert report.failure is not None
    assert report.failure.script is not None
    assert len(report.failure.script.ops) < 20
    assert report.failure.explanation


def test_long_history_is_cut_around_the_objection() -> None:
    calls = [Call(number, b"ann 1", 1, number, number, number, None, Zxid(number), number) for number in range(1, 201)]
    found = history_lines(Script(1), calls, [], 0, 999, {150})
    told = explain(found, Objection("a promise", "broken", calls[149]), [Verdict(each, "1") for each in calls], 999)
    assert "259 earlier events left out" in told
    assert "130 earlier calls left out" in told
    assert len(told.splitlines()) < 80
    assert "#150 b'ann 1' -> 150" in told


def test_long_script_is_cut_in_the_report() -> None:
    script = Script(1, ops=tuple(Invoke(at, "ann 1", 1) for at in range(100)))
    told = str(harness.Report("Bank", 1, 1, 1.0, (Failure("a promise", "broken", script, 1, shrunk=True),)))
    assert "... 63 more lines, in the file below" in told
    assert "at    30 ms  invoke 1 request" in told
    assert "at    60 ms" not in told


def test_unknown_outcome_and_refusal_are_info_and_fail() -> None:
    assert reply_of(Call(1, b"x", 1, 5)).type == "info"
    assert reply_of(Call(1, b"x", 1, 5, 6, refused="taken")).type == "fail"
    assert reply_of(Call(1, b"x", 1, 5, 6, given_up=True)).type == "fail"
    assert reply_of(Call(1, b"x", 1, 5, 6, 7)).type == "ok"


def test_exception_names_its_line() -> None:
    assert re.search(r"raises ValueError\('four'\)", said(Falls))


def call(number: int, called: int, returned: int | None, first: object, zxid: int) -> Call:
    return Call(number, b"ann 1", 1, called, returned, first, None, Zxid(zxid), first, 1)


def test_calls_are_committed_in_real_time_order() -> None:
    late, early = call(1, 50, 60, 1, 1), call(2, 10, 20, 2, 2)
    with pytest.raises(Violation, match="commits follow the order of real time"):
        judge([late, early], [late, early], Ledger())
    early.returned = 55
    judge([late, early], [late, early], Ledger())


def test_an_answer_that_belongs_to_another_request() -> None:
    one = call(1, 10, 20, 1, 1)
    one.result = 7
    with pytest.raises(Violation, match="client received 7"):
        judge([one], [one], Ledger())


def test_refusal_must_be_possible_during_the_call() -> None:
    done = Call(1, b"a", 1, 10, 20, 1, None, Zxid(1), 1, 1)
    early, late = Call(2, b"a", 1, 1, 5, refused="taken"), Call(3, b"a", 1, 30, 35, refused="taken")
    judge([done], [done, late], Names())
    with pytest.raises(Violation, match="but the model accepts it in every state"):
        judge([done], [done, early], Names())


def test_misuse_is_refused_before_any_run() -> None:
    class NoMachine:
        pass

    with pytest.raises(TypeError, match="NoMachine is no machine: it has no prepare, apply, snapshot, restore"):
        harness.campaign(NoMachine, model=Ledger)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give the class"):
        harness.campaign(Bank(), model=Ledger)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no model: it has no initial, step"):
        harness.campaign(Bank, model=NoMachine)
    with pytest.raises(TypeError, match="requests"):
        harness.campaign(Bank, model=Names)
    with pytest.raises(TypeError, match="a request must be bytes"):
        harness.campaign(Bank, model=Ledger, requests=lambda _: "text")
