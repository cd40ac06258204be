"""The events of watched nodes, as an async iterator."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Self

import trio
from attrs import frozen

from zab.net.wakeup import Wakeup
from zab.session.session_errors import EventsLost


class Event(IntEnum):
    """The kind of a watch event, with ZooKeeper's numbers."""

    MAYBE_MISSED = -1
    """The connection was lost and is back. Events may be missing in between: read the nodes again."""
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7
    """The events 5 to 7 follow a `remove_watch` of this session: watches of this kind on this path are gone."""


@frozen
class WatchEvent:
    """A change of a watched node, or of the watch itself.

    event  what happened
    path   the node, as the session names it
    zxid   the zxid of the node's change; -1 if it is unknown, or if the node did not change
    """

    event: Event
    path: str
    zxid: int = -1


class Watch:
    """An async iterator of events, for one task at a time. `len()` is the number of queued events.

    The events of a node begin after the node was added to the watch. The queue is bounded by the setting `events_max`:
    if more events are unread, the iterator raises `EventsLost` after the queued ones. When the session ends, the
    iterator raises the session's error after the last event. `Session.watch` and `Session.watcher` make watches.
    """

    def __init__(self, owner: object, events_max: int) -> None:
        self.owner = owner
        """The session."""
        self._events: deque[WatchEvent] = deque()
        """Events that were not read yet, at most `_events_max`."""
        self._events_max = events_max
        self._wakeup = Wakeup()
        self._over: Exception | None = None
        """The error that ends the iteration, after the events; None while the watch lasts."""
        self._waited_for = False
        """True while a task waits for an event. A second task is refused."""

    def __repr__(self) -> str:
        how = f"{len(self._events)} events" if self._over is None else f"over: {self._over}"
        return f"<{type(self).__name__} of {self.owner!r}, {how}>"

    @property
    def over(self) -> bool:
        """True once the watch has ended. Queued events can still be read."""
        return self._over is not None

    def __len__(self) -> int:
        """The number of events that can be taken without waiting."""
        return len(self._events)

    def __bool__(self) -> bool:
        return True

    def notify(self, event: WatchEvent) -> None:
        """Add an event, or end the watch if too many events were not read. Called by the session."""
        if self._over is not None:
            return
        if len(self._events) >= self._events_max:
            self.end(
                EventsLost(
                    f"{self._events_max} events were not read, and later ones are lost: read the nodes, and watch "
                    "them again"
                )
            )
            return
        self._events.append(event)
        self._wakeup.ring()

    def check(self) -> None:
        """Raise if the watch is over, so that no node can be added to it."""
        if self._over is not None:
            raise self._over

    def end(self, error: Exception) -> None:
        """Let the iteration raise this error after the present events. Called by the session."""
        if self._over is None:
            self._over = error
            self._wakeup.ring()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        await self._wait()
        return self._events.popleft()

    async def take(self) -> list[WatchEvent]:
        """Wait for at least one event, and return all that are queued.

        This is for callers that read the nodes once for several events. Once no event is left, raise the error that has
        ended the watch: `EventsLost`, the session's error, or `LocalProtocolError` after the watch's block. Raise
        `trio.BusyResourceError` if another task waits for this watch.
        """
        await self._wait()
        events = list(self._events)
        self._events.clear()
        return events

    async def _wait(self) -> None:
        if self._waited_for:
            raise trio.BusyResourceError("another task waits for this watch already; only one task may wait")
        self._waited_for = True
        try:
            await trio.lowlevel.checkpoint()
            while not self._events:
                if self._over is not None:
                    raise self._over
                await self._wakeup.wait()
        finally:
            self._waited_for = False
