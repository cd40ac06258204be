"""Crashes of the disks of simulated servers and brokers, and a check of the files that a purge leaves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

from harness.checkers import Judge
from zab.core.errors import DamagedError, StorageError
from zab.core.ready import Append, InstallSnapshot, SaveEpochs, Truncate, Write
from zab.core.zxid import ServerId, Zxid
from zab.runtime.writer import WriteTarget
from zab.storage.memory_disk import Crash, MemoryDisk
from zab.storage.power_loss import Choose
from zab.storage.segment import PREFIX, decode_segment, name_of
from zab.storage.snapshot_files import SNAPSHOT, listed
from zab.storage.snapshot_files import name_of as snapshot_name

SNAPSHOTS_KEPT: Final = 2
"""The number of snapshots that each server keeps."""


class Crashed(BaseException):
    """Raised by a fault to unwind the turn of the server or broker that it crashes at this point.

    The simulator catches it and crashes the server. It is no `Exception`, so that no code of the product catches it.
    """

    def __init__(self, server: Any, loss: str, down_ms: int, all_servers: bool = False) -> None:
        super().__init__(f"server {server.id}")
        self.server: Any = server
        self.loss = loss
        self.down_ms = down_ms
        self.all_servers = all_servers


def lose(disk: MemoryDisk, loss: str, choose: Choose) -> None:
    """Crash a disk; `loss` is one of `harness.script.names.LOSSES`."""
    match loss:
        case "keep":
            disk.kill()
        case "lose":
            disk.crash()
        case _:
            disk.crash(choose)


def crash_amid(disk: MemoryDisk, storage: WriteTarget, writes: Sequence[Write], choose: Choose) -> None:
    """Crash a disk at one of the changes that these writes make."""
    if writes:
        disk.crash_at(disk.changes + choose(2 + 3 * len(writes)), after=choose(2) == 1)
        with suppress(Crash, StorageError):
            storage.perform(writes)


def judge_durable(judge: Judge, sid: ServerId, writes: Sequence[Write]) -> None:
    """Report to the judge that these writes are durable."""
    for write in writes:
        if isinstance(write, Append):
            judge.durable_append(sid, write.batch)
        elif isinstance(write, SaveEpochs):
            judge.durable_epochs(sid, write.accepted, write.current, write.whole and not write.forgotten)
        elif isinstance(write, Truncate | InstallSnapshot):
            judge.durable_end(sid, write.zxid)


def judge_purge(judge: Judge, sid: ServerId, disk: MemoryDisk, spare: Zxid | None) -> None:
    """Report the remaining log files and snapshots of a server to the judge, read from the disk without the storage.

    `spare` is a snapshot beyond the number to keep: it was stored because a learner was sent it.
    """
    names = disk.names()
    snapshots, logs = listed(names, SNAPSHOT), listed(names, PREFIX)
    if not snapshots or not logs:
        return
    try:
        first = decode_segment(name_of(logs[-1]), disk.get(name_of(logs[-1])))
        judge.purged(sid, snapshots[-1], first.previous)
        counted = [zxid for zxid in snapshots if zxid != spare]
        if counted:
            judge.stays(sid, counted[0], _needless(disk, counted, logs))
    except DamagedError:  # a fault damaged the file, and the next start reports it
        return


def _needless(disk: MemoryDisk, snapshots: list[Zxid], logs: list[Zxid]) -> list[str]:
    """Return the files to delete: snapshots beyond the number to keep, and log files that the oldest kept one covers.

    `snapshots` and `logs` are sorted from the newest to the oldest.
    """
    if len(snapshots) < SNAPSHOTS_KEPT:
        return []
    oldest = snapshots[SNAPSHOTS_KEPT - 1]
    covered = [
        name_of(older)
        for newer, older in pairwise(logs)
        if decode_segment(name_of(newer), disk.get(name_of(newer))).previous <= oldest
    ]
    return [*map(snapshot_name, snapshots[SNAPSHOTS_KEPT:]), *covered]
