"""The verdict on a history of the store: each invariant separately, then linearizability.

The checkers of single invariants report each mistake and the client that saw it. If they find none,
`harness.checkers.linear` decides, with a proof, whether the operations have an order in which each takes effect at one
instant between its call and its reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from attrs import frozen

from harness.checkers import linear
from harness.checkers.broken import Broken, Findings, check
from harness.checkers.linear.decide import BUDGET
from harness.checkers.linear.znodes import Znodes
from harness.checkers.store import image, log, order, refusals, sessions, watches, writes
from harness.checkers.store.case import Case
from harness.checkers.store.linearize import operations
from harness.history import History
from zab.core.plurals import counted

ALL: Final[tuple[Callable[[Case], Iterator[Broken]], ...]] = (
    log.possible,
    order.replies,
    order.writes,
    order.never_back,
    order.ended,
    order.after_invocation,
    order.synced,
    image.check,
    writes.replies,
    writes.committed,
    writes.once,
    sessions.lives,
    sessions.local,
    sessions.ephemerals,
    log.numbered,
    refusals.read_only,
    watches.check,
)


@frozen
class InvariantVerdict(Findings):
    """The violated invariants, each with its first violations, and the size of the history."""

    calls: int
    changes: int

    def __str__(self) -> str:
        if self.valid:
            return f"every invariant holds, for {counted(self.calls, 'call')} and {counted(self.changes, 'change')}"
        return "\n".join(str(each) for each in self.broken)


def check_invariants(case: Case) -> InvariantVerdict:
    return InvariantVerdict(check(ALL, case), len(case.calls.all), len(case.history.changes))


LINEARIZABLE = "writes and synced reads are linearizable"


@frozen
class Verdict:
    store: InvariantVerdict
    linear: linear.Verdict | None
    """None: an invariant was violated, so linearizability was not checked."""

    @property
    def valid(self) -> bool:
        """Return whether the history is proved correct; an unknown verdict is not valid."""
        return self.store.valid and isinstance(self.linear, linear.Legal)

    @property
    def unknown(self) -> bool:
        return isinstance(self.linear, linear.Unknown)

    @property
    def invariant(self) -> str | None:
        """Return the first invariant that was violated or could not be decided."""
        return self.store.invariant if not self.store.valid else None if self.valid else LINEARIZABLE

    @property
    def what(self) -> str:
        return self.store.what if not self.store.valid else "" if self.valid else str(self.linear)

    def __str__(self) -> str:
        if not self.store.valid:
            return str(self.store)
        return f"{self.store}\n{self.linear}"


def judge(history: History, budget: int = BUDGET) -> Verdict:
    case = Case.of(history)
    invariants = check_invariants(case)
    if not invariants.valid:
        return Verdict(invariants, None)
    made = operations(case)
    return Verdict(invariants, linear.check(made, Znodes.of(made.operations), budget))
