"""Everything that clients of brokers are promised, held against what they saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.records import groups, lost, members, polls, sends, values
from harness.checkers.records.broken import Broken
from harness.checkers.records.case import Case, prepared
from harness.checkers.records.history import Acked, Failed, History
from harness.checkers.records.lag import lag_us_max
from harness.checkers.records.verify import proves

Orders: TypeAlias = tuple[tuple[str, tuple[tuple[int, str], ...]], ...]

CHECKERS: Final[tuple[Callable[[Case], Iterator[Broken]], ...]] = (
    values.one,
    lost.lost,
    values.once,
    values.written,
    sends.in_order,
    sends.behind,
    polls.polls,
    groups.positions,
    members.owned,
    members.passed,
    members.onwards,
)
"""The gravest first."""
SHOWN_MAX: Final = 20
"""Of one checker: whoever has seen so many has seen enough."""


@frozen
class Counts:
    sent: int
    acknowledged: int
    failed: int
    unknown: int
    """Also those that were never answered."""
    unknown_written: int
    """Of the unknown, those that somebody has read: they were written."""
    read: int
    """Different values."""
    repeated: int
    """Values that stand twice, of producers who promised nothing."""
    unread: int
    """Acknowledged by all, and never read."""
    lag_us_max: int


@frozen
class Verdict:
    broken: tuple[Broken, ...]
    orders: Orders
    """If nothing is broken: of each partition what stands where, as far as it is known. That proves it."""
    counts: Counts

    @property
    def held(self) -> bool:
        return not self.broken

    @property
    def promise(self) -> str | None:
        return self.broken[0].promise if self.broken else None

    def __str__(self) -> str:
        if self.broken:
            return str(self.broken[0])
        counts = self.counts
        return (
            f"legal: {counts.sent} sent, {counts.acknowledged} acknowledged, {counts.failed} refused, {counts.unknown} "
            f"unknown ({counts.unknown_written} of them written), {counts.read} read, {len(self.orders)} partitions"
        )


def judge(history: History) -> Verdict:
    """`HistoryError` if it contradicts itself."""
    case = prepared(history)
    broken = tuple(each for check in CHECKERS for each in islice(check(case), SHOWN_MAX))
    orders = () if broken else order_of(case)
    if not broken:
        wrong = proves(orders, history)
        assert wrong is None, f"the order proves nothing: {wrong}"
    return Verdict(broken, orders, counts_of(case))


def order_of(case: Case) -> Orders:
    return tuple(
        (partition, tuple((offset, value) for offset in sorted(known) for value in known[offset]))
        for partition, known in sorted(case.known.items())
    )


def counts_of(case: Case) -> Counts:
    writes = case.writes.values()
    open_ = [write for write in writes if not isinstance(write.answer, Acked | Failed)]
    return Counts(
        sent=len(writes),
        acknowledged=sum(isinstance(write.answer, Acked) for write in writes),
        failed=sum(isinstance(write.answer, Failed) for write in writes),
        unknown=len(open_),
        unknown_written=sum(write.sent.value in case.read for write in open_),
        read=len(case.read),
        repeated=values.repeated(case),
        unread=lost.unread(case),
        lag_us_max=lag_us_max(case),
    )
