"""Consumers: positions never decrease, and no consumer skips a record that is known to exist.

Both hold within a poll and from one poll to the next, unless the consumer moved on purpose or got another assignment in
between. A consumer may skip unknown offsets: they belong to control records, or were never used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from attrs import define, evolve, field

from harness.checkers.broken import Broken
from harness.checkers.records.case import Case, proof, spans_of
from harness.checkers.records.history import NOWHERE, Assigned, Ended, Event, Place, Polled, Record, Sought, Span

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


_Places: TypeAlias = dict[str, Position]


@define(eq=False)
class Positions:
    """The positions of all consumers. A consumer without a recorded move continues where its last poll ended."""

    _places: dict[int, _Places] = field(factory=dict)

    def at(self, client: int, partition: str) -> Position | None:
        return self._places.get(client, {}).get(partition)

    def take(self, event: Event) -> None:
        """Apply an event other than a poll. `polled` applies the spans of polls one by one, after their check."""
        match event:
            case Assigned():
                before = self._places.get(event.client, {})
                self._places[event.client] = {name: before[name] for name in event.goes_on if name in before}
                for partition, offset in event.begins:
                    self._put(event.client, partition, offset, event)
            case Sought():
                self._put(event.client, event.partition, event.offset, event)
            case Ended():
                self._places.pop(event.client, None)
            case _:
                pass

    def polled(self, poll: Polled, span: Span) -> None:
        self._put(poll.client, span.partition, span.end, poll)

    def _put(self, client: int, partition: str, offset: int, event: Assigned | Sought | Polled) -> None:
        places = self._places.setdefault(client, {})
        if offset == NOWHERE:
            places.pop(partition, None)
        else:
            places[partition] = Position(offset, event)


def polls(case: Case) -> Iterator[Broken]:
    judge = _Polls(case)
    for place, event in enumerate(case.history.events):
        judge.place = place
        if isinstance(event, Polled):
            yield from judge.polled(event)
        else:
            judge.position.take(event)


@define(eq=False)
class _Polls:
    case: Case
    position: Positions = field(factory=Positions)
    place: int = 0
    """The index of the current event in the history."""
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
            self.position.polled(poll, span)

    def _from_before(self, poll: Polled, span: Span, found: set[int]) -> Iterator[Broken]:
        """Check that the poll begins where the last one ended, or later if no known record lies in between.

        Records in between that the poll itself returned are not missing; `_in_order` reports their wrong order.
        """
        before = self.position.at(poll.client, span.partition)
        if before is None:
            return
        offset = before.offset
        evidence = before.evidence(span.partition), evolve(poll, records=(), spans=(span,))
        client = f"client {poll.client} in {span.partition}"
        if span.start < offset:
            yield Broken(FORWARD, f"{client} goes back from {offset} to {span.start}", evidence)
        for missed in self._read_between(span.partition, offset, span.start):
            if missed in found:
                continue
            seen = self.case.reads[span.partition][missed]
            what = f"{client} continues from {offset} at {span.start} and skips {seen.record.value!r} at {missed}"
            yield Broken(NOTHING_MISSED, what, proof(*seen.evidence(self.case), *evidence))

    def _in_order(self, poll: Polled, span: Span, records: list[Record]) -> Iterator[Broken]:
        least, last = span.start, Record(span.partition, span.start - 1, "")
        for record in records:
            kept = (last, record) if last.value else (record,)
            if record.offset < least:
                what = f"client {poll.client} in {span.partition}: a poll from {span.start} returns {record.offset}"
                what += f" after {last.offset}" if last.value else ""
                yield Broken(FORWARD, what, (evolve(poll, records=kept, spans=(span,)),))
            least, last = record.offset + 1, record
        if least > span.end:
            what = f"client {poll.client} in {span.partition}: a poll up to {span.end} returns {last.offset}"
            yield Broken(FORWARD, what, (evolve(poll, records=(last,), spans=(span,)),))

    def _missed(self, poll: Polled, span: Span, found: set[int]) -> Iterator[Broken]:
        for offset in self._read_between(span.partition, span.start, span.end):
            if offset not in found:
                seen = self.case.reads[span.partition][offset]
                what = (
                    f"client {poll.client} in {span.partition}: a poll from {span.start} to {span.end} skips "
                    f"{seen.record.value!r} at {offset}, which client {seen.client} has read"
                )
                narrow = evolve(poll, records=(), spans=(span,))
                yield Broken(NOTHING_MISSED, what, proof(*seen.evidence(self.case), narrow))

    # -- known records -------------------------------------------------------------------------------

    def _read_between(self, partition: str, start: int, end: int) -> Iterator[int]:
        """Yield the offsets of records that any client has read and that are not deleted. `lost` checks unread ones."""
        start = max(start, self.case.deleted_below(partition, self.place))
        offsets = self._offsets.get(partition)
        if offsets is None:
            offsets = self._offsets[partition] = sorted(self.case.reads.get(partition, ()))
        for place in range(bisect_left(offsets, start), bisect_left(offsets, end)):
            yield offsets[place]
