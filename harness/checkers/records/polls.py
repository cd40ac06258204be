"""Consumers: positions never decrease, and no consumer skips a record that is known to exist.

Both hold within a poll and from one poll to the next, unless the consumer moved on purpose or got another assignment in
between. A consumer may skip unknown offsets: they belong to control records, or were never used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from attrs import evolve, frozen

from harness.checkers.broken import Broken
from harness.checkers.records.case import Case, proof, spans_of
from harness.checkers.records.history import NOWHERE, Assigned, Ended, Place, Polled, Record, Sought, Span

FORWARD: Final = "a consumer's position does not decrease"
NOTHING_MISSED: Final = "a consumer skips no record"


class Position(NamedTuple):
    """A consumer's position, and the event that shows it."""

    offset: int
    event: Assigned | Sought | Polled

    def evidence(self, partition: str) -> Assigned | Sought | Polled:
        """Return the event, reduced to this position."""
        match self.event:
            case Polled():
                return evolve(self.event, records=(), spans=(Span(partition, self.offset, self.offset),))
            case Assigned():
                return evolve(self.event, begins=(Place(partition, self.offset),), goes_on=())
            case Sought():
                return self.event


@frozen
class PartitionPoll:
    """A poll, as far as it is about one partition."""

    poll: Polled
    span: Span
    position: Position | None
    """The consumer's position before the poll, if known."""
    deleted: int
    """The offset below which records may be missing."""

    @property
    def narrow(self) -> Polled:
        """Return the poll without its records, reduced to this partition."""
        return evolve(self.poll, records=(), spans=(self.span,))


def polls_of(case: Case) -> Iterator[PartitionPoll]:
    """Yield all polls. A consumer without a recorded move continues where its last poll ended."""
    positions: dict[int, dict[str, Position]] = {}
    for place, event in enumerate(case.history.events):
        its = positions.setdefault(event.client, {})
        match event:
            case Assigned():
                positions[event.client] = {name: its[name] for name in event.goes_on if name in its}
                for partition, offset in event.begins:
                    _put(positions[event.client], partition, offset, event)
            case Sought():
                _put(its, event.partition, event.offset, event)
            case Ended():
                its.clear()
            case Polled():
                for span in spans_of(event):
                    partition = span.partition
                    yield PartitionPoll(event, span, its.get(partition), case.deleted_below(partition, place))
                    _put(its, partition, span.end, event)
            case _:
                pass


def _put(positions: dict[str, Position], partition: str, offset: int, event: Assigned | Sought | Polled) -> None:
    if offset == NOWHERE:
        positions.pop(partition, None)
    else:
        positions[partition] = Position(offset, event)


def polls(case: Case) -> Iterator[Broken]:
    read = {partition: sorted(offsets) for partition, offsets in case.reads.items()}
    for each in polls_of(case):
        partition = each.span.partition
        records = [record for record in each.poll.records if record.partition == partition]
        known = read.get(partition, [])
        yield from _from_before(case, each, records, known)
        yield from _in_order(each, records)
        yield from _missed(case, each, records, known)


def _from_before(case: Case, each: PartitionPoll, records: list[Record], known: list[int]) -> Iterator[Broken]:
    """Check that the poll begins where the last one ended, or later if no known record lies in between.

    Records in between that the poll itself returned are not missing; `_in_order` reports their wrong order.
    """
    before, (partition, start, _) = each.position, each.span
    if before is None:
        return
    evidence = before.evidence(partition), each.narrow
    client = f"client {each.poll.client} in {partition}"
    if start < before.offset:
        yield Broken(FORWARD, f"{client} goes back from {before.offset} to {start}", evidence)
    for missed in _skipped(each, known, before.offset, start, records):
        seen = case.reads[partition][missed]
        what = f"{client} continues from {before.offset} at {start} and skips {seen.record.value!r} at {missed}"
        yield Broken(NOTHING_MISSED, what, proof(*seen.evidence(case), *evidence))


def _in_order(each: PartitionPoll, records: list[Record]) -> Iterator[Broken]:
    span, client = each.span, f"client {each.poll.client} in {each.span.partition}"
    least, last = span.start, Record(span.partition, span.start - 1, "")
    for record in records:
        if record.offset < least:
            what = f"{client}: a poll from {span.start} returns {record.offset}"
            what += f" after {last.offset}" if last.value else ""
            shown = (last, record) if last.value else (record,)
            yield Broken(FORWARD, what, (evolve(each.narrow, records=shown),))
        least, last = record.offset + 1, record
    if least > span.end:
        what = f"{client}: a poll up to {span.end} returns {last.offset}"
        yield Broken(FORWARD, what, (evolve(each.narrow, records=(last,)),))


def _missed(case: Case, each: PartitionPoll, records: list[Record], known: list[int]) -> Iterator[Broken]:
    partition, start, end = each.span
    for offset in _skipped(each, known, start, end, records):
        seen = case.reads[partition][offset]
        what = (
            f"client {each.poll.client} in {partition}: a poll from {start} to {end} skips {seen.record.value!r} at"
            f" {offset}, which client {seen.client} has read"
        )
        yield Broken(NOTHING_MISSED, what, proof(*seen.evidence(case), each.narrow))


def _skipped(each: PartitionPoll, known: list[int], start: int, end: int, records: list[Record]) -> list[int]:
    """Return the offsets of records that a client has read, and that these do not contain. `lost` checks unread
    ones."""
    found = {record.offset for record in records}
    between = known[bisect_left(known, max(start, each.deleted)) : bisect_left(known, end)]
    return [offset for offset in between if offset not in found]
