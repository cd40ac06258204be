"""Loading one partition of a coordinator's topic, as Kafka's `CoordinatorLoader`.

A new coordinator reads the partition once, from the log start to the log end at the election, and replays its records.
They may be on this broker alone, and be lost with it. So the load ends only when all of them are committed: no client
may see what is taken back later.

    while (pause_ms := loader.advance(storage.held(where))) is not None:    an error: loader.restart()
        wait for pause_ms
    coordinator.loaded(load, now)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from attrs import frozen

from replica.core.coordinator_topic import CoordinatorTopic, Load
from replica.core.partitions.partition_log import PartitionLog

Replay: TypeAlias = Callable[[Load, bytes, int], int]
"""Replays record batches from an offset on. Returns the offset after them, or that offset if there are none."""


@frozen
class LoadPace:
    """read_bytes      the size of one read: a few hundred records, during whose replay no other task runs
    look_again_ms   the interval of checks whether the followers have all records
    load_again_ms   the pause before a partition that could not be read is read again from its start
    """

    read_bytes: int = 64 * 1024
    look_again_ms: int = 50
    load_again_ms: int = 1_000


class CoordinatorLoader:
    """Reads the partition of one load. The caller waits between the steps."""

    def __init__(self, load: Load, topic: CoordinatorTopic[Any, Any], replay: Replay, pace: LoadPace) -> None:
        self._load = load
        self._topic = topic
        self._replay = replay
        self._pace = pace
        self._log: PartitionLog | None = None
        """None: nothing was read yet, or all has to be read again."""
        self._at = 0
        """All records before it were replayed."""
        self._end = 0
        """The log end at the election. A record behind it is this coordinator's own."""

    def advance(self, held: tuple[PartitionLog, int] | None) -> int | None:
        """Replay the next piece, or check whether all is committed. Raises errors of the log.

        `held` is the log and the high watermark of this broker's replica; None: it has none. Return the pause before
        the next call in ms. None: the load is over, and `loaded` is to be reported, which ignores unneeded loads.
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
                self._at = self._end  # the cleaner has left nothing up to the end
            return 0
        return self._pace.look_again_ms if high_watermark < self._end else None

    def restart(self) -> int:
        """Read the partition from its start again, after an error. Return the pause before that in ms."""
        self._log = None
        return self._pace.load_again_ms
