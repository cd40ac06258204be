"""Corruptions: each makes a legal history illegal by one change.

A corruption returns None if the history has no place for it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias, TypeVar

from attrs import evolve

from harness.checkers.records.case import Case, Write, prepared, spans_of
from harness.checkers.records.history import (
    NO_GENERATION,
    NOWHERE,
    Acked,
    Assigned,
    Committed,
    Committing,
    Event,
    Failed,
    Found,
    History,
    Looking,
    Place,
    Polled,
    Record,
    Sent,
)

Corruption: TypeAlias = Callable[[Random, History], History | None]
T = TypeVar("T")


def _one(chance: Random, fitting: list[T]) -> T | None:
    return chance.choice(fitting) if fitting else None


def _replaced(history: History, place: int, *events: Event) -> History:
    return evolve(history, events=(*history.events[:place], *events, *history.events[place + 1 :]))


def _polls(history: History, fits: Callable[[Polled], bool]) -> list[tuple[int, Polled]]:
    return [(place, each) for place, each in enumerate(history.events) if isinstance(each, Polled) and fits(each)]


def _kept(case: Case) -> list[Write]:
    return [write for write in case.writes.values() if write.acknowledged]


# -- writes --------------------------------------------------------------------------------------------


def never_read(chance: Random, history: History) -> History | None:
    """Remove an acknowledged value from all polls."""
    case = prepared(history)
    passed = [write for write in _kept(case) if write.sent.value in case.read]
    write = _one(chance, [each for each in passed if history.complete or _is_passed(case, each)])
    if write is None:
        return None
    return evolve(history, events=tuple(_without(each, write.sent.value) for each in history.events))


def _is_passed(case: Case, write: Write) -> bool:
    """Return whether a client read the value at its acknowledged offset."""
    assert isinstance(write.answer, Acked)
    return write.answer.offset in case.reads.get(write.sent.partition, {})


def _without(event: Event, value: str) -> Event:
    if not isinstance(event, Polled):
        return event
    return evolve(
        event, records=tuple(each for each in event.records if each.value != value), spans=tuple(spans_of(event))
    )


def never_seen(chance: Random, history: History) -> History | None:
    """Acknowledge a value that no client ever reads, in a complete history."""
    if not history.complete:
        return None
    at, offset = history.events[-1].at, chance.choice((NOWHERE, 10_000))
    call = max((getattr(each, "call", 0) for each in history.events), default=0) + 1
    more = Sent(at, 90, call, "t-0", "unseen"), Acked(at, 90, call, offset)
    return evolve(history, events=(*history.events, *more))


def refused_and_written(chance: Random, history: History) -> History | None:
    case = prepared(history)
    found = [write for write in case.writes.values() if write.answer is not None and write.sent.value in case.read]
    write = _one(chance, found)
    if write is None or write.answer is None:
        return None
    answer = write.answer
    place = next(place for place, each in enumerate(history.events) if each is answer)
    return _replaced(history, place, Failed(answer.at, answer.client, answer.call, "REFUSED"))


def exchanged(chance: Random, history: History) -> History | None:
    """Exchange two values, the first of which was known when the second was sent."""
    case = prepared(history)
    found = []
    for one in _kept(case):
        assert isinstance(one.answer, Acked)
        for two in case.writes.values():
            place = case.first(two.sent.value)
            if (
                two.sent.partition == one.sent.partition
                and (one.answer.at < two.sent.at or 0 < one.sent.producer == two.sent.producer)
                and one.place < two.place
                and one.answer.offset != NOWHERE
                and place is not None
                and len(case.of[two.sent.value]) == len(case.of[one.sent.value]) == 1
            ):
                found.append((one.sent, two.sent))
    pair = _one(chance, found)
    if pair is None:
        return None
    places = [case.first(each.value) for each in pair]
    assert places[0] is not None
    assert places[1] is not None
    offsets = {pair[0].call: places[1].record.offset, pair[1].call: places[0].record.offset}
    values = {pair[0].value: pair[1].value, pair[1].value: pair[0].value}
    return evolve(history, events=tuple(_exchanged(each, offsets, values) for each in history.events))


def _exchanged(event: Event, offsets: dict[int, int], values: dict[str, str]) -> Event:
    if isinstance(event, Acked) and event.call in offsets and event.offset != NOWHERE:
        return evolve(event, offset=offsets[event.call])
    if isinstance(event, Polled):
        return evolve(
            event, records=tuple(each._replace(value=values.get(each.value, each.value)) for each in event.records)
        )
    return event


# -- reads ---------------------------------------------------------------------------------------------


def _lied(chance: Random, history: History, lie: Callable[[Record, Case, Polled], Record | None]) -> History | None:
    """Replace one record of a poll."""
    case = prepared(history)
    found = [
        (place, poll, number)
        for place, poll in _polls(history, lambda poll: True)
        for number in range(len(poll.records))
    ]
    chance.shuffle(found)
    for place, poll, number in found:
        other = lie(poll.records[number], case, poll)
        if other is not None:
            records = (*poll.records[:number], other, *poll.records[number + 1 :])
            return _replaced(history, place, evolve(poll, records=records))
    return None


def unsent_value(chance: Random, history: History) -> History | None:
    return _lied(chance, history, lambda record, case, poll: record._replace(value="nobody's"))


def value_of_another_offset(chance: Random, history: History) -> History | None:
    """Replace a value that another client has read correctly."""

    def lie(record: Record, case: Case, poll: Polled) -> Record | None:
        first = case.known[record.partition][record.offset][record.value]
        others = [value for value in case.writes if value != record.value]
        return record._replace(value=chance.choice(others)) if others and first.event is not poll else None

    return _lied(chance, history, lie)


def wrong_partition(chance: Random, history: History) -> History | None:
    return _lied(chance, history, lambda record, case, poll: record._replace(partition="elsewhere-0"))


def written_twice(chance: Random, history: History) -> History | None:
    """Read an idempotent producer's value again after all others."""
    case = prepared(history)
    found = [value for value in sorted(case.read) if case.writes[value].sent.producer]
    value = _one(chance, found)
    if value is None:
        return None
    at = history.events[-1].at
    record = Record(case.writes[value].sent.partition, 10_000, value)
    return evolve(history, events=(*history.events, Polled(at, 90, at, (record,))))


