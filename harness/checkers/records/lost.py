"""Records that all replicas in sync have acknowledged, and that are missing.

A record is lost if a consumer has passed its offset and no consumer has ever read it there. A consumer that reads on
behind an offset without a recorded move has passed it. If none came so far, the record is only unseen, which is as bad
at the end of a complete history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import evolve, frozen

from harness.checkers.broken import Broken
from harness.checkers.records.case import Case, Write, proof, spans_of
from harness.checkers.records.history import NOWHERE, Acked, Event, Polled, Span
from harness.checkers.records.polls import Standing, Stood

KEPT: Final = "no acknowledged record disappears"
SEEN: Final = "every acknowledged record is read in the end"


def lost(case: Case) -> Iterator[Broken]:
    for write, past in _missing(case):
        assert isinstance(write.answer, Acked)
        sent, offset = write.sent, write.answer.offset
        if past is not None:
            there = " there" if sent.value in case.read else ""
            what = (
                f"{sent.value!r} was acknowledged in {sent.partition} at {offset}; {past.words(offset)}, and neither "
                f"it nor anybody else found it{there}"
            )
            yield Broken(KEPT, what, proof(sent, write.answer, *past.evidence(offset)))
        elif case.history.complete and _is_unread(case, write):
            where = f" at {offset}" if offset != NOWHERE else ""
            what = f"{sent.value!r} was acknowledged in {sent.partition}{where}, and nobody has ever read it"
            yield Broken(SEEN, what, (sent, write.answer))


def unread(case: Case) -> int:
    return sum(write.kept and _is_unread(case, write) for write in case.writes.values())


def _is_unread(case: Case, write: Write) -> bool:
    return write.sent.value not in case.read and not case.may_be_gone(write)


def _missing(case: Case) -> Iterator[tuple[Write, Past | None]]:
    """Yield the acknowledged records that were not read at their offset, with a poll that passed it."""
    missing = [write for write in case.writes.values() if write.kept and not _is_found(case, write)]
    if not missing:
        return
    passed = _Passed(case)
    for write in missing:
        assert isinstance(write.answer, Acked)
        yield write, passed.find(write.sent.partition, write.answer.offset)


def _is_found(case: Case, write: Write) -> bool:
    """Return whether it was read at its offset; it may be at another one, too."""
    assert isinstance(write.answer, Acked)
    offset = write.answer.offset
    return write.sent.value in case.read and (offset == NOWHERE or offset in case.reads.get(write.sent.partition, {}))


@frozen
class Past:
    """A poll that passed some offsets of a partition."""

    poll: Polled
    span: Span
    stood: Stood | None
    """The consumer's position before, if known."""
    gone: int
    """Records before this offset may be missing."""

    def passes(self, offset: int) -> bool:
        begin = self.span.start if self.stood is None else min(self.stood.offset, self.span.start)
        return max(begin, self.gone) <= offset < self.span.end

    def words(self, offset: int) -> str:
        client, (_, start, end) = self.poll.client, self.span
        if offset >= start or self.stood is None:
            return f"client {client} read from {start} to {end}"
        return f"client {client} was at {self.stood.offset} and went on at {start}"

    def evidence(self, offset: int) -> tuple[Event, ...]:
        poll = evolve(self.poll, records=(), spans=(self.span,))
        if offset >= self.span.start or self.stood is None:
            return (poll,)
        return self.stood.evidence(self.span.partition), poll


class _Passed:
    """The polls that passed each offset."""

    def __init__(self, case: Case) -> None:
        self._by_partition: dict[str, list[Past]] = {}
        standing = Standing()
        for place, event in enumerate(case.history.events):
            if not isinstance(event, Polled):
                standing.take(event)
                continue
            for span in spans_of(event):
                partition = span.partition
                past = Past(event, span, standing.at(event.client, partition), case.gone_before(partition, place))
                self._by_partition.setdefault(partition, []).append(past)
                standing.polled(event, span)

    def find(self, partition: str, offset: int) -> Past | None:
        return next((past for past in self._by_partition.get(partition, ()) if past.passes(offset)), None)
