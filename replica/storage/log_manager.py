"""All logs of a broker, in one or several directories, and their periodic tasks (Kafka: LogManager).

The tasks are plain functions, which the broker's runtime calls, the slow ones in a thread. `failures` reports each
directory whose disk has failed, once; calls on its logs raise.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from attrs import frozen

from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.log_policy import LogToClean, dirtiest, needs_cleaning
from replica.storage.checkpoint_files import TopicPartition
from replica.storage.files import OPEN_FILES_MAX, DamagedLog, MissingFile, StorageFailure, log_directory
from replica.storage.log_cleaner import KEYS_MAX, Cleaned, clean, examine_log
from replica.storage.log_directory import CLOSING_THREADS, LogDirectory, folder_of
from replica.storage.log_segments import no_jitter
from replica.storage.producer_state import EXPIRATION_MS
from replica.storage.unified_log import UnifiedLog
from zab.storage.disk import FolderDisk

Progress = Callable[[int, int], None]


@frozen
class ManagerSettings:
    """open_files_max                 the maximum number of open files of each directory
    index_bytes_max                the maximum memory for the indexes of all closed segments, checked by `unload`
    cleaner_keys_max               the number of keys after which a round of cleaning reads no further
    producer_id_expiration_ms      `producer.id.expiration.ms`
    little_room_bytes              if a directory has less free space, retention runs in it before it is used
    closing_threads                the number of threads that close the logs of a directory; 0: the calling one
    """

    open_files_max: int = OPEN_FILES_MAX
    index_bytes_max: int = 64 << 20
    cleaner_keys_max: int = KEYS_MAX
    producer_id_expiration_ms: int = EXPIRATION_MS
    little_room_bytes: int = 1 << 30
    closing_threads: int = CLOSING_THREADS


# The periods of the tasks. All but FLUSH_CHECK_MS are Kafka's defaults.
CHECKPOINT_MS: Final = 60_000
FLUSH_CHECK_MS: Final = 1_000
RETENTION_CHECK_MS: Final = 300_000
CLEANER_BACKOFF_MS: Final = 15_000


class LogManager:
    """All logs of a broker. `config_of` returns the current settings of a topic, and `draw` a random number from 0 to 1
    for the jitter of a segment."""

    def __init__(
        self,
        directories: Sequence[FolderDisk],
        config_of: Callable[[str], LogConfig],
        settings: ManagerSettings | None = None,
        draw: Callable[[], float] = no_jitter,
    ) -> None:
        self.settings = settings or ManagerSettings()
        open_files_max = self.settings.open_files_max
        self.directories = [LogDirectory(each, open_files_max=open_files_max, draw=draw) for each in directories]
        self._config_of = config_of
        self._reported: set[str] = set()

    @staticmethod
    def open(
        paths: Sequence[str],
        config_of: Callable[[str], LogConfig],
        settings: ManagerSettings | None = None,
        draw: Callable[[], float] = no_jitter,
        *,
        open_directory: Callable[[str], FolderDisk] = log_directory,
    ) -> LogManager:
        """Lock the usable directories of `log.dirs`. If another process uses one of them, or if none is usable, raise
        and lock none."""
        opened: list[FolderDisk] = []
        try:
            for path in paths:
                opened.append(open_directory(path))
            manager = LogManager(opened, config_of, settings, draw)
            _check_any(manager.directories)
        except BaseException:
            for each in opened:
                each.close()
            raise
        return manager

    # -- the start and the end ---------------------------------------------------------------------

    def load(self, broker_id: int, cluster_id: str, progress: Progress = lambda done, total: None) -> None:
        """Open all logs. Give up directories that cannot be used.

        Raises if no directory is left, if one belongs to another broker or cluster, or if two have the same partition.
        """
        total = sum(map(_folder_count, self._usable()))
        done = 0
        for directory in self._usable():
            try:
                directory.claim(broker_id, cluster_id)
                for _ in directory.load(self._config_of):
                    done += 1
                    progress(done, total)
            except StorageFailure:
                if directory.failed is None:
                    raise
        _check_any(self.directories)
        seen: dict[TopicPartition, LogDirectory] = {}
        for directory in self.directories:
            for partition in directory.logs:
                if partition in seen:
                    raise StorageFailure(
                        f"{folder_of(partition)} is in {seen[partition].files.where} and in {directory.files.where}: "
                        "remove the folder that is not wanted"
                    )
                seen[partition] = directory

    @property
    def was_clean(self) -> bool:
        """True if the previous process closed the logs of all directories cleanly."""
        return all(each.was_clean for each in self.directories)

    @property
    def notes(self) -> list[str]:
        """Messages about the start, for the operator."""
        return [note for each in self.directories for note in each.notes]

    def close(self, broker_epoch: int = -1) -> None:
        for directory in self.directories:
            directory.close(broker_epoch, threads=self.settings.closing_threads)

    def failures(self) -> list[tuple[str, StorageFailure]]:
        """Return the directories that have failed since the last call."""
        found = [(each.files.where, each.failed) for each in self.directories if each.failed is not None]
        fresh = [each for each in found if each[0] not in self._reported]
        self._reported.update(where for where, _ in fresh)
        return fresh

    # -- logs --------------------------------------------------------------------------------------

    @property
    def logs(self) -> dict[TopicPartition, UnifiedLog]:
        found: dict[TopicPartition, UnifiedLog] = {}
        for each in self.directories:
            found.update(each.logs)
        return found

    @property
    def damaged(self) -> dict[TopicPartition, StorageFailure]:
        found = {partition: error for each in self.directories for partition, error in each.damaged.items()}
        return found | {where: log.damage for where, log in self.logs.items() if log.damage is not None}

    @property
    def uncleanable(self) -> dict[TopicPartition, KafkaError]:
        """Logs that the cleaner no longer cleans, with the reason."""
        return {where: log.uncleanable for where, log in self.logs.items() if log.uncleanable is not None}

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        found = (each for each in self.directories if partition in each.logs or partition in each.damaged)
        return next(found, None)

    def get(self, partition: TopicPartition) -> UnifiedLog | None:
        """Return a partition's log; None if it does not exist. Raises `StorageFailure` if it is
        unusable."""
        directory = self.directory_of(partition)
        if directory is None:
            return None
        if (error := directory.damaged.get(partition)) is not None:
            raise error
        if directory.failed is not None:
            raise StorageFailure(f"{folder_of(partition)} is offline: {directory.failed.text}")
        log = directory.logs[partition]
        if log.damage is not None:
            raise log.damage
        return log

    def get_or_create(
        self, partition: TopicPartition, topic_id: bytes | None = None, *, begins: bool = True
    ) -> UnifiedLog:
        """Return a partition's log. If it does not exist, create it in the usable directory with the fewest logs.

        With `begins=False` the replica has had a log, which may be in a failed directory. Then raise `StorageFailure`
        instead of creating one while any directory has failed: an empty log could pass for the complete one.
        """
        log = self.get(partition)
        if log is not None:
            return log
        usable = [each for each in self.directories if each.failed is None]
        if not usable:
            raise StorageFailure("every log directory has failed")
        for each in self.directories:
            if each.failed is not None and not begins:
                raise StorageFailure(
                    f"{folder_of(partition)} may be in a failed directory, so no new log is created elsewhere: "
                    f"{each.failed.text}"
                )
        directory = min(usable, key=lambda each: len(each.logs))
        return directory.create(partition, self._config_of(partition[0]), topic_id)

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        directory = self.directory_of(partition)
        return None if directory is None else directory.topic_id(partition)

    def folder(self, partition: TopicPartition) -> str:
        """Return the path of a log's folder, for messages."""
        directory = self.directory_of(partition)
        assert directory is not None
        return f"{directory.files.where}/{folder_of(partition)}"

    def keep_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        directory = self.directory_of(partition)
        if directory is not None and partition in directory.logs:
            directory.keep_topic_id(partition, topic_id)

    def set_aside(self, partition: TopicPartition) -> str:
        """Stop using a log, and rename its folder instead of deleting it. Return the new path, for an operator."""
        directory = self.directory_of(partition)
        assert directory is not None
        return f"{directory.files.where}/{directory.set_aside(partition)}"

    def take_offline(self, partition: TopicPartition, why: str) -> None:
        """Stop using a log until a restart recovers it. Do nothing if the partition has no log here, or if the log's
        directory has failed."""
        directory = self.directory_of(partition)
        if directory is not None and directory.failed is None:
            directory.take_offline(partition, why)

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        directory = self.directory_of(partition)
        if directory is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no log of {folder_of(partition)}")
        directory.delete(partition, now_ms)

    def reconfigure(self, topic: str) -> None:
        """Apply a topic's changed settings to its logs."""
        config = self._config_of(topic)
        for directory in self.directories:
            for log in directory.logs.values_of(topic):
                log.config = config

    # -- checkpoints -------------------------------------------------------------------------------

    def high_watermark(self, partition: TopicPartition) -> int:
        """Return the last saved high watermark, limited to the offsets of the log; 0 if there is no log. Raises
        `StorageFailure` if the log is unusable.

        It is a lower bound of the true high watermark, and must not be used for truncation.
        """
        directory = self.directory_of(partition)
        log = self.get(partition)
        if directory is None or log is None:
            return 0
        return max(log.start_offset, min(directory.high_watermarks.get(partition, 0), log.end_offset))

    def checkpoint_high_watermarks(self, values: Mapping[TopicPartition, int]) -> None:
        for directory in self._usable():
            directory.checkpoint_high_watermarks(values)

    def checkpoint(self) -> None:
        for directory in self._usable():
            directory.checkpoint()

    # -- tasks -------------------------------------------------------------------------------------

    def due_for_flush(self, now_ms: int) -> list[UnifiedLog]:
        """Return the logs that are due for a flush. The flush itself is slow: call it in a thread."""
        return [log for each in self._usable() for log in list(each.logs.values()) if log.is_flush_due(now_ms)]

    def delete_old_segments(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> int:
        """Close active segments that are too old, apply retention to all logs, and return the number of deleted
        segments. A log without a known high watermark keeps everything."""
        gone = 0
        try:
            for count in self.delete_old_segments_of_each(now_ms, high_watermarks):
                gone += count
        finally:
            if gone:
                self.checkpoint()
        return gone

    def delete_old_segments_of_each(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> Iterator[int]:
        """Close segments and apply retention log by log, and yield the number of segments deleted from each.

        A deletion syncs a folder, which is slow: the caller can serve requests between two logs. A log that is
        truncated meanwhile is skipped until the next round, because its given high watermark is outdated. The error of
        a log does not stop the round: the first error is raised at the end. If anything was deleted, the caller must
        call `checkpoint` afterwards.
        """
        failed: Exception | None = None
        logs = [(where, log, log.flusher.truncations) for each in self._usable() for where, log in each.logs.items()]
        for where, log, truncations in logs:
            if log.is_truncated_since(truncations):
                continue
            try:
                log.roll_if_due(now_ms)
                gone = log.delete_old_segments(now_ms, high_watermarks.get(where, 0))
            except Exception as error:
                failed = failed or error
            else:
                yield gone
        if failed is not None:
            raise failed

    def make_room(self, now_ms: int, topics: Container[str]) -> int:
        """Apply retention in directories that are nearly full, before the logs are used.

        Only logs of `topics`, the topics with known settings, lose segments, and only up to their saved high
        watermarks. Return the number of deleted segments. Their files are deleted at once, without
        `file.delete.delay.ms`.
        """
        gone = 0
        for directory in self._short_of_room():
            for where, log in directory.logs.items():
                committed = min(directory.high_watermarks.get(where, 0), log.end_offset)
                try:
                    gone += log.delete_old_segments(now_ms, committed, at_once=True) if where[0] in topics else 0
                except KafkaError:
                    continue  # the next use of the log or of its directory reports the failure
        return gone

    def topics_short_of_room(self) -> set[str]:
        """Return the topics with logs in directories that are nearly full."""
        return {topic for each in self._short_of_room() for topic, _ in each.logs}

    def _short_of_room(self) -> Iterator[LogDirectory]:
        for directory in self._usable():
            with suppress(StorageFailure):  # a failed directory is not used any more
                if directory.files.room() < self.settings.little_room_bytes:
                    yield directory

    def clean_one(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]
    ) -> tuple[TopicPartition, Cleaned] | None:
        """Clean the dirtiest log that needs it, if any. Slow: call it in a thread.

        Return None if no log needs it. A log that cannot be cleaned is reported in `uncleanable` and not tried again,
        so it delays no other. Raises if the directory of the log fails, or if the log is closed meanwhile.
        """
        while (best := dirtiest(self._to_clean(now_ms, high_watermarks))) is not None:
            found, (partition, directory, log) = best
            try:
                done = clean(log, found, now_ms, keys_max=self.settings.cleaner_keys_max)
            except KafkaError as error:
                of_disk = isinstance(error, StorageFailure) and not isinstance(error, DamagedLog | MissingFile)
                if of_disk or directory.failed is not None or log.closed:
                    raise  # the disk failed, or the log was closed: compaction is not at fault
                log.uncleanable = error
                continue
            except Exception as error:
                log.uncleanable = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"compaction failed: {error!r}")
                log.uncleanable.__cause__ = error
                continue
            # after a truncation, which has lowered the checkpoint, `upto` may be beyond the end of the log
            if not log.is_truncated_since(found.truncations):
                directory.checkpoint_cleaned(partition, done.upto)
            return partition, done
        return None

    def _to_clean(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]
    ) -> Iterator[tuple[LogToClean, tuple[TopicPartition, LogDirectory, UnifiedLog]]]:
        """Yield the logs that need cleaning, as `replica.core.partitions.log_policy` decides."""
        for directory in self._usable():
            for partition, log in list(directory.logs.items()):
                if not log.config.compact or log.uncleanable is not None:
                    continue
                truncations, segments = log.flusher.truncations, list(log.segments)
                try:
                    found = self._cleanable(directory, partition, now_ms, high_watermarks)
                except (DamagedLog, MissingFile) as error:
                    if not log.is_truncated_since(truncations, segments):
                        log.uncleanable = error
                    continue
                if needs_cleaning(log.config, found):
                    yield found, (partition, directory, log)

    def delete_due_files(self, now_ms: int) -> None:
        """Delete the files of deleted segments and logs whose delay has passed. Slow for large files: call it in a
        thread."""
        for directory in self._usable():
            directory.delete_due_files(now_ms)

    def unload(self) -> None:
        """Drop the indexes of all closed segments from memory if they exceed `index_bytes_max`."""
        closed = [segment for log in self.logs.values() for segment in log.segments[:-1]]
        if sum(segment.loaded_bytes for segment in closed) > self.settings.index_bytes_max:
            for segment in closed:
                segment.unload()

    def expire_producers(self, now_ms: int) -> None:
        """Remove producers that have no open transaction and have been idle for `producer_id_expiration_ms`. `now_ms`
        is a monotonic time."""
        for log in self.logs.values():
            log.producers.remove_expired(now_ms, self.settings.producer_id_expiration_ms)

    def _cleanable(
        self, directory: LogDirectory, partition: TopicPartition, now_ms: int, bounds: Mapping[TopicPartition, int]
    ) -> LogToClean:
        log = directory.logs[partition]
        return examine_log(log, directory.cleaned.get(partition, 0), now_ms, bounds.get(partition, 0))

    def _usable(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failed is None]


def _check_any(directories: Sequence[LogDirectory]) -> None:
    """Raise if no directory is usable."""
    failed = [each.failed.text for each in directories if each.failed is not None]
    if len(failed) == len(directories):
        raise StorageFailure("; ".join(failed))


def _folder_count(directory: LogDirectory) -> int:
    """Return the number of folders in a directory, for the progress report; 0 if the directory cannot be read."""
    try:
        return len(directory.files.folders())
    except StorageFailure:
        return 0
