"""A partition's log in memory, for simulations: answers as the one in files does, and forgets when its process ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from replica.core.partition_log import AbortedTxn
from replica.storage.aborted import among
from replica.storage.config import LogConfig
from replica.storage.producers import Producers
from replica.storage.unified_log import Candidate, Placed, UnifiedLog, remember
from replica.wire.batch import Header


class MemoryLog(UnifiedLog):
    """`durable` is what a loss of power leaves: `crash` cuts the log to it, or to any end behind it."""

    def __init__(self, name: str = "memory-0", config: LogConfig | None = None, start: int = 0) -> None:
        super().__init__(name, config or LogConfig(), start)
        self.durable = start
        self._headers: list[Header] = []
        self._lasts: list[int] = []
        self._batches: list[bytes] = []
        self._before = Producers()  # as of the first batch that is still held
        self._floor = start  # where the one before it ended
        self._aborts: list[AbortedTxn] = []

    def flush(self) -> int:
        self.durable = self._end
        return self.durable

    def crash(self, end: int | None = None) -> None:
        """Loss of power: what was not flushed is gone, or what is behind `end` of it."""
        kept = max(self.durable, self.durable if end is None else min(end, self._end))
        if kept < self._end:
            self._end = self._cut(kept)
            self.epochs.truncate_from_end(self._end)
        self.producers = self._producers_at(self._end)

    def _usable(self) -> None:
        pass

    def _store(self, buffer: bytes | bytearray, placed: list[Placed]) -> None:
        for at, header in placed:
            self._headers.append(header)
            self._lasts.append(header.last_offset)
            self._batches.append(bytes(buffer[at : at + header.size]))

    def _read(self, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> bytes:
        pieces: list[bytes] = []
        left = max_bytes
        for index in range(bisect_left(self._lasts, offset), len(self._batches)):
            batch = self._batches[index]
            if self._headers[index].base_offset >= upto or (len(batch) > left and (pieces or not at_least_one)):
                break
            pieces.append(batch)
            left -= len(batch)
        return b"".join(pieces)

    def _batches_since(self, timestamp: int) -> Iterator[Candidate]:
        return (
            (header, batch.__bytes__) for header, batch in zip(list(self._headers), list(self._batches), strict=True)
        )

    def _batch_of_greatest(self) -> Candidate | None:
        best: Candidate | None = None
        for header, batch in zip(self._headers, self._batches, strict=True):
            if header.last_offset >= self._start and (best is None or header.max_timestamp > best[0].max_timestamp):
                best = header, batch.__bytes__
        return best

    def _cut(self, offset: int) -> int:
        keep = bisect_left(self._lasts, offset)
        end = self._headers[keep - 1].next_offset if keep else self._floor
        if keep < len(self._headers):
            del self._headers[keep:]
            del self._lasts[keep:]
            del self._batches[keep:]
        self._aborts = [each for each in self._aborts if each.last_offset < end]
        self.durable = min(self.durable, end)
        return end

    def _drop_all(self, offset: int) -> None:
        self._headers.clear()
        self._lasts.clear()
        self._batches.clear()
        self._before = Producers()
        self._aborts.clear()
        self.durable = self._floor = offset

    def _started_later(self) -> None:
        """Batches that nobody can read any more go."""
        gone = bisect_left(self._lasts, self._start)
        for header, batch in zip(self._headers[:gone], self._batches[:gone], strict=True):
            remember(self._before, header, batch, 0)
        if gone:
            self._floor = self._lasts[gone - 1] + 1
        del self._headers[:gone]
        del self._lasts[:gone]
        del self._batches[:gone]
        self._aborts = [each for each in self._aborts if each.last_offset >= self._start]

    def _started_earlier(self) -> None:
        pass  # nothing was written down

    def _producers_at(self, offset: int) -> Producers:
        producers = Producers.decode(self._before.encode())
        for header, batch in zip(self._headers, self._batches, strict=True):
            if header.last_offset < offset:
                remember(producers, header, batch, 0)
        return producers

    def _keep_aborted(self, aborted: AbortedTxn) -> None:
        self._aborts.append(aborted)

    def _any_aborted(self, offset: int) -> bool:
        return bool(self._aborts)

    def _aborted(self, offset: int, upto: int) -> list[AbortedTxn]:
        return among(self._aborts, offset, upto)[0]

    def _keep_epochs(self) -> None:
        pass
