"""The extras include all imports of their parts of the tree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
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


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
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
    wanted = {
        UNDER_ANOTHER_NAME.get(name, name.replace("_", "-"))
        for package in packages
        for path in (TREE / package).rglob("*.py")
        for name in imported(path)
        if name not in OURS and name not in sys.stdlib_module_names
    }
    assert wanted, "there is something to be brought"
    assert wanted - brought(extra) - LATE.get(extra, set()) == set()
