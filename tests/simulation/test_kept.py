"""What once failed does not fail again. `zab-harness shrink --keep tests/simulation/regressions` adds to the folder."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from attrs import evolve

from harness.cli import main
from harness.draw import script_from_seed
from harness.faults import Crash, Script, Write
from harness.run import regressions
from harness.run.regressions import Regression
from harness.run.replay_line import replay_line, terse
from harness.scripts import ScriptError, loads
from harness.worlds.cores.world import run

FOLDER = Path(__file__).parent / "regressions"
FORGETS = "commit-without-quorum"
STAYS = "leader-stays-without-quorum"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_regressions(path: Path) -> None:
    objection = regressions.objection(path)
    if objection is not None:
        pytest.fail(objection)


def test_failure_is_stored_and_its_file_replays_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", "--seed", "0", "--mutant", FORGETS, "--keep", str(tmp_path), "--trace", "0"]) == 1
    out = capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    stored = regressions.loads(path.read_text())
    assert stored.mutant == FORGETS
    assert stored.invariant in out
    assert stored.found
    assert stored.code
    line = out.splitlines()[-1]
    assert line == f"zab-harness replay --script {path} --mutant {FORGETS}"
    assert main(line.split()[1:]) == 1
    assert regressions.objection(path) is None


def test_fuzz_keeps_the_first_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--runs", "3", "--jobs", "1", "--servers", "3", "--ops", "20", "--faults", "2"]
    assert main(["fuzz", *size, "--mutant", FORGETS, "--keep", str(tmp_path)]) == 1
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out.splitlines()[-1] == f"zab-harness replay --script {path} --mutant {FORGETS}"
    assert regressions.objection(path) is None


def test_objection_names_file_and_replay_command(tmp_path: Path) -> None:
    script = Script(7, length_ms=500, ops=(Write(300),))
    silent = regressions.store(tmp_path, Regression("a leader without a quorum steps down", script, STAYS))
    objection = regressions.objection(silent)
    assert objection is not None
    assert silent.name in objection
    assert "not valid" in objection
    assert f"zab-harness replay --script {silent} --mutant {STAYS}" in objection


def test_a_promise_that_is_broken_without_any_bug_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(7, length_ms=500)
    path = regressions.store(tmp_path, Regression("liveness", script))
    broken = evolve(run(script), invariant="liveness", what="nobody leads")
    monkeypatch.setattr(regressions, "_run", lambda _, __: broken)
    assert regressions.objection(path) == (
        f"{path.name} fails again: liveness: nobody leads\n  zab-harness replay --script {path}"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1"),
        ("[]", "expected an object"),
        ('{"version": 2, "seed": 1}', "expected an object with"),
        ('{"invariant": "x", "script": {"version": 2, "seed": 1}, "colour": 1}', "regression.colour: unknown"),
        ('{"invariant": "x", "script": {"version": 2, "seed": 1}, "mutant": "M99"}', "no mutant M99"),
        ('{"invariant": "x", "script": {"version": 2, "seed": 1}, "world": "flat"}', "regression.world"),
        ('{"invariant": "x", "script": {"version": 2}}', "script.seed: missing"),
    ],
)
def test_invalid_regression_is_refused(text: str, said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        regressions.loads(text)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("machine", ["list", "store"])
def test_a_script_in_one_line_is_the_same_script(seed: int, machine: str) -> None:
    script = script_from_seed(seed, machine=machine)
    assert loads(terse(script)) == script
    assert regressions.loads(regressions.dumps(Regression("liveness", script))).script == script


def test_the_line_that_repeats_a_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = Script(3, length_ms=700, ops=(Write(400),), faults=(Crash(500),))
    line = replay_line(script, mutant=FORGETS)
    given, command = line.removeprefix("echo ").split(" | ")
    assert json.loads(given.strip("'"))["faults"] == [{"kind": "Crash", "at": 500}]
    assert command == f"zab-harness replay --script - --mutant {FORGETS}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.strip("'").encode())))
    main(["replay", "--script", "-", "--json"])
    assert json.loads(capsys.readouterr().out)["script"]["length_ms"] == 700
