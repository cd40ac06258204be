"""The deadlines of all groups in one heap. Postponing a deadline, as each heartbeat does, only changes a dict entry.

Each timer has one current heap entry, which is never later than the timer's deadline. The entry is earlier if the
deadline was postponed after the push. Then, when the entry is due, an entry with the deadline replaces it. All other
entries are outdated, and are ignored.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple


class TimerKind(IntEnum):
    """The kinds of timers, each with the event that its expiry reports."""

    SESSION = 0
    """A member sent no heartbeat within its session timeout, or its first join was not answered in time."""
    PENDING = 1
    """A client did not join in time with the member id that it received."""
    JOIN = 2
    """The rebalance timeout, or the initial rebalance delay, has passed."""
    SYNC = 3
    """Members that joined did not send SyncGroup in time."""


class GroupTimer(NamedTuple):
    group: str
    kind: TimerKind
    member: str = ""


class GroupTimers:
    """The timers of all groups of a coordinator."""

    def __init__(self) -> None:
        self._due: dict[GroupTimer, int] = {}
        """The deadline of each active timer."""
        self._queued: dict[GroupTimer, int] = {}
        """The time of each timer's current heap entry. It is never later than the timer's deadline."""
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
        """A time before which no timer is due; None if no timer is set."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop(self, now: int) -> GroupTimer | None:
        """Return a timer that is due, and clear it; None if none is due."""
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
        """Remove outdated entries, and entries of cleared timers, from the top of the heap."""
        while self._heap:
            when, timer = self._heap[0]
            if self._queued.get(timer) == when:
                if timer in self._due:
                    return
                del self._queued[timer]
            heappop(self._heap)
