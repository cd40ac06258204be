"""Storage of one server: performs a node's writes in order, and finds everything again at the next start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from attrs import frozen

from zab.core.batch import Batch
from zab.core.errors import ZabError
from zab.core.ready import Recovered, Write
from zab.core.zxid import Zxid
from zab.storage.disk import Disk


class Purged(ZabError):
    """The log on disk no longer holds what was asked for. Send a snapshot instead."""


@frozen
class StorageSettings:
    """Sizes in bytes. `autocreate`: an empty directory is the beginning of a history, not the loss of one."""

    segment_bytes: int = 16 << 20
    preallocate: bool = True
    snapshots_kept: int = 3
    autocreate: bool = True


class SnapshotWriter(Protocol):
    """Writes one local snapshot beside the log. May be used from another thread than `perform`."""

    def write(self, chunk: bytes) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Storage:
    """Interface published first; the body follows."""

    notes: tuple[str, ...]  # what recovery found and did, for the log
    last: Zxid  # of the log (or of the snapshot it begins behind)
    log_start: Zxid  # the log on disk holds everything behind this zxid
    newest_snapshot: Zxid | None  # None: none on this disk; the machine starts empty

    @classmethod
    def open(cls, disk: Disk, settings: StorageSettings = StorageSettings()) -> tuple[Storage, Recovered]:
        raise NotImplementedError

    def perform(self, writes: Sequence[Write]) -> None:
        """In order. When this returns all of it is durable: report the last ticket with `node.saved`.

        Raises StorageError when the disk fails, and from then on always: nothing more is written.
        """
        raise NotImplementedError

    def snapshot_writer(self, zxid: Zxid, digest: int) -> SnapshotWriter:
        """Call in the thread of `perform`; use the result in any thread; call `purge` when it has finished."""
        raise NotImplementedError

    def read_snapshot(self, zxid: Zxid) -> Iterator[bytes]:
        """The chunks as they were written. The whole file is verified before the first one is handed out."""
        raise NotImplementedError

    def read_log(self, after: Zxid, until: Zxid) -> Iterator[Batch]:
        """(`after`, `until`] from the disk, any thread. Purged if it is no longer there, DamagedError if it rotted."""
        raise NotImplementedError

    def purge(self, keep: int | None = None) -> Zxid:
        """Remove snapshots but the newest `keep`, and the log that none of these needs; returns the new log_start."""
        raise NotImplementedError

    def close(self) -> None:
        """Does not close the disk."""
        raise NotImplementedError
