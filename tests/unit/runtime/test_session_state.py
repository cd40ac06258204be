"""The states of a session for slow and fast readers, and a watch as an iterator."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from zab.session.session_errors import EventsLost
from zab.session.state import CHANGES_MAX, SessionState, StateChanges, States
from zab.session.watch import Event, Watch, WatchEvent

CONNECTED, SUSPENDED, EXPIRED, CLOSED = (
    SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CLOSED,
)  # fmt: skip


async def test_the_state_now_and_then_each_change() -> None:
    changes = StateChanges(SUSPENDED)
    changes.report(CONNECTED)
    states = States(changes)
    changes.report(CONNECTED)
    changes.report(SUSPENDED)
    changes.report(CONNECTED)
    changes.report(EXPIRED)
    changes.report(CLOSED)
    assert [state async for state in states] == [CONNECTED, SUSPENDED, CONNECTED, EXPIRED]
    assert [state async for state in States(changes)] == [EXPIRED]
    assert changes.state is EXPIRED


async def test_slow_reader_misses_the_oldest_states() -> None:
    changes = StateChanges(SUSPENDED)
    states = States(changes)
    assert await anext(states) is SUSPENDED
    for _ in range(CHANGES_MAX):
        changes.report(CONNECTED)
        changes.report(SUSPENDED)
    changes.report(EXPIRED)
    seen = [state async for state in states]
    assert len(seen) == CHANGES_MAX
    assert seen[-2:] == [SUSPENDED, EXPIRED]


async def test_change_wakes_waiting_tasks() -> None:
    changes, seen = StateChanges(CONNECTED), []

    async def look() -> None:
        async for state in States(changes):
            seen.append(state)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        changes.report(SUSPENDED)
        await trio.testing.wait_all_tasks_blocked()
        changes.report(CLOSED)
    assert seen == [CONNECTED, CONNECTED, SUSPENDED, SUSPENDED, CLOSED, CLOSED]


EVENTS = [WatchEvent(Event.DATA_CHANGED, "/a", zxid) for zxid in range(5)]


async def test_events_can_be_taken_all_at_once() -> None:
    watch = Watch(None, 10)
    for event in EVENTS:
        watch.notify(event)
    assert await anext(watch) == EVENTS[0]
    assert len(watch) == 4
    assert await watch.take() == EVENTS[1:]
    watch.notify(EVENTS[0])
    watch.end(EventsLost("over"))
    watch.notify(EVENTS[1])
    assert await watch.take() == EVENTS[:1]
    with pytest.raises(EventsLost, match="over"):
        await watch.take()


async def test_end_wakes_waiting_tasks() -> None:
    watch = Watch(None, 10)
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            with pytest.raises(EventsLost):
                await anext(watch)

        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        watch.end(EventsLost("over"))
        watch.end(ValueError("too late"))
