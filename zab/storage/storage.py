"""Storage of one server: perform a node's writes in order, and recover everything at the next start.

Its calls may block, and must not overlap, in whatever threads they run. Only `read_log`, `read_snapshot`, the writer of
a local snapshot, and the members marked with "any thread" may run in a thread of their own beside the other calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.core.batch import Batch
from zab.core.errors import ConfigError, LocalProtocolError, StorageError
from zab.core.messages import SnapHeld
from zab.core.ready import (
    AbortSnapshot,
    Append,
    BeginSnapshot,
    FoundSnapshot,
    InstallSnapshot,
    KeepSnapshot,
    Recovered,
    ResumeSnapshot,
    SaveEpochs,
    SnapshotChunk,
    Truncate,
    Write,
)
from zab.core.settings_checks import check_settings
from zab.core.zxid import NOTHING, Zxid, epoch_of, show
from zab.storage import damaged_files, snapshot_files
from zab.storage.disk import Disk
from zab.storage.epochs import EpochsRecord, HistoryStatus
from zab.storage.install import install
from zab.storage.log_reader import Purged, read_batches
from zab.storage.recovery import Recovery, recover
from zab.storage.segment import PREFIX, name_of
from zab.storage.snapshot_files import INCOMING, PARTIAL, SNAPSHOT, SnapshotFile, SnapshotWriter
from zab.storage.transaction_log import TransactionLog

SEGMENT_BYTES_MAX: Final = 1 << 31


@checks_arguments
@frozen
class StorageSettings:
    """Settings of the log and the snapshots. Sizes in bytes.

    segment_bytes                          the log continues in a new file above this size
    preallocate                            True: reserve the space of a log file at its creation, and write zeros ahead
    snapshots_kept                         the number of newest snapshots that a purge leaves, not counting damaged ones
                                           and the last one that was written for a learner
    autocreate                             True: an empty directory is the beginning of a history, not the loss of one
    damaged_files_max, damaged_bytes_max   bounds of the files named `damaged.*`, which are kept from damaged histories;
                                           above a bound those of earlier damage are deleted, never those of the newest
    """

    segment_bytes: int = 16 << 20
    preallocate: bool = True
    snapshots_kept: int = 3
    autocreate: bool = True
    damaged_files_max: int = 1_000
    damaged_bytes_max: int = 4 << 30

    def __attrs_post_init__(self) -> None:
        check_settings(self, {})  # every number is at least 1, so a purge keeps at least one snapshot
        if self.segment_bytes > SEGMENT_BYTES_MAX:  # offsets in a log file have 32 bits
            raise ConfigError(
                f"StorageSettings.segment_bytes = {self.segment_bytes}: at most {SEGMENT_BYTES_MAX} is allowed"
            )


class Storage:
    """The log, the snapshots and the epochs record of one server. After a failed write every later write fails."""

    def __init__(self, disk: Disk, settings: StorageSettings, found: Recovery) -> None:
        self.notes = tuple(found.notes)
        """The findings and actions of recovery, each the text of a log message."""
        self.rotten = found.rotten
        """The notes to log as warnings: damage to files that are not needed, or many (or large) `damaged.*` files."""
        self.warnings = tuple(f"the disk is failing: {note}" for note in found.rotten)
        """The notes in `rotten`, worded as warnings for an operator."""
        self._disk = disk
        self._settings = settings
        self._epochs = found.epochs
        self._newest = found.newest
        """The zxid of the newest sound snapshot, or None."""
        self._unsound = found.unsound
        """The zxids of damaged snapshots. They do not count towards `snapshots_kept`."""
        self._verified = found.newest
        """The zxid of the snapshot that recovery verified, so that a read need not verify it again; or None."""
        self._begun = found.epochs.record.status is HistoryStatus.WHOLE
        """True if batches may be logged: the history is complete, or a leader's snapshot has replaced it."""
        self._incoming: SnapshotFile | None = None
        """The snapshot that is arriving from the leader, or None."""
        self.held = found.recovered.held
        """The part of a leader's snapshot that arrived before an interruption; None without one. Any thread."""
        self.spare: Zxid | None = None
        """The newest snapshot written for a learner, or None. It does not count towards `snapshots_kept`."""
        self._failure: BaseException | None = None
        """The first error; None while the storage is healthy. After an error it is unknown which writes are durable."""
        self._log = TransactionLog(
            disk,
            found.epochs,
            settings.segment_bytes,
            settings.preallocate,
            found.segments,
            found.recovered.log_start if found.segments else found.last,
            found.last,
            found.end,
        )

    @classmethod
    def open(cls, disk: Disk, settings: StorageSettings = StorageSettings()) -> tuple[Storage, Recovered]:
        """Recover a directory. `Storage.notes` lists findings and actions, `Recovered.damage` irreparable damage."""
        found = recover(disk, settings.autocreate)
        storage = cls(disk, settings, found)
        warning = damaged_files.near_the_bound(disk, settings.damaged_files_max, settings.damaged_bytes_max)
        if warning:  # without "the disk is failing": the warning is about earlier damage
            storage.notes += (warning,)
            storage.rotten += (warning,)
            storage.warnings += (warning,)
        return storage, found.recovered

    def check_room(self) -> None:
        """Raise `StorageError` if the first log file cannot be allocated: at the start, not at the first request."""
        if not self._settings.preallocate or self._log.segments:
            return
        name = f"{PREFIX}tmp"  # recovery deletes it after a crash
        file = self._disk.create(name)
        try:
            file.allocate(self._settings.segment_bytes)
        except StorageError as error:
            needed = f"A log file takes {self._settings.segment_bytes:,} bytes (`txnLogSizeLimitInKb`)"
            raise StorageError(f"{error}. {needed}, which are reserved unless `preAllocSize` is 0") from error
        finally:
            file.close()
            self._disk.delete(name)

    # -- content ------------------------------------------------------------------------------------

    @property
    def last(self) -> Zxid:
        """The durable end of the log; UNKNOWN until a history was recovered or installed. Any thread."""
        return self._log.durable

    @property
    def log_start(self) -> Zxid:
        """The log on disk holds everything after this zxid."""
        return self._log.start

    def log_file_of(self, zxid: Zxid) -> str:
        """Return the name of the log file with the transaction, or "the log" if no file has it. Any thread."""
        names = [segment.name for segment in self._log.segments if segment.first <= zxid]
        return names[-1] if names else "the log"

    @property
    def newest_snapshot(self) -> Zxid | None:
        """The zxid of the newest usable snapshot; None without one: the state machine then starts empty. Any thread."""
        return self._newest

    def know_committed(self, zxid: Zxid) -> None:
        """Remember that everything up to `zxid` is committed, for the next save of the epochs record.

        May be called from any thread.
        """
        self._epochs.committed = zxid

    @property
    def knows_more_committed(self) -> bool:
        """True if more is known to be committed than the epochs record on the disk says. Any thread."""
        return self._epochs.committed > self._epochs.record.committed

    def save_committed(self) -> None:
        """Save the known committed zxid if it is newer than the saved one, unless the history may be incomplete."""
        self._check_healthy()
        try:
            if self._begun and self.knows_more_committed:
                self._epochs.note(self._log.durable, self._log.newest)
        except BaseException as error:
            self._failure = error
            raise

    # -- writing ---------------------------------------------------------------------------------------

    def perform(self, writes: Sequence[Write]) -> None:
        """Perform the writes in order. On return they are durable: report the last ticket with `node.saved`.

        The part of a snapshot that has arrived becomes durable only when the snapshot is installed.

        After an error it is unknown which writes are durable. Report none of them; every later write fails.
        """
        self._check_healthy()
        append = self._log.append
        try:
            for write in writes:
                if type(write) is Append:
                    self._check_append(write.batch)
                    append(write.batch)
                else:
                    self._perform_rare(write)
            self._log.sync()
        except BaseException as error:
            self._failure = error
            raise

    def _perform_rare(self, write: Write) -> None:
        match write:
            case SaveEpochs():
                self._save_epochs(write)
            case Truncate(zxid=zxid):
                self._truncate(zxid)
            case BeginSnapshot(zxid=zxid):
                self._abort_incoming()
                self._drop_held()
                self._incoming = SnapshotFile(self._disk, INCOMING, zxid)
            case KeepSnapshot():
                self._keep_incoming()
            case ResumeSnapshot(held=held):
                self._resume_incoming(held)
            case SnapshotChunk(data=data):
                self._arriving().write(data)
            case AbortSnapshot():
                self._abort_incoming()
                self._drop_held()
            case InstallSnapshot(zxid=zxid, digest=digest):
                self._install(zxid, digest)
            case Append():
                raise AssertionError("`perform` handles appends itself")

    def _check_append(self, batch: Batch) -> None:
        if batch.first >> 32 > self._epochs.record.accepted:
            raise LocalProtocolError(f"{show(batch.first)} is of an epoch that this server has not accepted")
        if not self._begun:
            raise LocalProtocolError(f"{show(batch.first)} cannot be logged: the history before it may be incomplete")

    def _save_epochs(self, write: SaveEpochs) -> None:
        self._log.sync()  # an epoch is adopted when its history is durable, never before
        if write.whole and not self._begun:
            raise LocalProtocolError("the history may be incomplete, and no snapshot has replaced it")
        status = self._epochs.record.status
        if write.whole:
            status = HistoryStatus.WHOLE
        elif status is HistoryStatus.WHOLE:  # the files are sound, but the core distrusts or gives up the history
            status, self._begun = HistoryStatus.DAMAGED, False
        reaches, segment = self._epochs.record.reaches, self._epochs.record.segment
        if self._begun:
            reaches, segment = self._log.durable, self._log.newest
        self._epochs.save(
            EpochsRecord(write.accepted, write.current, write.ensemble, status, write.forgotten, reaches, segment)
        )

    def _truncate(self, zxid: Zxid) -> None:
        if not self._begun:
            raise LocalProtocolError(f"cannot truncate to {show(zxid)}: the history may be incomplete")
        newest = self._newest
        if newest is not None and zxid < newest:
            raise LocalProtocolError(
                f"cannot truncate to {show(zxid)}: everything up to the snapshot at {show(newest)} is committed"
            )
        self._log.truncate(zxid)

    def _arriving(self) -> SnapshotFile:
        if self._incoming is None:
            raise LocalProtocolError("no snapshot is arriving")
        return self._incoming

    def _abort_incoming(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.abort()

    def _keep_incoming(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.keep()
            self._disk.rename(INCOMING, PARTIAL)
            self.held = snapshot_files.kept(self._disk)
            if self.held is None:
                self._disk.delete(PARTIAL)

    def _resume_incoming(self, held: SnapHeld) -> None:
        if held != self.held:
            raise LocalProtocolError(f"this part of the snapshot at {show(held.zxid)} is not kept here")
        self._abort_incoming()
        self._incoming = snapshot_files.resumed(self._disk, held)
        self._drop_held()

    def _drop_held(self) -> None:
        if self.held is not None:
            self.held = None
            self._disk.delete(PARTIAL)

    def _install(self, zxid: Zxid, digest: int | None) -> None:
        incoming = self._arriving()
        if incoming.zxid != zxid:
            raise LocalProtocolError(f"the snapshot at {show(incoming.zxid)} is arriving, not that at {show(zxid)}")
        if epoch_of(zxid) > self._epochs.record.accepted:
            raise LocalProtocolError(f"{show(zxid)} is of an epoch that this server has not accepted")
        self._incoming = None
        self._log.reset(zxid)
        earlier = damaged_files.found(self._disk)
        install(self._disk, self._epochs, incoming, digest)
        settings = self._settings
        damaged_files.bound(self._disk, earlier, settings.damaged_files_max, settings.damaged_bytes_max)
        self._newest, self._verified, self._unsound, self.spare = zxid, None, frozenset(), None
        self._begun = True

    # -- snapshots ---------------------------------------------------------------------------------------

    def snapshot_writer(self, zxid: Zxid, digest: int | None) -> SnapshotWriter:
        """Begin a local snapshot, which any thread may write. Call `purge` once it is finished."""
        self._check_healthy()
        if not (self._newest or NOTHING) <= zxid <= self.last:
            raise LocalProtocolError(
                f"no snapshot can be at {show(zxid)}: it must be between {show(self._newest or NOTHING)}, the newest "
                f"snapshot, and {show(self.last)}, the end of the history"
            )
        self._log.roll()
        self._unsound -= {zxid}
        if zxid == self.spare:
            self.spare = None
        return SnapshotWriter(self._disk, zxid, digest)

    def read_snapshot(self, zxid: Zxid) -> Iterator[bytes]:
        """Yield the chunks of a snapshot. Verify the whole file before the first chunk, unless recovery did."""
        name = snapshot_files.name_of(zxid)
        if zxid != self._verified:
            snapshot_files.verify(self._disk, name)
        yield from snapshot_files.read_chunks(self._disk, name)

    def find_snapshot(self, held: SnapHeld) -> FoundSnapshot | None:
        """Return the sound snapshot at `held.zxid` if it begins with the bytes that another server holds, else None.

        Any thread.
        """
        return snapshot_files.find(self._disk, held)

    def read_rest(self, held: SnapHeld) -> Iterator[bytes]:
        """Yield the verified chunks of a found snapshot after the held bytes. Any thread."""
        return snapshot_files.read_chunks(self._disk, snapshot_files.name_of(held.zxid), held.size)

    @property
    def newest_snapshot_bytes(self) -> int:
        """The size of the newest snapshot file; 0 without one. Any thread."""
        newest = self._newest
        return 0 if newest is None else snapshot_files.size_of(self._disk, snapshot_files.name_of(newest))

    def purge(self, keep: int | None = None, spare: Zxid | None = None) -> Zxid:
        """Remove all snapshots older than the newest `keep`, and the log files that only these need.

        Return the new `log_start`.

        `keep` is `snapshots_kept` by default. Damaged snapshots are not counted. `spare` is a snapshot that was written
        for a learner. It is not counted either, and the previous spare is removed.

        Call after every local snapshot. While there are fewer than `keep`, only two kinds of snapshots are removed: the
        previous spare, and those from before the log's start. A snapshot from before the log's start exists if a
        received one replaced the history while a local one was being written. While the history may be incomplete,
        only the previous spare is removed.
        """
        self._check_healthy()
        try:
            if spare is not None:
                self._replace_spare(spare)
            present = snapshot_files.listed(self._disk.list(), SNAPSHOT)
            sound = [zxid for zxid in present if zxid not in self._unsound]
            if sound:
                self._newest = sound[0]
            if self._begun and sound and sound[0] >= self._log.start > sound[-1]:
                self._remove_before(self._log.start, present)
                present = [zxid for zxid in present if zxid >= self._log.start]
                sound = [zxid for zxid in sound if zxid >= self._log.start]
            kept = [zxid for zxid in sound if zxid != self.spare][: keep or self._settings.snapshots_kept]
            if self._begun:
                self._epochs.note(self._log.durable, self._log.newest)
                if len(kept) == (keep or self._settings.snapshots_kept):
                    self._remove_before(kept[-1], present)
        except BaseException as error:
            self._failure = error
            raise
        return self._log.start

    def _replace_spare(self, spare: Zxid) -> None:
        before, self.spare = self.spare, spare
        if before is not None and before != spare and before in snapshot_files.listed(self._disk.list(), SNAPSHOT):
            self._disk.delete(snapshot_files.name_of(before))

    def _remove_before(self, oldest: Zxid, present: list[Zxid]) -> None:
        for zxid in present:
            if zxid < oldest:
                self._disk.delete(snapshot_files.name_of(zxid))
        self._log.purge(oldest)
        for first in snapshot_files.listed(self._disk.list(), PREFIX):
            if first < self._log.oldest:  # recovery left this file out of the log: a snapshot covers it
                self._disk.delete(name_of(first))
        self._disk.sync_dir()

    # -- reading the log -----------------------------------------------------------------------------------

    def read_log(self, after: Zxid, until: Zxid) -> Iterator[Batch]:
        """Yield the batches of (`after`, `until`] from the disk, in any thread.

        Raise `Purged` if some of them are gone, and `DamagedError` if some cannot be read: then the peer needs a
        snapshot. Raise `LocalProtocolError` if the history does not contain `after`, or ends before `until`. Errors may
        come after some batches.
        """
        durable = self._log.durable  # in this order: another thread may extend or purge the log in between
        segments = self._log.segments
        start = self._log.start
        if after < start:
            raise Purged(f"the log begins after {show(start)}, and {show(after)} lies before that")
        if not after <= until <= durable:
            raise LocalProtocolError(f"the log ends at {show(durable)}; ({show(after)}, {show(until)}] is not in it")
        return read_batches(self._disk, segments, after, until)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Save the extent of the history and keep an arriving snapshot, unless a write failed. The disk stays open."""
        try:
            if self._failure is None:
                self._keep_incoming()
                self._log.sync()
                if self._begun:
                    self._epochs.note(self._log.durable, self._log.newest)
        finally:
            self._log.close()
            self._failure = self._failure or StorageError("the storage is closed")

    def _check_healthy(self) -> None:
        if self._failure is not None:
            raise StorageError(f"the storage writes nothing more: {self._failure}") from self._failure
