"""What was seen, and what was asked for only afterwards.

A write takes effect after it was asked for: nobody has seen its zxid, or a later one, before. And who asks for a sync
is brought as far as anybody had seen by then. Who hears that a session is over has seen its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.calls import Call
from harness.checkers.store.case import Case, broken
from harness.history import Became, Fired, Told

PROMISE: Final = "a write takes effect after it was asked for"
SYNCED: Final = "a sync reaches what anybody had seen before"


def check(case: Case) -> Iterator[Broken]:
    asked = sorted((call for call in case.calls.all if call.group is not None), key=lambda call: call.asked.at)
    for call, largest, event in _seen_before(case, asked):
        if largest >= call.zxid:
            what = (
                f"it took effect at zxid {hexed(call.zxid)}, but client {event.client} was shown"
                f" {hexed(largest)} at {event.at}, and it was asked at {call.asked.at} only"
            )
            yield broken(PROMISE, call, what, event)


def synced(case: Case) -> Iterator[Broken]:
    """Judged by the zxid of the answer, if there is one; what is read behind it, others judge."""
    asked = sorted(
        (call for call in case.calls.all if call.request.op == "sync" and call.done and call.zxid > 0),
        key=lambda call: call.asked.at,
    )
    for call, largest, event in _seen_before(case, asked):
        if largest > call.zxid:
            what = (
                f"it reached zxid {hexed(call.zxid)}, but client {event.client} had been shown"
                f" {hexed(largest)} at {event.at}, and it was asked at {call.asked.at}"
            )
            yield broken(SYNCED, call, what, event)


def _seen_before(case: Case, asked: list[Call]) -> Iterator[tuple[Call, int, Told | Fired | Became]]:
    """For each of these, in the order in which they were asked: the largest zxid that was shown before, and where."""
    closed: dict[int, int] = {}
    for change in case.history.changes:
        if change.kind == "close":
            closed.setdefault(change.session, change.zxid)  # its end is the first: a leader may be asked for it twice
    shown = sorted(
        (event for event in case.history.events if isinstance(event, Told | Fired | Became)),
        key=lambda event: event.at,
    )
    at, largest, where = 0, 0, None
    for call in asked:
        while at < len(shown) and shown[at].at < call.asked.at:
            zxid = _zxid(shown[at], closed)
            if zxid > largest:
                largest, where = zxid, shown[at]
            at += 1
        if where is not None:
            yield call, largest, where


def _zxid(event: Told | Fired | Became, closed: Mapping[int, int]) -> int:
    if isinstance(event, Became):
        return closed.get(event.session, 0) if event.state in ("closed", "expired") else 0
    return event.reply.zxid if isinstance(event, Told) else event.zxid
