"""One value at an offset, one offset of a value, and nothing that was not written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from attrs import evolve

from harness.checkers.records.broken import Broken, proof
from harness.checkers.records.case import Case, Sighting
from harness.checkers.records.history import Failed, Polled, Record

ONE: Final = "an offset holds one value"
ONCE: Final = "an idempotent producer's record is written once"
SENT: Final = "a read record was sent"
THERE: Final = "a read record was sent before, and to its partition"
REFUSED: Final = "no refused record is read"


def one(case: Case) -> Iterator[Broken]:
    """Two who look at one place see the same."""
    for partition, offsets in sorted(case.known.items()):
        for offset, values in sorted(offsets.items()):
            for a, b in pairwise(values.values()):
                what = f"{partition} holds {a.record.value!r} at {offset}, {_how(a)}, and {b.record.value!r}, {_how(b)}"
                yield Broken(ONE, what, proof(*a.evidence(case), *b.evidence(case)))


def _how(sighting: Sighting) -> str:
    does = "read" if isinstance(sighting.event, Polled) else "acknowledged"
    return f"as {does} by client {sighting.client} at {sighting.at}"


def once(case: Case) -> Iterator[Broken]:
    for value, write in case.writes.items():
        if write.sent.producer:
            for a, b in pairwise(sorted(_here(case, value), key=lambda each: each.record.offset)):
                what = (
                    f"{value!r} of producer {write.sent.producer} stands in {write.sent.partition} at "
                    f"{a.record.offset}, {_how(a)}, and at {b.record.offset}, {_how(b)}"
                )
                yield Broken(ONCE, what, proof(write.sent, *a.evidence(case), *b.evidence(case)))


def repeated(case: Case) -> int:
    """Values that stand at several offsets, and may: nobody promised that they are written once."""
    return sum(not write.sent.producer and len(_here(case, value)) > 1 for value, write in case.writes.items())


def _here(case: Case, value: str) -> list[Sighting]:
    """Where it stands in the partition to which it was sent. Elsewhere it is another mistake."""
    partition = case.writes[value].sent.partition
    return [each for (where, _), each in case.of.get(value, {}).items() if where == partition]


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
        yield Broken(SENT, f"{read}, which nobody sent", (narrow,))
    elif write.sent.partition != record.partition:
        yield Broken(THERE, f"{read}, which was sent to {write.sent.partition}", proof(write.sent, narrow))
    elif isinstance(write.answer, Failed):
        what = f"{read}, and its sender was told that it was refused: {write.answer.error}"
        yield Broken(REFUSED, what, proof(write.sent, write.answer, narrow))
    elif poll.at < write.sent.at:
        yield Broken(THERE, f"{read} at {poll.at}, before it was sent at {write.sent.at}", proof(narrow, write.sent))
