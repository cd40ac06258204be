"""The order in which sessions see the store, each by itself and in real time.

Each session sees one order, also across reconnections and servers: replies come and writes take effect in the order of
its requests, and zxids never decrease. The zxid of a watch event counts as well.

In real time a write takes effect after its invocation: no client has seen its zxid, or a later one, before. A sync
reaches everything that any client had seen before its request. A client that receives the end of its session has seen
the zxid of that end, unless the server reported the end too early: then a write that was requested later took effect
before the end.
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
        answered = [call for call in calls if call.response is not None]
        for one, other in pairwise(answered):
            if one.response_place > other.response_place:
                assert one.response is not None
                what = f"its reply came before the reply to {one}, which was invoked earlier"
                yield by_call(REPLIES, other, what, one.invoke, one.response)


def writes(case: Case) -> Iterator[Broken]:
    for calls in case.calls.of.values():
        placed = [call for call in calls if call.group is not None]
        for one, other in pairwise(placed):
            if one.zxid >= other.zxid:
                what = (
                    f"it took effect at zxid {other.zxid:#x}, before {one}, which was invoked earlier and took effect"
                    f" at {one.zxid:#x}"
                )
                yield by_call(WRITES, other, what, one.invoke, *case.changes_at(one.zxid), *case.changes_at(other.zxid))


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
    """An event that shows a zxid to a client: everything up to it is committed."""

    zxid: int
    event: Response | WatchFired | SessionEvent

    def __str__(self) -> str:
        event = self.event
        if isinstance(event, SessionEvent):
            return f"client {event.client} received the end of its session, of zxid {self.zxid:#x}, at {event.at}"
        return f"client {event.client} received zxid {self.zxid:#x} at {event.at}"


def after_invocation(case: Case) -> Iterator[Broken]:
    for call, shown in _seen_before(_writes(case), _read(case)):
        if shown.zxid >= call.zxid:
            what = f"it was invoked at {call.invoke.at} and took effect at zxid {call.zxid:#x}, but {shown} already"
            yield by_call(AFTER, call, what, shown.event)


def synced(case: Case) -> Iterator[Broken]:
    """Check the zxid in the reply to each sync, if it has one. Other checkers check the reads after the sync."""
    asked = [call for call in case.calls.all if call.request.op == "sync" and call.done and call.zxid > 0]
    early = {shown.event.session for shown, _ in _early(case)}
    ends = [shown for shown in _ends(case) if shown.event.session not in early]
    for call, shown in _seen_before(asked, [*_read(case), *ends]):
        if shown.zxid > call.zxid:
            what = f"it was invoked at {call.invoke.at} and reached zxid {call.zxid:#x}, but {shown} already"
            yield by_call(SYNCED, call, what, shown.event)


def ended(case: Case) -> Iterator[Broken]:
    for shown, call in _early(case):
        event = shown.event
        what = (
            f"the client received its end at {event.at}, before the session ended: it ended at zxid {shown.zxid:#x},"
            f" after zxid {call.zxid:#x} of {call}, which was invoked at {call.invoke.at}"
        )
        yield by_event(LIVES, event, what, event, call.invoke, zxid=shown.zxid)


def _early(case: Case) -> Iterator[tuple[_Shown, Call]]:
    """Yield each end of a session that was reported too early, with the write that proves it."""
    writes = sorted(_writes(case), key=lambda call: call.invoke.at)
    lowest: Call | None = None
    for shown in sorted(_ends(case), key=lambda each: each.event.at, reverse=True):
        while writes and writes[-1].invoke.at > shown.event.at:
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
            closed.setdefault(change.session, change.zxid)  # the first close counts: a leader may close it twice
    for session in own_sessions(case):
        closed.pop(session, None)  # a server that has not applied the upgrade yet may report the session as expired
    return [
        _Shown(closed[event.session], event)
        for event in case.history.events
        if isinstance(event, SessionEvent) and event.state in ("closed", "expired") and event.session in closed
    ]


def _seen_before(asked: Iterable[Call], shown: Iterable[_Shown]) -> Iterator[tuple[Call, _Shown]]:
    """Yield each call, in the order of invocations, with the event that showed the largest zxid before it."""
    coming = sorted(shown, key=lambda each: each.event.at)
    at, largest = 0, None
    for call in sorted(asked, key=lambda call: call.invoke.at):
        while at < len(coming) and coming[at].event.at < call.invoke.at:
            if largest is None or coming[at].zxid > largest.zxid:
                largest = coming[at]
            at += 1
        if largest is not None:
            yield call, largest
