"""The items that each world supports, listed by the command, and comparisons of one script in several worlds."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from harness.cli import main
from harness.cli.worlds import compare
from harness.faults import FAULTS, OPS, Crash, Fault, Op, Pause, Script
from harness.outcome import Outcome
from harness.worlds import WORLDS, World, world

KINDS = {kind.__name__ for kind in (*FAULTS, *OPS)}


def test_each_world_lists_every_kind_as_supported_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worlds", "--json"]) == 0
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["worlds"]}
    assert tuple(told) == WORLDS
    for each in told.values():
        assert set(each["can"]) | set(each["cannot"]) == KINDS
        assert not set(each["can"]) & set(each["cannot"])
        assert "Crash" in each["can"]
    assert "CrashIn" in told["processes"]["cannot"]
    assert [name for name, each in told.items() if "controller" in each["machines"]] == ["cores", "stack"]
    assert [name for name, each in told.items() if "partitions" in each["machines"]] == list(WORLDS)


def test_kinds_of_some_machines_only_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worlds", "--json"]) == 0
    told = {each["name"]: each["of_machine"] for each in json.loads(capsys.readouterr().out)["worlds"]}
    assert set(told["processes"]) == {"list", "store", "partitions"}
    for of in told.values():
        assert "Write" in of["list"]
        assert "Ask" in of["store"]
        assert not {"Write", "Ask"} & set(of["partitions"])
    assert "CrashIn" not in told["processes"]["partitions"]
    assert main(["worlds"]) == 0
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert lines["CrashIn"] == ["CrashIn", "yes", "yes", "-", "any"]
    assert lines["Write"][4:] == ["list"]
    assert lines["Produce"][4:] == ["partitions"]


def test_table_has_a_line_for_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worlds"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines if line.strip()} >= KINDS


def outcome(script: Script, invariant: str | None) -> Outcome:
    return Outcome(script, invariant, "it was not", 0, 0, 0, 0, 0, 0, 0, ())


def pretended(name: str) -> World:
    """Return a fake world. `cores` reports violations of scripts with faults; the other one has no Pause."""

    def can(item: Fault | Op) -> bool:
        return name == "cores" or not isinstance(item, Pause)

    def run(script: Script, *, trace: bool = False) -> Outcome:
        return outcome(script, "liveness" if name == "cores" and script.faults else None)

    return World(name, "", can, run)


def test_comparison_runs_one_script_and_reports_differences() -> None:
    script = Script(1, faults=(Crash(10), Pause(20)))
    found = compare(script, ("cores", "stack"), chosen=pretended)
    assert found.script == evolve(script, faults=(Crash(10),))
    assert found.left_out == ("Pause",)
    assert (found.agree, found.valid) == (False, False)
    assert list(found.differences()) == ["cores: liveness: it was not; stack: valid"]


def test_comparison_of_worlds_that_agree() -> None:
    found = compare(Script(1, faults=(Pause(20),)), ("cores", "stack"), chosen=pretended)
    assert (found.agree, found.valid, list(found.differences())) == (True, True, [])


def test_two_real_worlds_agree_about_a_short_script(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--seed", "3", "--faults", "2", "--ops", "10", "--length-ms", "500", "--only", "cores,stack"]
    assert main(["worlds", "--compare", *options]) == 0
    told = capsys.readouterr().out
    assert "the verdicts agree" in told
    assert "cores: valid" in told


def test_invalid_arguments_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worlds", "--compare"]) == 2
    assert main(["run", "--seed", "1", "--netns"]) == 2
    assert "--netns" in capsys.readouterr().err
    assert main(["worlds", "--only", "moon"]) == 2


def test_every_world_can_be_loaded() -> None:
    assert [world(name).name for name in WORLDS] == list(WORLDS)
