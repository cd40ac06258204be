"""What all replicas in sync have acknowledged, and what is not there.

A value is lost if somebody has read past its place, and nobody has ever read it. If nobody came so far, it is only
unseen: at the end of a complete history that is as bad.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from harness.checkers.records.broken import Broken, proof
from harness.checkers.records.case import Case, Write, spans_of
from harness.checkers.records.history import NOWHERE, Acked, Polled, Span

KEPT: Final = "what was acknowledged stays"
SEEN: Final = "what was acknowledged is seen in the end"


def lost(case: Case) -> Iterator[Broken]:
    for write, past in _unread(case):
        assert isinstance(write.answer, Acked)
        sent, offset = write.sent, write.answer.offset
        if past is None:
            if case.history.complete:
                where = f" at {offset}" if offset != NOWHERE else ""
                what = f"{sent.value!r} was acknowledged in {sent.partition}{where}, and nobody has ever read it"
                yield Broken(SEEN, what, (sent, write.answer))
            continue
        poll, span = past
        what = (
            f"{sent.value!r} was acknowledged in {sent.partition} at {offset}; client {poll.client} read from "
            f"{span.start} to {span.end}, and neither it nor anybody else found it"
        )
        yield Broken(KEPT, what, proof(sent, write.answer, evolve(poll, records=(), spans=(span,))))


def unread(case: Case) -> int:
    return sum(1 for _ in _unread(case))


def _unread(case: Case) -> Iterator[tuple[Write, tuple[Polled, Span] | None]]:
    missing = [
        write
        for write in case.writes.values()
        if write.kept and write.sent.value not in case.read and not case.may_be_gone(write)
    ]
    if not missing:
        return
    passed = _Passed(case)
    for write in missing:
        assert isinstance(write.answer, Acked)
        yield write, passed.find(write.sent.partition, write.answer.offset)


class _Passed:
    """Who has read past a place."""

    def __init__(self, case: Case) -> None:
        self._by_partition: dict[str, list[tuple[Polled, Span]]] = {}
        for poll in case.history.events:
            if isinstance(poll, Polled):
                for span in spans_of(poll):
                    self._by_partition.setdefault(span.partition, []).append((poll, span))

    def find(self, partition: str, offset: int) -> tuple[Polled, Span] | None:
        for poll, span in self._by_partition.get(partition, ()):
            if span.start <= offset < span.end:
                return poll, span
        return None
