"""The injection of disk faults. Only a server that the ensemble can spare loses durable data.

No protocol survives the loss of more, so faults do not cause it. There are two kinds of loss. A server that knows
that its disk was lost or damaged does not vote, and the servers with whole disks must be a quorum without it. A server
that has forgotten data without noticing it still votes. Then everything that it forgets must be remembered by so
many others that every quorum has one of them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Final

from harness import faults
from harness.quorums import is_quorum
from harness.worlds.cores.injection import Injection, Injector, Undo, at_running, at_server, done
from harness.worlds.cores.server import Server
from harness.worlds.cores.simulator import Simulator
from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError
from zab.runtime.directory_owner import NAME as IDENTITY
from zab.storage.memory_disk import MemoryDisk
from zab.storage.segment import CONFIG, FILE_HEAD, MARK, OVERHEAD, PREFIX, decode_record_head, decode_segment

AGAIN_MS: Final = 5
"""The pause before a fault is tried again that the ensemble could not spare."""
TRIES: Final = 60
FULL_DOWN_MS: Final = 20
"""The downtime of a server whose disk is full; every start fails until there is room."""
_CALLS: Final = {
    "write": ("write", errno.EIO),
    "fsync": ("sync", errno.EIO),
    "full": ("write", errno.ENOSPC),
    "read": ("read", errno.EIO),
}


# -- servers that can be spared --------------------------------------------------------------------------


def can_spare(world: Simulator, *servers: Server | None, wanted: Ensemble | None = None) -> bool:
    """Return whether the servers with whole disks are a quorum of every membership without all of these.

    The memberships are those that are in force, logged or durable at any server, and the one `wanted`.
    """
    ghost = world.ghost
    whole = [
        each.id
        for each in world.servers[1:]
        if each.founded and each not in servers and not ghost.servers[each.id].impaired
    ]
    views = _memberships(world)
    if wanted is not None:
        views.append(wanted)
    return all(is_quorum(view, whole) for view in views)


def can_forget(world: Simulator, server: Server) -> bool:
    """Return whether every quorum of every membership has another server that durably has all that this server has."""
    ghost = world.ghost
    mine = ghost.servers[server.id]
    if mine.impaired:
        return False
    without = []
    for each in world.servers[1:]:
        known = ghost.servers[each.id]
        remembers = (
            each is not server
            and each.founded
            and not known.impaired
            and not known.went_back
            and not each.disk.lying
            and known.accepted >= mine.accepted
            and known.current >= mine.current
            and ghost.holds(known.durable, mine.durable)
        )
        if not remembers:
            without.append(each.id)
    return not any(is_quorum(view, without) for view in _memberships(world))


def _memberships(world: Simulator) -> list[Ensemble]:
    ghost = world.ghost
    views = [ghost.governing[zxid] for known in ghost.servers for zxid in (known.tip, known.durable)]
    views += [ghost.governing[ghost.committed], *(each.node.ensemble for each in world.running())]
    return list({id(view): view for view in views}.values())


def _members(nemesis: Injector, server: Server) -> Ensemble:
    """Return the newest membership on the disk of a server. No fault makes a server forget it unnoticed."""
    ghost = nemesis.world.ghost
    return ghost.governing[ghost.servers[server.id].durable]


def _retry(nemesis: Injector, attempt: Callable[[bool], bool], tries: int = TRIES) -> None:
    """Call `attempt` until it returns True. Its argument is true at the last attempt."""
    if not attempt(not tries) and tries:
        nemesis.later(AGAIN_MS, partial(_retry, nemesis, attempt, tries - 1))


# -- lost or damaged -------------------------------------------------------------------------------------


def _lose_disk(nemesis: Injector, server: Server, fault: faults.LoseDisk) -> Undo | None:
    if not can_spare(nemesis.world, server):
        return None
    nemesis.world.crash(server, "lose", fault.down_ms)
    server.disk = MemoryDisk()
    server.founding = False
    nemesis.world.judge.disk_lost(server.id)
    return done


def _flip_bit(nemesis: Injector, server: Server, fault: faults.FlipBit) -> Undo | None:
    if not can_spare(nemesis.world, server):
        return None
    nemesis.world.crash(server, "keep", fault.down_ms)
    disk = server.disk
    names = [name for name in disk.names() if name != IDENTITY]  # without this file no server starts
    name = names[fault.where % len(names)] if names else ""
    size = len(disk.get(name)) if names else 0
    if not size:
        return None
    at = size * fault.where // 1_000
    disk.flip(name, at, 1 << fault.where % 8)
    nemesis.world.record(server.id, "has a bit turned over", 0, f"{name} at {at} of {size}")
    nemesis.world.judge.disk_lost(server.id)
    return done


def _misdirect_record(nemesis: Injector, server: Server, fault: faults.MisdirectRecord) -> None:
    """Move a record behind its place, where it overwrites another one.

    The last record of a log may look torn afterwards. Then the server forgets this record without noticing it.
    """
    world = nemesis.world

    def attempt(_: bool) -> bool:
        records = _records(server.disk)
        place = (len(records) - 1) * min(fault.where, 999) // 999
        changes = [config for _, _, _, config in records[place:]]  # no server may forget a membership
        if not records or any(changes) or not can_spare(world, server) or not can_forget(world, server):
            return False
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
        return True

    _retry(nemesis, attempt)


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


# -- an earlier content ----------------------------------------------------------------------------------


def _old_disk(nemesis: Injector, server: Server, fault: faults.OldDisk) -> None:
    world = nemesis.world
    if world.ghost.servers[server.id].impaired or server.disk.lying:
        return
    copy = server.disk.clone()
    copy.crash()
    copy.forgive()
    copy.capacity = None
    members = _members(nemesis, server)

    def attempt(_: bool) -> bool:
        if _members(nemesis, server) is not members or not can_forget(world, server):
            return False
        world.crash(server, "keep", fault.down_ms)
        copy.boots = server.disk.boots + 1
        server.disk = copy
        nemesis.hit(fault)
        world.record(server.id, "has its disk put back", 0, None)
        world.judge.disk_went_back(server.id)
        return True

    nemesis.later(fault.for_ms, partial(_retry, nemesis, attempt))


def _lose_fsync(nemesis: Injector, server: Server, fault: faults.LoseFsync) -> None:
    if server.disk.lying:
        return
    server.disk.lying = True
    nemesis.lying[server.id] = _members(nemesis, server)

    def attempt(last: bool) -> bool:
        if not server.disk.lying:
            return True  # the server has crashed meanwhile
        if not last and not _may_forget_since(nemesis, server):
            return False
        nemesis.world.crash(server, fault.loss, fault.down_ms)
        return True

    nemesis.later(fault.for_ms, partial(_retry, nemesis, attempt))


def _may_forget_since(nemesis: Injector, server: Server) -> bool:
    """Check both kinds of loss: the remaining data may look like an earlier disk, or like a damaged one."""
    same, world = _members(nemesis, server) is nemesis.lying[server.id], nemesis.world
    return same and can_forget(world, server) and can_spare(world, server)


def power_fails(nemesis: Injector, server: Server, loss: str) -> None:
    """Lose the data that a lying disk has not made durable, if the power fails and the ensemble can spare the data."""
    disk = server.disk
    if not disk.lying:
        return
    if loss != "keep" and _may_forget_since(nemesis, server):
        nemesis.world.counted(f"hit {faults.LoseFsync.__name__}")
        nemesis.world.judge.disk_lost(server.id)
        nemesis.world.judge.disk_went_back(server.id)
    else:
        disk.settle()
    disk.lying = False


# -- errors and delays -----------------------------------------------------------------------------------


def _fail_disk(nemesis: Injector, server: Server, fault: faults.FailDisk) -> None:
    kind, number = _CALLS[fault.error]
    server.disk.fail(kind, fault.nth - 1, number)
    nemesis.excuse_disk_errors(server, fault, fault.down_ms)


def starts(nemesis: Injector, server: Server) -> None:
    """Count unreadable data at a start as damage, if the ensemble can spare the server; else let the reads succeed."""
    if server.disk.will_fail("read"):
        if can_spare(nemesis.world, server):
            nemesis.world.judge.disk_lost(server.id)
        else:
            server.disk.forgive()


def _full_disk(nemesis: Injector, server: Server, fault: faults.FullDisk) -> None:
    def room_again() -> None:
        server.disk.capacity = None

    server.disk.capacity = server.disk.used() + fault.room
    nemesis.excuse_disk_errors(server, fault, FULL_DOWN_MS)
    nemesis.later(fault.for_ms, room_again)


def _slow_disk(_: Injector, server: Server, fault: faults.SlowDisk) -> Undo:
    def restore_speed() -> None:
        server.writer.slower //= fault.slower

    server.writer.slower *= fault.slower
    return restore_speed


INJECTIONS: Final[dict[type, Injection]] = {
    faults.LoseDisk: at_server(_lose_disk),
    faults.OldDisk: at_server(_old_disk),
    faults.FlipBit: at_server(_flip_bit),
    faults.MisdirectRecord: at_server(_misdirect_record),
    faults.LoseFsync: at_running(_lose_fsync),
    faults.FailDisk: at_server(_fail_disk),
    faults.FullDisk: at_server(_full_disk),
    faults.SlowDisk: at_server(_slow_disk),
}
