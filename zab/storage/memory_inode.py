"""One file of the memory disk: its bytes as the running server reads them, and the changes that are not durable.

A crash rolls all of these changes back, then redoes the part that a policy keeps (`zab.storage.power_loss`).
"""

from __future__ import annotations

from attrs import define, evolve, field

from zab.storage.power_loss import InodeChange, PowerLoss


@define(eq=False)
class Inode:
    """The content of a file, apart from its names."""

    data: bytearray = field(factory=bytearray)
    """The bytes as the running server reads them."""
    pending: list[InodeChange] = field(factory=list)
    """The changes since the last successful sync, oldest first. From a failed sync until the next crash, syncs do not
    empty the list, but mark changes as durable."""
    in_doubt: bool = False
    """True if a sync has failed since the last crash. The changes that it left unsynced are `doomed`."""

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

    def resize(self, size: int) -> None:
        """Cut the file at this size, or extend it with zeros."""
        before, old = len(self.data), bytes(self.data[size:])
        self._set_size(size)
        self.pending.append(InodeChange(min(size, before), old, None, before, size))

    def confirm(self) -> None:
        """Make the changes durable, except doomed ones, after a successful sync."""
        if not self.in_doubt:
            self.pending.clear()
            return
        for change in self.pending:
            change.durable = not change.doomed

    def doom(self) -> None:
        """Mark the unsynced changes as doomed after a failed sync. As on Linux, the next sync succeeds without them."""
        self.in_doubt = True
        for change in self.pending:
            change.doomed = not change.durable

    # -- crash ------------------------------------------------------------------------------------

    def crash(self, loss: PowerLoss | None, keep: bool) -> None:
        """Lose power. Durable changes stay, and `loss` decides which parts of the others stay.

        Without `loss` all others are lost, or kept if `keep` is true.
        """
        pending, self.pending = self.pending, []
        self.in_doubt = False
        doubtful = [change for change in pending if not change.durable]
        kept = iter([] if loss is None else loss.pieces(doubtful))
        if not doubtful or (loss is None and keep):
            return
        for change in reversed(pending):
            self.data[change.offset : change.offset + len(change.old)] = change.old
            del self.data[change.size_before :]
        for change in pending:
            for offset, new, size in [change.whole()] if change.durable else next(kept, []):
                self._redo(offset, new, size)

    def durable(self) -> bytes:
        """Return the content after a loss of power that loses every change that is not durable."""
        copy = self.clone()
        copy.crash(None, keep=False)
        return bytes(copy.data)

    def _redo(self, offset: int, new: bytes | None, size: int) -> None:
        if new is None:
            self._set_size(size)
            return
        if new:
            if offset > len(self.data):
                self.data.extend(bytes(offset - len(self.data)))
            self.data[offset : offset + len(new)] = new
        if size > len(self.data):
            self._set_size(size)

    def _set_size(self, size: int) -> None:
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
