"""One log directory: its owner, its logs and its checkpoint files. If its disk fails, other directories continue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final
from uuid import uuid4

from attrs import frozen

from kraft_controller.core.names import BrokerId
from kraft_controller.wire.broker_identity import META, WrongIdentity, decode_identity, encode_identity
from replica.core.partition_table import PartitionTable
from replica.core.partitions.log_config import LogConfig
from replica.storage import checkpoint_files as files_of
from replica.storage.checkpoint_files import TopicPartition
from replica.storage.files import DamagedLog, Handles, MissingFile, StorageFailure
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.log_segment import LOG
from replica.storage.unified_log import UnifiedLog
from zab.storage.disk import FolderDisk, read_all, write_atomically

DELETE: Final = "-delete"
FUTURE: Final = "-future"
STRAY: Final = "-stray"
_META_VERSIONS: Final = ("0",)
"""The supported versions of `meta.properties`. Version 1 is written by Kafka without ZooKeeper; such a directory may
contain a metadata log."""
CLOSING_THREADS: Final = 8


def folder_of(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def partition_of(folder: str) -> TopicPartition | None:
    """Parse a folder name: the last dash separates topic and partition. Return None if the name has another form."""
    topic, _, number = folder.rpartition("-")
    return (topic, int(number)) if topic and number.isdecimal() else None


class LogDirectory:
    """A directory of `log.dirs`.

    logs                     the logs in use
    damaged                  logs that could not be opened, or went offline without a failure of the directory, with the
                             reason; none is in `logs`
    high_watermarks, cleaned, _recovery_points, _start_offsets   the offsets of the checkpoint files
    was_clean                True if the previous process closed all logs of the directory cleanly
    previous_broker_epoch    broker epoch of that process; -1 if it is unknown
    notes                    messages about the start, for the operator
    _draw                    returns a random number from 0 to 1 for the jitter of a segment
    _points_lost             True if the file of recovery points was malformed
    _gone                    partitions that have no log, but may still be in the checkpoint files
    _deletions               renamed folders of deleted logs, each with the time when its deletion is due
    """

    def __init__(self, files: FolderDisk, *, open_files_max: int, draw: Callable[[], float]) -> None:
        self.files = files
        self._draw = draw
        self.handles = Handles(files, open_files_max)
        self.logs: PartitionTable[TopicPartition, UnifiedLog] = PartitionTable()
        self.damaged: dict[TopicPartition, StorageFailure] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaned: dict[TopicPartition, int] = {}
        self.was_clean = False
        self.previous_broker_epoch = -1
        self.notes: list[str] = []
        self._recovery_points: dict[TopicPartition, int] = {}
        self._points_lost = False
        self._start_offsets: dict[TopicPartition, int] = {}
        self._gone: set[TopicPartition] = set()
        self._deletions: list[tuple[str, int]] = []
        self._lock = Lock()

    @property
    def failed(self) -> StorageFailure | None:
        return self.handles.failed

    # -- at the start ------------------------------------------------------------------------------

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Write `meta.properties` if it is missing. Raises `StorageFailure` if it is invalid or names another broker or
        cluster."""
        path = f"{self.files.where}/{META}"
        try:
            found = decode_identity(read_all(self.files, META), path, _META_VERSIONS)
            found.check(path, cluster_id, BrokerId(broker_id))
        except MissingFile:
            if self.files.folders():
                self.notes.append(
                    f"{self.files.where} has folders but no {META}: it is considered this broker's directory"
                )
            write_atomically(self.files, META, encode_identity(cluster_id, BrokerId(broker_id)))
        except WrongIdentity as error:
            raise StorageFailure(str(error)) from None

    def load(self, config_of: Callable[[str], LogConfig]) -> Iterator[TopicPartition]:
        """Open the logs one after the other, add each to `logs`, or to `damaged`, and yield its partition. Delete the
        folders of deleted logs. Raises `StorageFailure` if the directory fails."""
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
                self.notes.append(f"{self.files.where}/{folder} is a stray or future log, and is ignored")
                continue
            if (partition := partition_of(folder)) is None:
                self.notes.append(f"{self.files.where}/{folder} is not the folder of a partition, and is ignored")
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
                self.notes.append(f"{where} is missing, although its log was durable up to offset {point}")
            self._forget(partition)

    def _read_clean_marker(self) -> None:
        try:
            self.previous_broker_epoch = files_of.decode_clean(read_all(self.files, files_of.CLEAN_SHUTDOWN))
        except MissingFile:
            return
        self.was_clean = True
        # Remove the marker before anything else: a crash from now on must not count as a clean shutdown.
        self.files.discard(files_of.CLEAN_SHUTDOWN)
        self.files.sync_dir("")

    def _read_recovery_points(self) -> dict[TopicPartition, int]:
        try:
            return files_of.read_offsets(self.files, files_of.RECOVERY_POINTS)
        except DamagedLog as error:
            self._points_lost = True
            if self.was_clean:
                known = "after the clean shutdown, all but the last segment of each log is considered durable"
            else:
                known = "it is unknown which records were durable, so each log is cut at its first damaged batch"
            self.notes.append(f"{self.files.where}/{error.text}: the file is ignored; {known}")
            return {}

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint file. Return no offsets if it is missing or damaged."""
        try:
            return files_of.read_offsets(self.files, name)
        except DamagedLog as error:
            self.notes.append(f"{self.files.where}/{error.text}: the file is ignored")
            return {}

    def _open(self, partition: TopicPartition, config: LogConfig) -> UnifiedLog:
        folder = folder_of(partition)
        point = self._recovery_points.get(partition, 0)
        # after a clean shutdown all records are durable, and the names of the segments show where each closed one ends
        if self._points_lost and self.was_clean:
            names = (name for name in self.files.stats(folder) if name.endswith(LOG))
            point = max((int(name.removesuffix(LOG)) for name in names), default=point)
        known = KnownOffsets(point, self._start_offsets.get(partition, 0))
        notes: list[str] = []
        log = open_log(folder, config, self.handles, folder, known, _CheckpointsOf(self, partition), notes, self._draw)
        self.notes += [f"{self.files.where}/{folder}: {note}" for note in notes]
        if known.recovery_point <= log.start_offset and files_of.METADATA in self.files.stats(folder):
            self._check_metadata(log, f"{folder}/{files_of.METADATA}")
        return log

    def _check_metadata(self, log: UnifiedLog, path: str) -> None:
        """Let the first flush sync a valid `partition.metadata`. Delete a malformed one.

        A power loss before the first flush may have left the file empty.
        """
        try:
            files_of.decode_metadata(read_all(self.files, path))
        except DamagedLog as error:
            self.notes.append(
                f"{self.files.where}/{path}: {error.text}: deleted; it is written again when this replica becomes "
                "leader or follower"
            )
            self.files.discard(path)
        else:
            log.flush_with(path)

    # -- create and delete logs ----------------------------------------------------------------------

    def create(self, partition: TopicPartition, config: LogConfig, topic_id: bytes | None) -> UnifiedLog:
        folder = folder_of(partition)
        if partition in self._gone:
            self.checkpoint()  # otherwise, after a crash, the offsets of the former log would apply to this one
        self.files.make_folder(folder)
        log = self.logs[partition] = self._open(partition, config)
        if topic_id is not None:
            self.keep_topic_id(partition, topic_id)
        return log

    def keep_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        """Write `partition.metadata`. If the log is empty, its first flush makes the file durable.

        A log with records may have had its first flush, or be in the middle of it, without this file.
        """
        path, log = f"{folder_of(partition)}/{files_of.METADATA}", self.logs[partition]
        empty = log.start_offset == log.end_offset
        write_atomically(self.files, path, files_of.encode_metadata(topic_id), durably=not empty)
        if empty:
            log.flush_with(path)

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        try:
            return files_of.decode_metadata(read_all(self.files, f"{folder_of(partition)}/{files_of.METADATA}"))
        except MissingFile:
            return None

    def take_offline(self, partition: TopicPartition, why: str) -> None:
        """Stop using a log that has failed: its state in memory may be half changed.

        Its recovery point is not moved, and the clean shutdown marker is not written, so the next start checks the
        records after the recovery point.
        """
        log = self.logs.pop(partition, None)
        if log is not None:
            log.abandon()
            self.damaged[partition] = log.damage or StorageFailure(f"offline until the broker restarts: {why}")

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Stop using a log, and rename its folder. `delete_due_files` removes the folder later."""
        log = self.logs.get(partition)
        delay = log.config.file_delete_delay_ms if log is not None else 0
        renamed = f"{folder_of(partition)[:200]}.{uuid4().hex}{DELETE}"
        self._release(partition, renamed)
        with self._lock:
            self._deletions.append((renamed, now_ms + delay))

    def set_aside(self, partition: TopicPartition) -> str:
        """Stop using a log without deleting it: only a command of the controller may delete a log. Return the folder's
        new name."""
        folder = folder_of(partition)
        aside = f"{folder[:200]}.{uuid4().hex}{STRAY}"
        self._release(partition, aside)
        return aside

    def _release(self, partition: TopicPartition, name: str) -> None:
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

    def delete_due_files(self, now_ms: int) -> None:
        with self._lock:
            due = [folder for folder, when in self._deletions if when <= now_ms]
            self._deletions = [each for each in self._deletions if each[1] > now_ms]
        for folder in due:
            self.files.delete_folder(folder)
        for log in list(self.logs.values()):
            log.delete_due_files(now_ms)

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write recovery points and log start offsets. Remove deleted logs from all checkpoint files."""
        with self._lock:
            logs = list(self.logs.items())  # another thread may create a log
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
        """Write the high watermarks of logs in this directory, if any has changed. Logs without a given value keep
        theirs."""
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

    def lower_end(self, partition: TopicPartition, offset: int) -> None:
        """Lower each checkpoint that is beyond the offset to which a log is about to be truncated."""
        names = files_of.RECOVERY_POINTS, files_of.HIGH_WATERMARKS, files_of.CLEANED
        self._lower(
            partition, offset, zip(names, (self._recovery_points, self.high_watermarks, self.cleaned), strict=True)
        )

    def lower_start(self, partition: TopicPartition, offset: int) -> None:
        """Lower the recorded log start offset to this offset, at which the log starts now."""
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
        """Close all logs. Then, unless one is damaged or offline, write the clean shutdown marker, which declares all
        logs durable. If the directory has failed, only close its files.

        With `threads=0`, close one log after the other, always in the same order.
        """
        if self.failed is None:
            if threads:
                with ThreadPoolExecutor(threads) as pool:  # many concurrent syncs take the disk hardly longer than one
                    list(pool.map(UnifiedLog.close, self.logs.values()))
            else:
                for log in self.logs.values():
                    log.close()
            self.checkpoint()
            if not self.damaged:
                write_atomically(self.files, files_of.CLEAN_SHUTDOWN, files_of.encode_clean(broker_epoch))
        self.handles.close()
        self.files.close()


@frozen
class _CheckpointsOf:
    """The `replica.storage.unified_log.OffsetCheckpoints` of one log."""

    directory: LogDirectory
    partition: TopicPartition

    def lower_end(self, offset: int) -> None:
        self.directory.lower_end(self.partition, offset)

    def lower_start(self, offset: int) -> None:
        self.directory.lower_start(self.partition, offset)
