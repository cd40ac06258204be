"""Missing records that all replicas in sync have acknowledged.

A record is lost if a consumer has passed its offset and no consumer has ever read it there. A consumer passes an offset
if it continues after it without a recorded move. If no consumer has passed it, the record is only unread, which is a
violation at the end of a complete history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import evolve, frozen

from harness.checkers.broken import Broken
from harness.checkers.records.case import Case, Write, proof, spans_of
from harness.checkers.records.history import NOWHERE, Acked, Event, Polled, Span
from harness.checkers.records.polls import Position, Positions

KEPT: Final = "no acknowledged record disappears"
SEEN: Final = "every acknowledged record is read in the end"


def lost(case: Case) -> Iterator[Broken]:
    for write, passing in _missing(case):
        assert isinstance(write.answer, Acked)
        sent, offset = write.sent, write.answer.offset
        if passing is not None:
            there = " there" if sent.value in case.read else ""
            what = (
                f"{sent.value!r} was acknowledged in {sent.partition} at {offset}, but {passing.words(offset)}, and no "
                f"client has read it{there}"
            )
            yield Broken(KEPT, what, proof(sent, write.answer, *passing.evidence(offset)))
        elif case.history.complete and _is_unread(case, write):
            where = f" at {offset}" if offset != NOWHERE else ""
            what = f"{sent.value!r} was acknowledged in {sent.partition}{where}, but no client has ever read it"
            yield Broken(SEEN, what, (sent, write.answer))


def unread(case: Case) -> int:
    return sum(write.acknowledged and _is_unread(case, write) for write in case.writes.values())


def _is_unread(case: Case, write: Write) -> bool:
    return write.sent.value not in case.read and not case.may_be_deleted(write)


def _missing(case: Case) -> Iterator[tuple[Write, PassingPoll | None]]:
    """Yield the acknowledged records that were not read at their offsets, each with a poll that passed it, or None."""
    missing = [write for write in case.writes.values() if write.acknowledged and not _is_found(case, write)]
    if not missing:
        return
    polls = _passing(case)
    for write in missing:
        assert isinstance(write.answer, Acked)
        offset = write.answer.offset
        yield write, next((poll for poll in polls.get(write.sent.partition, ()) if poll.passes(offset)), None)


def _is_found(case: Case, write: Write) -> bool:
    """Return whether the record was read at its offset."""
    assert isinstance(write.answer, Acked)
    offset = write.answer.offset
    return write.sent.value in case.read and (offset == NOWHERE or offset in case.reads.get(write.sent.partition, {}))


@frozen
class PassingPoll:
    """A poll that passed some offsets of a partition."""

    poll: Polled
    span: Span
    position: Position | None
    """The consumer's position before the poll, if known."""
    deleted: int
    """The offset below which records may be missing."""

    def passes(self, offset: int) -> bool:
        begin = self.span.start if self.position is None else min(self.position.offset, self.span.start)
        return max(begin, self.deleted) <= offset < self.span.end

    def words(self, offset: int) -> str:
        client, (_, start, end) = self.poll.client, self.span
        if offset >= start or self.position is None:
            return f"client {client} read from {start} to {end}"
        return f"client {client} continued from {self.position.offset} at {start}"

    def evidence(self, offset: int) -> tuple[Event, ...]:
        poll = evolve(self.poll, records=(), spans=(self.span,))
        if offset >= self.span.start or self.position is None:
            return (poll,)
        return self.position.evidence(self.span.partition), poll


def _passing(case: Case) -> dict[str, list[PassingPoll]]:
    """Return the polls of each partition."""
    found: dict[str, list[PassingPoll]] = {}
    positions = Positions()
    for place, event in enumerate(case.history.events):
        if not isinstance(event, Polled):
            positions.take(event)
            continue
        for span in spans_of(event):
            name = span.partition
            passing = PassingPoll(event, span, positions.at(event.client, name), case.deleted_below(name, place))
            found.setdefault(name, []).append(passing)
            positions.polled(event, span)
    return found
