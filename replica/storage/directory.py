"""One log directory: whose it is, the logs in it, and its checkpoints. When its disk fails, others carry on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final
from uuid import uuid4

from attrs import frozen

from replica.storage import checkpoints as files_of
from replica.storage.checkpoints import TopicPartition
from replica.storage.config import LogConfig
from replica.storage.file_log import FileLog
from replica.storage.files import DamagedLog, Handles, MissingFile, StorageFailure
from replica.storage.recovery import Known, open_log
from replica.storage.segment import LOG
from zab.storage.disk import FolderDisk, read_all, write_atomically

DELETE: Final = "-delete"
FUTURE: Final = "-future"
STRAY: Final = "-stray"
_META_VERSION: Final = "0"
CLOSING_THREADS: Final = 8


def folder_of(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def partition_of(folder: str) -> TopicPartition | None:
    """The last dash separates; None where that is no partition's folder."""
    topic, _, number = folder.rpartition("-")
    return (topic, int(number)) if topic and number.isdigit() else None


class LogDirectory:
    def __init__(self, files: FolderDisk, *, open_files_max: int) -> None:
        self.files = files
        self.handles = Handles(files, open_files_max)
        self.logs: dict[TopicPartition, FileLog] = {}
        self.damaged: dict[TopicPartition, StorageFailure] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaned: dict[TopicPartition, int] = {}
        self.was_clean = False
        self.previous_broker_epoch = -1
        self.notes: list[str] = []
        self._recovery_points: dict[TopicPartition, int] = {}
        self._points_lost = False
        """There were some, and nobody can read them."""
        self._start_offsets: dict[TopicPartition, int] = {}
        self._gone: set[TopicPartition] = set()
        """Of which there is no log any more, and checkpoints on the disk may still tell."""
        self._doomed: list[tuple[str, int]] = []
        self._lock = Lock()

    @property
    def failed(self) -> StorageFailure | None:
        return self.handles.failed

    # -- at the start ------------------------------------------------------------------------------

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Its `meta.properties` must be of this broker, or not be there yet."""
        try:
            found = files_of.decode_properties(read_all(self.files, files_of.META))
        except MissingFile:
            if self.files.folders():
                self.notes.append(
                    f"{self.files.where} has logs and no {files_of.META}: it is taken for this broker's own"
                )
            values = {"version": _META_VERSION, "broker.id": broker_id, "cluster.id": cluster_id}
            write_atomically(self.files, files_of.META, files_of.encode_properties(values))
            return
        for key, wanted in (("version", _META_VERSION), ("broker.id", str(broker_id)), ("cluster.id", cluster_id)):
            if found.get(key, wanted) != wanted:
                raise StorageFailure(
                    f"{self.files.where}/{files_of.META} says {key}={found[key]}, and this broker's is {wanted}: it is "
                    "another broker's directory, or another cluster's. Correct log.dirs, or move it away"
                )

    def load(self, config_of: Callable[[str], LogConfig]) -> Iterator[TopicPartition]:
        """One log after the other; a damaged one is told in `damaged`, and the others are loaded."""
        self._read_clean_marker()
        self._recovery_points = self._read_recovery_points()
        self._start_offsets = self._offsets(files_of.START_OFFSETS)
        self.high_watermarks = self._offsets(files_of.HIGH_WATERMARKS)
        self.cleaned = self._offsets(files_of.CLEANED)
        for folder in self.files.folders():
            if folder.endswith(DELETE):
                self.files.delete_folder(folder)
                continue
            if folder.endswith((FUTURE, STRAY)):
                self.notes.append(f"{self.files.where}/{folder} is no partition of this broker, and is left alone")
                continue
            if (partition := partition_of(folder)) is None:
                self.notes.append(f"{self.files.where}/{folder} is no partition, and is left alone")
                continue
            try:
                self.logs[partition] = self._open(partition, config_of(partition[0]))
            except StorageFailure as error:
                if self.failed is not None:
                    raise
                self.damaged[partition] = error
            yield partition
        for offsets in self._kept():
            self._gone.update(each for each in offsets if each not in self.logs and each not in self.damaged)
        for partition in sorted(self._gone):
            if (point := self._recovery_points.get(partition, 0)) > self._start_offsets.get(partition, 0):
                where = f"{self.files.where}/{folder_of(partition)}"
                self.notes.append(f"{where} is not there, and was durable up to offset {point}")
            self._forget(partition)

    def _read_clean_marker(self) -> None:
        try:
            self.previous_broker_epoch = files_of.decode_clean(read_all(self.files, files_of.CLEAN_SHUTDOWN))
        except MissingFile:
            return
        self.was_clean = True
        self.files.discard(files_of.CLEAN_SHUTDOWN)  # before anything is loaded: a crash from now on is one
        self.files.sync_dir("")

    def _read_recovery_points(self) -> dict[TopicPartition, int]:
        try:
            return files_of.read_offsets(self.files, files_of.RECOVERY_POINTS)
        except DamagedLog as error:
            self._points_lost = True
            if self.was_clean:
                known = "as the last run ended in order, all but the last segment of each log is taken for durable"
            else:
                known = "nobody knows what was durable, so a log that is damaged anywhere ends there"
            self.notes.append(f"{self.files.where}/{error.text}: it is not used, and {known}")
            return {}

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        """Nothing is sure without it: all logs are read from their beginnings then."""
        try:
            return files_of.read_offsets(self.files, name)
        except DamagedLog as error:
            self.notes.append(f"{self.files.where}/{error.text}: it is not used")
            return {}

    def _open(self, partition: TopicPartition, config: LogConfig) -> FileLog:
        folder = folder_of(partition)
        point = self._recovery_points.get(partition, 0)
        if self._points_lost and self.was_clean:  # all was durable, and what is closed can be told from its name
            names = (name for name in self.files.stats(folder) if name.endswith(LOG))
            point = max((int(name.removesuffix(LOG)) for name in names), default=point)
        known = Known(point, self._start_offsets.get(partition, 0))
        log = open_log(folder, config, self.handles, folder, known, _MarksOf(self, partition))
        self.notes += [f"{self.files.where}/{folder}: {note}" for note in log.notes]
        if known.recovery_point <= log.start_offset and files_of.METADATA in self.files.stats(folder):
            self._doubt(log, f"{folder}/{files_of.METADATA}")
        return log

    def _doubt(self, log: FileLog, path: str) -> None:
        """Nobody has made it durable, for all that is known: with the power it may have lost what it said."""
        try:
            files_of.decode_metadata(read_all(self.files, path))
        except DamagedLog as error:
            self.notes.append(f"{self.files.where}/{path}: {error.text}: it is written again")
            self.files.discard(path)
        else:
            log.keep_beside(path)

    # -- logs come and go --------------------------------------------------------------------------

    def create(self, partition: TopicPartition, config: LogConfig, topic_id: bytes | None) -> FileLog:
        folder = folder_of(partition)
        if partition in self._gone:
            self.checkpoint()  # or after a crash it would be held against the one of before
        self.files.make_folder(folder)
        log = self.logs[partition] = self._open(partition, config)
        if topic_id is not None:
            self.keep_topic_id(partition, topic_id)
        return log

    def keep_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        path = f"{folder_of(partition)}/{files_of.METADATA}"
        write_atomically(self.files, path, files_of.encode_metadata(topic_id), durably=False)
        self.logs[partition].keep_beside(path)

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        try:
            return files_of.decode_metadata(read_all(self.files, f"{folder_of(partition)}/{files_of.METADATA}"))
        except MissingFile:
            return None

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Gone at once for everybody, from the disk when `sweep` comes by."""
        log = self.logs.get(partition)
        delay = log.config.file_delete_delay_ms if log is not None else 0
        doomed = f"{folder_of(partition)[:200]}.{uuid4().hex}{DELETE}"
        self._let_go(partition, doomed)
        with self._lock:
            self._doomed.append((doomed, now_ms + delay))

    def set_aside(self, partition: TopicPartition) -> str:
        """It is none of this broker's any more, but nobody said that it may go. Returns the name of its folder now."""
        folder = folder_of(partition)
        aside = f"{folder[:200]}.{uuid4().hex}{STRAY}"
        self._let_go(partition, aside)
        return aside

    def _let_go(self, partition: TopicPartition, name: str) -> None:
        log = self.logs.pop(partition, None)
        if log is not None:
            log.abandon()
        self.damaged.pop(partition, None)
        folder = folder_of(partition)
        self.handles.forget_folder(folder)
        self.files.rename_folder(folder, name)
        with self._lock:
            self._gone.add(partition)
            self._forget(partition)

    def _kept(self) -> tuple[dict[TopicPartition, int], ...]:
        return self._recovery_points, self._start_offsets, self.high_watermarks, self.cleaned

    def _forget(self, partition: TopicPartition) -> None:
        for offsets in self._kept():
            offsets.pop(partition, None)

    def sweep(self, now_ms: int) -> None:
        with self._lock:
            due = [folder for folder, when in self._doomed if when <= now_ms]
            self._doomed = [each for each in self._doomed if each[1] > now_ms]
        for folder in due:
            self.files.delete_folder(folder)
        for log in list(self.logs.values()):
            log.sweep(now_ms)

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Recovery points and starts, as they are now; and nothing of logs that are gone, however many went."""
        with self._lock:
            logs = list(self.logs.items())  # at once: another thread may make one meanwhile
            self._recovery_points |= {each: log.recovery_point for each, log in logs}
            self._start_offsets |= {
                each: log.start_offset for each, log in logs if log.start_offset or each in self._start_offsets
            }
            files_of.write_offsets(self.files, files_of.RECOVERY_POINTS, self._recovery_points)
            files_of.write_offsets(self.files, files_of.START_OFFSETS, self._start_offsets)
            if self._gone:
                files_of.write_offsets(self.files, files_of.HIGH_WATERMARKS, self.high_watermarks)
                files_of.write_offsets(self.files, files_of.CLEANED, self.cleaned)
                self._gone.clear()

    def checkpoint_high_watermarks(self, values: Mapping[TopicPartition, int]) -> None:
        """Those of logs that are here; one that nobody names keeps what was known of it. Nothing is written if the file
        says so already."""
        with self._lock:
            moved = {
                each: values[each]
                for each in list(self.logs)
                if each in values and values[each] != self.high_watermarks.get(each)
            }
            if moved:
                files_of.write_offsets(self.files, files_of.HIGH_WATERMARKS, self.high_watermarks | moved)
                self.high_watermarks |= moved

    def checkpoint_cleaned(self, partition: TopicPartition, upto: int) -> None:
        with self._lock:
            self.cleaned[partition] = upto
            files_of.write_offsets(self.files, files_of.CLEANED, self.cleaned)

    def ends_at(self, partition: TopicPartition, offset: int) -> None:
        """A log is about to be cut."""
        names = files_of.RECOVERY_POINTS, files_of.HIGH_WATERMARKS, files_of.CLEANED
        self._lower(
            partition, offset, zip(names, (self._recovery_points, self.high_watermarks, self.cleaned), strict=True)
        )

    def begins_at(self, partition: TopicPartition, offset: int) -> None:
        """A log has begun anew, before where it began."""
        self._lower(partition, offset, [(files_of.START_OFFSETS, self._start_offsets)])

    def _lower(
        self, partition: TopicPartition, offset: int, kept: Iterable[tuple[str, dict[TopicPartition, int]]]
    ) -> None:
        with self._lock:
            for name, offsets in kept:
                if offsets.get(partition, 0) > offset:
                    offsets[partition] = offset
                    files_of.write_offsets(self.files, name, offsets)

    def close(self, broker_epoch: int, *, threads: int = CLOSING_THREADS) -> None:
        """The marker is the last that is written: it says that everything before it was. Without threads one log is
        closed after the other, always in the same order."""
        if self.failed is None:
            if threads:
                with ThreadPoolExecutor(threads) as pool:  # the disk does many syncs in the time of one
                    list(pool.map(FileLog.close, self.logs.values()))
            else:
                for log in self.logs.values():
                    log.close()
            self.checkpoint()
            if not self.damaged:
                write_atomically(self.files, files_of.CLEAN_SHUTDOWN, files_of.encode_clean(broker_epoch))
        self.handles.close()
        self.files.close()


@frozen
class _MarksOf:
    """Of one log, as `replica.storage.growing_log.Marks`."""

    directory: LogDirectory
    partition: TopicPartition

    def ends_at(self, offset: int) -> None:
        self.directory.ends_at(self.partition, offset)

    def begins_at(self, offset: int) -> None:
        self.directory.begins_at(self.partition, offset)
