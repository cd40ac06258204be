"""Loading one partition of a coordinator's topic, as Kafka's `CoordinatorLoader`.

A new coordinator reads the partition from the log start to the log end as of the first read, and replays the records.
Some of them may exist only on this broker and still be lost. So the load ends only when all of them are committed:
clients must not see state that is lost later.

    while (pause_ms := loader.advance(storage.log_and_high_watermark(where))) is not None:
        wait for pause_ms         # if `advance` raises: wait for loader.restart()
    coordinator.loaded(load, now)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from attrs import frozen

from replica.core.coordinator_topic import CoordinatorTopic, Load
from replica.core.partitions.partition_log import PartitionLog

Replay: TypeAlias = Callable[[Load, bytes, int], int]
"""Replays the records of batches from an offset on. Returns the offset after the last batch; the same offset if there
is no batch."""


@frozen
class LoadPace:
    """The pace of a load.

    read_bytes      the limit of one read, often a few hundred records: no other task runs during their replay
    look_again_ms   the interval of checks whether all records are committed
    load_again_ms   the pause before a failed load restarts at the log start
    """

    read_bytes: int = 64 * 1024
    look_again_ms: int = 50
    load_again_ms: int = 1_000


class CoordinatorLoader:
    """Reads the partition of one load in steps. The caller waits between the steps."""

    def __init__(self, load: Load, topic: CoordinatorTopic[Any, Any], replay: Replay, pace: LoadPace) -> None:
        self._load = load
        self._topic = topic
        self._replay = replay
        self._pace = pace
        self._log: PartitionLog | None = None
        """The log that is read; None before the first read, and after `restart`."""
        self._at = 0
        """All records before this offset have been replayed."""
        self._end = 0
        """The log end at the first read. Records from there on are not replayed."""

    def advance(self, held: tuple[PartitionLog, int] | None) -> int | None:
        """Replay the next part, or check whether all records are committed. Raises errors of the log.

        `held` is the log and the high watermark of this broker's replica; None if this broker has no replica. Return
        the pause in ms before the next call. Return None if the load is complete or obsolete: then the caller calls
        `loaded`, which ignores an obsolete load.
        """
        if not self._topic.awaits(self._load):
            return None
        if held is None:
            return self.restart()
        log, high_watermark = held
        if self._log is None:
            self._log, self._at, self._end = log, log.start_offset, log.end_offset
        if self._at < self._end:
            at = self._at
            self._at = self._replay(self._load, self._log.read(at, self._pace.read_bytes, self._end).records, at)
            if self._at == at:
                self._at = self._end  # compaction has removed the remaining records
            return 0
        return self._pace.look_again_ms if high_watermark < self._end else None

    def restart(self) -> int:
        """Let the next call of `advance` begin at the log start again. Return the pause in ms before that call."""
        self._log = None
        return self._pace.load_again_ms
