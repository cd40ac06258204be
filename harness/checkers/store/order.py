"""The order in which sessions see the store, by themselves and in real time.

Each session sees one order, also across reconnections and servers: replies in the order of its requests, writes in the
order of its requests, and zxids that never go back. An event bears the zxid of its change and counts as well.

In real time a write takes effect after its invocation: no client has seen its zxid, or a later one, before. A sync
reaches everything that any client had seen before its request. A client that is told of the end of its session has seen
that end, unless the server told it too early: then a write requested later took effect before the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from attrs import frozen

from harness.checkers.broken import Broken
from harness.checkers.store.case import Call, Case, by_call, by_event, shown_by
from harness.checkers.store.sessions import LIVES, own_sessions
from harness.history import Event, Response, SessionEvent, WatchFired

REPLIES: Final = "replies come in the order of requests"
WRITES: Final = "the writes of a session take effect in order"
NEVER_BACK: Final = "a session never sees an older state"
AFTER: Final = "a write takes effect after its invocation"
SYNCED: Final = "a sync includes everything seen before it"


def replies(case: Case) -> Iterator[Broken]:
    for stray in case.calls.strays:
        yield Broken(REPLIES, stray)
    for calls in case.calls.of.values():
        answered = [call for call in calls if call.told is not None]
        for one, other in pairwise(answered):
            if one.told_place > other.told_place:
                assert one.told is not None
                what = f"it was answered before {one}, which was asked first"
                yield by_call(REPLIES, other, what, one.asked, one.told)


def writes(case: Case) -> Iterator[Broken]:
    for calls in case.calls.of.values():
        placed = [call for call in calls if call.group is not None]
        for one, other in pairwise(placed):
            if one.zxid >= other.zxid:
                what = (
                    f"it took effect at zxid {other.zxid:#x}, and {one}, which was asked before it,"
                    f" only at {one.zxid:#x}"
                )
                yield by_call(WRITES, other, what, one.asked, *case.changes_at(one.zxid), *case.changes_at(other.zxid))


def never_back(case: Case) -> Iterator[Broken]:
    for seen in case.sessions().values():
        largest, shown = 0, None
        for _, event in seen:
            zxid = shown_by(event)
            if zxid <= 0:
                continue
            if zxid < largest:
                assert shown is not None
                before = f"{_words(shown)}, which came before it, showed {largest:#x} already"
                what = f"{_words(event)} shows zxid {zxid:#x}, and {before}"
                yield by_event(NEVER_BACK, event, what, shown, event, zxid=zxid)
            else:
                largest, shown = zxid, event


def _words(event: Event) -> str:
    if isinstance(event, Response):
        return f"the reply to call {event.call}"
    assert isinstance(event, WatchFired)
    return f"the event {event.event} {event.path}"


# -- in real time --------------------------------------------------------------------------------------


@frozen
class _Shown:
    """That something was committed up to this zxid."""

    zxid: int
    event: Response | WatchFired | SessionEvent

    def __str__(self) -> str:
        event = self.event
        if isinstance(event, SessionEvent):
            return f"client {event.client} was told at {event.at} that its session is over, as of {self.zxid:#x}"
        return f"client {event.client} was shown {self.zxid:#x} at {event.at}"


def after_invocation(case: Case) -> Iterator[Broken]:
    for call, shown in _seen_before(_writes(case), _read(case)):
        if shown.zxid >= call.zxid:
            what = f"it took effect at zxid {call.zxid:#x}, but {shown}, and it was asked at {call.asked.at} only"
            yield by_call(AFTER, call, what, shown.event)


def synced(case: Case) -> Iterator[Broken]:
    """Judged by the zxid of the answer, if there is one; what is read behind it, others judge."""
    asked = [call for call in case.calls.all if call.request.op == "sync" and call.done and call.zxid > 0]
    early = {shown.event.session for shown, _ in _early(case)}
    ends = [shown for shown in _ends(case) if shown.event.session not in early]
    for call, shown in _seen_before(asked, [*_read(case), *ends]):
        if shown.zxid > call.zxid:
            what = f"it reached zxid {call.zxid:#x}, but {shown}, and it was asked at {call.asked.at} only"
            yield by_call(SYNCED, call, what, shown.event)


def ended(case: Case) -> Iterator[Broken]:
    for shown, call in _early(case):
        event = shown.event
        what = (
            f"it was told of its end at {event.at}, before it ended: that was at zxid {shown.zxid:#x}, behind"
            f" {call.zxid:#x} of {call}, which was asked at {call.asked.at} only"
        )
        yield by_event(LIVES, event, what, event, call.asked, zxid=shown.zxid)


def _early(case: Case) -> Iterator[tuple[_Shown, Call]]:
    """Return each session that was reported as over too early, with the first write that shows it."""
    writes = sorted(_writes(case), key=lambda call: call.asked.at)
    lowest: Call | None = None
    for shown in sorted(_ends(case), key=lambda each: each.event.at, reverse=True):
        while writes and writes[-1].asked.at > shown.event.at:
            call = writes.pop()
            lowest = call if lowest is None or call.zxid < lowest.zxid else lowest
        if lowest is not None and lowest.zxid < shown.zxid:
            yield shown, lowest


def _writes(case: Case) -> list[Call]:
    return [call for call in case.calls.all if call.group is not None]


def _read(case: Case) -> list[_Shown]:
    return [_Shown(shown_by(event), event) for event in case.history.events if isinstance(event, Response | WatchFired)]


def _ends(case: Case) -> list[_Shown]:
    closed: dict[int, int] = {}
    for change in case.history.changes:
        if change.kind == "close":
            closed.setdefault(change.session, change.zxid)  # its end is the first: a leader may be asked for it twice
    for session in own_sessions(case):
        closed.pop(session, None)  # another server may say that it is over before it learns of the upgrade
    return [
        _Shown(closed[event.session], event)
        for event in case.history.events
        if isinstance(event, SessionEvent) and event.state in ("closed", "expired") and event.session in closed
    ]


def _seen_before(asked: Iterable[Call], shown: Iterable[_Shown]) -> Iterator[tuple[Call, _Shown]]:
    """For each of these, in the order in which they were asked: the largest zxid that was shown before, and where."""
    coming = sorted(shown, key=lambda each: each.event.at)
    at, largest = 0, None
    for call in sorted(asked, key=lambda call: call.asked.at):
        while at < len(coming) and coming[at].event.at < call.asked.at:
            if largest is None or coming[at].zxid > largest.zxid:
                largest = coming[at]
            at += 1
        if largest is not None:
            yield call, largest
