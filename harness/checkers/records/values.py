"""Records: one value at an offset, one offset of a value, only values that were sent, and in the order of the sends.

An idempotent producer's records are in the order of its sends. Every record is after all records whose offsets were
known before it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from attrs import define, evolve, field, frozen

from harness.checkers.broken import Broken
from harness.checkers.records.case import Case, Sighting, Write, proof
from harness.checkers.records.history import NOWHERE, Acked, Event, Failed, Polled, Record, Sent

ONE: Final = "an offset holds one value"
ONCE: Final = "an idempotent producer's record is written once"
SENT: Final = "a read record was sent"
THERE: Final = "a read record was sent before, and to its partition"
REFUSED: Final = "no refused record is read"


def one(case: Case) -> Iterator[Broken]:
    """Check that all clients see the same value at an offset."""
    for partition, offsets in sorted(case.known.items()):
        for offset, values in sorted(offsets.items()):
            for a, b in pairwise(values.values()):
                what = f"{partition} has {a.record.value!r} at {offset}, {_how(a)}, and {b.record.value!r}, {_how(b)}"
                yield Broken(ONE, what, proof(*a.evidence(case), *b.evidence(case)))


def _how(sighting: Sighting) -> str:
    does = "read" if isinstance(sighting.event, Polled) else "acknowledged"
    return f"as {does} by client {sighting.client} at {sighting.at}"


def once(case: Case) -> Iterator[Broken]:
    for value, write in case.writes.items():
        if write.sent.producer:
            for a, b in pairwise(case.offsets(value)):
                what = (
                    f"{value!r} of producer {write.sent.producer} is in {write.sent.partition} at "
                    f"{a.record.offset}, {_how(a)}, and at {b.record.offset}, {_how(b)}"
                )
                yield Broken(ONCE, what, proof(write.sent, *a.evidence(case), *b.evidence(case)))


def repeated(case: Case) -> int:
    """Return the number of values at several offsets whose producers are not idempotent."""
    return sum(not write.sent.producer and len(case.offsets(value)) > 1 for value, write in case.writes.items())


def written(case: Case) -> Iterator[Broken]:
    for poll in case.history.events:
        if isinstance(poll, Polled):
            for record in poll.records:
                yield from _written(case, poll, record)


def _written(case: Case, poll: Polled, record: Record) -> Iterator[Broken]:
    write = case.writes.get(record.value)
    narrow = evolve(poll, records=(record,), spans=())
    read = f"client {poll.client} read {record.value!r} in {record.partition} at {record.offset}"
    if write is None:
        yield Broken(SENT, f"{read}, but no client sent it", (narrow,))
    elif write.sent.partition != record.partition:
        yield Broken(THERE, f"{read}, but it was sent to {write.sent.partition}", proof(write.sent, narrow))
    elif isinstance(write.answer, Failed):
        what = f"{read}, but it was refused with {write.answer.error}"
        yield Broken(REFUSED, what, proof(write.sent, write.answer, narrow))
    elif poll.at < write.sent.at:
        yield Broken(THERE, f"{read} at {poll.at}, but it was sent at {write.sent.at}", proof(narrow, write.sent))


IN_ORDER: Final = "an idempotent producer's records are in the order of its sends"
UPWARDS: Final = "a client's record is behind those acknowledged before its send"
IN_TIME: Final = "a record is behind those seen before its send"


def in_order(case: Case) -> Iterator[Broken]:
    last: dict[tuple[int, str], tuple[Write, Sighting]] = {}
    for write in case.writes.values():  # in the order in which they were sent
        place = case.first(write.sent.value)
        if not write.sent.producer or place is None:
            continue
        key = write.sent.producer, write.sent.partition
        before, highest = last.get(key, (write, place))
        if highest.record.offset > place.record.offset:
            what = (
                f"producer {write.sent.producer} sent {before.sent.value!r} to {write.sent.partition} before "
                f"{write.sent.value!r}, but it is at {highest.record.offset}, after the other at {place.record.offset}"
            )
            evidence = before.sent, write.sent, *highest.evidence(case), *place.evidence(case)
            yield Broken(IN_ORDER, what, proof(*evidence))
        else:
            last[key] = write, place


@frozen
class Known:
    """An offset that is known to have a record, and the event that shows it."""

    offset: int
    event: Acked | Polled

    def words(self, value: str) -> str:
        how = "had been read" if isinstance(self.event, Polled) else "had been acknowledged"
        return f"{value!r} {how} at {self.offset} by client {self.event.client} at {self.event.at}"


NONE: Final = Known(NOWHERE, Polled(-1, 0, -1))


@define(eq=False)
class _Watermarks:
    """The largest known offset of each partition over time, and of each client's own acknowledged writes."""

    highest: dict[str, list[Known]] = field(factory=dict)
    """The successive largest known offsets, by partition."""
    own: dict[tuple[int, str], Known] = field(factory=dict)

    def see(self, partition: str, offset: int, event: Acked | Polled) -> None:
        marks = self.highest.setdefault(partition, [NONE])
        if offset > marks[-1].offset:
            marks.append(Known(offset, event))

    def before(self, sent: Sent) -> Known:
        """Return the largest known offset before a send. Events of the same instant do not count."""
        marks = self.highest.get(sent.partition, [NONE])
        return next(mark for mark in reversed(marks) if mark.event.at < sent.at)


def behind(case: Case) -> Iterator[Broken]:
    """Check both invariants about records that were known before a send."""
    marks = _Watermarks()
    sends = {write.sent.call: write for write in case.writes.values()}
    for event in case.history.events:
        match event:
            case Sent():
                yield from _behind(case, event, marks)
            case Acked(offset=offset) if offset != NOWHERE and sends[event.call].acknowledged:
                sent = sends[event.call].sent
                marks.see(sent.partition, offset, event)
                own = marks.own.get((event.client, sent.partition), NONE)
                marks.own[event.client, sent.partition] = max(own, Known(offset, event), key=lambda each: each.offset)
            case Polled():
                for record in event.records:
                    marks.see(record.partition, record.offset, event)
            case _:
                pass


def _behind(case: Case, sent: Sent, marks: _Watermarks) -> Iterator[Broken]:
    place = case.first(sent.value)
    if place is None:
        return
    own = marks.own.get((sent.client, sent.partition), NONE)
    highest = marks.before(sent)
    for invariant, known in ((UPWARDS, own), (IN_TIME, highest)):
        if known.offset >= place.record.offset:
            value, evidence = _of(case, sent.partition, known)
            if value == sent.value:
                continue  # `written` reports a read before the send
            what = (
                f"client {sent.client} sent {sent.value!r} to {sent.partition} at {sent.at}, when "
                f"{known.words(value)}, but it is at {place.record.offset}"
            )
            yield Broken(invariant, what, proof(*evidence, sent, *place.evidence(case)))
            return


def _of(case: Case, partition: str, known: Known) -> tuple[str, tuple[Event, ...]]:
    event = known.event
    if isinstance(event, Polled):
        value = next(value for where, offset, value in event.records if (where, offset) == (partition, known.offset))
        return value, (evolve(event, records=(Record(partition, known.offset, value),), spans=()),)
    sent = next(write.sent for write in case.writes.values() if write.answer is event)
    return sent.value, (sent, event)
