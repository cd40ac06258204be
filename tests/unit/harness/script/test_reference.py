"""The reference page says of every kind what the code says, and the scripts that it points to run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from harness.faults import FAULTS, NODE_FAULTS, OPS, Ask, Knobs, Reconfigure, Step, Timing
from harness.script.checks import CHOICES
from harness.script.constants import CONSTANTS
from harness.script.names import MOMENTS
from harness.script.writing import describe_item
from harness.scripts import VERSION, loads
from harness.worlds.cores.world import run

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "reference" / "fault-scripts.md").read_text()
SCRIPTS = sorted((ROOT / "docs" / "examples" / "scripts").glob("*.txt"))


def example(kind: Any) -> Any:
    """With all that is left out as usual."""
    if kind is Reconfigure:
        return Reconfigure(0, "add", 4)
    return Ask(0, 1, (Step("create", "/a"),)) if kind is Ask else kind(at=0)


def row(kind: type) -> str:
    about = " ".join((inspect.getdoc(kind) or "").split())
    return f"| `{describe_item(example(kind))}` | {about} |".replace("| leader", "\\| leader")


def test_every_kind_has_its_row() -> None:
    missing = [row(kind) for kind in (*FAULTS, *NODE_FAULTS, *OPS) if row(kind) not in PAGE]
    assert not missing, "rows that the page lacks:\n" + "\n".join(missing)


def test_the_page_has_no_row_of_a_kind_that_is_not_there() -> None:
    rows = re.findall(r"^\| `(.+?)` \|", PAGE, re.MULTILINE)
    known = {describe_item(example(kind)) for kind in (*FAULTS, *NODE_FAULTS, *OPS)}
    assert [each for each in rows if each not in known] == []


def test_every_word_to_choose_from_is_named() -> None:
    said = set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)))
    for name in ("loss", "error", "does", "shape", "manner", "change", "point", "harm"):
        assert set(CHOICES[name]) <= said, name
    for moment in MOMENTS:
        assert moment in said or moment.rsplit(" ", 1)[0] + " …" in said, moment


def test_every_constant_is_named() -> None:
    assert [name for name in CONSTANTS if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("place", [Timing, Knobs])
def test_every_setting_is_named(place: type) -> None:
    assert [each.name for each in attrs.fields(place) if f"`{each.name}` {each.default}" not in PAGE] == []


def test_the_version_is_named() -> None:
    assert f"version {VERSION}" in PAGE


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_written_by_hand(path: Path) -> None:
    script = loads(path.read_text())
    outcome = run(script)
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    hits = {name.removeprefix("hit ") for name, _ in outcome.counts if name.startswith("hit ")}
    assert {type(fault).__name__ for fault in script.faults} <= hits, "a fault without effect is a mistake"
    assert f"../examples/scripts/{path.name}" in PAGE


def test_there_are_scripts_written_by_hand() -> None:
    assert len(SCRIPTS) >= 3
