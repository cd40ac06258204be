"""Check the arguments of a campaign before anything runs. A campaign of no runs, for example, would always pass."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from harness.draw import JOINERS
from harness.embed.child import CHILD, Called
from harness.faults import Script
from harness.script.checks import SERVERS_MAX, check

VOTERS_MAX: Final = SERVERS_MAX - JOINERS
LEAST: Final = {"nodes": 1, "runs": 1, "length_ms": 1, "jobs": 1}
"""The least values of numbers. The default is 0."""


def check_place(call: str) -> None:
    """Raise an error if a campaign cannot run here: while a file is loaded for its classes, or where Trio runs."""
    if os.environ.get(CHILD):
        raise Called
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return
    raise RuntimeError(
        f"harness.{call}() runs Trio itself, and Trio already runs here: call it from a plain function, not from an"
        " async one, for example in a test that is not async"
    )


def check_numbers(**given: object) -> None:
    for name, value in given.items():
        _number(name, value, LEAST.get(name, 0))


def check_servers(given: object) -> None:
    example = "such as (3, 5)"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"servers={given!r}: expected a sequence of numbers of servers, {example}")
    if not given:
        raise ValueError(f"servers={given!r}: at least one number of servers is needed, {example}")
    for place, each in enumerate(given):
        _number(f"servers[{place}]", each, 1, VOTERS_MAX)


def check_paths(*, keep: object = None, diagram: object = None) -> None:
    for name, given, what in (("keep", keep, "folder"), ("diagram", diagram, "file")):
        if given is not None and not isinstance(given, str | Path):
            raise TypeError(f"{name}={given!r}: expected the path of a {what}")
    if keep is not None and Path(str(keep)).exists() and not Path(str(keep)).is_dir():
        raise ValueError(f"keep={str(keep)!r}: this exists, but is not a folder")
    if diagram is not None and not (folder := Path(str(diagram)).absolute().parent).is_dir():
        raise ValueError(f"diagram={str(diagram)!r}: there is no folder {folder}")


def check_seconds(shrink_seconds: object, **others: object) -> None:
    for name, given in {"shrink_seconds": shrink_seconds, **others}.items():
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise TypeError(f"{name}={given!r}: expected a number of seconds")
        if not given >= 0:
            raise ValueError(f"{name}={given!r}: expected 0 or more")


def check_script(given: object) -> None:
    """Check a script. A file is checked when it is read."""
    if isinstance(given, Script):
        check(given)
    elif given is not None and not isinstance(given, str | Path):
        raise TypeError(f"script={given!r}: expected a Script, or the path of a file with one")


def _number(name: str, value: object, least: int, most: int | None = None) -> None:
    allowed = f"{least} or more" if most is None else f"from {least} to {most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # it raises if the value is no integer
    except TypeError:
        raise TypeError(f"{name}={value!r}: expected a whole number, {allowed}") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name}={value!r}: expected {allowed}")
