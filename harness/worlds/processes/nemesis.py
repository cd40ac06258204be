"""Injects the faults of a script into real processes, and ends each after its duration.

It damages the disks of no more servers than the ensemble can spare, counting those that have not served since. A
killed process keeps all its writes, because the machine keeps running: so a script's loss of unsynced writes has no
effect here.

`Injector` has the building blocks for faults of all processes; `Nemesis` injects the faults of servers of the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

from harness import faults
from harness.history import Request
from harness.worlds.cores.inject_network import shape
from harness.worlds.processes.cluster import ADMIN, END_S, NO_HANG, Cluster
from harness.worlds.processes.server import Server, ServerProcess
from zab.core.zxid import ServerId

Way = tuple[int, int]
"""A direction in the network, from one end to another."""
PROBE_S: Final = 3
"""The time limit for a majority without the stopped server to acknowledge a write."""
KEYS: Final = {
    "tick_ms": "tickTime",
    "init_limit": "initLimit",
    "sync_limit": "syncLimit",
    "notification_ms_min": "fastleader.minNotificationInterval",
    "notification_ms_max": "fastleader.maxNotificationInterval",
    "snapshot_every": "snapCount",
}
"""The keys of a configuration file, by the knobs of a script."""
_NOT_AMONG_ZOOKEEPER: Final = (faults.OldDisk, faults.FlipBit)
"""Without digests, nobody notices that a server has an old disk. Damage is not repaired by a leader of ZooKeeper."""
_MINIMUM: Final = {"tickTime": 100, "initLimit": 5, "syncLimit": 3, "snapCount": 2}


def both_ways(one: int, others: Iterable[int]) -> list[Way]:
    return [way for other in others if other != one for way in ((one, other), (other, one))]


class Injector:
    """The building blocks of faults."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def down(self, server: ServerProcess, down_ms: float) -> None:
        """Wait for the end of a process, and start it again after `down_ms`."""
        await server.wait_for_exit()
        await self.cluster.sleep(down_ms)
        self.cluster.revive(server)

    async def kill(self, server: ServerProcess, down_ms: float) -> None:
        server.kill()
        await self.down(server, down_ms)

    async def stop(self, server: ServerProcess, within_s: float = END_S) -> None:
        """Stop a process in good order."""
        server.terminate()
        with trio.move_on_after(within_s) as patience:
            await server.wait_for_exit()
        if patience.cancelled_caught:
            self.cluster.violated(NO_HANG, f"{server} runs {within_s:g} s after SIGTERM")

    async def pause(self, server: ServerProcess, for_ms: float) -> None:
        life = server.starts
        server.pause()
        try:
            await self.cluster.sleep(for_ms)
        finally:
            if server.starts == life:
                server.resume()

    async def block(self, ways: Iterable[Way], for_ms: float) -> None:
        blocked = list(ways)
        self.cluster.network.block(blocked)
        try:
            await self.cluster.sleep(for_ms)
        finally:
            self.cluster.network.unblock(blocked)

    async def slow(self, ways: list[Way], more_ms: int, for_ms: int) -> None:
        more_s = more_ms * self.cluster.scale / 1000
        for way in ways:
            self.cluster.network.slow(*way, more_s)
        try:
            await self.cluster.sleep(for_ms)
        finally:
            for way in ways:
                self.cluster.network.slow(*way, -more_s)


