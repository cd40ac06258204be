"""Each session sees one order: replies as it asked, writes as it asked, and zxids that never go back.

Also across reconnections, and whichever server answers. An event bears the zxid of its change and counts as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.case import Case, broken
from harness.history import Event, Fired, Told

REPLIES: Final = "replies come in the order of requests"
WRITES: Final = "the writes of a session take effect in order"
NEVER_BACK: Final = "a session never sees an older state"


def replies(case: Case) -> Iterator[Broken]:
    for stray in case.calls.strays:
        yield Broken(REPLIES, stray, 0)
    for calls in case.calls.of.values():
        answered = [call for call in calls if call.told is not None]
        for one, other in pairwise(answered):
            if one.told_place > other.told_place:
                assert one.told is not None
                what = f"it was answered before {one}, which was asked first"
                yield broken(REPLIES, other, what, one.asked, one.told)


def writes(case: Case) -> Iterator[Broken]:
    for calls in case.calls.of.values():
        placed = [call for call in calls if call.group is not None]
        for one, other in pairwise(placed):
            if one.zxid >= other.zxid:
                what = (
                    f"it took effect at zxid {hexed(other.zxid)}, and {one}, which was asked before it,"
                    f" only at {hexed(one.zxid)}"
                )
                yield broken(WRITES, other, what, one.asked, *case.changes_at(one.zxid), *case.changes_at(other.zxid))


def never_back(case: Case) -> Iterator[Broken]:
    for session, seen in case.sessions().items():
        largest, shown = 0, None
        for _, event in seen:
            zxid = _shows(event)
            if zxid <= 0:
                continue
            if zxid < largest:
                assert shown is not None
                what = (
                    f"client {event.client}, session {session:#x}: {_words(event)} shows zxid {hexed(zxid)},"
                    f" and {_words(shown)}, which came before it, showed {hexed(largest)} already"
                )
                call = event.call if isinstance(event, Told) else 0
                yield Broken(NEVER_BACK, what, event.at, session, call, zxid, (shown, event))
            else:
                largest, shown = zxid, event


def _shows(event: Event) -> int:
    match event:
        case Told():
            return event.reply.zxid
        case Fired():
            return event.zxid
        case _:
            return 0


def _words(event: Event) -> str:
    if isinstance(event, Told):
        return f"the reply to call {event.call}"
    assert isinstance(event, Fired)
    return f"the event {event.event} {event.path}"
