"""Something that was seen, and a request that was sent only afterwards.

A write takes effect after its invocation: nobody has seen its zxid, or a later one, before. And who asks for a sync
is brought as far as anybody had seen by then. Who hears that its session is over has seen its end, unless it was told
so too early: then a write that was asked for only afterwards took effect before anybody ended it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.calls import Call
from harness.checkers.store.case import Case, broken
from harness.checkers.store.sessions import LIVES, own_sessions
from harness.history import Became, Fired, Told

PROMISE: Final = "a write takes effect after its invocation"
SYNCED: Final = "a sync includes everything seen before it"


@frozen
class _Shown:
    """That something was committed up to this zxid."""

    zxid: int
    event: Told | Fired | Became

    def __str__(self) -> str:
        event = self.event
        if isinstance(event, Became):
            return f"client {event.client} was told at {event.at} that its session is over, as of {hexed(self.zxid)}"
        return f"client {event.client} was shown {hexed(self.zxid)} at {event.at}"


def check(case: Case) -> Iterator[Broken]:
    for call, shown in _seen_before(_writes(case), _read(case)):
        if shown.zxid >= call.zxid:
            what = f"it took effect at zxid {hexed(call.zxid)}, but {shown}, and it was asked at {call.asked.at} only"
            yield broken(PROMISE, call, what, shown.event)


def synced(case: Case) -> Iterator[Broken]:
    """Judged by the zxid of the answer, if there is one; what is read behind it, others judge."""
    asked = [call for call in case.calls.all if call.request.op == "sync" and call.done and call.zxid > 0]
    early = {shown.event.session for shown, _ in _early(case)}
    ends = [shown for shown in _ends(case) if shown.event.session not in early]
    for call, shown in _seen_before(asked, [*_read(case), *ends]):
        if shown.zxid > call.zxid:
            what = f"it reached zxid {hexed(call.zxid)}, but {shown}, and it was asked at {call.asked.at} only"
            yield broken(SYNCED, call, what, shown.event)


def ended(case: Case) -> Iterator[Broken]:
    for shown, call in _early(case):
        event = shown.event
        what = (
            f"client {event.client}, session {event.session:#x}: it was told of its end at {event.at}, before it"
            f" ended: that was at zxid {hexed(shown.zxid)}, behind {hexed(call.zxid)} of {call}, which was asked at"
            f" {call.asked.at} only"
        )
        yield Broken(LIVES, what, event.at, event.session, 0, shown.zxid, (event, call.asked))


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
    found = []
    for event in case.history.events:
        if isinstance(event, Told | Fired):
            found.append(_Shown(event.reply.zxid if isinstance(event, Told) else event.zxid, event))
    return found


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
        if isinstance(event, Became) and event.state in ("closed", "expired") and event.session in closed
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
