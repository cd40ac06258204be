"""The first thing that somebody sees of the harness."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.cli import main
from harness.cli.one_run import drill_script
from harness.report.diagram import read
from harness.report.summary import summary
from harness.worlds.cores.world import run


@pytest.mark.parametrize("where", ["stack", "cores"])
def test_drill_prints_and_draws_isolated_leader(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "drill.html"
    assert main(["drill", "--world", where, "--output", str(path)]) == 0
    told = capsys.readouterr().out
    first = re.search(r"server (\d) leads epoch 1\n", told)
    second = re.search(r"server (\d) leads epoch 2, \d+ ms after the fault", told)
    assert first is not None
    assert second is not None
    assert first[1] != second[1]
    assert f"isolate leader for 700 ms (server {first[1]})" in told
    assert f"server {first[1]} stops leading epoch 1" in told
    assert "1300 ms  the fault is over" in told
    assert f"server {first[1]} follows server {second[1]} in epoch 2" in told
    assert "all servers are equal" in told
    assert path.as_uri() in told
    text = path.read_text()
    assert "A leader is cut off" in text
    assert f"<li>600 ms  a fault: isolate leader for 700 ms (server {first[1]})</li>" in text


@pytest.mark.parametrize("words", [["drill", "--world", "cores"], ["show", "--seed", "1"]])
def test_json_output_has_path_of_page(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--json", "--output", str(tmp_path / "a.html")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["page"]).read_text().startswith("<!doctype html>")
    assert (told["valid"], told["world"], told["invariant"]) == (True, "cores", None)


@pytest.mark.parametrize("seed", range(8))
def test_summary_is_the_same_for_all_seeds(seed: int) -> None:
    outcome = run(drill_script(seed), trace=True)
    assert outcome.valid
    assert outcome.trace is not None
    told = "\n".join(summary(outcome, read(outcome.trace, 3)))
    assert told.count("leads epoch") == 2
    assert re.search(r"truncates [1-9]\d* writes that the new leader does not have", told)


def test_unwritable_output_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "--output", str(tmp_path / "no" / "a.html")]) == 2
    assert "No such file" in capsys.readouterr().err
