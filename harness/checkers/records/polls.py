"""Consumers: each goes forward, and skips no record that is known to exist.

Within one poll, and from one poll to the next, unless the consumer moved on purpose or was assigned other partitions in
between. Offsets of which nothing is known may be skipped: they belong to control records, or were never used.
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


class Stood(NamedTuple):
    """A consumer's position, and the event that shows it."""

    offset: int
    event: Assigned | Sought | Polled

    def evidence(self, partition: str) -> Assigned | Sought | Polled:
        """Return the event, cut down to this position."""
        match self.event:
            case Polled():
                return evolve(self.event, records=(), spans=(Span(partition, self.offset, self.offset),))
            case Assigned():
                return evolve(self.event, begins=(Place(partition, self.offset),), goes_on=())
            case Sought():
                return self.event


_Places: TypeAlias = dict[str, Stood]


@define(eq=False)
class Standing:
    """The positions of all consumers: one that does not report a move goes on where it ended."""

    _places: dict[int, _Places] = field(factory=dict)

    def at(self, client: int, partition: str) -> Stood | None:
        return self._places.get(client, {}).get(partition)

    def take(self, event: Event) -> None:
        """Take an event that is no poll. Spans of polls are taken one by one after their check, by `polled`."""
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
            places[partition] = Stood(offset, event)


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
