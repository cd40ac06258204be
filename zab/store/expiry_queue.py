"""The times at which silent sessions expire, rounded up to a grid.

The grid has one bucket for each tick, so thousands of sessions are checked at once. A request or ping that leaves its
session in the same bucket costs one comparison. ZooKeeper's ExpiryQueue does the same.
"""

from __future__ import annotations


class ExpiryQueue:
    """The expiry times of sessions.

    The leader has one queue of all global sessions, and each server one of its local sessions.
    """

    def __init__(self, tick_ms: int) -> None:
        self._tick_ms = tick_ms
        self._buckets: dict[int, dict[int, None]] = {}
        """expiry time -> its sessions; every time is a multiple of the tick, and no bucket is empty"""
        self._ends: dict[int, int] = {}
        """session -> its expiry time, which only moves later"""

    def __contains__(self, session: int) -> bool:
        return session in self._ends

    def __len__(self) -> int:
        return len(self._ends)

    def touch(self, session: int, timeout_ms: int, now_ms: int) -> None:
        """Let a session, new or known, expire at the first tick after `timeout_ms` from now.

        The expiry of a known session never moves to an earlier time.
        """
        end = ((now_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms
        old = self._ends.get(session)
        if old is not None:
            if end <= old:
                return
            self._leave(session, old)
        self._ends[session] = end
        self._buckets.setdefault(end, {})[session] = None

    def forget(self, session: int) -> None:
        end = self._ends.pop(session, None)
        if end is not None:
            self._leave(session, end)

    def _leave(self, session: int, end: int) -> None:
        bucket = self._buckets[end]
        del bucket[session]
        if not bucket:
            del self._buckets[end]

    @property
    def deadline(self) -> int | None:
        return min(self._buckets, default=None)

    def due(self, now_ms: int) -> list[int]:
        """Return the expired sessions and forget them: the caller closes them."""
        ended = []
        for end in sorted(end for end in self._buckets if end <= now_ms):
            for session in self._buckets.pop(end):
                del self._ends[session]
                ended.append(session)
        return ended

    def buckets(self) -> list[tuple[int, list[int]]]:
        return [(end, list(self._buckets[end])) for end in sorted(self._buckets)]
