"""The nemesis of a program: the faults of its nodes, next to all faults of servers that the stack supports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from attrs import evolve

from harness import faults
from harness.program.process import NodeProcess
from harness.script.names import ACTIVE
from harness.worlds.cores.injection import Injection, Injector, Undo, done
from harness.worlds.cores.nemesis import Nemesis


def _at_node(inject: Callable[[Any, NodeProcess, Any], Undo | None]) -> Injection:
    def injected(nemesis: Any, fault: Any) -> Undo | None:
        process: NodeProcess | None = nemesis.world.process_of(fault.node)
        return None if process is None else inject(nemesis, process, fault)

    return injected


def _kill(_: Injector, process: NodeProcess, fault: faults.KillNode) -> Undo | None:
    return done if process.kill(fault.down_ms) else None


def _restart(_: Injector, process: NodeProcess, fault: faults.RestartNode) -> Undo | None:
    return done if process.restart(fault.down_ms) else None


def _pause(_: Injector, process: NodeProcess, __: faults.PauseNode) -> Undo | None:
    life = process.now
    return life.resume if life is not None and life.pause() else None


def _blocked(nemesis: Injector, process: NodeProcess, servers: list[Any]) -> Undo:
    network, node = nemesis.world.network, -process.number
    ways: list[Any] = [way for server in servers for way in ((node, server), (server, node))]
    for way in ways:
        network.block(*way)

    def end() -> None:
        for way in ways:
            network.unblock(*way)

    return end


def _cut(nemesis: Injector, process: NodeProcess, _: faults.CutNode) -> Undo:
    return _blocked(nemesis, process, nemesis.ids())


def _part(nemesis: Injector, process: NodeProcess, fault: faults.PartNode) -> Undo | None:
    server = nemesis.target(fault.server)
    return None if server is None else _blocked(nemesis, process, [server.id])


def _aim(_: Injector, process: NodeProcess, fault: faults.StrikeNode) -> Undo | None:
    process.aim(fault)
    return None  # it counts as a hit at its moment


def _turn_clock(_: Injector, process: NodeProcess, fault: faults.TurnClock) -> Undo:
    process.clock_wrong_ms += fault.by_ms
    return done


class ProgramNemesis(Nemesis):
    def inject(self, fault: faults.Fault, _: object) -> None:
        super().inject(self._with_number(fault), _)

    def _with_number(self, fault: faults.Fault) -> faults.Fault:
        """Return the fault with the number of its node, also if it names the active one."""
        world: Any = self.world
        process: NodeProcess | None = None
        if isinstance(fault, faults.NodeFault) and fault.at_node == ACTIVE:
            process = world.process_of(ACTIVE)
        named: Any = fault
        return fault if process is None else evolve(named, node=process.number)

    def strike(self, fault: faults.StrikeNode, process: NodeProcess) -> None:
        """Inject a strike at its moment, in a task of the node."""
        life = process.now
        if life is None:
            return
        self.hit(fault)
        self.world.record(0, "struck", 0, fault)
        life.note(f"is struck {fault.point}: {fault.harm}")
        if fault.harm == "kill":
            process.kill(fault.for_ms)
        elif fault.harm == "pause":
            if life.pause():
                self.later(fault.for_ms, life.resume)
        else:
            process.cut_off()
            self.later(fault.for_ms, process.reconnect)

    INJECTIONS: ClassVar[dict[type, Injection]] = {  # type: ignore[misc]  # it extends the table of servers
        **Nemesis.INJECTIONS,
        faults.KillNode: _at_node(_kill),
        faults.RestartNode: _at_node(_restart),
        faults.PauseNode: _at_node(_pause),
        faults.CutNode: _at_node(_cut),
        faults.PartNode: _at_node(_part),
        faults.StrikeNode: _at_node(_aim),
        faults.TurnClock: _at_node(_turn_clock),
    }
