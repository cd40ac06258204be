"""Plant a bug: replace a piece of a function's source inside a `with` block.

The shipped code has no hooks for this. A piece that does not occur exactly once raises `Stale`, so a change of the code
cannot silently disable a mutant.
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
    """A mutant does not match the current code."""


@frozen
class Edit:
    """Replace `old` by `new` in the function `where`, `module:name` or `module:Class.name`, or in a property's getter.

    A piece without line breaks is replaced within its line; pieces of whole lines match at any indentation.
    """

    where: str
    old: str
    new: str


@frozen
class Mutant:
    name: str
    bug: str
    """The bug that the edits plant, as one sentence: subject first."""
    edits: tuple[Edit, ...]
    voters: tuple[int, ...] = (3, 5)
    """The sizes of ensembles in which a hunt runs it, in turn."""
    world: str = "cores"
    machine: str = "list"
    profile: str = ""
    """A profile of scripts that leads to the bug's situation."""


def mutant(
    name: str,
    bug: str,
    *edits: tuple[str, str, str],
    voters: tuple[int, ...] = (3, 5),
    machine: str = "list",
) -> Mutant:
    return Mutant(name, bug, tuple(Edit(*edit) for edit in edits), voters, machine=machine)


@contextmanager
def planted(edits: Sequence[Edit]) -> Iterator[None]:
    with ExitStack() as stack:
        for where in dict.fromkeys(edit.where for edit in edits):
            stack.enter_context(_planted(where, [edit for edit in edits if edit.where == where]))
        yield


@contextmanager
def _planted(where: str, edits: Sequence[Edit]) -> Iterator[None]:
    module_name, _, path = where.partition(":")
    module = import_module(module_name)
    *owners, name = path.split(".")
    owner: Any = module
    for part in owners:
        owner = getattr(owner, part, None)
    if owner is None or name not in vars(owner):
        raise Stale(f"{where} does not exist")
    kept = vars(owner)[name]
    made = _remade(kept, where, edits)
    places = [(owner, name)]
    if isinstance(owner, type):
        tables = [table for each in _with_subclasses(owner) for table in vars(each).values() if isinstance(table, dict)]
    else:
        tables = []
        # Modules that imported the function by its name.
        places += [
            (other, name)
            for key, other in sorted(sys.modules.items())
            if key.startswith(("zab.", "kraft_controller.", "replica.", "harness."))
            and other is not module
            and getattr(other, name, None) is kept
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


def _with_subclasses(owner: type) -> list[type]:
    """Return the class and all below it: a table of handlers may name a function that the class inherits."""
    classes = [owner]
    for each in classes:
        classes += type.__subclasses__(each)
    return classes


def _remade(kept: object, where: str, edits: Sequence[Edit]) -> Any:
    if isinstance(kept, property):
        assert kept.fget is not None
        return property(_rewritten(kept.fget, where, edits))
    if isinstance(kept, classmethod | staticmethod):
        return type(kept)(_rewritten(kept.__func__, where, edits))
    if not isinstance(kept, FunctionType):
        raise Stale(f"{where} is not a function")
    return _rewritten(kept, where, edits)


def _rewritten(function: Callable[..., Any], where: str, edits: Sequence[Edit]) -> Callable[..., Any]:
    assert isinstance(function, FunctionType)
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        source = replaced(source, edit)
    tree = ast.parse(source)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    names: dict[str, Any] = {}
    code = compile(tree, f"<mutant of {where}>", "exec", flags=_annotations_stay_text())
    exec(code, function.__globals__, names)
    made: Callable[..., Any] = names[definition.name]
    return made


def replaced(source: str, edit: Edit) -> str:
    if "\n" not in edit.old + edit.new:
        found = source.count(edit.old)
        if found != 1:
            raise Stale(f"{edit.where} contains this text {found} times, expected once: {edit.old!r}")
        return source.replace(edit.old, edit.new)
    lines = source.split("\n")
    old, new = _block(edit.old), _block(edit.new)
    places = [at for at in range(len(lines)) if _block("\n".join(lines[at : at + len(old)])) == old]
    if len(places) != 1:
        raise Stale(f"{edit.where} contains these lines {len(places)} times, expected once:\n{edit.old}")
    at = places[0]
    indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
    lines[at : at + len(old)] = [indent + line for line in new]
    return "\n".join(lines)


def _block(text: str) -> list[str]:
    return textwrap.dedent(text).strip("\n").rstrip().split("\n")


def _annotations_stay_text() -> int:
    import __future__

    return __future__.annotations.compiler_flag
