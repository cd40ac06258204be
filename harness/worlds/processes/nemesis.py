"""Lets the faults of a script happen to real processes, and ends each when its time is over.

It takes disks away from no more servers than the ensemble can spare, counting those that have not served since.
A process that is killed keeps what it has written: the machine under it goes on. So what a script says of the loss
of what was not synced has no effect here.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import trio

from harness.faults import (
    FOLLOWER,
    LEADER,
    Apart,
    ClockSkew,
    ClockStep,
    ClockStrobe,
    Clog,
    Crash,
    CrashAll,
    CutLinks,
    Deaf,
    Delay,
    FailDisk,
    Fault,
    Flaky,
    FlipBit,
    FullDisk,
    Isolate,
    LoseDisk,
    OldDisk,
    OneWay,
    Op,
    Partition,
    Pause,
    Restart,
    RollingRestart,
    Setting,
    SlowDisk,
    Split,
    Swizzle,
)
from harness.worlds.processes.server import Server

if TYPE_CHECKING:
    from harness.worlds.processes.run import World

Pair = tuple[int, int]

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
PROBE_S: Final = 3
END_S: Final = 20
"""Within which a server that is told to end has ended."""


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self.excused: set[int] = set()
        """Servers whose disk was told to fail: they may stop, and need not be able to start."""

    async def strike(self, fault: Fault) -> None:
        await STRIKES[type(fault)](self, fault)

    def _who(self, sid: int) -> Server | None:
        servers = self._world.servers
        if sid > 0:
            found = servers.get(sid)
            return found if found is not None and found.founded else None
        leader = self._world.leader()
        if sid == LEADER or leader is None:
            return leader
        assert sid == FOLLOWER
        for server in servers.values():
            if server is not leader and server.up and server.role is not None and server.role.leader == leader.sid:
                return server
        return None

    def _others(self, server: Server) -> list[int]:
        return [sid for sid in self._world.servers if sid != server.sid]

    async def _sleep(self, ms: float) -> None:
        await trio.sleep(ms * self._world.scale / 1000)

    # -- the network -----------------------------------------------------------------------------------

    async def _block(self, pairs: Iterable[Pair], for_ms: int) -> None:
        blocked = list(pairs)
        network = self._world.network
        network.block(blocked)
        try:
            await self._sleep(for_ms)
        finally:
            network.unblock(blocked)

    async def _partition(self, fault: Partition) -> None:
        groups = []
        for group in fault.groups:
            found = [self._who(sid) for sid in group]
            groups.append([server.sid for server in found if server is not None])
        await self._apart(groups, fault.for_ms)

    async def _split(self, fault: Split) -> None:
        first = self._who(fault.server)
        if first is not None:
            await self._apart(shaped(fault.shape, list(self._world.servers), first.sid), fault.for_ms)

    async def _apart(self, groups: list[list[int]], for_ms: int) -> None:
        ids = list(self._world.servers)
        pairs = [
            (one, other)
            for one in ids
            for other in ids
            if one != other and not any(one in group and other in group for group in groups)
        ]
        await self._block(pairs, for_ms)

    async def _isolate(self, fault: Isolate) -> None:
        server = self._who(fault.server)
        if server is not None:
            me, others = server.sid, self._others(server)
            await self._block([(me, sid) for sid in others] + [(sid, me) for sid in others], fault.for_ms)

    async def _two(self, fault: Apart | OneWay | Clog | Delay) -> Pair | None:
        source, target = self._who(fault.source), self._who(fault.target)
        return None if source is None or target is None or source is target else (source.sid, target.sid)

    async def _both_ways(self, fault: Apart) -> None:
        if pair := await self._two(fault):
            await self._block([pair, pair[::-1]], fault.for_ms)

    async def _one_way(self, fault: OneWay | Clog) -> None:
        if pair := await self._two(fault):
            await self._block([pair], fault.for_ms)

    async def _deaf(self, fault: Deaf) -> None:
        server = self._who(fault.server)
        if server is not None:
            await self._block([(sid, server.sid) for sid in self._others(server)], fault.for_ms)

    async def _swizzle(self, fault: Swizzle) -> None:
        """Each of a half is clogged in turn; the first tenths of the time are for this, and the last to free them."""
        world = self._world
        ids = list(world.servers)
        some = world.random.sample(ids, max(1, len(ids) // 2))
        step_ms = fault.for_ms / (3 * len(some))
        async with trio.open_nursery() as nursery:
            for place, sid in enumerate(some):
                pairs = [(sid, other) for other in ids if other != sid]
                back = world.random.randrange(len(some))
                nursery.start_soon(self._clogged_later, pairs, place * step_ms, fault.for_ms * 2 / 3 + back * step_ms)

    async def _clogged_later(self, pairs: list[Pair], from_ms: float, until_ms: float) -> None:
        await self._sleep(from_ms)
        await self._block(pairs, round(until_ms - from_ms))

    async def _delay(self, fault: Delay) -> None:
        if pair := await self._two(fault):
            network = self._world.network
            more_s = fault.more_ms * self._world.scale / 1000
            network.slow(*pair, more_s)
            try:
                await self._sleep(fault.for_ms)
            finally:
                network.slow(*pair, -more_s)

    async def _flaky(self, fault: Flaky) -> None:
        """Everything is slow, and a word on the election channel that is lost takes its connection with it."""
        network, timing = self._world.network, self._world.script.timing
        slow_s = fault.slower * timing.delay_us_max * self._world.scale / 1e6
        loss = fault.loss_percent / 100
        network.delay_s += slow_s
        network.loss += loss
        try:
            await self._sleep(fault.for_ms)
        finally:
            network.delay_s = max(0.0, network.delay_s - slow_s)
            network.loss = max(0.0, network.loss - loss)

    async def _cut_links(self, fault: CutLinks) -> None:
        server = self._who(fault.server)
        if server is not None:
            self._world.network.cut(server.sid)

    # -- the process -----------------------------------------------------------------------------------

    async def _down(self, server: Server, down_ms: float) -> None:
        await server.gone()
        await self._sleep(down_ms)
        self._world.revive(server)

    async def _crash(self, fault: Crash) -> None:
        server = self._who(fault.server)
        if server is not None and server.up:
            server.kill()
            await self._down(server, fault.down_ms)

    async def _crash_all(self, fault: CrashAll) -> None:
        async with trio.open_nursery() as nursery:
            for server in self._world.servers.values():
                if server.up:
                    server.kill()
                    nursery.start_soon(self._down, server, fault.down_ms + self._world.random.random() * 50)

    async def _pause(self, fault: Pause) -> None:
        server = self._who(fault.server)
        if server is not None and server.up:
            life = server.starts
            server.pause()
            try:
                await self._sleep(fault.for_ms)
            finally:
                if server.starts == life:
                    server.resume()

    async def _end(self, server: Server, manner: str) -> None:
        if manner == "kill":
            server.kill()
            await server.gone()
            return
        server.terminate()
        with trio.move_on_after(END_S) as patience:
            await server.gone()
        if patience.cancelled_caught:
            self._world.broken("no server hangs", f"server {server.sid} was told to end, and runs {END_S} s later")

    async def _restart(self, fault: Restart) -> None:
        server = self._who(fault.server)
        if server is not None and server.up:
            await self._end(server, "orderly")
            await self._down(server, fault.down_ms)

    async def _rolling_restart(self, fault: RollingRestart) -> None:
        for server in list(self._world.servers.values()):
            if server.up:
                await self._end(server, fault.manner)
                await self._down(server, fault.down_ms)
                await self._world.until(lambda server=server: server.serves)  # type: ignore[misc]
                await self._sleep(fault.wait_ms)

    async def _setting(self, fault: Setting) -> None:
        server = self._who(fault.server)
        if server is None or not server.up:
            return
        key = KEYS[fault.knob]
        usual = server.setting(key)
        server.set(key, max(_LEAST.get(key, 1), fault.value))
        try:
            await self._end(server, "orderly")
            await self._down(server, 0)
            await self._sleep(fault.for_ms)
        finally:
            server.set(key, usual)
        if server.up:
            await self._end(server, "orderly")
            await self._down(server, 0)

    # -- its clock -------------------------------------------------------------------------------------

    async def _clock_step(self, fault: ClockStep) -> None:
        server = self._who(fault.server)
        if server is not None:
            server.lever.change(wall_ms=fault.by_ms)

    async def _clock_skew(self, fault: ClockSkew) -> None:
        server = self._who(fault.server)
        if server is not None:
            server.lever.change(wall_ms=fault.by_ms)
            await self._sleep(fault.for_ms)
            server.lever.change(wall_ms=0)

    async def _clock_strobe(self, fault: ClockStrobe) -> None:
        server = self._who(fault.server)
        if server is None:
            return
        for beat in range(max(1, fault.for_ms // fault.every_ms)):
            server.lever.change(wall_ms=fault.by_ms if beat % 2 == 0 else 0)
            await self._sleep(fault.every_ms)
        server.lever.change(wall_ms=0)

    # -- its disk --------------------------------------------------------------------------------------

    def _can_spare(self, server: Server) -> bool:
        """Without this one, too, those whose disks are whole are a majority of every membership that anybody knows."""
        world = self._world
        servers = world.servers
        whole = {sid for sid, each in servers.items() if each.founded and not each.impaired and each is not server}
        views = [world.members.voters, *(each.voters for each in servers.values() if each.voters)]
        return all(2 * len(whole.intersection(view)) > len(view) for view in views)

    async def _damaged(self, sid: int, down_ms: int, damage: Callable[[Server], str]) -> None:
        server = self._who(sid)
        if server is None or not self._can_spare(server):
            self._world.counted("disk that cannot be spared")
            return
        server.impaired = True
        server.kill()
        await server.gone()
        self._world.record(server.sid, "is damaged", 0, damage(server))
        await self._sleep(down_ms)
        self._world.revive(server)

    async def _lose_disk(self, fault: LoseDisk) -> None:
        def lose(server: Server) -> str:
            server.lose_disk()
            return "all of it"

        await self._damaged(fault.server, fault.down_ms, lose)

    async def _old_disk(self, fault: OldDisk) -> None:
        """The copy counts as a disk that forgets what it had promised, and no server may: unless a majority without it
        has promised and stored all of that, too. It has when it acknowledges a write while this server is down."""
        server = self._who(fault.server)
        if server is None or not server.up or self._somebody_is_impaired():
            return
        members = self._world.members
        copy = server.copy_disk()
        await self._sleep(fault.for_ms)
        if not self._can_spare(server) or self._somebody_is_impaired():
            return
        server.impaired = True
        server.kill()
        await server.gone()
        with trio.move_on_after(PROBE_S) as patience:
            await self._world.workload.probe()
        if not patience.cancelled_caught and self._world.members is members:
            server.put_back(copy)
            self._world.counted("disk put back")
        await self._sleep(fault.down_ms)
        self._world.revive(server)

    def _somebody_is_impaired(self) -> bool:
        return any(server.impaired for server in self._world.servers.values() if server.founded)

    async def _flip_bit(self, fault: FlipBit) -> None:
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

        await self._damaged(fault.server, fault.down_ms, flip)

    async def _fail_disk(self, fault: FailDisk) -> None:
        server = self._who(fault.server)
        if server is None or not server.up:
            return
        self.excused.add(server.sid)
        server.fail_disk(fault.error, fault.nth - 1)
        await server.gone()
        self._world.counted("disk failed")
        await self._sleep(fault.down_ms)
        server.is_well()
        self._world.revive(server)

    async def _full_disk(self, fault: FullDisk) -> None:
        server = self._who(fault.server)
        if server is None:
            return
        self.excused.add(server.sid)
        server.fail_disk("full", 0)
        await self._sleep(fault.for_ms)
        server.is_well()
        if not server.up:
            self._world.counted("disk full")
            self._world.revive(server)

    async def _slow_disk(self, fault: SlowDisk) -> None:
        server = self._who(fault.server)
        if server is not None:
            more_us = fault.slower * self._world.script.timing.fsync_us_max
            server.lever.change(slow_us=min(1_000_000, round(more_us * self._world.scale)))
            await self._sleep(fault.for_ms)
            server.lever.change(slow_us=0)

    # -- the end ---------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Whatever is under way is over."""
        self._world.network.heal()
        for server in self._world.servers.values():
            server.is_well()
            server.resume()


