"""Faults of processes, by signals and by other lines in their files; and of the wall clocks that they look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from harness.faults import ClockSkew, ClockStep, ClockStrobe, Crash, CrashAll, Pause, Restart, RollingRestart, Setting

if TYPE_CHECKING:
    from harness.worlds.processes.nemesis import Nemesis

KEYS: Final = {
    "tick_ms": "tickTime",
    "init_limit": "initLimit",
    "sync_limit": "syncLimit",
    "notification_ms_min": "fastleader.minNotificationInterval",
    "notification_ms_max": "fastleader.maxNotificationInterval",
    "snapshot_every": "snapCount",
}
"""Knobs of a script that a configuration file has, too."""
_LEAST: Final = {"tickTime": 100, "initLimit": 5, "syncLimit": 3, "snapCount": 2}


async def _crash(nemesis: Nemesis, fault: Crash) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up:
        server.kill()
        await nemesis.down(server, fault.down_ms)


async def _crash_all(nemesis: Nemesis, fault: CrashAll) -> None:
    async with trio.open_nursery() as nursery:
        for server in nemesis.world.servers.values():
            if server.up:
                server.kill()
                nursery.start_soon(nemesis.down, server, fault.down_ms + nemesis.world.random.random() * 50)


async def _pause(nemesis: Nemesis, fault: Pause) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up:
        life = server.starts
        server.pause()
        try:
            await nemesis.sleep(fault.for_ms)
        finally:
            if server.starts == life:
                server.resume()


async def _restart(nemesis: Nemesis, fault: Restart) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up:
        await nemesis.end(server, "orderly")
        await nemesis.down(server, fault.down_ms)


async def _rolling_restart(nemesis: Nemesis, fault: RollingRestart) -> None:
    for server in list(nemesis.world.servers.values()):
        if server.up:
            await nemesis.end(server, fault.manner)
            await nemesis.down(server, fault.down_ms)
            await nemesis.world.until(lambda server=server: server.serves)  # type: ignore[misc]
            await nemesis.sleep(fault.wait_ms)


async def _setting(nemesis: Nemesis, fault: Setting) -> None:
    server = nemesis.who(fault.server)
    if server is None or not server.up:
        return
    key = KEYS[fault.knob]
    usual = server.setting(key)
    server.set(key, max(_LEAST.get(key, 1), fault.value))
    try:
        await nemesis.end(server, "orderly")
        await nemesis.down(server, 0)
        await nemesis.sleep(fault.for_ms)
    finally:
        server.set(key, usual)
    if server.up:
        await nemesis.end(server, "orderly")
        await nemesis.down(server, 0)


async def _clock_step(nemesis: Nemesis, fault: ClockStep) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        server.lever.change(wall_ms=fault.by_ms)


async def _clock_skew(nemesis: Nemesis, fault: ClockSkew) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        server.lever.change(wall_ms=fault.by_ms)
        await nemesis.sleep(fault.for_ms)
        server.lever.change(wall_ms=0)


async def _clock_strobe(nemesis: Nemesis, fault: ClockStrobe) -> None:
    server = nemesis.who(fault.server)
    if server is None:
        return
    for beat in range(max(1, fault.for_ms // fault.every_ms)):
        server.lever.change(wall_ms=fault.by_ms if beat % 2 == 0 else 0)
        await nemesis.sleep(fault.every_ms)
    server.lever.change(wall_ms=0)


STRIKES: Final[dict[type, Callable[[Any, Any], Awaitable[None]]]] = {
    Crash: _crash,
    CrashAll: _crash_all,
    Pause: _pause,
    Restart: _restart,
    RollingRestart: _rolling_restart,
    Setting: _setting,
    ClockStep: _clock_step,
    ClockSkew: _clock_skew,
    ClockStrobe: _clock_strobe,
}
