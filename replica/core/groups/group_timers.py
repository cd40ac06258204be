"""All deadlines of all groups in one heap. Moving one to later, as each heartbeat does, costs one entry of a dict.

An entry of the heap may be too early, because its deadline has moved since: it is examined when its time comes, and put
back. It is never too late.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple


class TimerKind(IntEnum):
    SESSION = 0
    """A member sent no heartbeat in time."""
    PENDING = 1
    """A client did not join with its issued member id."""
    JOIN = 2
    """The rebalance timeout passed."""
    SYNC = 3
    """The members that joined had long enough to send SyncGroup."""


class GroupTimer(NamedTuple):
    group: str
    kind: TimerKind
    member: str = ""


class GroupTimers:
    """The timers of all groups of a coordinator."""

    def __init__(self) -> None:
        self._due: dict[GroupTimer, int] = {}
        """The deadline of each timer that is set."""
        self._queued: dict[GroupTimer, int] = {}
        """The earliest entry of each timer in the heap, never later than its deadline."""
        self._heap: list[tuple[int, GroupTimer]] = []

    def __contains__(self, timer: GroupTimer) -> bool:
        return timer in self._due

    def __len__(self) -> int:
        return len(self._due)

    def set(self, timer: GroupTimer, when: int) -> None:
        self._due[timer] = when
        queued = self._queued.get(timer)
        if queued is None or when < queued:
            self._queued[timer] = when
            heappush(self._heap, (when, timer))

    def clear(self, timer: GroupTimer) -> None:
        self._due.pop(timer, None)

    @property
    def next(self) -> int | None:
        """A time before which no deadline passes."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop(self, now: int) -> GroupTimer | None:
        """Return a timer whose time has come, and clear it."""
        while True:
            self._drop_stale()
            if not self._heap or self._heap[0][0] > now:
                return None
            _, timer = heappop(self._heap)
            del self._queued[timer]
            due = self._due[timer]
            if due <= now:
                del self._due[timer]
                return timer
            self._queued[timer] = due
            heappush(self._heap, (due, timer))

    def _drop_stale(self) -> None:
        """Drop entries on top that were cleared, or doubled by an earlier one."""
        while self._heap:
            when, timer = self._heap[0]
            if self._queued.get(timer) == when:
                if timer in self._due:
                    return
                del self._queued[timer]
            heappop(self._heap)
