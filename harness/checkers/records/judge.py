"""The verdict on a history of brokers' clients: the violations, or the order of each partition, and numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.broken import Broken, check
from harness.checkers.records import groups, lost, members, polls, values
from harness.checkers.records.case import Case, prepared, spans_of
from harness.checkers.records.history import Acked, Failed, History, Polled
from harness.checkers.records.verify import proves

Orders: TypeAlias = tuple[tuple[str, tuple[tuple[int, str], ...]], ...]

CHECKERS: Final[tuple[Callable[[Case], Iterator[Broken]], ...]] = (
    values.one,
    lost.lost,
    values.once,
    values.written,
    values.in_order,
    values.behind,
    polls.polls,
    groups.positions,
    members.owned,
    members.passed,
    members.onwards,
)
"""The gravest first."""


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
    def valid(self) -> bool:
        return not self.broken

    @property
    def invariant(self) -> str | None:
        return self.broken[0].invariant if self.broken else None

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
    broken = check(CHECKERS, case)
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


def lag_us_max(case: Case) -> int:
    """Of all polls, the longest time for which the first record that it did not get had been acknowledged already.

    At least so much: a record was there before it was acknowledged.
    """
    acknowledged = {partition: _since(case, partition) for partition in case.known}
    longest = 0
    for poll in case.history.events:
        if isinstance(poll, Polled):
            for span in spans_of(poll):
                offsets, times = acknowledged.get(span.partition, ([], []))
                place = bisect_left(offsets, span.end)
                if place < len(offsets):
                    longest = max(longest, poll.asked - times[place])
    return longest


def _since(case: Case, partition: str) -> tuple[list[int], list[int]]:
    """Offsets ascending, and for each when the first of it and those behind it was acknowledged."""
    found = sorted(
        (offset, sighting.at)
        for offset, values in case.known[partition].items()
        for sighting in values.values()
        if isinstance(sighting.event, Acked)
    )
    times: list[int] = []
    for _, at in reversed(found):
        times.append(min(at, times[-1]) if times else at)
    return [offset for offset, _ in found], times[::-1]
