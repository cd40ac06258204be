"""The verdict on a history of brokers' clients: the violations, or the order of each partition, with counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.broken import Broken, Findings, check
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
"""All checkers, the most serious invariants first."""


@frozen
class Counts:
    sent: int
    acknowledged: int
    failed: int
    unknown: int
    """The number of sends with an unknown outcome or without a reply."""
    unknown_written: int
    """The number of unknown sends whose records were read, and so were written."""
    read: int
    """The number of different values that were read."""
    repeated: int
    """The number of values at several offsets whose producers are not idempotent."""
    unread: int
    """The number of records that all replicas in sync acknowledged, and that no consumer has read."""
    lag_us_max: int
    """The largest lag of a consumer, in microseconds."""


@frozen
class Verdict(Findings):
    orders: Orders
    """The known values of each partition with their offsets, as the proof of a legal history; empty for others."""
    counts: Counts

    def __str__(self) -> str:
        if self.broken:
            return str(self.broken[0])
        counts = self.counts
        return (
            f"legal: {counts.sent} sent, {counts.acknowledged} acknowledged, {counts.failed} refused, {counts.unknown} "
            f"unknown ({counts.unknown_written} of them written), {counts.read} read, {len(self.orders)} partitions"
        )


def judge(history: History) -> Verdict:
    """Check all invariants. Raise HistoryError if the history contradicts itself."""
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
    """Return the largest lag of a poll: the time since the acknowledgement of the first record after its end.

    The true lag is at least as large, because a record is written before its acknowledgement.
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
    """Return the acknowledged offsets in ascending order, and for each the earliest acknowledgement from it on."""
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
