"""Lets the faults of a script happen, and ends each when its time is over.

It refuses two kinds of harm, because no protocol survives them: it never takes disks away from more servers
than the ensemble can spare at a time, counting those that have not healed yet; and when a disk is damaged
it counts as taken away, whatever the damage does.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from harness.faults import (
    FOLLOWER,
    LEADER,
    Clog,
    Crash,
    CrashAll,
    CrashIn,
    CutLinks,
    Deaf,
    FailDisk,
    Fault,
    Flaky,
    FlipBit,
    Isolate,
    LoseDisk,
    OneWay,
    Partition,
    Pause,
    SlowDisk,
    When,
)
from harness.worlds.cores.crashed import Crashed
from harness.worlds.cores.server import Server
from zab.core.zxid import ServerId
from zab.storage.memory import MemoryDisk

if TYPE_CHECKING:
    from harness.worlds.cores.world import World
    from zab.core.ensemble import Ensemble

ELECTION: Final = "election"
"""The phase of an ensemble in which nobody leads; otherwise it is that of its leader."""


class Aim:
    """A fault that waits for its moment."""

    __slots__ = ("fault", "left", "moment", "server")

    def __init__(self, fault: CrashIn | When, server: ServerId | None, moment: str | None, left: int) -> None:
        self.fault = fault
        self.server = server
        self.moment = moment
        self.left = left


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self._aims: list[Aim] = []
        self._failing: dict[ServerId, int] = {}
        """Servers whose disk was told to fail, and for how long they stay down when it has."""
        self.struck = 0

    def strike(self, fault: Fault, _: object) -> None:
        world = self._world
        world.record(0, "fault", 0, fault)
        self.struck += 1
        if not isinstance(fault, CrashIn | When):  # those strike when their moment comes
            leader = world.leader()
            world.availability.struck(type(fault).__name__, ELECTION if leader is None else leader.node.phase)
        self.STRIKES[type(fault)](self, fault)

    def _who(self, server: int) -> Server | None:
        if server > 0:
            servers = self._world.servers
            return servers[server] if server < len(servers) and servers[server].founded else None
        leader = self._world.leader()
        if server == LEADER or leader is None:
            return leader
        assert server == FOLLOWER
        for each in self._world.running():
            if each.node.leader == leader.id and each is not leader:
                return each
        return None

    def _ids(self) -> list[ServerId]:
        return [server.id for server in self._world.servers[1:]]

    def _later(self, wait_ms: int, act: Callable[..., None], one: Any, other: Any = None) -> None:
        self._world.push_fault_end(self._world.now + wait_ms * 1_000, act, one, other)

    # -- the network -----------------------------------------------------------------------------------

    def _block(self, pairs: list[tuple[ServerId, ServerId]], for_ms: int) -> None:
        network = self._world.network
        for source, target in pairs:
            network.block(source, target)
        self._later(for_ms, self._unblock, pairs)

    def _unblock(self, pairs: list[tuple[ServerId, ServerId]], _: object) -> None:
        for source, target in pairs:
            self._world.network.unblock(source, target)

    def _partition(self, fault: Partition) -> None:
        groups = []
        for group in fault.groups:
            found = [self._who(sid) for sid in group]
            groups.append([server.id for server in found if server is not None])
        ids = self._ids()
        self._block(
            [
                (one, other)
                for one in ids
                for other in ids
                if one != other and not any(one in group and other in group for group in groups)
            ],
            fault.for_ms,
        )

    def _isolate(self, fault: Isolate) -> None:
        server = self._who(fault.server)
        if server is not None:
            others = [sid for sid in self._ids() if sid != server.id]
            self._block([(server.id, sid) for sid in others] + [(sid, server.id) for sid in others], fault.for_ms)

    def _one_way(self, fault: OneWay) -> None:
        source, target = self._who(fault.source), self._who(fault.target)
        if source is not None and target is not None and source is not target:
            self._block([(source.id, target.id)], fault.for_ms)

    def _deaf(self, fault: Deaf) -> None:
        server = self._who(fault.server)
        if server is not None:
            self._block([(sid, server.id) for sid in self._ids() if sid != server.id], fault.for_ms)

    def _clog(self, fault: Clog) -> None:
        source, target = self._who(fault.source), self._who(fault.target)
        if source is not None and target is not None and source is not target:
            self._world.network.clog(source.id, target.id)
            self._later(fault.for_ms, self._world.network.unclog, source.id, target.id)

    def _cut_links(self, fault: CutLinks) -> None:
        server = self._who(fault.server)
        if server is not None:
            self._world.network.cut(server)

    def _flaky(self, fault: Flaky) -> None:
        network = self._world.network
        loss, double = fault.loss_percent / 100, fault.double_percent / 100
        network.loss += loss
        network.double += double
        network.slower *= fault.slower
        self._later(fault.for_ms, self._steady, (loss, double, fault.slower))

    def _steady(self, was: tuple[float, float, int], _: object) -> None:
        network = self._world.network
        network.loss -= was[0]
        network.double -= was[1]
        network.slower //= was[2]

    # -- the process -----------------------------------------------------------------------------------

    def _crash(self, fault: Crash) -> None:
        server = self._who(fault.server)
        if server is not None and server.up:
            self._world.crash(server, fault.loss, fault.down_ms)

    def _crash_all(self, fault: CrashAll) -> None:
        self._world.crash_all(fault.loss, fault.down_ms)

    def _crash_in(self, fault: CrashIn) -> None:
        server = self._who(fault.server)
        if server is not None and server.up:
            self._take_aim(Aim(fault, server.id, None, fault.acts))

    def _when(self, fault: When) -> None:
        server = None
        if fault.server is not None:
            found = self._who(fault.server)
            if found is None:
                return
            server = found.id
        self._take_aim(Aim(fault, server, fault.moment, fault.nth))

    def _take_aim(self, aim: Aim) -> None:
        self._aims.append(aim)
        self._watch()

    def _watch(self) -> None:
        for server in self._world.servers[1:]:
            server.watched = any(aim.server in (None, server.id) for aim in self._aims)

    def act(self, server: Server, when: str, word: str) -> None:
        """A watched server is between two acts. Does a fault take it away right here?"""
        server.acts += 1
        moment = f"{when} {word}"
        for aim in self._aims:
            if aim.server not in (None, server.id) or aim.moment not in (None, moment):
                continue
            aim.left -= 1
            if not aim.left:
                self._aims.remove(aim)
                self._watch()
                self._world.record(server.id, "comes to", 0, moment)
                self._world.availability.struck(type(aim.fault).__name__, server.node.phase)
                if isinstance(aim.fault, CrashIn):
                    raise Crashed(server, aim.fault.loss, aim.fault.down_ms, False)
                self._do(aim.fault, server)
                return  # one thing at a time: whoever else aims at this moment waits for the next

    def _do(self, fault: When, server: Server) -> None:
        at = fault.at
        if fault.does in ("crash", "crash all"):
            raise Crashed(server, fault.loss, fault.for_ms, fault.does == "crash all")
        if fault.does == "cut":
            self._cut_links(CutLinks(at, server.id))
        elif fault.does == "isolate":
            self._isolate(Isolate(at, fault.for_ms, server.id))
        else:
            # The server is in the middle of a turn: it stands still, or loses its disk, when that is over.
            kind = LoseDisk if fault.does == "lose disk" else Pause
            made = kind(at, fault.for_ms, server.id)
            self._world.push(self._world.now, self.strike, made, None)

    def _pause(self, fault: Pause) -> None:
        server = self._who(fault.server)
        if server is not None:
            server.pause()
            self._later(fault.for_ms, self._resume, server)

    def _resume(self, server: Server, _: object) -> None:
        server.resume()

    # -- the disk --------------------------------------------------------------------------------------

    def can_spare(self, server: Server | None, wanted: Ensemble | None = None) -> bool:
        """Without this server, too, those whose disks are whole are a quorum of every membership there is.

        That is: of every one that is in force, logged or written down anywhere, and of the one `wanted`.
        """
        world = self._world
        ghost = world.ghost
        whole = [
            each.id
            for each in world.servers[1:]
            if each.founded and each is not server and not ghost.servers[each.id].impaired
        ]
        views = [ghost.governing[zxid] for known in ghost.servers for zxid in (known.tip, known.durable)]
        views += [ghost.governing[ghost.committed], *(each.node.ensemble for each in world.running())]
        if wanted is not None:
            views.append(wanted)
        return all(view.is_quorum(whole) for view in views)

    def _lose_disk(self, fault: LoseDisk) -> None:
        server = self._who(fault.server)
        if server is None or not self.can_spare(server):
            return
        if server.up:
            self._world.crash(server, "lose", fault.down_ms)
        server.disk = MemoryDisk()
        server.founding = False
        self._world.judge.disk_lost(server.id)

    def _flip_bit(self, fault: FlipBit) -> None:
        server = self._who(fault.server)
        if server is None or not self.can_spare(server):
            return
        if server.up:
            self._world.crash(server, "keep", fault.down_ms)
        disk = server.disk
        names = disk.names()
        if not names:
            return
        name = names[fault.where % len(names)]
        size = len(disk.get(name))
        if size:
            at = size * fault.where // 1_000
            disk.flip(name, at, 1 << fault.where % 8)
            self._world.record(server.id, "has a bit turned over", 0, f"{name} at {at} of {size}")
            self._world.judge.disk_lost(server.id)

    def _fail_disk(self, fault: FailDisk) -> None:
        server = self._who(fault.server)
        if server is None:
            return
        kind, number = {"write": ("write", errno.EIO), "fsync": ("sync", errno.EIO), "full": ("write", errno.ENOSPC)}[
            fault.error
        ]
        server.disk.fail(kind, fault.nth - 1, number)
        self._failing[server.id] = fault.down_ms

    def excuses(self, server: Server) -> bool:
        """Whether an error of this server's disk is of the nemesis' making."""
        return server.id in self._failing

    def disk_failed(self, server: Server) -> None:
        down_ms = self._failing[server.id]
        self._world.crash(server, "lose", down_ms)

    def _slow_disk(self, fault: SlowDisk) -> None:
        server = self._who(fault.server)
        if server is not None:
            server.writer.slower *= fault.slower
            self._later(fault.for_ms, self._usual_disk, server, fault.slower)

    def _usual_disk(self, server: Server, slower: int) -> None:
        server.writer.slower //= slower

    # -- the end ---------------------------------------------------------------------------------------

    def rest(self) -> None:
        """No fault is under way any more, and none is waiting."""
        self._aims.clear()
        self._watch()
        self._world.network.heal()
        for server in self._world.servers[1:]:
            server.disk.forgive()
            server.resume()
            server.writer.usual_speed()

    STRIKES: Final[dict[type, Callable[[Any, Any], None]]] = {
        Partition: _partition,
        Isolate: _isolate,
        OneWay: _one_way,
        Deaf: _deaf,
        Clog: _clog,
        CutLinks: _cut_links,
        Flaky: _flaky,
        Crash: _crash,
        CrashAll: _crash_all,
        CrashIn: _crash_in,
        When: _when,
        Pause: _pause,
        LoseDisk: _lose_disk,
        FlipBit: _flip_bit,
        FailDisk: _fail_disk,
        SlowDisk: _slow_disk,
    }