def missed(chance: Random, history: History) -> History | None:
    """Remove a record from a poll that is in another one."""
    case = prepared(history)
    times: dict[str, int] = {}
    for _, poll in _polls(history, lambda poll: True):
        for record in poll.records:
            times[record.value] = times.get(record.value, 0) + 1
    found = [
        (place, poll, record)
        for place, poll in _polls(history, lambda poll: bool(poll.records))
        for record in poll.records
        if times[record.value] > len(case.of[record.value])
    ]
    chosen = _one(chance, found)
    if chosen is None:
        return None
    place, poll, record = chosen
    records = tuple(each for each in poll.records if each is not record)
    return _replaced(history, place, evolve(poll, records=records, spans=tuple(spans_of(poll))))


def read_again(chance: Random, history: History) -> History | None:
    """Repeat a poll."""
    chosen = _one(chance, _polls(history, lambda poll: bool(poll.records)))
    return None if chosen is None else _replaced(history, chosen[0], chosen[1], chosen[1])


def out_of_order(chance: Random, history: History) -> History | None:
    def fits(poll: Polled) -> bool:
        return len(poll.records) > 1 and poll.records[0].partition == poll.records[1].partition

    chosen = _one(chance, _polls(history, fits))
    if chosen is None:
        return None
    place, poll = chosen
    first, second, *rest = poll.records
    return _replaced(history, place, evolve(poll, records=(second, first, *rest)))


# -- offsets of groups ---------------------------------------------------------------------------------


def invented_position(chance: Random, history: History) -> History | None:
    def lie(places: tuple[Place, ...]) -> tuple[Place, ...]:
        return (places[0]._replace(offset=20_000), *places[1:])

    found = [(place, each) for place, each in enumerate(history.events) if isinstance(each, Found)]
    chosen = _one(chance, found)
    return None if chosen is None else _replaced(history, chosen[0], evolve(chosen[1], places=lie(chosen[1].places)))


