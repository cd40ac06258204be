"""Consumers: each goes forward, and leaves out nothing of which it is known that it was there.

Within one poll, and from one poll to the next, unless the consumer moved on purpose or was given other partitions in
between. Offsets of which nothing is known may be left out: they belong to what is no record, or were never used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from attrs import define, evolve, field

from harness.checkers.records.broken import Broken, proof
from harness.checkers.records.case import Case, spans_of
from harness.checkers.records.history import Polled, Record, Span
from harness.checkers.records.stood import Standing

FORWARD: Final = "a consumer's position does not decrease"
NOTHING_MISSED: Final = "a consumer skips no record"


def polls(case: Case) -> Iterator[Broken]:
    judge = _Polls(case)
    for place, event in enumerate(case.history.events):
        judge.place = place
        if isinstance(event, Polled):
            yield from judge.polled(event)
        else:
            judge.stood.take(event)


@define(eq=False)
class _Polls:
    case: Case
    stood: Standing = field(factory=Standing)
    place: int = 0
    """In the history."""
    _offsets: dict[str, list[int]] = field(factory=dict)

    def polled(self, poll: Polled) -> Iterator[Broken]:
        by_partition: dict[str, list[Record]] = {}
        for record in poll.records:
            by_partition.setdefault(record.partition, []).append(record)
        for span in spans_of(poll):
            records = by_partition.get(span.partition, [])
            found = {record.offset for record in records}
            yield from self._from_before(poll, span, found)
            yield from self._in_order(poll, span, records)
            yield from self._missed(poll, span, found)
            self.stood.polled(poll, span)

    def _from_before(self, poll: Polled, span: Span, found: set[int]) -> Iterator[Broken]:
        """It begins where it ended, or behind that if nothing is known to lie between.

        What it has found there itself it does not miss: that this is not where it began is said of its order.
        """
        before = self.stood.at(poll.client, span.partition)
        if before is None:
            return
        offset = before.offset
        evidence = before.evidence(span.partition), evolve(poll, records=(), spans=(span,))
        who = f"client {poll.client} in {span.partition}"
        if span.start < offset:
            yield Broken(FORWARD, f"{who} was at {offset} and goes on at {span.start}", evidence)
        for missed in self._read_between(span.partition, offset, span.start):
            if missed in found:
                continue
            seen = self.case.reads[span.partition][missed]
            what = f"{who} was at {offset} and goes on at {span.start}: it leaves out {seen.record.value!r} at {missed}"
            yield Broken(NOTHING_MISSED, what, proof(*seen.evidence(self.case), *evidence))

    def _in_order(self, poll: Polled, span: Span, records: list[Record]) -> Iterator[Broken]:
        least, last = span.start, Record(span.partition, span.start - 1, "")
        for record in records:
            kept = (last, record) if last.value else (record,)
            if record.offset < least:
                what = f"client {poll.client} in {span.partition}: one poll from {span.start} has {record.offset}"
                what += f" behind {last.offset}" if last.value else ""
                yield Broken(FORWARD, what, (evolve(poll, records=kept, spans=(span,)),))
            least, last = record.offset + 1, record
        if least > span.end:
            what = f"client {poll.client} in {span.partition}: one poll ends at {span.end} and has {last.offset}"
            yield Broken(FORWARD, what, (evolve(poll, records=(last,), spans=(span,)),))

    def _missed(self, poll: Polled, span: Span, found: set[int]) -> Iterator[Broken]:
        for offset in self._read_between(span.partition, span.start, span.end):
            if offset not in found:
                seen = self.case.reads[span.partition][offset]
                what = (
                    f"client {poll.client} in {span.partition}: one poll from {span.start} to {span.end} leaves out "
                    f"{seen.record.value!r} at {offset}, which client {seen.client} has read"
                )
                narrow = evolve(poll, records=(), spans=(span,))
                yield Broken(NOTHING_MISSED, what, proof(*seen.evidence(self.case), narrow))

    # -- what is known of a partition ----------------------------------------------------------------

    def _read_between(self, partition: str, start: int, end: int) -> Iterator[int]:
        """Offsets where somebody has read something that is still there. What nobody has is lost, or not seen yet."""
        start = max(start, self.case.gone_before(partition, self.place))
        offsets = self._offsets.get(partition)
        if offsets is None:
            offsets = self._offsets[partition] = sorted(self.case.reads.get(partition, ()))
        for place in range(bisect_left(offsets, start), bisect_left(offsets, end)):
            yield offsets[place]
