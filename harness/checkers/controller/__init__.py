"""Invariants of a controller and its brokers, checked against committed changes, requests and applied commands.

Each invariant is a function over a `Case` that yields its violations. `settled` checks during the run that all
procedures end after the last fault, because this check has to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.controller import controllers, partitions
from harness.checkers.controller.case import Case
from harness.checkers.controller.facts import Fact
from harness.history import History
from kraft_controller.wire.znodes import DamagedNode

READABLE: Final = "written znodes can be decoded"

ALL: Final[tuple[Callable[[Case], Iterator[Broken]], ...]] = (
    controllers.one_per_epoch,
    controllers.fenced,
    partitions.leaders,
    partitions.versions,
    partitions.assignments,
    partitions.arrived,
    controllers.obedience,
)


def judged(history: History, facts: Sequence[Fact]) -> Broken | None:
    """Return the first violation, in the order of `ALL`. A node that cannot be decoded is the only violation then."""
    try:
        case = Case.of(history, facts)
        return next((broken for invariant in ALL for broken in invariant(case)), None)
    except DamagedNode as damaged:
        return Broken(READABLE, str(damaged))


__all__ = ["ALL", "READABLE", "Broken", "Case", "judged"]
