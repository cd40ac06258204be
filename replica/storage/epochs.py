"""Which leader wrote what: for each leader epoch where it began. By it two histories find where they part.

A watermark cannot tell that, because a follower hears of it late; cutting a log to it has lost committed records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from replica.core.partition_log import NO_EPOCH, NO_OFFSET, EpochEndOffset


class EpochCache:
    """Both columns ascend strictly. `changed` counts, so that whoever keeps a copy on a disk knows when it is old."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.changed = 0
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def assign(self, epoch: int, start: int) -> None:
        """A leader of this epoch begins there, or goes on. What contradicts it was never committed, and goes.

        An epoch that goes on began where it began: behind it may stand only those in which nothing was written, or
        nothing that has stayed. Did it begin here now, the one before it would seem to last until here, and who comes
        with other records of that one would pass for somebody with the same history.
        """
        assert epoch >= 0
        assert start >= 0
        at = bisect_right(self._epochs, epoch) - 1
        if at >= 0 and self._epochs[at] == epoch and self._starts[at] <= start:
            if at + 1 < len(self._epochs):
                del self._epochs[at + 1 :]
                del self._starts[at + 1 :]
                self.changed += 1
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start))
        del self._epochs[keep:]
        del self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start)
        self.changed += 1

    def truncate_from_end(self, offset: int) -> None:
        keep = bisect_left(self._starts, offset)
        if keep < len(self._starts):
            del self._epochs[keep:]
            del self._starts[keep:]
            self.changed += 1

    def truncate_from_start(self, offset: int) -> None:
        """The last that began before the offset stays, with where it began.

        Whoever comes with records of an older epoch has to hear that it ended before the log begins. Did he hear that
        it ended right there, what he has up to there would pass for the same history.
        """
        before = bisect_left(self._starts, offset) - 1
        if before > 0:
            del self._epochs[:before]
            del self._starts[:before]
            self.changed += 1

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.changed += 1

    def epoch_for_offset(self, offset: int) -> int:
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def end_of(self, epoch: int, log_end: int) -> EpochEndOffset:
        if epoch == NO_EPOCH or not self._epochs:
            return EpochEndOffset(NO_EPOCH, NO_OFFSET)
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end)
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return EpochEndOffset(NO_EPOCH, NO_OFFSET)  # a leader that was never heard of here
        if higher == 0:
            return EpochEndOffset(epoch, self._starts[0])
        return EpochEndOffset(self._epochs[higher - 1], self._starts[higher])
