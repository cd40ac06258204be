"""The states of a session, and the iterator over their changes."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, Self

import trio

CHANGES_MAX: Final = 64
"""The number of changes kept for a slow consumer. A consumer that falls further behind misses the oldest ones."""


class SessionState(Enum):
    """The state of a session, as its client knows it."""

    CONNECTED = "connected"
    """A server that leads, or has a leader, serves the session."""
    READ_ONLY = "read only"
    """The server has no leader. It serves reads, which may be outdated."""
    SUSPENDED = "suspended"
    """No server serves the session at the moment. The session may have expired: act as if it had."""
    AUTH_FAILED = "authentication failed"
    """The server has rejected credentials of the session, or requires some. Final."""
    EXPIRED = "expired"
    """The session has expired or was closed by another client, or its password is wrong. Final."""
    CLOSED = "closed"
    """The block of the session, or its store in this process, has ended. Final."""

    @property
    def final(self) -> bool:
        """True if the session is over."""
        return self in _FINAL


_FINAL: Final = frozenset({SessionState.AUTH_FAILED, SessionState.EXPIRED, SessionState.CLOSED})


class StateChanges:
    """The states of one session so far. `report` adds a change; no change follows a final state."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        """The state now."""
        self._changes: deque[SessionState] = deque([state], CHANGES_MAX)
        self._count = 1
        """The number of states so far, including the first. The last `len(_changes)` of them are kept."""
        self._next_change = trio.lowlevel.ParkingLot()
        """The tasks that wait for the next change."""

    def report(self, state: SessionState) -> None:
        if state is self.state or self.state.final:
            return
        self.state = state
        self._changes.append(state)
        self._count += 1
        self._next_change.unpark_all()

    async def after(self, seen: int) -> tuple[int, SessionState] | None:
        """Wait for a state with a number above `seen`. Return the number and the state of the oldest one that is kept.

        Return None if the state with number `seen` is final.
        """
        await trio.lowlevel.checkpoint()
        while seen >= self._count:
            if self.state.final:
                return None
            await self._next_change.park()
        number = max(seen + 1, self._count - len(self._changes) + 1)
        return number, self._changes[number - self._count - 1]


class States:
    """An async iterator over the state now, then the changes, in order. It ends after a final state.

    A slow consumer misses the oldest changes: see `CHANGES_MAX`.
    """

    def __init__(self, changes: StateChanges) -> None:
        self._state_changes = changes
        self._seen = changes._count - 1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionState:
        found = await self._state_changes.after(self._seen)
        if found is None:
            raise StopAsyncIteration
        self._seen, state = found
        return state
