"""Lets the faults of a script happen, and ends each when its time is over.

What each kind does is in the modules whose tables are put together here. What is common to all: who is meant,
aimed faults that wait for their moment, and the end of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from harness.faults import (
    FOLLOWER,
    LEADER,
    ClockFreeze,
    CrashIn,
    CutLinks,
    Fault,
    Isolate,
    LoseDisk,
    Pause,
    When,
)
from harness.worlds.cores import spare, strikes_disk, strikes_network, strikes_process
from harness.worlds.cores.crashed import Crashed
from harness.worlds.cores.server import Server
from zab.core.zxid import ServerId

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


@frozen
class Failing:
    """Why a disk fails, and for how long its server is away then."""

    fault: Fault
    down_ms: int


def lasting_ms(fault: Fault) -> int:
    """How long it is until what was done is undone."""
    return getattr(fault, "for_ms", 0) + getattr(fault, "down_ms", 0)


class Nemesis:
    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"{world.script.seed}/nemesis")
        """For what a fault leaves to chance."""
        self.failing: dict[ServerId, Failing] = {}
        """Servers whose disk was told to fail."""
        self.lying: dict[ServerId, Ensemble] = {}
        """Servers whose disk lies, or has lied, and who the members were when that began."""
        self.bent: list[Server] = []
        """Servers whose clock or settings are not, or have not always been, as they should be."""
        self.struck = 0
        self._aims: list[Aim] = []

    def strike(self, fault: Fault, _: object) -> None:
        world = self.world
        world.record(0, "fault", 0, fault)
        self.struck += 1
        if not isinstance(fault, CrashIn | When):  # those strike when their moment comes
            leader = world.leader()
            phase = ELECTION if leader is None else leader.node.phase
            world.availability.struck(type(fault).__name__, phase, lasting_ms(fault))
        self.STRIKES[type(fault)](self, fault)

    def hit(self, fault: Fault) -> None:
        """It has found whom it was meant for, and something is different now."""
        self.world.counted(f"hit {type(fault).__name__}")

    def bend(self, fault: Fault, server: Server) -> None:
        """It has found a server that is to be mended in the end."""
        self.hit(fault)
        if server not in self.bent:
            self.bent.append(server)

    # -- for the modules that know what each kind does ---------------------------------------------------

    def who(self, server: int) -> Server | None:
        if server > 0:
            servers = self.world.servers
            return servers[server] if server < len(servers) and servers[server].founded else None
        leader = self.world.leader()
        if server == LEADER or leader is None:
            return leader
        assert server == FOLLOWER
        for each in self.world.running():
            if each.node.leader == leader.id and each is not leader:
                return each
        return None

    def ids(self) -> list[ServerId]:
        return [server.id for server in self.world.servers[1:]]

    def later(self, wait_ms: int, act: Callable[..., None], one: Any, other: Any = None) -> None:
        """Unless everything is healed before."""
        self.world.push_fault_end(self.world.now + wait_ms * 1_000, act, one, other)

    # -- aimed faults ------------------------------------------------------------------------------------

    def _crash_in(self, fault: CrashIn) -> None:
        server = self.who(fault.server)
        if server is not None and fault.calls:
            server.disk.crash_at(server.disk.changes + fault.calls - 1, error=partial(self._crashed_at, fault, server))
        elif server is not None and server.up:
            self._take_aim(Aim(fault, server.id, None, fault.acts))

    def _crashed_at(self, fault: CrashIn, server: Server, where: str) -> Crashed:
        self.world.record(server.id, "comes to", 0, where)
        self.world.counted_call(where)
        phase = server.node.phase if server.up else ELECTION
        self.world.availability.struck(type(fault).__name__, phase, lasting_ms(fault))
        self.hit(fault)
        return Crashed(server, fault.loss, fault.down_ms, False)

    def _when(self, fault: When) -> None:
        server = None
        if fault.server is not None:
            found = self.who(fault.server)
            if found is None:
                return
            server = found.id
        self._take_aim(Aim(fault, server, fault.moment, fault.nth))

    def _take_aim(self, aim: Aim) -> None:
        self._aims.append(aim)
        self._watch()

    def _watch(self) -> None:
        for server in self.world.servers[1:]:
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
                self.world.record(server.id, "comes to", 0, moment)
                kind = type(aim.fault).__name__
                self.world.availability.struck(kind, server.node.phase, lasting_ms(aim.fault))
                self.hit(aim.fault)
                if isinstance(aim.fault, CrashIn):
                    raise Crashed(server, aim.fault.loss, aim.fault.down_ms, False)
                self._do(aim.fault, server)
                return  # one thing at a time: whoever else aims at this moment waits for the next

    def _do(self, fault: When, server: Server) -> None:
        at = fault.at
        if fault.does in ("crash", "crash all"):
            raise Crashed(server, fault.loss, fault.for_ms, fault.does == "crash all")
        if fault.does == "cut":
            self.STRIKES[CutLinks](self, CutLinks(at, server.id))
        elif fault.does == "isolate":
            self.STRIKES[Isolate](self, Isolate(at, fault.for_ms, server.id))
        else:
            # The server is in the middle of a turn: it stands still, or loses its disk, when that is over.
            kind = {"lose disk": LoseDisk, "pause": Pause, "freeze clock": ClockFreeze}[fault.does]
            self.world.push(self.world.now, self.strike, kind(at, fault.for_ms, server.id), None)

    # -- disks -------------------------------------------------------------------------------------------

    def can_spare(self, server: Server | None, wanted: Ensemble | None = None) -> bool:
        return spare.can_spare(self.world, server, wanted)

    def fails(self, server: Server, fault: Fault, down_ms: int) -> None:
        """From now on an error of its disk is no surprise."""
        self.failing[server.id] = Failing(fault, down_ms)

    def excuses(self, server: Server) -> bool:
        """Return whether the nemesis caused this error of the server's disk."""
        return server.id in self.failing

    def disk_failed(self, server: Server) -> None:
        failing = self.failing[server.id]
        self.hit(failing.fault)
        self.world.crash(server, "lose", failing.down_ms)

    def starts(self, server: Server) -> None:
        """A server is about to read its disk."""
        strikes_disk.starts(self, server)

    def power_fails(self, server: Server, loss: str) -> None:
        """A server is about to crash, whatever the reason."""
        strikes_disk.power_fails(self, server, loss)

    # -- the end -----------------------------------------------------------------------------------------

    def rest(self) -> None:
        """No fault is under way any more, and none is waiting."""
        self._aims.clear()
        self._watch()
        self.world.network.heal()
        for server in self.world.servers[1:]:
            server.disk.forgive()
            server.disk.capacity = None
            strikes_disk.mend(server)
            server.resume()
            server.writer.usual_speed()
        strikes_process.mend(self)

    STRIKES: Final[dict[type, Callable[[Any, Any], None]]] = {
        CrashIn: _crash_in,
        When: _when,
        **strikes_network.STRIKES,
        **strikes_process.STRIKES,
        **strikes_disk.STRIKES,
    }
