"""The common parts of all injections: the target of a fault, its end, and the count of faults that found a target."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeAlias

from attrs import frozen

from harness.faults import FOLLOWER, LEADER, Fault
from harness.worlds.cores.server import Server
from harness.worlds.cores.simulator import Simulator
from zab.core.ensemble import Ensemble
from zab.core.zxid import ServerId

Undo: TypeAlias = Callable[[], None]
Injection: TypeAlias = "Callable[[Injector, Any], Undo | None]"
"""Injects a fault, and returns the function that ends it.

Returns None if the fault found no target, or if it counts its hits and ends by itself.
"""


def done() -> None:
    """Do nothing: the end of a fault that is over at once. The nemesis does not schedule it."""


@frozen
class Failing:
    """The fault that makes a disk fail, and the downtime of its server after the failure."""

    fault: Fault
    down_ms: int


class Injector:
    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.random = Random(f"{world.script.seed}/nemesis")
        """The random generator for the details that a fault leaves open."""
        self.failing: dict[ServerId, Failing] = {}
        """The fault that last made the disk of a server fail, by server id."""
        self.lying: dict[ServerId, Ensemble] = {}
        """The membership on the disk of a server when its disk began to lose fsyncs, by server id. Entries stay."""
        self.altered: list[Server] = []
        """The servers whose clock or settings a fault has changed, now or earlier."""

    def hit(self, fault: Fault) -> None:
        """Count a fault that has found its target."""
        self.world.counted(f"hit {type(fault).__name__}")

    def mark_altered(self, server: Server) -> None:
        """Note that the clock and the settings of this server have to be restored in the end."""
        if server not in self.altered:
            self.altered.append(server)

    def target(self, server: int) -> Server | None:
        """Return the target of a fault: a server by number, the leader, or a follower of it."""
        if server > 0:
            servers: list[Server] = self.world.servers
            return servers[server] if server < len(servers) and servers[server].founded else None
        leader: Server | None = self.world.leader()
        if server == LEADER or leader is None:
            return leader
        assert server == FOLLOWER
        running = [each for each in self.world.running() if each.node.leader == leader.id and each is not leader]
        return running[0] if running else None

    def founded(self) -> list[Server]:
        return [server for server in self.world.servers[1:] if server.founded]

    def ids(self) -> list[ServerId]:
        return [server.id for server in self.world.servers[1:]]

    def later(self, wait_ms: int, act: Undo) -> None:
        """Call `act` after a delay, unless the end of all faults comes first."""
        self.world.push_fault_end(self.world.now + wait_ms * 1_000, _call, act, None)

    def excuse_disk_errors(self, server: Server, fault: Fault, down_ms: int) -> None:
        """Excuse errors of this server's disk from now on, as effects of this fault."""
        self.failing[server.id] = Failing(fault, down_ms)


def _call(act: Undo, _: None) -> None:
    act()


def at_server(inject: Callable[[Injector, Server, Any], Undo | None], *, running: bool = False) -> Injection:
    """Return an injection into the server that a fault names.

    The fault finds no target if there is no such server, or if it must be `running` and is down.
    """

    def injected(nemesis: Injector, fault: Any) -> Undo | None:
        server = nemesis.target(fault.server)
        return None if server is None or (running and not server.up) else inject(nemesis, server, fault)

    return injected


at_running = partial(at_server, running=True)
