"""The disks of simulated servers and brokers: crashes, and what is left after a crash or a purge."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, Final, Protocol

from harness.checkers import Judge
from replica.storage.files import FirstFailure
from zab.core.errors import DamagedError
from zab.core.zxid import ServerId, Zxid
from zab.storage.memory_disk import MemoryDisk
from zab.storage.power_loss import AnySectors, Choose
from zab.storage.segment import PREFIX, decode_segment, name_of
from zab.storage.snapshot_files import SNAPSHOT, listed
from zab.storage.snapshot_files import name_of as snapshot_name

SNAPSHOTS_KEPT: Final = 2
"""The snapshots that each server keeps."""


class Process(Protocol):
    @property
    def id(self) -> Any: ...


class Crashed(BaseException):
    """Unwinds the turn of a server or a broker that a fault crashes at this point. The simulator does the rest.

    No code of the product may catch it, so it is no `Exception`.
    """

    def __init__(self, server: Process, loss: str, down_ms: int, everybody: bool = False) -> None:
        super().__init__(f"server {server.id}")
        self.server: Any = server
        self.loss = loss
        self.down_ms = down_ms
        self.everybody = everybody


def log_disk() -> MemoryDisk:
    """Return an empty log directory of a broker."""
    return MemoryDisk(partial(FirstFailure, "memory"), AnySectors, "memory")


def lose(disk: MemoryDisk, loss: str, choose: Choose) -> None:
    """Crash a disk; `loss` is one of `harness.script.names.LOSSES`."""
    match loss:
        case "keep":
            disk.kill()
        case "lose":
            disk.crash()
        case _:
            disk.crash(choose)


def judge_purge(judge: Judge, sid: ServerId, disk: MemoryDisk, spare: Zxid | None) -> None:
    """Report to the judge what is left of a server's log and snapshots, read from the disk without the storage.

    `spare` is a snapshot beside those that are kept: it was stored because a learner was sent it.
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
    except DamagedError:  # by a fault: the next start will report it
        return


def _needless(disk: MemoryDisk, snapshots: list[Zxid], logs: list[Zxid]) -> list[str]:
    """Return the snapshots beyond those that are kept, and the log files that the oldest of these covers.

    Both lists begin with the newest.
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
