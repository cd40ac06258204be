"""Missing records that all replicas in sync have acknowledged.

A record is lost if a consumer has passed its offset and no consumer has ever read it there. A consumer passes an offset
if it continues after it without a recorded move. If no consumer has passed it, the record is only unread, which is a
violation at the end of a complete history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.records.case import Case, Write, proof
from harness.checkers.records.history import NOWHERE, Acked, Event
from harness.checkers.records.polls import PartitionPoll, polls_of

KEPT: Final = "no acknowledged record disappears"
SEEN: Final = "every acknowledged record is read in the end"


def lost(case: Case) -> Iterator[Broken]:
    for write, passing in _missing(case):
        assert isinstance(write.answer, Acked)
        sent, offset = write.sent, write.answer.offset
        if passing is not None:
            there = " there" if sent.value in case.read else ""
            what = (
                f"{sent.value!r} was acknowledged in {sent.partition} at {offset}, but {_words(passing, offset)}, and"
                f" no client has read it{there}"
            )
            yield Broken(KEPT, what, proof(sent, write.answer, *_evidence(passing, offset)))
        elif case.history.complete and _is_unread(case, write):
            where = f" at {offset}" if offset != NOWHERE else ""
            what = f"{sent.value!r} was acknowledged in {sent.partition}{where}, but no client has ever read it"
            yield Broken(SEEN, what, (sent, write.answer))


def unread(case: Case) -> int:
    return sum(write.acknowledged and _is_unread(case, write) for write in case.writes.values())


def _is_unread(case: Case, write: Write) -> bool:
    return write.sent.value not in case.read and not case.may_be_deleted(write)


def _missing(case: Case) -> Iterator[tuple[Write, PartitionPoll | None]]:
    """Yield the acknowledged records that were not read at their offsets, each with a poll that passed it, or None."""
    missing = [write for write in case.writes.values() if write.acknowledged and not _is_found(case, write)]
    if not missing:
        return
    polls: dict[str, list[PartitionPoll]] = {}
    for each in polls_of(case):
        polls.setdefault(each.span.partition, []).append(each)
    for write in missing:
        assert isinstance(write.answer, Acked)
        offset = write.answer.offset
        yield write, next((each for each in polls.get(write.sent.partition, ()) if _passes(each, offset)), None)


def _is_found(case: Case, write: Write) -> bool:
    """Return whether the record was read at its offset."""
    assert isinstance(write.answer, Acked)
    offset = write.answer.offset
    return write.sent.value in case.read and (offset == NOWHERE or offset in case.reads.get(write.sent.partition, {}))


def _passes(each: PartitionPoll, offset: int) -> bool:
    begin = each.span.start if each.position is None else min(each.position.offset, each.span.start)
    return max(begin, each.deleted) <= offset < each.span.end


def _words(each: PartitionPoll, offset: int) -> str:
    client, (_, start, end) = each.poll.client, each.span
    if offset >= start or each.position is None:
        return f"client {client} read from {start} to {end}"
    return f"client {client} continued from {each.position.offset} at {start}"


def _evidence(each: PartitionPoll, offset: int) -> tuple[Event, ...]:
    if offset >= each.span.start or each.position is None:
        return (each.narrow,)
    return each.position.evidence(each.span.partition), each.narrow
