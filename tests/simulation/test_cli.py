"""The command, as a person meets it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.scripts import loads


def test_a_run_that_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--seed", "3", "--trace", "5", "--hash"]) == 0
    out = capsys.readouterr().out
    assert "seed 3\nvoters 3" in out
    assert "\nhash " in out
    assert "valid: " in out


def test_a_run_as_json_twice_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for _ in range(2):
        assert main(["run", "--seed", "3", "--servers", "5", "--json", "--hash"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert answers[0]["valid"] is True
    assert answers[0]["script"]["voters"] == 5


def test_a_script_travels_through_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--seed", "4", "--print"]) == 0
    path = tmp_path / "script.json"
    path.write_text(capsys.readouterr().out)
    assert loads(path.read_text()).seed == 4
    assert main(["replay", "--script", str(path), "--json", "--hash"]) == 0
    from_file = json.loads(capsys.readouterr().out)
    assert main(["replay", "--seed", "4", "--json", "--hash"]) == 0
    assert from_file == json.loads(capsys.readouterr().out)


def test_a_script_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"version": 2, "seed": 1, "length_ms": 100}')))
    assert main(["replay", "--script", "-"]) == 0
    assert "valid" in capsys.readouterr().out


def test_a_violation_is_exit_one_and_shrinks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seed", "1", "--mutant", "ack-before-durable"]
    assert main(["run", *arguments]) == 1
    assert "VIOLATED" in capsys.readouterr().out
    path = tmp_path / "small.json"
    assert main(["shrink", *arguments, "--output", str(path), "--trace", "3"]) == 1
    assert "VIOLATED" in capsys.readouterr().out
    assert main(["replay", "--script", str(path), "--mutant", "ack-before-durable"]) == 1
    assert main(["replay", "--script", str(path)]) == 0


def test_shrinking_what_holds_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", "--seed", "3"]) == 0
    assert "valid" in capsys.readouterr().out


ONE_KIND = ("--machine", "list", "--world", "cores", "--profile", "usual")


def test_fuzz(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", *ONE_KIND, "--runs", "6", "--jobs", "1", "--ops", "20", "--servers", "3"]) == 0
    assert "6 histories of 3 voters" in capsys.readouterr().out
    assert main(["fuzz", *ONE_KIND, "--runs", "4", "--jobs", "1", "--ops", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 4


def test_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "M05 " in listed
    assert "M26 " in listed
    assert main(["mutants", "M06b", "M27", "--json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert [verdict["mutant"] for verdict in verdicts] == ["M06b", "M27"]
    assert all(verdict["invariant"] for verdict in verdicts)
    assert main(["mutants", "M06b", "--seconds", "0"]) == 1, "one that nobody noticed"
    assert "NOT NOTICED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "either --seed or --script"),
        (["replay", "--seed", "1", "--script", "x"], "either --seed or --script"),
        (["replay", "--script", "/nowhere/at/all"], "No such file"),
        (["mutants", "M99"], "there is no mutant M99"),
    ],
)
def test_misuse_is_exit_two(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["dance"],
        ["run"],
        ["run", "--seed", "-1"],
        ["fuzz", "--runs", "0"],
        ["run", "--seed", "1", "--mutant", "M99"],
    ],
)
def test_arguments_that_make_no_sense_are_exit_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2, "what is wrong, and where help is"
    assert said[1].startswith("see zab-harness ")


def test_command_without_arguments_prints_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    told = capsys.readouterr().err
    assert "Usage:" in told
    assert "fuzz" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1"),
        ("[]", "script: expected an object"),
        ('{"version": 1, "seed": 1}', "script.version: expected 2, not 1. Changes since then: 2: clocks"),
        ('{"version": 99, "seed": 1}', "script.version: expected 2, not 99"),
        ('{"version": 2}', "script.seed: missing"),
        ('{"version": 2, "seed": 1, "colour": "red"}', "script.colour: unknown"),
        ('{"version": 2, "seed": 1, "faults": [{"kind": "Flood", "at": 1}]}', "script.faults[0].kind: 'Flood'"),
        ('{"version": 2, "seed": 1, "faults": [{"kind": "CutLinks"}]}', "script.faults[0].at: missing"),
        ('{"version": 2, "seed": 1, "faults": [{"kind": "CutLinks", "at": 9999, "server": 1}]}', "script.faults[0].at"),
        (
            '{"version": 2, "seed": 1, "ops": [{"kind": "Barrier", "at": "1", "server": 1}]}',
            "script.ops[0].at: expected int",
        ),
        ('{"version": 2, "seed": 1, "voters": 0}', "script.voters"),
        ('{"version": 2, "seed": 1, "knobs": {"tick_ms": -5}}', "script.knobs.tick_ms: -5"),
    ],
)
def test_a_script_with_a_mistake_is_refused_by_its_place(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)
    assert main(["replay", "--script", str(path)]) == 2
    assert said in capsys.readouterr().err
