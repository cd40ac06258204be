"""All logs of a broker, in one directory or in several, and what must be done with them now and then.

The tasks are plain functions: whoever runs the broker calls them at their times, the slow ones (`flush`, `clean_one`,
`load`, `close`) in a thread. A directory whose disk has failed is told once by `failures`; its logs raise.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from attrs import frozen

from replica.core.errors import ErrorCode, KafkaError
from replica.storage.checkpoints import TopicPartition
from replica.storage.cleaner import KEYS_MAX, Cleanable, Cleaned, clean, cleanable, worth_it
from replica.storage.config import LogConfig
from replica.storage.directory import CLOSING_THREADS, LogDirectory, folder_of
from replica.storage.file_log import FileLog
from replica.storage.files import OPEN_FILES_MAX, DamagedLog, MissingFile, StorageFailure, log_directory
from replica.storage.producers import EXPIRATION_MS
from zab.storage.disk import FolderDisk

Progress = Callable[[int, int], None]


@frozen
class ManagerSettings:
    """open_files_max           for each directory
    index_bytes_max          what indexes of closed segments may take in memory, in all
    cleaner_keys_max         keys that one round of cleaning remembers
    little_room_bytes        where fewer are free at the start, what is too old goes before anything comes
    """

    open_files_max: int = OPEN_FILES_MAX
    index_bytes_max: int = 64 << 20
    cleaner_keys_max: int = KEYS_MAX
    producer_id_expiration_ms: int = EXPIRATION_MS
    little_room_bytes: int = 1 << 30


# Periods of the tasks, as Kafka has them.
HIGH_WATERMARK_CHECKPOINT_MS: Final = 5_000
CHECKPOINT_MS: Final = 60_000
FLUSH_CHECK_MS: Final = 1_000
RETENTION_CHECK_MS: Final = 300_000
CLEANER_BACKOFF_MS: Final = 15_000
PRODUCER_CHECK_MS: Final = 600_000


class LogManager:
    """`config_of` says what is set for a topic now."""

    def __init__(
        self,
        directories: Sequence[FolderDisk],
        config_of: Callable[[str], LogConfig],
        settings: ManagerSettings | None = None,
    ) -> None:
        self.settings = settings or ManagerSettings()
        self.directories = [LogDirectory(each, open_files_max=self.settings.open_files_max) for each in directories]
        self._config_of = config_of
        self._told: set[str] = set()

    @staticmethod
    def open(
        paths: Sequence[str], config_of: Callable[[str], LogConfig], settings: ManagerSettings | None = None
    ) -> LogManager:
        """Locks every directory of `log.dirs` that can be used. Where another process has one of them, or none can be
        used, it locks none and raises."""
        opened: list[FolderDisk] = []
        try:
            for path in paths:
                opened.append(log_directory(path))
            manager = LogManager(opened, config_of, settings)
            _check_any(manager.directories)
        except BaseException:
            for each in opened:
                each.close()
            raise
        return manager

    # -- the start and the end ---------------------------------------------------------------------

    def load(self, broker_id: int, cluster_id: str, progress: Progress = lambda done, total: None) -> None:
        """Every log that is there. A directory that cannot be used is out; without any it raises."""
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
                        "remove the one of them that is not wanted"
                    )
                seen[partition] = directory

    @property
    def was_clean(self) -> bool:
        """Whether the last run ended in order, everywhere."""
        return all(each.was_clean for each in self.directories)

    @property
    def notes(self) -> list[str]:
        """What was found and done at the start, for the log."""
        return [note for each in self.directories for note in each.notes]

    def close(self, broker_epoch: int = -1, *, threads: int = CLOSING_THREADS) -> None:
        for directory in self.directories:
            directory.close(broker_epoch, threads=threads)

    def failures(self) -> list[tuple[str, StorageFailure]]:
        """Directories that have failed since the last time somebody asked."""
        found = [(each.files.where, each.failed) for each in self.directories if each.failed is not None]
        fresh = [each for each in found if each[0] not in self._told]
        self._told.update(where for where, _ in fresh)
        return fresh

    # -- logs --------------------------------------------------------------------------------------

    @property
    def logs(self) -> dict[TopicPartition, FileLog]:
        return {partition: log for each in self.directories for partition, log in list(each.logs.items())}

    @property
    def damaged(self) -> dict[TopicPartition, StorageFailure]:
        found = {partition: error for each in self.directories for partition, error in each.damaged.items()}
        return found | {where: log.damage for where, log in self.logs.items() if log.damage is not None}

    @property
    def uncleanable(self) -> dict[TopicPartition, KafkaError]:
        """Logs that the cleaner leaves alone, and why."""
        return {where: log.uncleanable for where, log in self.logs.items() if log.uncleanable is not None}

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        found = (each for each in self.directories if partition in each.logs or partition in each.damaged)
        return next(found, None)

    def get(self, partition: TopicPartition) -> FileLog | None:
        """None: there is no log of it here. Raises where there is one that cannot be used."""
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
    ) -> FileLog:
        """A new one goes where the fewest are. `begins`: False where somebody counts on what it holds: it may be in a
        directory that has failed, and then an empty one in its place would be taken for all of it."""
        log = self.get(partition)
        if log is not None:
            return log
        usable = [each for each in self.directories if each.failed is None]
        if not usable:
            raise StorageFailure("every log directory has failed")
        for each in self.directories:
            if each.failed is not None and not begins:
                raise StorageFailure(
                    f"{folder_of(partition)} may be in a directory that has failed, and is not begun anew elsewhere: "
                    f"{each.failed.text}"
                )
        directory = min(usable, key=lambda each: len(each.logs))
        return directory.create(partition, self._config_of(partition[0]), topic_id)

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        directory = self.directory_of(partition)
        return None if directory is None else directory.topic_id(partition)

    def folder(self, partition: TopicPartition) -> str:
        """For people: where the log of it is."""
        directory = self.directory_of(partition)
        assert directory is not None
        return f"{directory.files.where}/{folder_of(partition)}"

    def keep_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        directory = self.directory_of(partition)
        if directory is not None:
            directory.keep_topic_id(partition, topic_id)

    def set_aside(self, partition: TopicPartition) -> str:
        """Where it is kept, for a person to look at."""
        directory = self.directory_of(partition)
        assert directory is not None
        return f"{directory.files.where}/{directory.set_aside(partition)}"

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        directory = self.directory_of(partition)
        if directory is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no log of {folder_of(partition)} here")
        directory.delete(partition, now_ms)

    def reconfigure(self, topic: str) -> None:
        """Its settings have changed."""
        config = self._config_of(topic)
        for (name, _), log in self.logs.items():
            if name == topic:
                log.config = config

    # -- checkpoints -------------------------------------------------------------------------------

    def high_watermark(self, partition: TopicPartition) -> int:
        """As it was saved last: a lower bound, never a place to cut to."""
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

    def due_for_flush(self, now_ms: int) -> list[FileLog]:
        """Call `flush` of each, in a thread."""
        return [log for each in self._usable() for log in list(each.logs.values()) if log.flush_due(now_ms)]

    def retire(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> int:
        """Retention of all logs; where no watermark is known, nothing goes. How many segments went."""
        gone = sum(self.retire_each(now_ms, high_watermarks))
        if gone:
            self.checkpoint()
        return gone

    def retire_each(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> Iterator[int]:
        """Log by log: where something goes a folder is synced, and others may want to be served in between. What is cut
        by then waits for the next round, as nobody knows what is committed of it; and one that fails keeps no other
        one from its turn. Behind it `checkpoint` is due, if anything went."""
        failed: Exception | None = None
        logs = [(where, log, log.cuts) for each in self._usable() for where, log in each.logs.items()]
        for where, log, cuts in logs:
            if log.was_cut_since(cuts, []):
                continue
            try:
                log.roll_if_old(now_ms)
                gone = log.retire(now_ms, high_watermarks.get(where, 0))
            except Exception as error:
                failed = failed or error
            else:
                yield gone
        if failed is not None:
            raise failed

    def make_room(self, now_ms: int, topics: Container[str]) -> int:
        """Retention before anybody uses the logs, for directories that are so full that the next records may be too
        much; only of topics whose settings are known. What was committed is known from the last run. How many segments
        went: what they took is free."""
        gone = 0
        for directory in self._short_of_room():
            for where, log in directory.logs.items():
                committed = min(directory.high_watermarks.get(where, 0), log.end_offset)
                try:
                    gone += log.retire(now_ms, committed, at_once=True) if where[0] in topics else 0
                except KafkaError:
                    continue  # whoever wants something of that log, or of its directory, hears of it
        return gone

    def topics_short_of_room(self) -> set[str]:
        """Of which there are logs in such directories."""
        return {topic for each in self._short_of_room() for topic, _ in each.logs}

    def _short_of_room(self) -> Iterator[LogDirectory]:
        for directory in self._usable():
            with suppress(StorageFailure):  # then it is out, and no question any more
                if directory.files.room() < self.settings.little_room_bytes:
                    yield directory

    def clean_one(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]
    ) -> tuple[TopicPartition, Cleaned] | None:
        """The log that needs it most, if any does. Takes long: for a thread. One that cannot be cleaned is left alone
        from then on, and told in `uncleanable`: it keeps no other one from its turn."""
        while (best := self._dirtiest(now_ms, high_watermarks)) is not None:
            found, partition, directory, log = best
            try:
                done = clean(log, found, now_ms, keys_max=self.settings.cleaner_keys_max)
            except KafkaError as error:
                of_disk = isinstance(error, StorageFailure) and not isinstance(error, DamagedLog | MissingFile)
                if of_disk or directory.failed is not None or log.closed:
                    raise  # it says nothing of this log
                log.uncleanable = error
                continue
            except Exception as error:
                log.uncleanable = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"it cannot be compacted: {error!r}")
                log.uncleanable.__cause__ = error
                continue
            if not log.was_cut_since(found.cuts, []):  # else less of it is clean by now, and that is known already
                directory.checkpoint_cleaned(partition, done.upto)
            return partition, done
        return None

    def _dirtiest(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]
    ) -> tuple[Cleanable, TopicPartition, LogDirectory, FileLog] | None:
        best: tuple[Cleanable, TopicPartition, LogDirectory, FileLog] | None = None
        for directory in self._usable():
            for partition, log in list(directory.logs.items()):
                if not log.config.compact or log.uncleanable is not None:
                    continue
                cuts, segments = log.cuts, log.segments
                try:
                    found = self._cleanable(directory, partition, now_ms, high_watermarks)
                    wanted = worth_it(log, found)
                except (DamagedLog, MissingFile) as error:
                    if not log.was_cut_since(cuts, segments):
                        log.uncleanable = error
                    continue  # else there is another time
                if wanted and (best is None or found.ratio > best[0].ratio):
                    best = found, partition, directory, log
        return best

    def sweep(self, now_ms: int) -> None:
        """Files whose time has come are deleted: for a thread, as a large one takes long."""
        for directory in self._usable():
            directory.sweep(now_ms)

    def unload(self) -> None:
        """Indexes that nobody needs now leave the memory."""
        closed = [segment for log in self.logs.values() for segment in log.segments[:-1]]
        if sum(segment.loaded_bytes for segment in closed) > self.settings.index_bytes_max:
            for segment in closed:
                segment.unload()

    def expire_producers(self, now_ms: int) -> None:
        """By a clock that nobody sets."""
        for log in self.logs.values():
            log.producers.expire(now_ms, self.settings.producer_id_expiration_ms)

    def _cleanable(
        self, directory: LogDirectory, partition: TopicPartition, now_ms: int, bounds: Mapping[TopicPartition, int]
    ) -> Cleanable:
        log = directory.logs[partition]
        return cleanable(log, directory.cleaned.get(partition, 0), now_ms, bounds.get(partition, 0))

    def _usable(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failed is None]


def _check_any(directories: Sequence[LogDirectory]) -> None:
    """Without any directory there is nothing to be done."""
    failed = [each.failed.text for each in directories if each.failed is not None]
    if len(failed) == len(directories):
        raise StorageFailure("; ".join(failed))


def _folder_count(directory: LogDirectory) -> int:
    """Of one that fails at that: none."""
    try:
        return len(directory.files.folders())
    except StorageFailure:
        return 0
