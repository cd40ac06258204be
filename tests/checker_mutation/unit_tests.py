"""Unit tests of checkers as cases. A mutation is killed if a test fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import pytest


def actions(modules: Iterable[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each test of these modules of `tests.unit.harness`, once for each set of parameters.

    The tests must not use fixtures, and their parameters must be plain values, without `pytest.param`.
    """
    for module in modules:
        for name, test in vars(import_module(f"tests.unit.harness.{module}")).items():
            if name.startswith("test_"):
                for arguments in _argument_sets(test):
                    yield f"{module}.{name}, {arguments}", partial(_passes, test, arguments)


def _passes(test: Callable[..., object], arguments: dict[str, Any]) -> bool:
    try:
        test(**arguments)
    except pytest.fail.Exception:  # which is no `Exception`
        return False
    return True


def _argument_sets(test: Callable[..., object]) -> Iterator[dict[str, Any]]:
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    for rows in product(*(_rows(*mark.args) for mark in marks)):
        yield {name: value for row in rows for name, value in row.items()}


def _rows(names: str | tuple[str, ...], values: Iterable[Any]) -> list[dict[str, Any]]:
    if isinstance(names, str):
        return [{names: value} for value in values]
    return [dict(zip(names, row, strict=True)) for row in values]
