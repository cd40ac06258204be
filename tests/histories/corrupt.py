"""Corruptions: each makes a legal history illegal by one change.

A corruption returns None if the history has no place for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final, TypeAlias

from attrs import evolve

from harness.checkers.store.case import Call, Case
from harness.history import Change, Event, History, Invoke, Reply, Response, SessionEvent, WatchFired

Corruption: TypeAlias = Callable[[Random, History], History | None]


def _replaced(history: History, place: int, event: Event) -> History:
    return evolve(history, events=(*history.events[:place], event, *history.events[place + 1 :]))


def _changed_reply(
    chance: Random, history: History, fits: Callable[[Call, Reply], bool], change: Callable[[Reply], Reply]
) -> History | None:
    """Change one reply that fits."""
    fitting = [call for call in Case.of(history).calls.all if call.reply is not None and fits(call, call.reply)]
    if not fitting:
        return None
    call = chance.choice(fitting)
    assert call.response is not None
    return _replaced(history, call.response_place, evolve(call.response, reply=change(call.response.reply)))


def _is(op: str) -> Callable[[Call, Reply], bool]:
    return lambda call, reply: call.request.op == op and not reply.error and call.done


# -- replies -------------------------------------------------------------------------------------------


def wrong_data(chance: Random, history: History) -> History | None:
    return _changed_reply(chance, history, _is("get"), lambda reply: evolve(reply, data=b"another's"))


def wrong_version(chance: Random, history: History) -> History | None:
    def change(reply: Reply) -> Reply:
        assert reply.stat is not None
        return evolve(reply, stat=evolve(reply.stat, version=reply.stat.version + 1))

    return _changed_reply(chance, history, _is(chance.choice(("get", "set", "exists"))), change)


def child_missing(chance: Random, history: History) -> History | None:
    return _changed_reply(
        chance,
        history,
        lambda call, reply: bool(reply.children),
        lambda reply: evolve(reply, children=(reply.children or ())[1:]),
    )


def child_invented(chance: Random, history: History) -> History | None:
    return _changed_reply(
        chance, history, _is("children"), lambda reply: evolve(reply, children=(*(reply.children or ()), "?"))
    )


def node_missing(chance: Random, history: History) -> History | None:
    return _changed_reply(chance, history, _is("exists"), lambda reply: Reply("NO_NODE", reply.zxid))


def wrong_path(chance: Random, history: History) -> History | None:
    return _changed_reply(chance, history, _is("create"), lambda reply: evolve(reply, path=reply.path + "0"))


def done_yet_refused(chance: Random, history: History) -> History | None:
    return _changed_reply(chance, history, _is("set"), lambda reply: Reply("BAD_VERSION", reply.zxid))


def refused_yet_done(chance: Random, history: History) -> History | None:
    return _changed_reply(
        chance,
        history,
        lambda call, reply: call.write and reply.error == "NO_NODE",
        lambda reply: Reply("", reply.zxid),
    )


def wrong_refusal(chance: Random, history: History) -> History | None:
    return _changed_reply(
        chance,
        history,
        lambda call, reply: call.write and reply.error == "NO_NODE",
        lambda reply: evolve(reply, error="BAD_VERSION"),
    )


def half_a_multi(chance: Random, history: History) -> History | None:
    """The reply reports its first part as refused, but the whole multi was carried out."""
    return _changed_reply(
        chance,
        history,
        _is("multi"),
        lambda reply: evolve(reply, parts=(Reply("BAD_VERSION"), *reply.parts[1:])),
    )


def zxid_of_nothing(chance: Random, history: History) -> History | None:
    beyond = history.changes[-1].zxid + 5
    return _changed_reply(chance, history, lambda call, reply: call.done, lambda reply: evolve(reply, zxid=beyond))


def expired_while_alive(chance: Random, history: History) -> History | None:
    closed = {change.session for change in history.changes if change.kind == "close"}
    return _changed_reply(
        chance,
        history,
        lambda call, reply: call.invoke.session not in closed,
        lambda reply: Reply("SESSION_EXPIRED", reply.zxid),
    )


def back_in_time(chance: Random, history: History) -> History | None:
    """A read or a refusal shows a zxid below one that its session had seen."""
    seen: dict[int, int] = {}
    fitting = []
    for place, event in enumerate(history.events):
        if isinstance(event, Response):
            if seen.get(event.session, 0) > 1 and event.reply.zxid:
                fitting.append((place, event, seen[event.session] - 1))
            seen[event.session] = max(seen.get(event.session, 0), event.reply.zxid)
    if not fitting:
        return None
    place, event, zxid = chance.choice(fitting)
    return _replaced(history, place, evolve(event, reply=evolve(event.reply, zxid=zxid)))


def replies_crossed(chance: Random, history: History) -> History | None:
    """Two successive replies of a session change places."""
    events = history.events
    fitting = [
        place
        for place in range(len(events) - 1)
        if isinstance(events[place], Response)
        and isinstance(events[place + 1], Response)
        and events[place].session == events[place + 1].session
    ]
    if not fitting:
        return None
    place = chance.choice(fitting)
    return evolve(history, events=(*events[:place], events[place + 1], events[place], *events[place + 2 :]))


def invoked_too_late(chance: Random, history: History) -> History | None:
    """A client sees a write before its invocation."""
    calls = [call for call in Case.of(history).calls.all if call.write and call.group is not None]
    shown = [(event.reply.zxid, event.at) for event in history.events if isinstance(event, Response)]
    fitting = [(call, at) for call in calls for zxid, at in shown if zxid >= call.zxid and call.invoke.at < at]
    if not fitting:
        return None
    call, at = chance.choice(fitting)
    return _replaced(history, history.events.index(call.invoke), evolve(call.invoke, at=at + 1))


# -- events --------------------------------------------------------------------------------------------


def _events_between_replies(history: History) -> Iterator[tuple[int, WatchFired, int]]:
    """Yield the events with a zxid between two replies of a connection, the second of which shows their change."""
    for place, fired in enumerate(history.events):
        if not isinstance(fired, WatchFired) or fired.zxid <= 0:
            continue
        before = _neighbour(history, range(place - 1, -1, -1), fired)
        after = _neighbour(history, range(place + 1, len(history.events)), fired)
        if before is not None and after is not None:
            reply_event = history.events[after]
            if isinstance(reply_event, Response) and reply_event.reply.zxid >= fired.zxid:
                yield place, fired, after


def _neighbour(history: History, places: range, fired: WatchFired) -> int | None:
    for place in places:
        event = history.events[place]
        if event.session == fired.session:
            if isinstance(event, Response):
                return place
            if isinstance(event, SessionEvent):
                return None
    return None


def event_lost(chance: Random, history: History) -> History | None:
    found = list(_events_between_replies(history))
    if not found:
        return None
    place, _, _ = chance.choice(found)
    return evolve(history, events=history.events[:place] + history.events[place + 1 :])


def event_late(chance: Random, history: History) -> History | None:
    found = list(_events_between_replies(history))
    if not found:
        return None
    place, fired, after = chance.choice(found)
    events = history.events
    return evolve(history, events=(*events[:place], *events[place + 1 : after + 1], fired, *events[after + 1 :]))


def event_twice(chance: Random, history: History) -> History | None:
    found = [place for place, event in enumerate(history.events) if isinstance(event, WatchFired) and event.zxid > 0]
    if not found:
        return None
    place = chance.choice(found)
    return evolve(history, events=history.events[: place + 1] + history.events[place:])


def event_of_another_path(chance: Random, history: History) -> History | None:
    found = [place for place, event in enumerate(history.events) if isinstance(event, WatchFired)]
    if not found:
        return None
    place = chance.choice(found)
    fired = history.events[place]
    assert isinstance(fired, WatchFired)
    return _replaced(history, place, evolve(fired, path="/nobody/watches/this"))


def event_of_another_kind(chance: Random, history: History) -> History | None:
    found = [place for place, event in enumerate(history.events) if isinstance(event, WatchFired) and event.zxid > 0]
    if not found:
        return None
    place = chance.choice(found)
    fired = history.events[place]
    assert isinstance(fired, WatchFired)
    return _replaced(history, place, evolve(fired, event="created" if fired.event == "deleted" else "deleted"))


# -- committed changes ---------------------------------------------------------------------------------


def _changed_change(
    chance: Random, history: History, fits: Callable[[Change], bool], change: Callable[[Change], tuple[Change, ...]]
) -> History | None:
    found = [place for place, change in enumerate(history.changes) if fits(change)]
    if not found:
        return None
    place = chance.choice(found)
    changes = history.changes
    return evolve(history, changes=(*changes[:place], *change(changes[place]), *changes[place + 1 :]))


def write_missing(chance: Random, history: History) -> History | None:
    """Remove an acknowledged write from the log."""
    acknowledged = {call.zxid for call in Case.of(history).calls.all if call.write and call.done}
    return _changed_change(
        chance,
        history,
        lambda change: change.zxid in acknowledged and change.kind in ("create", "set", "delete"),
        lambda change: (),
    )


def write_twice(chance: Random, history: History) -> History | None:
    beyond = history.changes[-1].zxid + 1
    found = [change for change in history.changes if change.kind == "set"]
    if not found:
        return None
    latest = max(found, key=lambda change: change.zxid)
    return evolve(history, changes=(*history.changes, evolve(latest, zxid=beyond, version=latest.version + 1)))


def write_unrequested(chance: Random, history: History) -> History | None:
    asked = [event.session for event in history.events if isinstance(event, Invoke)]
    if not asked:
        return None
    beyond = history.changes[-1].zxid + 1
    made = Change(beyond, chance.choice(asked), "create", "/nobody-asked-for-this", b"")
    return evolve(history, changes=(*history.changes, made))


def version_skipped(chance: Random, history: History) -> History | None:
    return _changed_change(
        chance,
        history,
        lambda change: change.kind == "set",
        lambda change: (evolve(change, version=change.version + 1),),
    )


def owner_missing(chance: Random, history: History) -> History | None:
    return _changed_change(chance, history, lambda change: change.owner != 0, lambda change: (evolve(change, owner=0),))


def ephemeral_stays(chance: Random, history: History) -> History | None:
    return _changed_change(
        chance, history, lambda change: bool(change.gone), lambda change: (evolve(change, gone=change.gone[1:]),)
    )


def close_takes_another(chance: Random, history: History) -> History | None:
    return _changed_change(
        chance,
        history,
        lambda change: change.kind == "close",
        lambda change: (evolve(change, gone=(*change.gone, "/a")),),
    )


def never_closed(chance: Random, history: History) -> History | None:
    over = {
        event.session
        for event in history.events
        if isinstance(event, SessionEvent) and event.state in ("expired", "closed")
    }
    return _changed_change(
        chance, history, lambda change: change.kind == "close" and change.session in over, lambda change: ()
    )


def never_opened(chance: Random, history: History) -> History | None:
    seen = {event.session for event in history.events if isinstance(event, SessionEvent)}
    return _changed_change(
        chance, history, lambda change: change.kind == "open" and change.session in seen, lambda change: ()
    )


def closed_too_early(chance: Random, history: History) -> History | None:
    """Close a session that continues to write."""
    places = {change.session: place for place, change in enumerate(history.changes) if change.kind in ("create", "set")}
    reply_event = [event.session for event in history.events if isinstance(event, Response)]
    fitting = sorted(session for session in places if session in reply_event)
    if not fitting:
        return None
    session = chance.choice(fitting)
    place = places[session]
    if place + 1 < len(history.changes) and history.changes[place + 1].zxid == history.changes[place].zxid:
        return None
    opened = next(at for at, change in enumerate(history.changes) if change.session == session)
    close = Change(history.changes[opened].zxid, session, "close")
    return evolve(history, changes=(*history.changes[: opened + 1], close, *history.changes[opened + 1 :]))


CORRUPTIONS: Final[tuple[Corruption, ...]] = (
    wrong_data, wrong_version, child_missing, child_invented, node_missing, wrong_path, done_yet_refused,
    refused_yet_done, wrong_refusal, half_a_multi, zxid_of_nothing, expired_while_alive, back_in_time,
    replies_crossed, invoked_too_late,
    event_lost, event_late, event_twice, event_of_another_path, event_of_another_kind,
    write_missing, write_twice, write_unrequested, version_skipped, owner_missing, ephemeral_stays,
    close_takes_another, never_closed, never_opened, closed_too_early,
)  # fmt: skip
