"""Whatever is given to a command, it answers. Where it was misused: 2, one clear sentence, and never a traceback."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.cli.root import COMMANDS, MISUSED, VALID

NO_SCRIPTS = {
    "empty": (b"\n", "the script is empty"),
    "cut off": (b'{"version": 2, "seed": 1, "faults": [', "no JSON"),
    "another version": (b'{"version": 99, "seed": 1}', "99"),
    "no object": (b"[1, 2]", "expected an object"),
    "unknown key": (b'{"version": 2, "seed": 1, "sed": 2}', "sed"),
    "unknown fault": (b'{"version": 2, "seed": 1, "faults": [{"kind": "Meteor", "at": 1}]}', "Meteor"),
    "wrong type": (b'{"version": 2, "seed": "one"}', "seed"),
    "no text": (b"\xff\xfe\x00", "byte 0 is not UTF-8"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "another language": (b"at 300 ms earthquake", "earthquake"),
}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == MISUSED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert len(captured.err.strip().splitlines()) == 1, captured.err
    return captured.err


@pytest.mark.parametrize("kind", NO_SCRIPTS)
@pytest.mark.parametrize("command", ["replay", "shrink", "show"])
def test_invalid_script_is_refused(command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, why = NO_SCRIPTS[kind]
    path = tmp_path / "script"
    path.write_bytes(data)
    words = said(capsys, command, "--script", str(path))
    assert str(path) in words
    assert why in words


def test_a_file_that_no_script_needs_is_not_read_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 34)  # holes: it takes no room, and would take sixteen GiB to read
    assert "more than 4 MiB" in said(capsys, "replay", "--script", str(path))
    monkeypatch.setattr("harness.cli.check.HISTORY_BYTES_MAX", 1 << 20)
    assert "more than 1 MiB" in said(capsys, "check", str(path))
    with path.open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        assert "more than 1 MiB" in said(capsys, "check", "-")
        assert file.tell() == (1 << 20) + 1


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"history": 99}\n', b"\xff", b"[" * 100_000, b'{"history": 1, "events": 3}']
)
def test_invalid_history_is_refused(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history"
    path.write_bytes(data)
    assert str(path) in said(capsys, "check", str(path))


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none")
    assert "No such file" in said(capsys, "replay", "--script", missing)
    assert "No such file" in said(capsys, "check", missing)
    assert "directory" in said(capsys, "replay", "--script", str(tmp_path))


def test_either_a_seed_or_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert "either --seed or --script" in said(capsys, "replay")
    assert "either --seed or --script" in said(capsys, "shrink", "--seed", "1", "--script", "x")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_refuses_what_it_does_not_know(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == VALID
    words = capsys.readouterr().out
    assert f"zab-harness {command}" in words
    assert len(words.splitlines()) > 5
    assert main([command, "--no-such-option"]) == MISUSED
    assert capsys.readouterr().err.splitlines()[1:] == [f"see zab-harness {command} --help"]


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["fuzz", "--mutant", "nope"], "Invalid value for '--mutant': there is no 'nope'; `mutants --list` has all"),
        (["run", "--seed", "1", "--mutant", "kip-102"], "there is no 'kip-102'; near it: KIP-101, "),
        (["fuzz", "--profile", "transaction"], "there is no 'transaction'; near it: transactions"),
        (["run", "--seed", "x"], "Invalid value for '--seed': 'x' is not a valid integer range"),
        (["fuzz", "--servers", "3,x"], "Invalid value for '--servers': 'x' is not a valid integer range"),
        (["mutants", "--seconds", "x"], "Invalid value for '--seconds': 'x': expected a number of seconds"),
    ],
)
def test_usage_error_is_one_line(words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == MISUSED
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert wrong in lines[0]
    assert len(lines[0]) < 200


@pytest.mark.parametrize(
    "words",
    [
        ["show", "--seed", "1"],
        ["replay", "--seed", "1", "--diagram", "run.html"],
        ["shrink", "--seed", "1", "--diagram", "run.html"],
        ["fuzz", "--runs", "1", "--diagram", "run.html"],
    ],
)
def test_world_without_events_cannot_be_drawn(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is it run: all servers would stand there as if they were down."""
    monkeypatch.chdir(tmp_path)
    assert "records no events" in said(capsys, *words, "--world", "processes")
    assert not list(tmp_path.iterdir())


def test_no_command_or_one_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == MISUSED
    said = capsys.readouterr().err
    assert "Usage: zab-harness" in said
    assert "a first look" in said
    assert main(["conquer"]) == MISUSED
    assert capsys.readouterr().err == "zab-harness: there is no command 'conquer'\nsee zab-harness --help\n"
    assert main(["shw"]) == MISUSED
    assert "there is no command 'shw'; near it: show" in capsys.readouterr().err


def test_time_is_for_runs_that_are_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--seconds", "1", "--output", "found"]) == MISUSED
    assert "--seconds is not for stored campaigns" in capsys.readouterr().err


def test_a_result_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--seed", "1", "--faults", "1", "--ops", "5", "--length-ms", "300", "--json"]) == VALID
    assert json.loads(capsys.readouterr().out)["valid"] is True


def test_a_history_that_cannot_be_stored_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = said(capsys, "run", "--seed", "1", "--history", "/nowhere/x")
    assert "the list has no clients" in words
    words = said(capsys, "run", "--seed", "1", "--machine", "store", "--history", "/nowhere/x")
    assert "there is no directory /nowhere" in words


@pytest.mark.parametrize("text", ["-1", "nan", "inf"])
def test_a_time_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "--seconds", text, "M29"]) == MISUSED
    assert "expected a number of seconds" in capsys.readouterr().err
