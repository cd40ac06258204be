"""Putting a bug back: a piece of a function's source is replaced, for as long as a `with` block lasts.

Nothing in the shipped code knows of this. A mutant is written as what a reader of a diff would see: the
function, the piece that is there, the piece that takes its place. A piece that is no longer there exactly
once is an error, so that a mutant cannot silently stop to be one when the code moves on.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any

from attrs import frozen


class Stale(Exception):
    """A mutant does not fit the code any more."""


@frozen
class Edit:
    """`where` is `module:name` or `module:Class.name`; a property is edited in its getter."""

    where: str
    old: str
    new: str


@contextmanager
def planted(edits: Sequence[Edit]) -> Iterator[None]:
    with ExitStack() as stack:
        for edit in edits:
            stack.enter_context(_planted(edit))
        yield


@contextmanager
def _planted(edit: Edit) -> Iterator[None]:
    module_name, _, path = edit.where.partition(":")
    module = import_module(module_name)
    *owners, name = path.split(".")
    owner: Any = module
    for part in owners:
        owner = getattr(owner, part)
    if name not in vars(owner):
        raise Stale(f"there is no {edit.where}")
    kept = vars(owner)[name]
    made = _remade(kept, edit)
    places = [(owner, name)]
    if isinstance(owner, type):
        tables = [table for table in vars(owner).values() if isinstance(table, dict)]
    else:
        tables = []
        # Who imported the function by name has it under that name.
        places += [
            (other, name)
            for key, other in sorted(sys.modules.items())
            if key.startswith(("zab.", "harness.")) and other is not module and getattr(other, name, None) is kept
        ]
    rows = [(table, key) for table in tables for key, value in table.items() if value is kept]
    for place, attribute in places:
        setattr(place, attribute, made)
    for table, key in rows:
        table[key] = made
    try:
        yield
    finally:
        for place, attribute in places:
            setattr(place, attribute, kept)
        for table, key in rows:
            table[key] = kept


def _remade(kept: object, edit: Edit) -> Any:
    if isinstance(kept, property):
        assert kept.fget is not None
        return property(_rewritten(kept.fget, edit))
    if isinstance(kept, classmethod | staticmethod):
        return type(kept)(_rewritten(kept.__func__, edit))
    assert isinstance(kept, FunctionType), f"{edit.where} is no function"
    return _rewritten(kept, edit)


def _rewritten(function: Callable[..., Any], edit: Edit) -> Callable[..., Any]:
    source = textwrap.dedent(inspect.getsource(function))
    found = source.count(edit.old)
    if found != 1:
        raise Stale(f"{edit.where} contains {found} times, not once: {edit.old!r}")
    tree = ast.parse(source.replace(edit.old, edit.new))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    names: dict[str, Any] = {}
    code = compile(tree, f"<mutant of {edit.where}>", "exec", flags=_annotations_stay_text())
    assert isinstance(function, FunctionType)
    exec(code, function.__globals__, names)
    made: Callable[..., Any] = names[definition.name]
    return made


def _annotations_stay_text() -> int:
    import __future__

    return __future__.annotations.compiler_flag
