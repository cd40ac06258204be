"""Faults of disks: of the calls that a server makes, and of the files that it finds at its next start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from harness.faults import FailDisk, FlipBit, FullDisk, LoseDisk, OldDisk, SlowDisk
from harness.worlds.processes.server import Server

if TYPE_CHECKING:
    from harness.worlds.processes.nemesis import Nemesis

PROBE_S: Final = 3
"""For how long a majority without the server is asked to acknowledge something."""


def _can_spare(nemesis: Nemesis, server: Server) -> bool:
    """Without this one, too, those whose disks are whole are a quorum of every membership that anybody knows."""
    world = nemesis.world
    servers = world.servers
    whole = {sid for sid, each in servers.items() if each.founded and not each.impaired and each is not server}
    views = [world.members.voters, *(each.voters for each in servers.values() if each.voters)]
    return all(world.is_quorum(whole, view) for view in views)


async def _damaged(nemesis: Nemesis, sid: int, down_ms: int, damage: Callable[[Server], str]) -> None:
    server = nemesis.who(sid)
    if server is None:
        return
    if not _can_spare(nemesis, server):
        nemesis.world.counted("disk that cannot be spared")
        return
    server.impaired = True
    server.kill()
    await server.gone()
    nemesis.world.record(server.sid, "is damaged", 0, damage(server))
    await nemesis.sleep(down_ms)
    nemesis.world.revive(server)


async def _lose_disk(nemesis: Nemesis, fault: LoseDisk) -> None:
    def lose(server: Server) -> str:
        server.lose_disk()
        return "all of it"

    await _damaged(nemesis, fault.server, fault.down_ms, lose)


async def _old_disk(nemesis: Nemesis, fault: OldDisk) -> None:
    """The copy counts as a disk that forgets what it had promised, and no server may: unless a majority without it
    has promised and stored all of that, too. It has when it acknowledges a write while this server is down."""
    server = nemesis.who(fault.server)
    if server is None or not server.up or _somebody_is_impaired(nemesis):
        return
    members = nemesis.world.members
    copy = server.copy_disk()
    await nemesis.sleep(fault.for_ms)
    if not _can_spare(nemesis, server) or _somebody_is_impaired(nemesis):
        return
    server.impaired = True
    server.kill()
    await server.gone()
    with trio.move_on_after(PROBE_S) as patience:
        await nemesis.world.workload.probe()
    if not patience.cancelled_caught and nemesis.world.members is members:
        server.put_back(copy)
        nemesis.world.counted("disk put back")
    await nemesis.sleep(fault.down_ms)
    nemesis.world.revive(server)


def _somebody_is_impaired(nemesis: Nemesis) -> bool:
    return any(server.impaired for server in nemesis.world.servers.values() if server.founded)


async def _flip_bit(nemesis: Nemesis, fault: FlipBit) -> None:
    def flip(server: Server) -> str:
        files = [path for path in server.files() if path.stat().st_size]
        if not files:
            return "nothing there"
        path = files[fault.where % len(files)]
        data = bytearray(path.read_bytes())
        at = len(data) * fault.where // 1_000
        data[at] ^= 1 << fault.where % 8
        path.write_bytes(data)
        return f"{path.name} at {at} of {len(data)}"

    await _damaged(nemesis, fault.server, fault.down_ms, flip)


async def _fail_disk(nemesis: Nemesis, fault: FailDisk) -> None:
    server = nemesis.who(fault.server)
    if server is None or not server.up:
        return
    nemesis.excused.add(server.sid)
    server.fail_disk(fault.error, fault.nth - 1)
    await server.gone()
    nemesis.world.counted("disk failed")
    await nemesis.sleep(fault.down_ms)
    server.is_well()
    nemesis.world.revive(server)


async def _full_disk(nemesis: Nemesis, fault: FullDisk) -> None:
    server = nemesis.who(fault.server)
    if server is None:
        return
    nemesis.excused.add(server.sid)
    server.fail_disk("full", 0)
    await nemesis.sleep(fault.for_ms)
    server.is_well()
    if not server.up:
        nemesis.world.counted("disk full")
        nemesis.world.revive(server)


async def _slow_disk(nemesis: Nemesis, fault: SlowDisk) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        more_us = fault.slower * nemesis.world.script.timing.fsync_us_max
        server.lever.change(slow_us=min(1_000_000, round(more_us * nemesis.world.scale)))
        await nemesis.sleep(fault.for_ms)
        server.lever.change(slow_us=0)


STRIKES: Final[dict[type, Callable[[Any, Any], Awaitable[None]]]] = {
    LoseDisk: _lose_disk,
    OldDisk: _old_disk,
    FlipBit: _flip_bit,
    FailDisk: _fail_disk,
    FullDisk: _full_disk,
    SlowDisk: _slow_disk,
}
