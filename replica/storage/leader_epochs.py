"""The start offset of each leader epoch in one log (Kafka: LeaderEpochFileCache, KIP-101).

Two replicas compare these epochs to find where their logs diverge. The high watermark does not suffice: a follower
receives it late, so truncation to it could lose committed records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from replica.core.partitions.partition_log import NO_EPOCH, NO_OFFSET, EpochEndOffset
from replica.storage.checkpoint_files import EPOCHS, encode
from zab.storage.disk import FolderDisk, write_atomically


class LeaderEpochFileCache:
    """The epochs and their start offsets, both strictly ascending, with a copy in the file `leader-epoch-checkpoint`.

    path       the file
    changed    True if the entries changed since the file was written
    unsynced   True if the next flush must sync the file: it was found at the start, or written since the last flush
    """

    def __init__(self, files: FolderDisk, folder: str, entries: Iterable[tuple[int, int]] | None = None) -> None:
        """`entries`: the content of the file; None if there is no valid file."""
        self.path = f"{folder}/{EPOCHS}"
        self._files = files
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries or ():
            self.assign(epoch, start)
        self.changed = False
        self.unsynced = entries is not None

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def write_if_changed(self) -> bool:
        """Write the file if it is outdated, and return whether it was. The write is durable only after the
        next flush; if a power loss undoes it, the epochs are rebuilt from the batches."""
        if not self.changed:
            return False
        write_atomically(self._files, self.path, encode(self.entries), durably=False)
        self.changed, self.unsynced = False, True
        return True

    def assign(self, epoch: int, start: int) -> None:
        """Record that a leader of this epoch starts, or continues, at this offset. Remove contradicting entries, whose
        records cannot be committed.

        An epoch that continues keeps its start, and all later entries are removed. If its start were moved here, the
        epoch before it would seem to last until here, and a replica with other records in that range would seem to have
        the same history.
        """
        assert epoch >= 0
        assert start >= 0
        at = bisect_right(self._epochs, epoch) - 1
        if at >= 0 and self._epochs[at] == epoch and self._starts[at] <= start:
            if at + 1 < len(self._epochs):
                del self._epochs[at + 1 :]
                del self._starts[at + 1 :]
                self.changed = True
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start))
        del self._epochs[keep:]
        del self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start)
        self.changed = True

    def truncate_from_end(self, offset: int) -> None:
        """Remove epochs that start at this offset or later."""
        keep = bisect_left(self._starts, offset)
        if keep < len(self._starts):
            del self._epochs[keep:]
            del self._starts[keep:]
            self.changed = True

    def truncate_from_start(self, offset: int) -> None:
        """Remove epochs that ended before this offset. The last epoch that started before this offset keeps its start.

        A replica with records of a removed epoch must receive the answer that the epoch ended before this log starts.
        If the answer were this offset itself, the replica's records up to here would seem to be the same history.
        """
        before = bisect_left(self._starts, offset) - 1
        if before > 0:
            del self._epochs[:before]
            del self._starts[:before]
            self.changed = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.changed = True

    def epoch_for_offset(self, offset: int) -> int:
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end: int) -> EpochEndOffset:
        """Return the largest epoch that does not exceed `epoch`, and its end: the start of the next epoch, or the log
        end. If this log has only later epochs, return `epoch` and the start of the first of them. If it has only
        earlier ones or none, or if `epoch` is NO_EPOCH, return (NO_EPOCH, NO_OFFSET)."""
        if epoch == NO_EPOCH or not self._epochs:
            return EpochEndOffset(NO_EPOCH, NO_OFFSET)
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end)
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return EpochEndOffset(NO_EPOCH, NO_OFFSET)  # a later epoch than any in this log
        if higher == 0:
            return EpochEndOffset(epoch, self._starts[0])
        return EpochEndOffset(self._epochs[higher - 1], self._starts[higher])
