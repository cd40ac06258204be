"""The pages say what is: diagrams, tables and commands are those of the code."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

import kraft_controller
from kraft_controller.core.transitions import PARTITION_FROM, REPLICA_FROM, drawn
from kraft_controller.runtime.controller_metrics import table
from replica.cli.reference import PAGES
from replica.cli.root import COMMANDS, zab_broker
from replica.runtime.admin.broker_metrics import table as brokers_table
from zab.cli.kit.program import check_command_line

DOCS = Path(__file__).resolve().parents[3] / "docs"
CONTROLLER = (DOCS / "protocol" / "controller.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_state_diagrams_match_the_tables() -> None:
    drawings = [block.rstrip() for language, block in BLOCK.findall(CONTROLLER) if language == "mermaid"]
    assert drawings == [drawn(PARTITION_FROM), drawn(REPLICA_FROM)]


def test_metrics_table_is_current() -> None:
    assert table() in CONTROLLER
    assert brokers_table() in (DOCS / "reference" / "metrics.md").read_text()


@pytest.mark.parametrize("path", PAGES)
def test_reference_page_is_current(path: str) -> None:
    """`python -m replica.cli.reference` writes the pages anew."""
    assert (DOCS.parent / path).read_text() == PAGES[path]()


def lines() -> list[str]:
    found = []
    for each in DOCS.rglob("*.md"):
        for language, block in BLOCK.findall(each.read_text()):
            if language in ("sh", "text"):
                found += [line.strip() for line in block.splitlines()]
    ours = [line.removeprefix(".venv/bin/") for line in found]
    return sorted({line for line in ours if line.startswith(tuple(f"zab-broker {name} " for name in COMMANDS))})


@pytest.mark.parametrize("line", lines())
def test_documented_commands_parse(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(re.split(r"\s{2,}|\s[#<>|]", line)[0])
    monkeypatch.chdir(tmp_path)
    for option, value in pairwise(words):
        if option == "--password-file":  # the option requires that its file exists
            (tmp_path / value).touch()
    check_command_line(zab_broker, words[1:])


def test_public_names_are_complete() -> None:
    for name in kraft_controller.__all__:
        assert getattr(kraft_controller, name) is not None
    assert set(kraft_controller.__all__) <= set(dir(kraft_controller))
    assert sorted(kraft_controller._MODULE_OF) == sorted(kraft_controller.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Zookeeper'"):
        kraft_controller.Zookeeper  # noqa: B018
