"""The effects of disk faults. Only a server that the ensemble can spare loses durable data."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from harness.faults import (
    FailDisk,
    FlipBit,
    FullDisk,
    LoseDisk,
    LoseFsync,
    MisdirectRecord,
    OldDisk,
    SlowDisk,
)
from harness.worlds.cores.spare import can_forget, can_spare
from zab.core.errors import DamagedError
from zab.runtime.directory_owner import NAME as IDENTITY
from zab.storage.memory_disk import MemoryDisk
from zab.storage.segment import CONFIG, FILE_HEAD, MARK, OVERHEAD, PREFIX, decode_record_head, decode_segment

if TYPE_CHECKING:
    from harness.worlds.cores.nemesis import Nemesis
    from harness.worlds.cores.server import Server
    from zab.core.ensemble import Ensemble

AGAIN_MS: Final = 5
"""How soon a fault is tried again that the ensemble cannot spare just now."""

TRIES: Final = 60


# -- lost or damaged -------------------------------------------------------------------------------------


def _lose_disk(nemesis: Nemesis, fault: LoseDisk) -> None:
    server = nemesis.who(fault.server)
    if server is None or not can_spare(nemesis.world, server):
        return
    nemesis.hit(fault)
    if server.up:
        nemesis.world.crash(server, "lose", fault.down_ms)
    server.disk = MemoryDisk()
    server.founding = False
    nemesis.world.judge.disk_lost(server.id)


def _flip_bit(nemesis: Nemesis, fault: FlipBit) -> None:
    server = nemesis.who(fault.server)
    if server is None or not can_spare(nemesis.world, server):
        return
    if server.up:
        nemesis.world.crash(server, "keep", fault.down_ms)
    disk = server.disk
    names = [name for name in disk.names() if name != IDENTITY]  # without it nobody may start: an operator looks first
    if not names:
        return
    name = names[fault.where % len(names)]
    size = len(disk.get(name))
    if size:
        at = size * fault.where // 1_000
        disk.flip(name, at, 1 << fault.where % 8)
        nemesis.hit(fault)
        nemesis.world.record(server.id, "has a bit turned over", 0, f"{name} at {at} of {size}")
        nemesis.world.judge.disk_lost(server.id)


def _misdirect_record(nemesis: Nemesis, fault: MisdirectRecord) -> None:
    """The record is missing at its place, and has overwritten another one.

    The last record of a log may look torn afterwards: then the server forgets it, and does not know.
    """
    server = nemesis.who(fault.server)
    if server is not None:
        _misdirect(nemesis, (server, fault, TRIES))


def _misdirect(nemesis: Nemesis, what: tuple[Server, MisdirectRecord, int]) -> None:
    server, fault, tries = what
    world = nemesis.world
    records = _records(server.disk)
    place = (len(records) - 1) * min(fault.where, 999) // 999
    changes = [config for _, _, _, config in records[place:]]  # a forgotten member is another matter
    if not records or any(changes) or not can_spare(world, server) or not can_forget(world, server):
        if tries:
            nemesis.later(AGAIN_MS, _misdirect, nemesis, (server, fault, tries - 1))
        return
    if server.up:
        world.crash(server, "keep", fault.down_ms)
    name, at, length, _ = records[place]
    data = bytearray(server.disk.get(name))
    record = data[at : at + length]
    data[at : at + length] = bytes(length)
    data.extend(bytes(max(0, at + 2 * length - len(data))))
    data[at + length : at + 2 * length] = record
    server.disk.put(name, bytes(data))
    nemesis.hit(fault)
    world.record(server.id, "has a record beside its place", 0, f"{name} at {at}, {length} bytes")
    world.judge.disk_lost(server.id)
    world.judge.disk_went_back(server.id)


def _records(disk: MemoryDisk) -> list[tuple[str, int, int, bool]]:
    """Return the records of all logs: file, offset, length, and whether the record changes the membership.

    A file that another fault has damaged in its head has none.
    """
    found = []
    for name in disk.names():
        data = disk.get(name)
        if not name.startswith(PREFIX) or name.endswith(".tmp") or len(data) < FILE_HEAD:
            continue
        try:
            seed = decode_segment(name, data).seed
        except DamagedError:
            continue
        at = FILE_HEAD
        while (head := decode_record_head(data, at, seed)) is not None:
            found.append((name, at, OVERHEAD + head.length, data[at + len(MARK)] == CONFIG))
            at += OVERHEAD + head.length
    return found


# -- back to what it was earlier -------------------------------------------------------------------------


def _old_disk(nemesis: Nemesis, fault: OldDisk) -> None:
    server = nemesis.who(fault.server)
    if server is None or nemesis.world.ghost.servers[server.id].impaired or server.disk.lying:
        return
    copy = server.disk.clone()
    copy.crash()
    copy.forgive()
    copy.capacity = None
    members = _members(nemesis, server)
    nemesis.later(fault.for_ms, _swap, nemesis, (server, copy, members, fault, TRIES))


def _swap(nemesis: Nemesis, what: tuple[Server, MemoryDisk, Ensemble, OldDisk, int]) -> None:
    server, copy, members, fault, tries = what
    world = nemesis.world
    if _members(nemesis, server) is not members or not can_forget(world, server):
        if tries:
            nemesis.later(AGAIN_MS, _swap, nemesis, (server, copy, members, fault, tries - 1))
        return
    if server.up:
        world.crash(server, "keep", fault.down_ms)
    copy.boots = server.disk.boots + 1
    server.disk = copy
    nemesis.hit(fault)
    world.record(server.id, "has its disk put back", 0, None)
    world.judge.disk_went_back(server.id)


def _members(nemesis: Nemesis, server: Server) -> Ensemble:
    """As the disk has them. A server that forgets other members would forget what a quorum is."""
    ghost = nemesis.world.ghost
    return ghost.governing[ghost.servers[server.id].durable]


def _lose_fsync(nemesis: Nemesis, fault: LoseFsync) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up and not server.disk.lying:
        server.disk.lying = True
        nemesis.lying[server.id] = _members(nemesis, server)
        nemesis.later(fault.for_ms, _lose_power, nemesis, (server, fault, TRIES))


def _lose_power(nemesis: Nemesis, what: tuple[Server, LoseFsync, int]) -> None:
    server, fault, tries = what
    if not server.disk.lying:
        return  # it has crashed meanwhile
    if tries and not _may_forget_since(nemesis, server):
        nemesis.later(AGAIN_MS, _lose_power, nemesis, (server, fault, tries - 1))
        return
    nemesis.world.crash(server, fault.loss, fault.down_ms)


def _may_forget_since(nemesis: Nemesis, server: Server) -> bool:
    """The rest may look like an earlier disk or like a damaged one, so the ensemble must be able to spare both."""
    same, world = _members(nemesis, server) is nemesis.lying[server.id], nemesis.world
    return same and can_forget(world, server) and can_spare(world, server)


def power_fails(nemesis: Nemesis, server: Server, loss: str) -> None:
    """If its disk has lied, that comes out now; where the ensemble could not spare it, it had not lied after all. Nor
    had it where only the process ended: what waits in the disk's cache is written some time."""
    disk = server.disk
    if not disk.lying:
        return
    if loss != "keep" and _may_forget_since(nemesis, server):
        nemesis.world.counted(f"hit {LoseFsync.__name__}")
        nemesis.world.judge.disk_lost(server.id)
        nemesis.world.judge.disk_went_back(server.id)
    else:
        disk.settle()
    disk.lying = False


