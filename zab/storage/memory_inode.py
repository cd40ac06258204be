"""One file of the memory disk: its bytes as the running server reads them, and the changes that are not durable.

A crash rolls all of these changes back, then redoes a part of them that the caller's `choose` decides, sector by
sector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import define, evolve, field

from zab.storage.disk import SECTOR

Choose: TypeAlias = Callable[[int], int]
"""`choose(n)` picks from range(n): chance, or a script. `random.Random(seed).randrange` is one."""


@define
class InodeChange:
    """A change that no sync has confirmed: offset, old bytes, new bytes. `new` is None for a change of size."""

    offset: int
    old: bytes
    new: bytes | None
    size_before: int
    size_after: int
    durable: bool = False
    doomed: bool = False


@define(eq=False)
class Inode:
    """The content of a file, apart from its names."""

    data: bytearray = field(factory=bytearray)
    """The bytes as the running server reads them."""
    pending: list[InodeChange] = field(factory=list)
    """The changes since the last successful sync, oldest first; undone in reverse they give the durable bytes."""
    in_doubt: bool = False
    """True if a sync of this file has failed. The changes before it are `doomed`: no later sync saves them."""

    def clone(self) -> Inode:
        return Inode(bytearray(self.data), [evolve(change) for change in self.pending], self.in_doubt)

    # -- calls of the running server ------------------------------------------------------------

    def write(self, offset: int, new: bytes) -> None:
        data, size, end = self.data, len(self.data), offset + len(new)
        if offset > size:
            data.extend(bytes(offset - size))
        old = bytes(data[offset:end]) if offset < size else b""
        data[offset:end] = new
        self.pending.append(InodeChange(offset, old, new, size, len(data)))

    def extend(self, size: int) -> None:
        before = len(self.data)
        if size > before:
            self.data.extend(bytes(size - before))
            self.pending.append(InodeChange(before, b"", None, before, size))

    def confirm(self) -> None:
        """Make the changes durable, except doomed ones, after a successful sync."""
        if not self.in_doubt:
            self.pending.clear()
            return
        for change in self.pending:
            change.durable = not change.doomed

    def doom(self) -> None:
        """Mark the unsynced bytes as lost after a failed sync: the system drops them and reports success at the next
        sync.
        """
        self.in_doubt = True
        for change in self.pending:
            change.doomed = not change.durable

    # -- crash ------------------------------------------------------------------------------------

    def crash(self, choose: Choose | None, keep: bool) -> None:
        """Lose power. Durable changes stay; of the others `choose` picks one of four outcomes.

        0: all are lost. 1: all are kept. 2: a prefix is kept, cut at any byte. 3: any sectors are kept. Without
        `choose` all are lost, or kept if `keep` is true.
        """
        pending, self.pending = self.pending, []
        self.in_doubt = False
        doubtful = [change for change in pending if not change.durable]
        if not doubtful or (choose is None and keep):
            return
        for change in reversed(pending):
            self.data[change.offset : change.offset + len(change.old)] = change.old
            del self.data[change.size_before :]
        mode = 0 if choose is None else choose(4)
        budget = None
        if mode == 2 and choose is not None:  # a prefix, cut at any byte: the process died in the middle of a call
            budget = choose(sum(len(change.new or b"") for change in doubtful) + 1)
        stopped: set[int] = set()
        for change in pending:
            if change.durable or mode == 1:
                self._redo(change.offset, change.new, change.size_after)
            elif mode == 2 and budget is not None:
                if budget > 0 or not change.new:
                    part = None if change.new is None else change.new[:budget]
                    size = change.size_after if part is None or len(part) == len(change.new or b"") else 0
                    self._redo(change.offset, part, size)
                    budget -= len(part or b"")
            elif mode == 3 and choose is not None:
                self._redo_sectors(change, choose, stopped)

    def _redo(self, offset: int, new: bytes | None, size: int) -> None:
        if new:
            if offset > len(self.data):
                self.data.extend(bytes(offset - len(self.data)))
            self.data[offset : offset + len(new)] = new
        if size > len(self.data):
            self.data.extend(bytes(size - len(self.data)))

    def _redo_sectors(self, change: InodeChange, choose: Choose, stopped: set[int]) -> None:
        """Redo the change in some sectors. A sector that misses a write misses all later writes, too."""
        if change.new is None:
            if choose(2):
                self._redo(change.offset, None, change.size_after)
            return
        end = change.offset + len(change.new)
        at = change.offset
        while at < end:
            sector = at // SECTOR
            stop = min(end, (sector + 1) * SECTOR)
            if sector not in stopped:
                if choose(2):
                    self._redo(at, change.new[at - change.offset : stop - change.offset], 0)
                else:
                    stopped.add(sector)
            at = stop
