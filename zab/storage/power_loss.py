"""Policies of a simulated power failure: they decide which unsynced changes of a memory disk survive.

For the writes to a file, `choose` picks one of four outcomes: all are lost, all survive, the oldest survive, or any set
of sectors survives. In the last case, `OrderedSectors` also loses all later writes to a sector that lost one, and
`AnySectors` decides for each write to a sector separately. For changes of names, `OrderedSectors` has the same four
outcomes, with changes in place of sectors, and `AnySectors` decides for each change separately. Scripts of simulated
runs record the answers of `choose`, so the order in which a policy calls `choose` must stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

from attrs import define

from zab.storage.disk import SECTOR

Choose: TypeAlias = Callable[[int], int]
"""`choose(n)` returns a number from range(n), at random or from a script, as `random.Random(seed).randrange` does."""
Piece: TypeAlias = tuple[int, bytes | None, int]
"""The surviving part of a change: offset, bytes, minimum size of the file. If the bytes are None, the size is exact."""


@define
class InodeChange:
    """A write to a file, or a change of its size (`new` is None).

    durable   a sync has confirmed the change, although an earlier sync failed
    doomed    a sync of the change failed, and no later one confirms it
    """

    offset: int
    old: bytes
    new: bytes | None
    size_before: int
    size_after: int
    durable: bool = False
    doomed: bool = False

    def whole(self) -> Piece:
        return self.offset, self.new, self.size_after

    def first(self, length: int) -> Piece:
        """Return the piece with the first `length` bytes of a write."""
        assert self.new is not None
        whole = length >= len(self.new)
        return self.offset, self.new[:length], self.size_after if whole else 0

    def sectors(self) -> Iterator[tuple[int, Piece]]:
        """Iterate over the sectors of the change and their numbers; a change of size counts as one."""
        if self.new is None:
            yield -1, self.whole()
            return
        at, end = self.offset, self.offset + len(self.new)
        while at < end:
            stop = min(end, (at // SECTOR + 1) * SECTOR)
            yield at // SECTOR, (at, self.new[at - self.offset : stop - self.offset], 0)
            at = stop


class PowerLoss(Protocol):
    """One loss of power."""

    def names(self, count: int) -> list[bool]:
        """Decide for each of `count` changes of directory entries, oldest first, whether it survives."""
        ...

    def pieces(self, changes: Sequence[InodeChange]) -> list[list[Piece]]:
        """Return the surviving parts of each of these changes of one file. A shorter list loses the newest changes."""
        ...


class OrderedSectors:
    """Each sector keeps its writes up to some point in time: if it loses a write, it loses all later writes, too."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    def names(self, count: int) -> list[bool]:
        mode = self._choose(4)
        prefix = self._choose(count + 1) if mode == 2 else 0
        return [mode == 1 or index < prefix or (mode == 3 and self._choose(2) == 1) for index in range(count)]

    def pieces(self, changes: Sequence[InodeChange]) -> list[list[Piece]]:
        if not changes:
            return []
        mode = self._choose(4)
        if mode == 1:
            return [[change.whole()] for change in changes]
        if mode == 2:  # cut at any byte: power failed in the middle of a write
            return self._prefix(changes)
        if mode == 3:
            return self._sectors(changes)
        return []

    def _prefix(self, changes: Sequence[InodeChange]) -> list[list[Piece]]:
        budget = self._choose(sum(len(change.new or b"") for change in changes) + 1)
        kept: list[list[Piece]] = []
        for change in changes:
            if not change.new:
                kept.append([change.whole()])
            else:
                kept.append([change.first(budget)] if budget > 0 else [])
                budget -= min(max(budget, 0), len(change.new))
        return kept

    def _sectors(self, changes: Sequence[InodeChange]) -> list[list[Piece]]:
        kept: list[list[Piece]] = []
        missed: set[int] = set()
        for change in changes:
            pieces: list[Piece] = []
            for sector, piece in change.sectors():
                if sector in missed:
                    continue
                if self._choose(2):
                    pieces.append(piece)
                elif sector >= 0:
                    missed.add(sector)
            kept.append(pieces)
        return kept


class AnySectors:
    """A sector may lose a write and keep a later one. Each change of a name survives or is lost independently."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    def names(self, count: int) -> list[bool]:
        return [self._choose(2) == 1 for _ in range(count)]

    def pieces(self, changes: Sequence[InodeChange]) -> list[list[Piece]]:
        mode = self._choose(4)
        if mode == 1:
            return [[change.whole()] for change in changes]
        if mode == 2:  # whole changes, and the beginning of the next one
            count = self._choose(len(changes) + 1)
            kept = [[change.whole()] for change in changes[:count]]
            if count < len(changes) and (new := changes[count].new):
                kept.append([changes[count].first(self._choose(len(new) + 1))])
            return kept
        if mode == 3:
            return [[piece for _, piece in change.sectors() if self._choose(2)] for change in changes]
        return []
