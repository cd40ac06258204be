"""The extras include all imports of their parts of the tree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
PROJECT = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
OURS = {"zab", "kraft_controller", "replica", "harness", "bench", "tests", "scripts"}
UNDER_ANOTHER_NAME = {"kafka": "kafka-python"}
LATE = {"bench": {"pytest"}, "dev": {"pysyncobj"}}
"""Distributions that no module imports for a user of this extra alone: for example, only pytest imports its plugins."""


def brought(extra: str) -> set[str]:
    """Distributions, with those of the extras that it names."""
    found = set()
    for wanted in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]:
        if inner := re.fullmatch(r"zab\[(.*)\]", wanted):
            found |= set().union(*map(brought, inner[1].split(",")))
        else:
            found.add(re.split(r"[^\w.-]", wanted)[0].replace("_", "-"))
    return found


IMPORT = re.compile(r"^[ \t]*(from|import) +(\w+)(.*)", re.MULTILINE)


def perhaps_imported(text: str) -> set[str]:
    """Return the modules of all lines that look like imports, also in strings. Parsing takes far longer."""
    found = set()
    for kind, first, rest in IMPORT.findall(text):
        found |= {first, *(re.findall(r", *(\w+)", rest) if kind == "import" else ())}
    return found


def imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize(
    ("extra", "packages"),
    [
        ("bench", ("bench", "zab/cli", "replica", "kraft_controller")),
        ("dev", ("tests", "bench", "zab", "replica", "kraft_controller", "harness")),
    ],
)
def test_extra_includes_its_imports(extra: str, packages: tuple[str, ...]) -> None:
    allowed = brought(extra) | LATE.get(extra, set())

    def missing(names: Iterable[str]) -> set[str]:
        foreign = set(names) - OURS - sys.stdlib_module_names
        return {UNDER_ANOTHER_NAME.get(name, name.replace("_", "-")) for name in foreign} - allowed

    texts = [path.read_text() for package in packages for path in (TREE / package).rglob("*.py")]
    assert any("trio" in perhaps_imported(text) for text in texts), "imports are found"
    wanted = [missing(imported(text)) for text in texts if missing(perhaps_imported(text))]
    assert set().union(*wanted) == set()


def test_every_import_is_found() -> None:
    text = "import a\nimport b.c, d as e, f\nfrom g.h import i\nfrom j import (\n    k,\n)\ndef l():\n    import m\n"
    assert set(imported(text)) == {"a", "b", "d", "f", "g", "j", "m"} <= perhaps_imported(text)
