"""A violation that a checker of a history reports, and the interface of such checkers.

A checker is a function over a case (a prepared history) that yields the violations that it finds. `check` runs several
checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from attrs import frozen

BROKEN_MAX: Final = 20
"""The limit of violations that one checker reports. Further ones mostly follow from these."""


@frozen
class Broken:
    invariant: str
    what: str
    evidence: tuple[Any, ...] = ()
    """The events and changes that show the violation."""
    at: int = 0
    """The time when a client could first notice the violation, in microseconds since the run began. 0: the committed
    changes are wrong by themselves."""
    session: int = 0
    call: int = 0
    zxid: int = 0

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


@frozen
class Findings:
    """The violations that the checkers of a history found."""

    broken: tuple[Broken, ...]

    @property
    def valid(self) -> bool:
        return not self.broken

    @property
    def invariant(self) -> str | None:
        """Return the first violated invariant."""
        return self.broken[0].invariant if self.broken else None

    @property
    def what(self) -> str:
        """Return the description of the first violation."""
        return self.broken[0].what if self.broken else ""


Case = TypeVar("Case")


def check(checkers: Iterable[Callable[[Case], Iterator[Broken]]], case: Case) -> tuple[Broken, ...]:
    """Run each checker by itself, so that one violation does not hide another."""
    return tuple(
        broken for checker in checkers for broken in sorted(checker(case), key=lambda each: each.at)[:BROKEN_MAX]
    )
