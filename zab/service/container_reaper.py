"""The leader's schedule for the deletion of abandoned containers and expired TTL nodes.

The reaper scans the tree, and spreads the deletions of the scan over the following seconds: `per_minute_max` bounds
their rate. One interval after the last of them it scans again. A node may change before its deletion is prepared, so
the store checks it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import frozen

from zab.core.zxid import Millis
from zab.store.reaper import candidates
from zab.store.tree import Tree

PARTS_PER_MINUTE: Final = 60
PART_MS: Final = 60_000 // PARTS_PER_MINUTE


@frozen
class ReaperSettings:
    """The intervals and the rate of the container reaper.

    interval_ms       from the last deletion of one scan to the next scan
    per_minute_max    deletions per minute at most (below 60: one a second), and the most that one scan finds
    never_used_ms     how long a container may wait for its first child; 0: for ever
    """

    interval_ms: int = 60_000
    per_minute_max: int = 10_000
    never_used_ms: int = 0


class ContainerReaper:
    def __init__(self, settings: ReaperSettings, clock_ms: Callable[[], Millis], wall_ms: Callable[[], Millis]) -> None:
        """`clock_ms` never goes back; `wall_ms` is the wall clock."""
        self._settings = settings
        self._clock_ms = clock_ms
        self._wall_ms = wall_ms
        self._parts = 0
        """The number of parts that `due` has returned, empty ones included."""
        self._found: deque[str] = deque()
        """Nodes found by the last scan that `due` has not returned yet."""
        self.deadline: Millis = clock_ms() + settings.interval_ms
        """The time at which `due` is to be called again."""

    def due(self, tree: Tree, *, leads: bool) -> list[str]:
        """Return the nodes to delete now, and set the next `deadline`. Before `deadline`, only return an empty list.

        If this server does not lead, forget the nodes found by the last scan.
        """
        now_ms = self._clock_ms()
        if now_ms < self.deadline:
            return []
        settings, found = self._settings, self._found
        if not leads:
            found.clear()
        elif not found:
            found += candidates(tree, self._wall_ms(), settings.never_used_ms, settings.per_minute_max)
        part = [found.popleft() for _ in range(min(self._next_size(), len(found)))]
        self.deadline = now_ms + (PART_MS if found else settings.interval_ms)
        return part

    def _next_size(self) -> int:
        """Return the size of the next part: of 60 parts in a row, together `per_minute_max`, but at least 1 each."""
        begin, most = self._parts, self._settings.per_minute_max
        self._parts += 1
        return max(1, (begin + 1) * most // PARTS_PER_MINUTE - begin * most // PARTS_PER_MINUTE)
