"""The disk of a broker: the real logs in a directory in memory that loses and tears data, fills up and fails."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, cast

from attrs import evolve

from harness.checkers.partitions.copies import COMPACTED, ident_of
from harness.worlds.disks import lose
from kraft_controller.core.names import BrokerId, TopicId, TopicPartition
from replica.core.errors import KafkaError
from replica.core.partitions.log_config import UNBOUNDED, LogConfig
from replica.core.partitions.partition_log import PartitionLog
from replica.storage.files import StorageFailure
from replica.storage.log_manager import LogManager, ManagerSettings
from replica.storage.memory_directory import memory_directory
from replica.storage.unified_log import UnifiedLog

CALLS: Final = {"write": "write", "fsync": "sync", "full": "write", "read": "read"}
"""The call that fails, by the name of the error in a script."""
CLUSTER: Final = "harness"
MANAGER: Final = ManagerSettings(closing_threads=0)
COMPACTING: Final[Mapping[str, Any]] = {
    "cleanup_policy": ("compact",),
    "min_cleanable_dirty_ratio": 0.01,
    "retention_bytes": UNBOUNDED,
    "retention_ms": UNBOUNDED,
}


class Disk:
    """A disk that outlives the process of the broker. `logs` are those of the present process."""

    def __init__(
        self, me: BrokerId, config: LogConfig, random: Random, deleted: Callable[[TopicPartition], None]
    ) -> None:
        self.me = me
        self.config = config
        self.files = memory_directory()
        self._random = random
        self._deleted = deleted
        self.logs: LogManager = LogManager([], self._config_of, MANAGER)

    def _config_of(self, topic: str) -> LogConfig:
        return evolve(self.config, **COMPACTING) if topic in COMPACTED else self.config

    # -- the process -------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Load the logs for a new process. Return False if the disk fails."""
        logs = LogManager([self.files], self._config_of, MANAGER)
        try:
            logs.load(self.me, CLUSTER)
        except StorageFailure:
            return False
        self.logs = logs
        return True

    def close(self, epoch: int, watermarks: Mapping[TopicPartition, int]) -> None:
        """End the process in good order."""
        try:
            self.keep_high_watermarks(watermarks)
            self.logs.close(epoch)
        except KafkaError:
            pass  # the next process starts from the disk as after a kill
        self.killed()

    # -- logs of replicas --------------------------------------------------------------------------------

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> PartitionLog:
        ident = None if topic_id is None else ident_of(topic_id)
        kept = self.logs.topic_id(where)
        if ident is not None and kept is not None and kept != ident:
            # This is the log of a deleted topic. The broker has missed the deletion.
            self.logs.set_aside(where)
        log = self.logs.get_or_create(where, ident)
        if ident is not None and kept is None:
            self.logs.keep_topic_id(where, ident)
        return log

    def high_watermark(self, where: TopicPartition) -> int:
        return self.logs.high_watermark(where)

    def take_offline(self, where: TopicPartition, why: str) -> None:
        self.logs.take_offline(where, why)

    def delete(self, where: TopicPartition) -> None:
        if self.logs.directory_of(where) is not None:
            self.logs.delete(where, 0)
            self.logs.delete_due_files(1 << 60)
            self._deleted(where)

    def keep_high_watermarks(self, watermarks: Mapping[TopicPartition, int]) -> None:
        self.logs.checkpoint_high_watermarks(cast("Mapping[tuple[str, int], int]", watermarks))

    # -- periodic work -----------------------------------------------------------------------------------

    def look(self, now_ms: int, watermarks: Mapping[TopicPartition, int], checkpoint: bool) -> TopicPartition | None:
        """Do the periodic work. Return the log that was cleaned, if any."""
        cleaned, plain = None, cast("Mapping[tuple[str, int], int]", watermarks)
        try:
            self.logs.delete_old_segments(now_ms, plain)
            if (done := self.logs.clean_one(now_ms, plain)) is not None:
                cleaned = TopicPartition(*done[0])
            self.logs.delete_due_files(now_ms)
            self.logs.unload()
            if checkpoint:
                self.keep_high_watermarks(watermarks)
                self.logs.checkpoint()
        except KafkaError:
            pass  # the next request to a log of this disk fails
        return cleaned

    def held(self) -> dict[TopicPartition, tuple[UnifiedLog, bytes | None]]:
        return {
            TopicPartition(*where): (log, self.logs.topic_id(where)) for where, log in sorted(self.logs.logs.items())
        }

    # -- faults ------------------------------------------------------------------------------------------

    def killed(self) -> None:
        self.files.kill()
        self.files.forgive()

    def mended(self) -> None:
        """Let later calls succeed. A process whose directory has failed must not continue."""
        self.files.forgive()
        if self.failed:
            self.files.kill()

    def power_lost(self, loss: str) -> None:
        lose(self.files, loss, self._choose)
        self.files.forgive()

    def _choose(self, most: int) -> int:
        return int(self._random.random() * most)

    def wiped(self) -> None:
        self.files = memory_directory()

    def crash_in(self, calls: int, error: Callable[[str, str], BaseException]) -> None:
        """Raise this error before the n-th call from now on that changes the disk."""
        self.files.crash_at(self.files.changes + calls - 1, error=error)

    def fails(self, error: str, nth: int) -> None:
        self.files.fail(CALLS[error], nth - 1, errno.ENOSPC if error == "full" else errno.EIO)

    @property
    def failed(self) -> bool:
        return self.files.errors.failed is not None