def shaped(shape: str, ids: list[int], first: int) -> list[list[int]]:
    """The groups of a `Split`: whoever is in a common one hears the other."""
    at = ids.index(first)
    turned = ids[at:] + ids[:at]
    less = max(1, (len(ids) - 1) // 2)
    if shape == "halves":
        return [turned[:less], turned[less:]]
    if shape == "bridge":
        return [[turned[0], *turned[1 : 1 + less]], [turned[0], *turned[1 + less :]]]
    majority = math.floor(len(ids) / 2) + 1
    return [[turned[(place + step) % len(ids)] for step in range(majority)] for place in range(len(ids))]


STRIKES: Final[dict[type, Callable[[Any, Any], Awaitable[None]]]] = {
    Partition: Nemesis._partition,
    Split: Nemesis._split,
    Isolate: Nemesis._isolate,
    Apart: Nemesis._both_ways,
    OneWay: Nemesis._one_way,
    Clog: Nemesis._one_way,
    Deaf: Nemesis._deaf,
    Swizzle: Nemesis._swizzle,
    Delay: Nemesis._delay,
    Flaky: Nemesis._flaky,
    CutLinks: Nemesis._cut_links,
    Crash: Nemesis._crash,
    CrashAll: Nemesis._crash_all,
    Pause: Nemesis._pause,
    Restart: Nemesis._restart,
    RollingRestart: Nemesis._rolling_restart,
    Setting: Nemesis._setting,
    ClockStep: Nemesis._clock_step,
    ClockSkew: Nemesis._clock_skew,
    ClockStrobe: Nemesis._clock_strobe,
    LoseDisk: Nemesis._lose_disk,
    OldDisk: Nemesis._old_disk,
    FlipBit: Nemesis._flip_bit,
    FailDisk: Nemesis._fail_disk,
    FullDisk: Nemesis._full_disk,
    SlowDisk: Nemesis._slow_disk,
}


def can(item: Fault | Op) -> bool:
    if isinstance(item, Setting):
        return item.knob in KEYS
    return type(item) in STRIKES