def forgotten_position(chance: Random, history: History) -> History | None:
    """Return no offset after a commit."""
    done = {each.call: each for each in history.events if isinstance(each, Committed)}
    commits = [each for each in history.events if isinstance(each, Committing) and each.call in done]
    looks = [each for each in history.events if isinstance(each, Looking)]
    found = []
    for place, each in enumerate(history.events):
        if isinstance(each, Found):
            asked = next(event for event in looks if event.call == each.call)
            over = [each for each in commits if each.group == asked.group and done[each.call].at < asked.at]
            before = {where for commit in over for where, _ in commit.places}
            found += [(place, each, where) for where in sorted(before)]
    chosen = _one(chance, found)
    if chosen is None:
        return None
    place, answer, where = chosen
    places = tuple(Place(name, NOWHERE if name == where else offset) for name, offset in answer.places)
    return _replaced(history, place, evolve(answer, places=places))


def given_to_two(chance: Random, history: History) -> History | None:
    """Assign a partition to another member in the same generation."""
    found = [
        (place, each)
        for place, each in enumerate(history.events)
        if isinstance(each, Assigned) and each.generation != NO_GENERATION and each.begins
    ]
    chosen = _one(chance, found)
    if chosen is None:
        return None
    place, given = chosen
    return _replaced(history, place, given, evolve(given, client=91, begins=given.begins[-1:]))


def put_back(chance: Random, history: History) -> History | None:
    """Let a member begin below the committed offset of its group, and commit there."""
    shared = [each for each in history.events if isinstance(each, Assigned) and each.group]
    done = {each.call for each in history.events if isinstance(each, Committed)}
    ofs = {each.group for each in shared}
    found = [
        (each.group, place)
        for each in history.events
        if isinstance(each, Committing) and each.group in ofs and each.call in done
        for place in each.places
        if place.offset > 0
    ]
    chosen = _one(chance, found)
    if chosen is None:
        return None
    group, place = chosen
    at, call = history.events[-1].at, max(getattr(each, "call", 0) for each in history.events) + 1
    again = Place(place.partition, NOWHERE)
    return evolve(
        history,
        events=(
            *history.events,
            Assigned(at, 91, (again,), (), group),
            Committing(at + 1, 91, call, group, (Place(place.partition, place.offset - 1),)),
            Committed(at + 2, 91, call),
        ),
    )


def committed_unread(chance: Random, history: History) -> History | None:
    """Commit an offset after records that no member has read."""
    members = {each.client: each.group for each in history.events if isinstance(each, Assigned) and each.group}
    known = prepared(history).reads
    began = {
        (each.group, place.partition)
        for each in history.events
        if isinstance(each, Assigned) and each.group
        for place in each.begins
        if place.offset == 0
    }
    chosen = _one(chance, [(group, partition) for group, partition in sorted(began) if known.get(partition)])
    if chosen is None:
        return None
    group, partition = chosen
    last = max(known[partition])
    at, call = history.events[-1].at, max(getattr(each, "call", 0) for each in history.events) + 1
    if any(
        isinstance(each, Polled) and each.client in members and _has(each, partition, last) for each in history.events
    ):
        return None
    more = (
        Assigned(at, 91, (Place(partition, NOWHERE),), (), group),
        Committing(at + 1, 91, call, group, (Place(partition, last + 1),)),
    )
    return evolve(history, events=(*history.events, *more))


def _has(poll: Polled, partition: str, offset: int) -> bool:
    return any((record.partition, record.offset) == (partition, offset) for record in poll.records)


CORRUPTIONS: Final[tuple[Corruption, ...]] = (
    never_read,
    never_seen,
    refused_and_written,
    exchanged,
    unsent_value,
    value_of_another_offset,
    wrong_partition,
    written_twice,
    missed,
    read_again,
    out_of_order,
    invented_position,
    forgotten_position,
    given_to_two,
    put_back,
    committed_unread,
)
