"""Decide when a snapshot of the machine is taken: after a certain amount of work, on request, or for a learner.

Snapshots are taken one at a time. Regular snapshots make the older log superfluous. A spare snapshot is a copy, in a
file, of the snapshot that a leader sends to a learner: if the link breaks, the rest comes from the file. A spare
snapshot does not replace a regular one: it answers no request, and the count of work for the next regular snapshot goes
on.

The schedule is pure: the owner counts applied transactions, checks `due` once a turn, writes the snapshot, and reports
its end.
"""

from __future__ import annotations

from collections.abc import Callable

from zab.core.errors import StorageError
from zab.core.zxid import UNKNOWN, Zxid
from zab.service.forwarding.pending_submissions import Done
from zab.service.limits import Limits


class SnapshotSchedule:
    def __init__(self, limits: Limits, chance: Callable[[int], int]) -> None:
        """`chance(n)` returns a number in [0, n], so that not all members take their snapshots at the same time."""
        self._limits = limits
        self._chance = chance
        self._writing = False
        """True while a snapshot is being written. No other begins before it has ended."""
        self._entries = self._bytes = 0
        """The transactions and bytes applied since the last regular or received snapshot. If either reaches its random
        limit, the next regular one is due.
        """
        self._asked: list[Done] = []
        """Callers that wait for a snapshot that has not begun."""
        self._promised: list[Done] = []
        """Callers that wait for the snapshot that is being written."""
        self._set_marks()

    def _set_marks(self) -> None:
        entries, size = self._limits.snap_entries, self._limits.snap_bytes
        self._entries_mark = entries // 2 + self._chance(entries // 2)
        self._bytes_mark = size // 2 + self._chance(size // 2)

    def count(self, entries: int, size: int) -> None:
        self._entries += entries
        self._bytes += size

    def restored(self) -> None:
        """Count from 0 again, because a received snapshot is as good as one of our own."""
        self._entries = self._bytes = 0

    @property
    def due(self) -> bool:
        """True if a regular snapshot should begin now."""
        return not self._writing and (
            self._entries >= self._entries_mark or self._bytes >= self._bytes_mark or bool(self._asked)
        )

    def ask(self, done: Done) -> None:
        """Request a snapshot that begins after this call, even if none is due. `done` receives its status."""
        self._asked.append(done)

    def begin(self, last: Zxid) -> bool:
        """Begin a regular snapshot; `last` is the end of the history on the disk.

        If that history is unknown, return False, and fail all requests for a snapshot.
        """
        assert not self._writing, "one snapshot is written at a time"
        asked, self._asked = self._asked, []
        if last == UNKNOWN:
            error = StorageError(
                "no snapshot is taken: the history on the disk of this server was lost or damaged, and the leader "
                "has not sent another one yet; try again when this server serves"
            )
            for done in asked:
                done(None, error)
            return False
        self._writing, self._promised = True, asked
        self._entries = self._bytes = 0
        self._set_marks()
        return True

    def begin_spare(self, zxid: Zxid, newest: Zxid | None, newest_bytes: int) -> bool:
        """Begin a spare snapshot at `zxid`, and return True. Return False if none is needed or one is being written.

        `newest` is the zxid of the newest snapshot on disk. If it equals `zxid`, no other is needed. A small state
        needs no file either: sending it again is as fast as reading it.
        """
        size = newest_bytes + self._bytes  # an estimate: a state may grow by more than its transactions, or shrink
        if self._writing or newest == zxid or size < self._limits.resume_bytes_min:
            return False
        self._writing = True
        return True

    def end(self) -> list[Done]:
        """Record that the snapshot is durable or given up. Return the callers that wait for its status."""
        assert self._writing, "no snapshot has begun"
        self._writing = False
        promised, self._promised = self._promised, []
        return promised

    def stop(self, error: Exception) -> None:
        """Fail all callers, because the member ends: the snapshot under way is given up."""
        for done in (*self._promised, *self._asked):
            done(None, error)
