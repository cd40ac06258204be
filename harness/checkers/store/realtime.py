"""A write takes effect after it was asked for: nobody has seen its zxid, or a later one, before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.case import Case, broken
from harness.history import Fired, Told

PROMISE: Final = "a write takes effect after it was asked for"


def check(case: Case) -> Iterator[Broken]:
    shown = sorted(
        (
            (event.at, event.reply.zxid if isinstance(event, Told) else event.zxid, place)
            for place, event in enumerate(case.history.events)
            if isinstance(event, Told | Fired)
        ),
        key=lambda row: row[0],
    )
    asked = sorted(
        (call for call in case.calls.all if call.write and call.group is not None), key=lambda call: call.asked.at
    )
    at = largest = where = 0
    for call in asked:
        while at < len(shown) and shown[at][0] < call.asked.at:
            if shown[at][1] > largest:
                _, largest, where = shown[at]
            at += 1
        if largest >= call.zxid:
            event = case.history.events[where]
            what = (
                f"it took effect at zxid {hexed(call.zxid)}, but client {event.client} was shown"
                f" {hexed(largest)} at {event.at}, and it was asked at {call.asked.at} only"
            )
            yield broken(PROMISE, call, what, event)
