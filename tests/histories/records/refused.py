"""Histories of brokers' clients that contradict themselves, by the error message."""

from __future__ import annotations

from typing import Final

from harness.checkers.records.history import (
    Acked,
    Assigned,
    Committed,
    Committing,
    Event,
    Found,
    History,
    Looking,
    Place,
    Polled,
    Record,
    Sent,
    Sought,
    Span,
    Trimmed,
)

_SENT: Final = Sent(1, 1, 1, "t-0", "a")


def _of(*events: Event) -> History:
    return History(events)


REFUSED: Final[dict[str, History]] = {
    "event 1: 'a' is sent a second time": _of(_SENT, Sent(2, 1, 2, "t-0", "a")),
    "event 1: call 1 is used twice": _of(_SENT, Sent(2, 1, 1, "t-0", "b")),
    "event 2: call 1 is used twice": _of(_SENT, Acked(2, 1, 1), Looking(3, 1, 1, "g", ())),
    "event 0: client 1 has no open call 1": _of(Acked(1, 1, 1)),
    "event 2: client 1 has no open call 1": _of(_SENT, Acked(2, 1, 1), Acked(3, 1, 1)),
    "event 1: client 2 has no open call 1": _of(_SENT, Acked(2, 2, 1)),
    "event 1: Committed cannot be the reply to Sent": _of(_SENT, Committed(2, 1, 1)),
    "event 1: Committed cannot be the reply to Looking": _of(Looking(1, 1, 1, "g", ()), Committed(2, 1, 1)),
    "event 1: Found cannot be the reply to Committing": _of(
        Committing(1, 1, 1, "g", ()), Found(2, 1, 1, (Place("t-0", 1),))
    ),
    "event 1: its time is 1, but the event before it has 2": _of(Sent(2, 1, 1, "t-0", "a"), Acked(1, 1, 1)),
    "event 2: its time is 2, but the event before it has 3": _of(_SENT, Polled(3, 2, 3), Acked(2, 1, 1)),
    "event 0: its time is -1, but the event before it has 0": _of(Polled(-1, 1, -1)),
    "event 0: the poll ends at 1, before it began at 2": _of(Polled(1, 1, 2)),
    "event 1: -5 is not a legal offset": _of(_SENT, Acked(2, 1, 1, -5)),
    "event 1: 9223372036854775808 is not a legal offset": _of(_SENT, Acked(2, 1, 1, 1 << 63)),
    "event 0: -3 is not a legal offset": _of(Polled(1, 1, 1, (Record("t-0", -3, "a"),))),
    "event 0: -1 is not a legal offset": _of(Polled(1, 1, 1, (), (Span("t-0", -1, 0),))),
    "event 0: -9 is not a legal offset": _of(Polled(1, 1, 1, (), (Span("t-0", 0, -9),))),
    "event 1: -2 is not a legal offset": _of(_SENT, Sought(2, 1, "t-0", -2)),
    "event 0: -4 is not a legal offset": _of(Assigned(1, 1, (Place("t-0", 0), Place("t-1", -4)))),
    "event 0: -6 is not a legal offset": _of(Committing(1, 1, 1, "g", (Place("t-0", -6),))),
    "event 1: -7 is not a legal offset": _of(Looking(1, 1, 1, "g", ()), Found(2, 1, 1, (Place("t-0", -7),))),
    "event 1: -8 is not a legal offset": _of(_SENT, Trimmed(2, 9, "t-0", -8)),
    "event 2: -1 is not a legal offset": _of(_SENT, Acked(2, 1, 1), Trimmed(2, 9, "t-0", -1)),
    "event 0: the span of t-0 begins at 5, but ends at 3": _of(Polled(1, 1, 1, (), (Span("t-0", 5, 3),))),
    "event 0: t-0 has two spans": _of(Polled(1, 1, 1, (), (Span("t-0", 0, 1), Span("t-1", 0, 1), Span("t-0", 1, 2)))),
}
