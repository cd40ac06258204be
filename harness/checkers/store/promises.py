"""All promises of the store, judged apart: one that is broken does not hide another."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from harness.checkers.store import (
    effects,
    image,
    log,
    order,
    outcomes,
    read_only,
    realtime,
    sequences,
    sessions,
    watches,
)
from harness.checkers.store.broken import Broken
from harness.checkers.store.case import Case, Promise
from zab.core.plurals import counted

ALL: Final[tuple[Promise, ...]] = (
    log.check,
    order.replies,
    order.writes,
    order.never_back,
    realtime.ended,
    realtime.check,
    realtime.synced,
    image.check,
    effects.check,
    outcomes.kept,
    outcomes.once,
    sessions.lives,
    sessions.local,
    sessions.ephemerals,
    sequences.check,
    read_only.check,
    watches.check,
)
BROKEN_MAX: Final = 20
"""Of one promise. What comes after that is mostly what follows from it."""


@frozen
class Kept:
    """The broken promises, each with its first violations."""

    broken: tuple[Broken, ...]
    calls: int
    changes: int

    @property
    def held(self) -> bool:
        return not self.broken

    @property
    def promise(self) -> str | None:
        return self.broken[0].promise if self.broken else None

    @property
    def what(self) -> str:
        return self.broken[0].what if self.broken else ""

    def __str__(self) -> str:
        if self.held:
            return f"every promise was kept, for {counted(self.calls, 'call')} and {counted(self.changes, 'change')}"
        return "\n".join(str(each) for each in self.broken)


def kept(case: Case) -> Kept:
    found: list[Broken] = []
    for promise in ALL:
        found += sorted(promise(case), key=lambda each: each.at)[:BROKEN_MAX]
    return Kept(tuple(found), len(case.calls.all), len(case.history.changes))
