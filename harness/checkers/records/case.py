"""A history prepared for the checkers: the events that count, calls with their replies, and the offsets of each value.

A value is known to be at an offset if a client read it there, or if all replicas in sync acknowledged it there. A value
that fewer replicas have acknowledged may be lost, and another value may get its offset.

After an allowed loss (`Undone`), earlier events of the partition prove nothing: replies count as missing, reads as not
done, and consumers have no position. Later events and other partitions are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from attrs import define, evolve, field, frozen

from harness.checkers.records import history as records
from harness.checkers.records.history import Event, History
from harness.json_lines import HistoryError

OFFSET_MAX: Final = (1 << 63) - 1
"""The largest offset of the protocol."""


class Contradiction(HistoryError):
    """An event that no client can have recorded, with its index in the history."""

    def __init__(self, place: int, what: str) -> None:
        super().__init__(f"event {place}: {what}")
        self.place = place
        self.what = what


Call: TypeAlias = records.Sent | records.Committing | records.Looking
Answer: TypeAlias = records.Acked | records.Committed | records.Found | records.Failed | records.Unknown
_ANSWERS = {records.Sent: records.Acked, records.Committing: records.Committed, records.Looking: records.Found}


@define(eq=False)
class Write:
    sent: records.Sent
    place: int
    """The index of `sent` in the history."""
    answer: records.Acked | records.Failed | records.Unknown | None = None

    @property
    def acknowledged(self) -> bool:
        """Return whether all replicas in sync have acknowledged the record, so that it must never disappear."""
        return self.sent.acks == records.ALL and isinstance(self.answer, records.Acked)


C = TypeVar("C", records.Committing, records.Looking)
A = TypeVar("A", records.Committed, records.Found)


@define(eq=False)
class GroupCall(Generic[C, A]):
    """A call about the offsets of a group."""

    call: C
    place: int
    answer: A | records.Failed | records.Unknown | None = None
    answered: int = -1
    """The index of the reply in the history, or -1."""


@frozen
class Sighting:
    """The first event that shows a value at an offset."""

    record: records.Record
    at: int
    client: int
    event: records.Polled | records.Acked

    def evidence(self, case: Case) -> tuple[Event, ...]:
        """Return the events that show the value at the offset, without their other records."""
        if isinstance(self.event, records.Acked):
            return case.writes[self.record.value].sent, self.event
        return (evolve(self.event, records=(self.record,), spans=()),)


@define(eq=False)
class Case:
    history: History
    writes: dict[str, Write] = field(factory=dict)
    """The sent records, by value."""
    commits: list[GroupCall[records.Committing, records.Committed]] = field(factory=list)
    fetches: list[GroupCall[records.Looking, records.Found]] = field(factory=list)
    """The calls about the offsets of groups."""
    known: dict[str, dict[int, dict[str, Sighting]]] = field(factory=dict)
    """The values that are known to be at each offset, by partition, offset and value."""
    of: dict[str, dict[tuple[str, int], Sighting]] = field(factory=dict)
    """The partitions and offsets where each value was seen, by value."""
    reads: dict[str, dict[int, Sighting]] = field(factory=dict)
    """The first read of each offset, by partition and offset."""
    read: set[str] = field(factory=set)
    """The values that any client has read."""
    trims: dict[str, list[tuple[int, int]]] = field(factory=dict)
    """The DeleteRecords requests of each partition, as (index in the history, offset)."""
    _open: dict[int, Write | GroupCall[Any, Any]] = field(factory=dict)
    _calls: set[int] = field(factory=set)

    def may_be_deleted(self, write: Write) -> bool:
        """Return whether a later DeleteRecords request covers the record."""
        offset = write.answer.offset if isinstance(write.answer, records.Acked) else records.NOWHERE
        return any(place > write.place and offset < upto for place, upto in self.trims.get(write.sent.partition, ()))

    def deleted_below(self, partition: str, place: int) -> int:
        """Return the offset below which records may be missing, for events from this index of the history on."""
        return max((upto for asked, upto in self.trims.get(partition, ()) if asked < place), default=0)

    def offsets(self, value: str) -> list[Sighting]:
        """Return the offsets of a value, in ascending order, in the partition to which it was sent."""
        here = self.writes[value].sent.partition
        found = [each for (partition, _), each in self.of.get(value, {}).items() if partition == here]
        return sorted(found, key=lambda each: each.record.offset)

    def first(self, value: str) -> Sighting | None:
        return next(iter(self.offsets(value)), None)

    def take(self, event: Event, place: int) -> None:
        for offset, least in _offsets(event):
            if not least <= offset <= OFFSET_MAX:
                raise Contradiction(place, f"{offset} is not a legal offset")
        match event:
            case records.Sent():
                write = Write(event, place)
                if self.writes.setdefault(event.value, write) is not write:
                    raise Contradiction(place, f"{event.value!r} is sent a second time")
                self._begin(event, write, place)
            case records.Committing():
                self.commits.append(GroupCall(event, place))
                self._begin(event, self.commits[-1], place)
            case records.Looking():
                self.fetches.append(GroupCall(event, place))
                self._begin(event, self.fetches[-1], place)
            case records.Acked() | records.Committed() | records.Found() | records.Failed() | records.Unknown():
                self._answer(event, place)
            case records.Polled():
                self._poll(event, place)
            case records.Trimmed():
                self.trims.setdefault(event.partition, []).append((place, event.upto))
            case records.Assigned() | records.Sought() | records.Ended() | records.Undone():
                pass

    def _begin(self, call: Call, made: Write | GroupCall[Any, Any], place: int) -> None:
        if call.call in self._calls:
            raise Contradiction(place, f"call {call.call} is used twice")
        self._calls.add(call.call)
        self._open[call.call] = made

    def _answer(self, answer: Answer, place: int) -> None:
        made = self._open.pop(answer.call, None)
        call: Call | None = made.sent if isinstance(made, Write) else made.call if made is not None else None
        if call is None or call.client != answer.client:
            raise Contradiction(place, f"client {answer.client} has no open call {answer.call}")
        if not isinstance(answer, records.Failed | records.Unknown) and not isinstance(answer, _ANSWERS[type(call)]):
            raise Contradiction(place, f"{type(answer).__name__} cannot be the reply to {type(call).__name__}")
        if isinstance(made, Write):
            assert isinstance(answer, records.Acked | records.Failed | records.Unknown)
            made.answer = answer
            if isinstance(answer, records.Acked) and made.acknowledged and answer.offset != records.NOWHERE:
                record = records.Record(made.sent.partition, answer.offset, made.sent.value)
                self._see(Sighting(record, answer.at, answer.client, answer))
        elif made is not None:
            made.answer, made.answered = answer, place

    def _poll(self, poll: records.Polled, place: int) -> None:
        if poll.asked > poll.at:
            raise Contradiction(place, f"the poll ends at {poll.at}, before it began at {poll.asked}")
        spans: set[str] = set()
        for partition, start, end in poll.spans:
            if end < start:
                raise Contradiction(place, f"the span of {partition} begins at {start}, but ends at {end}")
            if partition in spans:
                raise Contradiction(place, f"{partition} has two spans")
            spans.add(partition)
        for record in poll.records:
            sighting = Sighting(record, poll.at, poll.client, poll)
            self.read.add(record.value)
            self.reads.setdefault(record.partition, {}).setdefault(record.offset, sighting)
            self._see(sighting)

    def _see(self, sighting: Sighting) -> None:
        partition, offset, value = sighting.record
        self.known.setdefault(partition, {}).setdefault(offset, {}).setdefault(value, sighting)
        self.of.setdefault(value, {}).setdefault((partition, offset), sighting)


def prepared(history: History) -> Case:
    case = Case(without_undone(history))
    at = 0
    for place, event in enumerate(case.history.events):
        if event.at < at:
            raise Contradiction(place, f"its time is {event.at}, but the event before it has {at}")
        at = event.at
        case.take(event, place)
    return case


def _offsets(event: Event) -> Iterator[tuple[int, int]]:
    """Yield the offsets of an event, each with the smallest legal value."""
    match event:
        case records.Acked(offset=offset) | records.Sought(offset=offset):
            yield offset, records.NOWHERE
        case records.Assigned(begins=places) | records.Committing(places=places) | records.Found(places=places):
            yield from ((offset, records.NOWHERE) for _, offset in places)
        case records.Trimmed(upto=offset):
            yield offset, 0
        case records.Polled():
            yield from ((record.offset, 0) for record in event.records)
            yield from ((offset, 0) for span in event.spans for offset in (span.start, span.end))
        case _:
            pass


def spans_of(poll: records.Polled) -> Iterator[records.Span]:
    """Yield the spans of a poll. Derive them from the records for partitions without one."""
    named = {span.partition for span in poll.spans}
    yield from poll.spans
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for partition, offset, _ in poll.records:
        if partition not in named:
            first.setdefault(partition, offset)
            last[partition] = max(offset, last.get(partition, offset))
    for partition, offset in first.items():
        yield records.Span(partition, offset, last[partition] + 1)


UNDONE = "it was undone"


def without_undone(history: History) -> History:
    """Return the history with the same number of events, reduced by everything that a later `Undone` voids."""
    undone = {event.partition: place for place, event in enumerate(history.events) if isinstance(event, records.Undone)}
    if not undone:
        return history
    sent_to = {event.call: event.partition for event in history.events if isinstance(event, records.Sent)}
    positions = max(
        (place for name, place in undone.items() if name.startswith(records.POSITIONS)), default=records.NOWHERE
    )

    def left(event: Event, place: int) -> Event:
        def void(partition: str) -> bool:
            return place < undone.get(partition, records.NOWHERE)

        match event:
            case records.Sent() if void(event.partition):
                return evolve(event, producer=0)  # the brokers may have lost the producer's state, and write it twice
            case records.Acked() if void(sent_to.get(event.call, "")):
                return records.Unknown(event.at, event.client, event.call, UNDONE)
            case records.Committed() if place < positions:
                return records.Unknown(event.at, event.client, event.call, UNDONE)
            case records.Sought() if void(event.partition):
                return evolve(event, offset=records.NOWHERE)
            case records.Polled():
                kept = tuple(each for each in event.records if not void(each.partition))
                return evolve(
                    event, records=kept, spans=tuple(each for each in event.spans if not void(each.partition))
                )
            case records.Assigned():
                begins = tuple(each for each in event.begins if not void(each.partition))
                return evolve(event, begins=begins, goes_on=tuple(each for each in event.goes_on if not void(each)))
            case _:
                return event

    return evolve(history, events=tuple(left(event, place) for place, event in enumerate(history.events)))


def proof(*events: Event) -> tuple[Event, ...]:
    """Return the events in the order of their times, each once."""
    return tuple(sorted(dict.fromkeys(events), key=lambda event: event.at))
