"""The nemesis: it injects the faults of a script, also those that are aimed at a moment, and ends all of them."""

from __future__ import annotations

from functools import partial
from typing import Final

from attrs import define

from harness.faults import ClockFreeze, CrashIn, CutLinks, Fault, Isolate, LoseDisk, Pause, When
from harness.worlds.cores import inject_disk, inject_network, inject_process
from harness.worlds.cores.injection import Injection, Injector, Undo, done
from harness.worlds.cores.server import Server
from harness.worlds.cores.simulator import Simulator
from harness.worlds.disks import Crashed
from zab.core.ensemble import Ensemble
from zab.core.zxid import ServerId

ELECTION: Final = "election"
"""The phase of an ensemble without a leader. Otherwise the phase of an ensemble is that of its leader."""


@define
class Aim:
    """A fault that waits for its moment."""

    fault: CrashIn | When
    server: ServerId | None
    moment: str | None
    left: int


def lasting_ms(fault: Fault) -> int:
    """Return the time until the effect of a fault is undone."""
    return getattr(fault, "for_ms", 0) + getattr(fault, "down_ms", 0)


class Nemesis(Injector):
    def __init__(self, world: Simulator) -> None:
        super().__init__(world)
        self._aims: list[Aim] = []

    def inject(self, fault: Fault, _: object) -> None:
        world = self.world
        world.record(0, "fault", 0, fault)
        if isinstance(fault, CrashIn):
            self._crash_in(fault)
        elif isinstance(fault, When):
            self._when(fault)
        else:
            leader = world.leader()
            phase = ELECTION if leader is None else leader.node.phase
            world.availability.struck(type(fault).__name__, phase, lasting_ms(fault))
            self._inject(fault)

    def _inject(self, fault: Fault) -> None:
        undo: Undo | None = self.INJECTIONS[type(fault)](self, fault)
        if undo is not None:
            self.hit(fault)
            if undo is not done:
                self.later(getattr(fault, "for_ms", 0), undo)

    # -- aimed faults ------------------------------------------------------------------------------------

    def _crash_in(self, fault: CrashIn) -> None:
        server = self.target(fault.server)
        if server is not None and fault.calls:
            server.disk.crash_at(server.disk.changes + fault.calls - 1, error=partial(self._crashed_at, fault, server))
        elif server is not None and server.up:
            self._take_aim(Aim(fault, server.id, None, fault.acts))

    def _crashed_at(self, fault: CrashIn, server: Server, kind: str, where: str) -> Crashed:
        self.world.counted(f"crash {kind}")
        self._comes_to(fault, server, where, server.node.phase if server.up else ELECTION)
        return Crashed(server, fault.loss, fault.down_ms)

    def _comes_to(self, fault: CrashIn | When, server: Server, moment: str, phase: str) -> None:
        self.world.record(server.id, "comes to", 0, moment)
        self.world.availability.struck(type(fault).__name__, phase, lasting_ms(fault))
        self.hit(fault)

    def _when(self, fault: When) -> None:
        server = None if fault.server is None else self.target(fault.server)
        if server is not None or fault.server is None:
            self._take_aim(Aim(fault, None if server is None else server.id, fault.moment, fault.nth))

    def _take_aim(self, aim: Aim) -> None:
        self._aims.append(aim)
        self._watch()

    def _watch(self) -> None:
        for server in self.world.servers[1:]:
            server.watched = any(aim.server in (None, server.id) for aim in self._aims)

    def act(self, server: Server, when: str, word: str) -> None:
        """Inject the fault that is aimed at this moment, if any. A watched server calls this between any two steps."""
        moment = f"{when} {word}"
        for aim in self._aims:
            if aim.server not in (None, server.id) or aim.moment not in (None, moment):
                continue
            aim.left -= 1
            if not aim.left:
                self._aims.remove(aim)
                self._watch()
                self._comes_to(aim.fault, server, moment, server.node.phase)
                if isinstance(aim.fault, CrashIn):
                    raise Crashed(server, aim.fault.loss, aim.fault.down_ms)
                self._do(aim.fault, server)
                return  # one fault at a time: another one that is aimed at this moment waits for the next such moment

    def _do(self, fault: When, server: Server) -> None:
        at = fault.at
        match fault.does:
            case "crash" | "crash all":
                raise Crashed(server, fault.loss, fault.for_ms, all_servers=fault.does == "crash all")
            case "cut":
                self._inject(CutLinks(at, server.id))
            case "isolate":
                self._inject(Isolate(at, fault.for_ms, server.id))
            case does:
                # The server is in the middle of a turn. The fault takes effect after the turn.
                kind = {"lose disk": LoseDisk, "pause": Pause, "freeze clock": ClockFreeze}[does]
                self.world.push(self.world.now, self.inject, kind(at, fault.for_ms, server.id), None)

    # -- disks -------------------------------------------------------------------------------------------

    def can_spare(self, server: Server | None, wanted: Ensemble | None = None) -> bool:
        return inject_disk.can_spare(self.world, server, wanted=wanted)

    def excuses(self, server: Server) -> bool:
        return server.id in self.failing

    def disk_failed(self, server: Server) -> None:
        failing = self.failing[server.id]
        self.hit(failing.fault)
        self.world.crash(server, "lose", failing.down_ms)

    def starts(self, server: Server) -> None:
        inject_disk.starts(self, server)

    def power_fails(self, server: Server, loss: str) -> None:
        inject_disk.power_fails(self, server, loss)

    # -- the end -----------------------------------------------------------------------------------------

    def rest(self) -> None:
        """End all faults, and drop those that wait for their moment."""
        self._aims.clear()
        self._watch()
        self.world.network.heal()
        for server in self.world.servers[1:]:
            server.disk.forgive()
            server.disk.capacity = None
            if server.disk.lying:
                server.disk.lying = False
                server.disk.settle()
            server.resume()
            server.writer.usual_speed()
        inject_process.mend(self)

    INJECTIONS: Final[dict[type, Injection]] = {
        **inject_network.INJECTIONS, **inject_process.INJECTIONS, **inject_disk.INJECTIONS,
    }  # fmt: skip
    KINDS: Final = frozenset({CrashIn, When, *INJECTIONS})