def mend(server: Server) -> None:
    if server.disk.lying:
        server.disk.lying = False
        server.disk.settle()


# -- errors ----------------------------------------------------------------------------------------------

_CALLS: Final = {
    "write": ("write", errno.EIO),
    "fsync": ("sync", errno.EIO),
    "full": ("write", errno.ENOSPC),
    "read": ("read", errno.EIO),
}


def _fail_disk(nemesis: Nemesis, fault: FailDisk) -> None:
    server = nemesis.who(fault.server)
    if server is None:
        return
    kind, number = _CALLS[fault.error]
    server.disk.fail(kind, fault.nth - 1, number)
    nemesis.fails(server, fault, fault.down_ms)


def starts(nemesis: Nemesis, server: Server) -> None:
    """Unreadable data at a start counts as damage, so the ensemble must be able to spare the server."""
    if not server.disk.will_fail("read"):
        return
    if can_spare(nemesis.world, server):
        nemesis.world.judge.disk_lost(server.id)
    else:
        server.disk.forgive()


FULL_DOWN_MS: Final = 20
"""How soon a server is started again that has no room on its disk; every start fails until there is some."""


def _full_disk(nemesis: Nemesis, fault: FullDisk) -> None:
    server = nemesis.who(fault.server)
    if server is None:
        return
    server.disk.capacity = server.disk.used() + fault.room
    nemesis.fails(server, fault, FULL_DOWN_MS)
    nemesis.later(fault.for_ms, _room_again, server)


def _room_again(server: Server, _: object) -> None:
    server.disk.capacity = None


def _slow_disk(nemesis: Nemesis, fault: SlowDisk) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.hit(fault)
        server.writer.slower *= fault.slower
        nemesis.later(fault.for_ms, _usual_disk, server, fault.slower)


def _usual_disk(server: Server, slower: int) -> None:
    server.writer.slower //= slower


STRIKES: Final[dict[type, Callable[[Any, Any], None]]] = {
    LoseDisk: _lose_disk,
    OldDisk: _old_disk,
    FlipBit: _flip_bit,
    MisdirectRecord: _misdirect_record,
    LoseFsync: _lose_fsync,
    FailDisk: _fail_disk,
    FullDisk: _full_disk,
    SlowDisk: _slow_disk,
}
