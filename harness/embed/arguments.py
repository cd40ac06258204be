"""What a campaign is asked for, looked at before anything runs: a campaign of no runs would hold, whatever is wrong."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.draw import JOINERS
from harness.faults import Script
from harness.script.checks import SERVERS_MAX, check

VOTERS_MAX: Final = SERVERS_MAX - JOINERS
LEAST: Final = {
    "runs": 1,
    "seed": 0,
    "faults": 0,
    "operations": 0,
    "length_ms": 1,
    "shrink_runs": 0,
    "jobs": 1,
    "stop_after": 0,
}


def check_numbers(**given: object) -> None:
    """Each by the name under which it was given."""
    for name, value in given.items():
        _number(name, value, LEAST[name])


def check_servers(given: object) -> None:
    example = "such as (3, 5)"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"servers={given!r}: expected a sequence of numbers of servers, {example}")
    if not given:
        raise ValueError(f"servers={given!r}: at least one number of servers is needed, {example}")
    for place, each in enumerate(given):
        _number(f"servers[{place}]", each, 1, VOTERS_MAX)


def check_keep(given: object) -> None:
    if given is None:
        return
    if not isinstance(given, str | Path):
        raise TypeError(f"keep={given!r}: expected the path of a folder")
    if Path(given).exists() and not Path(given).is_dir():
        raise ValueError(f"keep={str(given)!r}: this is there, and is no folder")


def check_file(given: object) -> None:
    if given is None:
        return
    if not isinstance(given, str | Path):
        raise TypeError(f"diagram={given!r}: expected the path of a file")
    if not Path(given).absolute().parent.is_dir():
        raise ValueError(f"diagram={str(given)!r}: there is no folder {Path(given).absolute().parent}")


def check_seconds(given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"shrink_seconds={given!r}: expected a number of seconds")
    if not given >= 0:
        raise ValueError(f"shrink_seconds={given!r}: expected 0 or more")


def check_script(given: object) -> None:
    """What a file says is looked at when it is read."""
    if isinstance(given, Script):
        check(given)
    elif given is not None and not isinstance(given, str | Path):
        raise TypeError(f"script={given!r}: expected a Script, or the path of a file with one")


def _number(name: str, value: object, least: int, most: int | None = None) -> None:
    allowed = f"{least} or more" if most is None else f"from {least} to {most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # it says itself whether it is one
    except TypeError:
        raise TypeError(f"{name}={value!r}: expected a whole number, {allowed}") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name}={value!r}: expected {allowed}")
