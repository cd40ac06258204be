"""Faults of a disk. Those that take away what was durable only happen where the ensemble can spare it."""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from harness.script.names import LEADER


@frozen
class LoseDisk:
    """The server crashes and comes back with an empty disk."""

    at: int
    down_ms: int = 200
    server: int = LEADER


@frozen
class OldDisk:
    """The disk is copied now; at the end the server crashes, and comes back with the copy."""

    at: int
    for_ms: int = 300
    down_ms: int = 100
    server: int = LEADER


@frozen
class FlipBit:
    """The server crashes, one bit of what it stored turns over, and it comes back. `where` is a share of 1000."""

    at: int
    down_ms: int = 200
    server: int = LEADER
    where: int = 500


@frozen
class MisdirectRecord:
    """The server crashes, and it turns out that a record of its log was written beside its place. `where` as above."""

    at: int
    down_ms: int = 200
    server: int = LEADER
    where: int = 999


@frozen
class LoseFsync:
    """From now on fsync says that all is durable, and does nothing. At the end the machine loses its power."""

    at: int
    for_ms: int = 200
    down_ms: int = 100
    server: int = LEADER
    loss: str = "lose"


@frozen
class FailDisk:
    """The n-th call from now fails with this error. The server must stop; it is started again later."""

    at: int
    down_ms: int = 200
    server: int = LEADER
    error: str = "fsync"
    nth: int = 1


@frozen
class FullDisk:
    """So many bytes are left on the disk. The server must stop when they are used up, and cannot start for as long."""

    at: int
    for_ms: int = 500
    server: int = LEADER
    room: int = 100


@frozen
class SlowDisk:
    """Every write and fsync takes so many times longer."""

    at: int
    for_ms: int = 500
    server: int = LEADER
    slower: int = 20


DiskFault: TypeAlias = LoseDisk | OldDisk | FlipBit | MisdirectRecord | LoseFsync | FailDisk | FullDisk | SlowDisk
DISKS: Final[tuple[type[DiskFault], ...]] = (
    LoseDisk, OldDisk, FlipBit, MisdirectRecord, LoseFsync, FailDisk, FullDisk, SlowDisk,
)  # fmt: skip