class Nemesis(Injector):
    async def inject(self, fault: faults.Fault) -> None:
        if self.cluster.mixed and isinstance(fault, _NOT_AMONG_ZOOKEEPER):
            self.cluster.counted("fault that a mixed ensemble does not survive")
        else:
            await _INJECT[type(fault)](self, fault)

    def heal(self) -> None:
        """End all faults."""
        self.cluster.network.heal()
        for server in self.cluster.processes():
            server.heal()
            server.resume()

    def _target(self, sid: int) -> Server | None:
        servers = self.cluster.servers
        if sid > 0:
            found = servers.get(sid)
            return found if found is not None and found.founded else None
        leader = self.cluster.leader()
        if sid == faults.LEADER or leader is None:
            return leader
        assert sid == faults.FOLLOWER
        for server in servers.values():
            if server is not leader and server.up and server.role is not None and server.role.leader == leader.sid:
                return server
        return None

    def _running(self, sid: int) -> Server | None:
        server = self._target(sid)
        return server if server is not None and server.up else None

    def _of_ours(self, sid: int) -> Server | None:
        """Return the target if it is a server of ours: no run reaches the disk of a JVM."""
        server = self._target(sid)
        return server if server is not None and server.ours else None

    # -- processes -------------------------------------------------------------------------------------

    async def _crash(self, fault: faults.Crash) -> None:
        if server := self._running(fault.server):
            await self.kill(server, fault.down_ms)

    async def _crash_all(self, fault: faults.CrashAll) -> None:
        async with trio.open_nursery() as nursery:
            for server in self.cluster.servers.values():
                if server.up:
                    nursery.start_soon(self.kill, server, fault.down_ms + self.cluster.random.random() * 50)

    async def _pause(self, fault: faults.Pause) -> None:
        if server := self._running(fault.server):
            await self.pause(server, fault.for_ms)

    async def _restart(self, fault: faults.Restart) -> None:
        if server := self._running(fault.server):
            await self.stop(server)
            await self.down(server, fault.down_ms)

    async def _rolling_restart(self, fault: faults.RollingRestart) -> None:
        for server in list(self.cluster.servers.values()):
            if server.up:
                if fault.manner == "kill":
                    server.kill()
                else:
                    await self.stop(server)
                await self.down(server, fault.down_ms)
                await self.cluster.until(lambda server=server: server.serves)  # type: ignore[misc]
                await self.cluster.sleep(fault.wait_ms)

    async def _setting(self, fault: faults.Setting) -> None:
        server = self._running(fault.server)
        if server is None:
            return
        key = KEYS[fault.knob]
        usual = server.setting(key)
        server.set(key, max(_MINIMUM.get(key, 1), fault.value))
        try:
            await self.stop(server)
            await self.down(server, 0)
            await self.cluster.sleep(fault.for_ms)
        finally:
            server.set(key, usual)
        if server.up:
            await self.stop(server)
            await self.down(server, 0)

    async def _clock_step(self, fault: faults.ClockStep) -> None:
        if server := self._target(fault.server):
            server.fault_control.change(wall_ms=fault.by_ms)

    async def _clock_skew(self, fault: faults.ClockSkew) -> None:
        if server := self._target(fault.server):
            server.fault_control.change(wall_ms=fault.by_ms)
            await self.cluster.sleep(fault.for_ms)
            server.fault_control.change(wall_ms=0)

    async def _clock_strobe(self, fault: faults.ClockStrobe) -> None:
        if server := self._target(fault.server):
            for beat in range(max(1, fault.for_ms // fault.every_ms)):
                server.fault_control.change(wall_ms=fault.by_ms if beat % 2 == 0 else 0)
                await self.cluster.sleep(fault.every_ms)
            server.fault_control.change(wall_ms=0)

    # -- the network -----------------------------------------------------------------------------------

    def _others(self, server: Server) -> list[int]:
        return [sid for sid in self.cluster.servers if sid != server.sid]

    def _direction(self, fault: faults.Apart | faults.OneWay | faults.Clog | faults.Delay) -> list[Way]:
        """Return the direction between the two targets; an empty list if they are not two servers."""
        source, target = self._target(fault.source), self._target(fault.target)
        return [] if source is None or target is None or source is target else [(source.sid, target.sid)]

    async def _partition(self, fault: faults.Partition) -> None:
        targets = [[self._target(sid) for sid in group] for group in fault.groups]
        groups = [{server.sid for server in group if server is not None} for group in targets]
        ids = list(self.cluster.servers)
        ways = [(one, other) for one in ids for other in ids if one != other]
        await self.block([way for way in ways if not any(group.issuperset(way) for group in groups)], fault.for_ms)

    async def _split(self, fault: faults.Split) -> None:
        if first := self._target(fault.server):
            founded = [ServerId(sid) for sid, server in self.cluster.servers.items() if server.founded]
            at = founded.index(ServerId(first.sid))
            await self.block(shape(fault.shape, [*founded[at:], *founded[:at]]), fault.for_ms)

    async def _isolate(self, fault: faults.Isolate) -> None:
        if server := self._target(fault.server):
            await self.block(both_ways(server.sid, self.cluster.servers), fault.for_ms)

    async def _apart(self, fault: faults.Apart) -> None:
        for one, other in self._direction(fault):
            await self.block(both_ways(one, [other]), fault.for_ms)

    async def _one_way(self, fault: faults.OneWay | faults.Clog) -> None:
        if ways := self._direction(fault):
            await self.block(ways, fault.for_ms)

    async def _deaf(self, fault: faults.Deaf) -> None:
        if server := self._target(fault.server):
            await self.block([(sid, server.sid) for sid in self._others(server)], fault.for_ms)

    async def _swizzle(self, fault: faults.Swizzle) -> None:
        """Clog half of the servers in turn in the first third of the time; free them at random in the last third."""
        ids, random = list(self.cluster.servers), self.cluster.random
        some = random.sample(ids, max(1, len(ids) // 2))
        step_ms = fault.for_ms / (3 * len(some))

        async def clog(sid: int, from_ms: float, until_ms: float) -> None:
            await self.cluster.sleep(from_ms)
            await self.block([(sid, other) for other in ids if other != sid], until_ms - from_ms)

        async with trio.open_nursery() as nursery:
            for place, sid in enumerate(some):
                back = random.randrange(len(some))
                nursery.start_soon(clog, sid, place * step_ms, fault.for_ms * 2 / 3 + back * step_ms)

    async def _delay(self, fault: faults.Delay) -> None:
        if ways := self._direction(fault):
            await self.slow(ways, fault.more_ms, fault.for_ms)

    async def _flaky(self, fault: faults.Flaky) -> None:
        """Slow down all links. Loss on an election link breaks its connection."""
        network, timing = self.cluster.network, self.cluster.script.timing
        slow_s = fault.slower * timing.delay_us_max * self.cluster.scale / 1e6
        loss = fault.loss_percent / 100
        network.delay_s += slow_s
        network.loss += loss
        try:
            await self.cluster.sleep(fault.for_ms)
        finally:
            network.delay_s = max(0.0, network.delay_s - slow_s)
            network.loss = max(0.0, network.loss - loss)

    async def _cut_links(self, fault: faults.CutLinks) -> None:
        if server := self._target(fault.server):
            self.cluster.network.cut(server.sid)

    # -- disks -----------------------------------------------------------------------------------------

    def _can_spare(self, server: Server) -> bool:
        """Return whether the other servers with intact disks are a quorum of every membership that a server has."""
        servers = self.cluster.servers
        whole = {sid for sid, each in servers.items() if each.founded and not each.impaired and each is not server}
        views = [self.cluster.members.voters, *(each.voters for each in servers.values() if each.voters)]
        return all(self.cluster.is_quorum(whole, view) for view in views)

    def _all_whole(self) -> bool:
        return not any(server.impaired for server in self.cluster.servers.values() if server.founded)

    async def _damage(self, sid: int, down_ms: int, damage: Callable[[Server], str]) -> None:
        server = self._target(sid)
        if server is None:
            return
        if not self._can_spare(server):
            self.cluster.counted("disk that cannot be spared")
            return
        server.impaired = True
        server.kill()
        await server.wait_for_exit()
        self.cluster.record(server.sid, "is damaged", 0, damage(server))
        await self.down(server, down_ms)

    async def _lose_disk(self, fault: faults.LoseDisk) -> None:
        if self.cluster.mixed and self._of_ours(fault.server) is None:
            return

        def lose(server: Server) -> str:
            server.lose_disk()
            server.forgot = self.cluster.mixed
            return "all of it"

        await self._damage(fault.server, fault.down_ms, lose)

    async def _flip_bit(self, fault: faults.FlipBit) -> None:
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

        await self._damage(fault.server, fault.down_ms, flip)

    async def _old_disk(self, fault: faults.OldDisk) -> None:
        """Put back an older copy of a disk, if a majority without the server has stored everything since.

        That is so if the majority acknowledges a write while the server is down. Otherwise the server could forget
        promises that count, which no disk may do.
        """
        server = self._running(fault.server)
        if server is None or not self._all_whole():
            return
        members = self.cluster.members
        copy = server.copy_disk()
        await self.cluster.sleep(fault.for_ms)
        if not self._can_spare(server) or not self._all_whole():
            return
        server.impaired = True
        server.kill()
        await server.wait_for_exit()
        with trio.move_on_after(PROBE_S) as patience:
            await self.cluster.until(self.cluster.uptime.quorum)
            leader = self.cluster.leader()
            assert leader is not None
            probe = Request("create", f"/probe-{self.cluster.recorder.calls}", b"")
            await self.cluster.ask_until_answered(leader.sid, probe, ADMIN)
        if not patience.cancelled_caught and self.cluster.members is members:
            server.put_back(copy)
            self.cluster.counted("disk put back")
        await self.down(server, fault.down_ms)

    @contextmanager
    def _excused(self, server: Server, error: str, after: int) -> Iterator[None]:
        self.cluster.excused.add(server)
        server.fail_disk(error, after)
        yield
        server.heal()

    async def _fail_disk(self, fault: faults.FailDisk) -> None:
        server = self._of_ours(fault.server)
        if server is not None and server.up:
            with self._excused(server, fault.error, fault.nth - 1):
                await server.wait_for_exit()
                self.cluster.counted("disk failed")
                await self.cluster.sleep(fault.down_ms)
            self.cluster.revive(server)

    async def _full_disk(self, fault: faults.FullDisk) -> None:
        if server := self._of_ours(fault.server):
            with self._excused(server, "full", 0):
                await self.cluster.sleep(fault.for_ms)
            if not server.up:
                self.cluster.counted("disk full")
                self.cluster.revive(server)

    async def _slow_disk(self, fault: faults.SlowDisk) -> None:
        if server := self._of_ours(fault.server):
            more_us = fault.slower * self.cluster.script.timing.fsync_us_max
            server.fault_control.change(slow_us=min(1_000_000, round(more_us * self.cluster.scale)))
            await self.cluster.sleep(fault.for_ms)
            server.fault_control.change(slow_us=0)


_INJECT: Final[dict[type, Callable[[Any, Any], Awaitable[None]]]] = {
    faults.Crash: Nemesis._crash,
    faults.CrashAll: Nemesis._crash_all,
    faults.Pause: Nemesis._pause,
    faults.Restart: Nemesis._restart,
    faults.RollingRestart: Nemesis._rolling_restart,
    faults.Setting: Nemesis._setting,
    faults.ClockStep: Nemesis._clock_step,
    faults.ClockSkew: Nemesis._clock_skew,
    faults.ClockStrobe: Nemesis._clock_strobe,
    faults.Partition: Nemesis._partition,
    faults.Split: Nemesis._split,
    faults.Isolate: Nemesis._isolate,
    faults.Apart: Nemesis._apart,
    faults.OneWay: Nemesis._one_way,
    faults.Clog: Nemesis._one_way,
    faults.Deaf: Nemesis._deaf,
    faults.Swizzle: Nemesis._swizzle,
    faults.Delay: Nemesis._delay,
    faults.Flaky: Nemesis._flaky,
    faults.CutLinks: Nemesis._cut_links,
    faults.LoseDisk: Nemesis._lose_disk,
    faults.OldDisk: Nemesis._old_disk,
    faults.FlipBit: Nemesis._flip_bit,
    faults.FailDisk: Nemesis._fail_disk,
    faults.FullDisk: Nemesis._full_disk,
    faults.SlowDisk: Nemesis._slow_disk,
}


def can(item: faults.Fault | faults.Op) -> bool:
    if isinstance(item, faults.Setting):
        return item.knob in KEYS
    return type(item) in _INJECT
