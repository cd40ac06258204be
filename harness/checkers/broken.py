"""A violation that a checker of a history reports, and the interface of such checkers.

A checker is a function over a case (a history, prepared) and yields what it finds. `check` runs several of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from attrs import frozen

BROKEN_MAX: Final = 20
"""The violations that one checker reports. Further ones mostly follow from these."""


@frozen
class Broken:
    invariant: str
    what: str
    evidence: tuple[Any, ...] = ()
    """The events and changes that show it."""
    at: int = 0
    """Microseconds since the run began: when a client could first know. 0: what servers decided is itself wrong."""
    session: int = 0
    call: int = 0
    zxid: int = 0

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


Case = TypeVar("Case")


def check(checkers: Iterable[Callable[[Case], Iterator[Broken]]], case: Case) -> tuple[Broken, ...]:
    """Run each checker by itself, so that one violation does not hide another."""
    return tuple(
        broken for checker in checkers for broken in sorted(checker(case), key=lambda each: each.at)[:BROKEN_MAX]
    )
