"""Every deadline of every group in one heap. Moving one to later, as each heartbeat does, costs one entry of a dict.

An entry of the heap may be too early, because its deadline has moved since: it is looked at when its time comes, and
put back. It is never too late.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple


class Kind(IntEnum):
    SESSION = 0
    """A member was silent for too long."""
    PENDING = 1
    """Somebody was given a member id, and never came back with it."""
    JOIN = 2
    """Enough waiting for members that were asked to join again."""
    SYNC = 3
    """Enough waiting for members that joined to ask for their assignment."""


class Alarm(NamedTuple):
    group: str
    kind: Kind
    member: str = ""


class Alarms:
    def __init__(self) -> None:
        self._due: dict[Alarm, int] = {}
        self._queued: dict[Alarm, int] = {}
        self._heap: list[tuple[int, Alarm]] = []

    def __contains__(self, alarm: Alarm) -> bool:
        return alarm in self._due

    def __len__(self) -> int:
        return len(self._due)

    def set(self, alarm: Alarm, when: int) -> None:
        self._due[alarm] = when
        queued = self._queued.get(alarm)
        if queued is None or when < queued:
            self._queued[alarm] = when
            heappush(self._heap, (when, alarm))

    def clear(self, alarm: Alarm) -> None:
        self._due.pop(alarm, None)

    @property
    def next(self) -> int | None:
        """When to look again: a deadline may pass then, and none passes before."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop(self, now: int) -> Alarm | None:
        """One whose time has come. It is not set any more."""
        while True:
            self._drop_stale()
            if not self._heap or self._heap[0][0] > now:
                return None
            _, alarm = heappop(self._heap)
            del self._queued[alarm]
            due = self._due[alarm]
            if due <= now:
                del self._due[alarm]
                return alarm
            self._queued[alarm] = due
            heappush(self._heap, (due, alarm))

    def _drop_stale(self) -> None:
        """Entries on top that stand for nothing: cleared, or doubled by an earlier one."""
        while self._heap:
            when, alarm = self._heap[0]
            if self._queued.get(alarm) == when:
                if alarm in self._due:
                    return
                del self._queued[alarm]
            heappop(self._heap)
