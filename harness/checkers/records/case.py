"""A history prepared for the checkers: the events that count, calls with their replies, and the offsets of each value.

A value is known to be at an offset if a client read it there, or if all replicas in sync acknowledged it there. A value
that fewer replicas have acknowledged may be lost, and another value may get its offset.

After an allowed loss (`Undone`), earlier events of the partition prove nothing: replies count as missing, reads as not
done, and consumers have no position. Later events and other partitions are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from attrs import define, evolve, field, frozen

from harness.checkers.records.history import (
    ALL,
    NOWHERE,
    POSITIONS,
    Acked,
    Assigned,
    Committed,
    Committing,
    Ended,
    Event,
    Failed,
    Found,
    History,
    Looking,
    Polled,
    Record,
    Sent,
    Sought,
    Span,
    Trimmed,
    Undone,
    Unknown,
)
from harness.json_lines import HistoryError

OFFSET_MAX: Final = (1 << 63) - 1
"""The largest offset of the protocol."""


class Contradiction(HistoryError):
    """An event that no client can have recorded, with its index in the history."""

    def __init__(self, place: int, what: str) -> None:
        super().__init__(f"event {place}: {what}")
        self.place = place
        self.what = what


Call: TypeAlias = Sent | Committing | Looking
Answer: TypeAlias = Acked | Committed | Found | Failed | Unknown
_ANSWERS = {Sent: Acked, Committing: Committed, Looking: Found}


@define(eq=False)
class Write:
    sent: Sent
    place: int
    """The index of `sent` in the history."""
    answer: Acked | Failed | Unknown | None = None

    @property
    def acknowledged(self) -> bool:
        """Return whether all replicas in sync have acknowledged the record, so that it must never disappear."""
        return self.sent.acks == ALL and isinstance(self.answer, Acked)


@define(eq=False)
class GroupCall:
    """A call about the offsets of a group."""

    call: Committing | Looking
    place: int
    answer: Committed | Found | Failed | Unknown | None = None
    answered: int = -1
    """The index of the reply in the history, or -1."""


@frozen
class Sighting:
    """The first event that shows a value at an offset."""

    record: Record
    at: int
    client: int
    event: Polled | Acked

    def evidence(self, case: Case) -> tuple[Event, ...]:
        """Return the events that show the value at the offset, without their other records."""
        if isinstance(self.event, Acked):
            return case.writes[self.record.value].sent, self.event
        return (evolve(self.event, records=(self.record,), spans=()),)


@define(eq=False)
class Case:
    history: History
    writes: dict[str, Write] = field(factory=dict)
    """The sent records, by value."""
    groups: list[GroupCall] = field(factory=list)
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

    def may_be_deleted(self, write: Write) -> bool:
        """Return whether a later DeleteRecords request covers the record."""
        offset = write.answer.offset if isinstance(write.answer, Acked) else NOWHERE
        return any(place > write.place and offset < upto for place, upto in self.trims.get(write.sent.partition, ()))

    def deleted_below(self, partition: str, place: int) -> int:
        """Return the offset below which records may be missing, for events from this index of the history on."""
        return max((upto for asked, upto in self.trims.get(partition, ()) if asked < place), default=0)

    def first(self, value: str) -> Sighting | None:
        """Return the lowest offset of the value in the partition to which it was sent."""
        write = self.writes[value]
        here = [each for (partition, _), each in self.of.get(value, {}).items() if partition == write.sent.partition]
        return min(here, key=lambda each: each.record.offset, default=None)


def prepared(history: History) -> Case:
    return _Preparing(history).case


@define(eq=False)
class _Preparing:
    history: History
    case: Case = field(init=False)
    _open: dict[int, Write | GroupCall] = field(factory=dict)
    _calls: set[int] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.case = Case(without_undone(self.history))
        at = 0
        for place, event in enumerate(self.case.history.events):
            if event.at < at:
                raise Contradiction(place, f"its time is {event.at}, but the event before it has {at}")
            at = event.at
            self._take(event, place)

    def _take(self, event: Event, place: int) -> None:
        for offset, least in _offsets(event):
            if not least <= offset <= OFFSET_MAX:
                raise Contradiction(place, f"{offset} is not a legal offset")
        match event:
            case Sent():
                write = Write(event, place)
                if self.case.writes.setdefault(event.value, write) is not write:
                    raise Contradiction(place, f"{event.value!r} is sent a second time")
                self._begin(event, write, place)
            case Committing() | Looking():
                asked = GroupCall(event, place)
                self.case.groups.append(asked)
                self._begin(event, asked, place)
            case Acked() | Committed() | Found() | Failed() | Unknown():
                self._answer(event, place)
            case Polled():
                self._poll(event, place)
            case Trimmed():
                self.case.trims.setdefault(event.partition, []).append((place, event.upto))
            case Assigned() | Sought() | Ended() | Undone():
                pass

    def _begin(self, call: Call, made: Write | GroupCall, place: int) -> None:
        if call.call in self._calls:
            raise Contradiction(place, f"call {call.call} is used twice")
        self._calls.add(call.call)
        self._open[call.call] = made

    def _answer(self, answer: Answer, place: int) -> None:
        made = self._open.pop(answer.call, None)
        call: Call | None = made.sent if isinstance(made, Write) else made.call if made is not None else None
        if call is None or call.client != answer.client:
            raise Contradiction(place, f"client {answer.client} has no open call {answer.call}")
        if not isinstance(answer, Failed | Unknown) and not isinstance(answer, _ANSWERS[type(call)]):
            raise Contradiction(place, f"{type(answer).__name__} cannot be the reply to {type(call).__name__}")
        if isinstance(made, Write):
            assert isinstance(answer, Acked | Failed | Unknown)
            made.answer = answer
            if isinstance(answer, Acked) and made.acknowledged and answer.offset != NOWHERE:
                record = Record(made.sent.partition, answer.offset, made.sent.value)
                self._see(Sighting(record, answer.at, answer.client, answer))
        elif isinstance(made, GroupCall):
            assert not isinstance(answer, Acked)
            made.answer, made.answered = answer, place

    def _poll(self, poll: Polled, place: int) -> None:
        if poll.asked > poll.at:
            raise Contradiction(place, f"the poll ends at {poll.at}, before it began at {poll.asked}")
        spans: set[str] = set()
        for span in poll.spans:
            if span.end < span.start:
                raise Contradiction(
                    place, f"the span of {span.partition} begins at {span.start}, but ends at {span.end}"
                )
            if span.partition in spans:
                raise Contradiction(place, f"{span.partition} has two spans")
            spans.add(span.partition)
        for record in poll.records:
            sighting = Sighting(record, poll.at, poll.client, poll)
            self.case.read.add(record.value)
            self.case.reads.setdefault(record.partition, {}).setdefault(record.offset, sighting)
            self._see(sighting)

    def _see(self, sighting: Sighting) -> None:
        partition, offset, value = sighting.record
        self.case.known.setdefault(partition, {}).setdefault(offset, {}).setdefault(value, sighting)
        self.case.of.setdefault(value, {}).setdefault((partition, offset), sighting)


def _offsets(event: Event) -> Iterator[tuple[int, int]]:
    """Yield the offsets of an event, each with the smallest legal value."""
    match event:
        case Acked(offset=offset) | Sought(offset=offset):
            yield offset, NOWHERE
        case Assigned(begins=places) | Committing(places=places) | Found(places=places):
            yield from ((offset, NOWHERE) for _, offset in places)
        case Trimmed(upto=offset):
            yield offset, 0
        case Polled():
            yield from ((record.offset, 0) for record in event.records)
            yield from ((offset, 0) for span in event.spans for offset in (span.start, span.end))
        case _:
            pass


def spans_of(poll: Polled) -> Iterator[Span]:
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
        yield Span(partition, offset, last[partition] + 1)


UNDONE = "it was undone"


def without_undone(history: History) -> History:
    """Return the history with the same number of events, reduced by everything that a later `Undone` voids."""
    undone = {event.partition: place for place, event in enumerate(history.events) if isinstance(event, Undone)}
    if not undone:
        return history
    sent_to = {event.call: event.partition for event in history.events if isinstance(event, Sent)}
    positions = max((place for name, place in undone.items() if name.startswith(POSITIONS)), default=NOWHERE)
    cut = _Reduction(undone, sent_to, positions)
    return evolve(history, events=tuple(cut.left(event, place) for place, event in enumerate(history.events)))


@define(eq=False)
class _Reduction:
    undone: Mapping[str, int]
    """The index of the last `Undone` in the history, by partition."""
    sent_to: Mapping[int, str]
    """The partition of each `Sent`, by call."""
    positions: int
    """The index of the last `Undone` of a partition of the offsets topic."""

    def left(self, event: Event, place: int) -> Event:
        match event:
            case Sent() if self._is(event.partition, place):
                return evolve(event, producer=0)  # the brokers may have lost the producer's state, and write it twice
            case Acked() if self._is(self.sent_to.get(event.call, ""), place):
                return Unknown(event.at, event.client, event.call, UNDONE)
            case Committed() if place < self.positions:
                return Unknown(event.at, event.client, event.call, UNDONE)
            case Sought() if self._is(event.partition, place):
                return evolve(event, offset=NOWHERE)
            case Polled():
                return evolve(
                    event,
                    records=tuple(each for each in event.records if not self._is(each.partition, place)),
                    spans=tuple(each for each in event.spans if not self._is(each.partition, place)),
                )
            case Assigned():
                return evolve(
                    event,
                    begins=tuple(each for each in event.begins if not self._is(each.partition, place)),
                    goes_on=tuple(each for each in event.goes_on if not self._is(each, place)),
                )
            case _:
                return event

    def _is(self, partition: str, place: int) -> bool:
        return place < self.undone.get(partition, NOWHERE)


def proof(*events: Event) -> tuple[Event, ...]:
    """Return the events in the order of their times, each once."""
    return tuple(sorted(dict.fromkeys(events), key=lambda event: event.at))
