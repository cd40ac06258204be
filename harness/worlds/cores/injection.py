"""What the injections of all kinds of faults use: their target, their end, and a count of those that found one."""

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
"""Inject a fault, and return what ends it. None: it found no target, or counts its hits and ends by itself."""


def done() -> None:
    """The end of a fault that has no end of its own: the nemesis does not wait for it."""


@frozen
class Failing:
    """Why a disk fails, and for how long its server is down then."""

    fault: Fault
    down_ms: int


class Injector:
    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.random = Random(f"{world.script.seed}/nemesis")
        """For what a fault leaves to chance."""
        self.failing: dict[ServerId, Failing] = {}
        """Servers whose disk was made to fail."""
        self.lying: dict[ServerId, Ensemble] = {}
        """Servers whose disk lies, or has lied, and the membership when that began."""
        self.bent: list[Server] = []
        """Servers whose clock or settings a fault has changed, now or earlier."""

    def hit(self, fault: Fault) -> None:
        """Count a fault that has found its target."""
        self.world.counted(f"hit {type(fault).__name__}")

    def bend(self, server: Server) -> None:
        """Note that the clock and the settings of this server have to be mended in the end."""
        if server not in self.bent:
            self.bent.append(server)

    def who(self, server: int) -> Server | None:
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
        """Do this later, unless all faults end before."""
        self.world.push_fault_end(self.world.now + wait_ms * 1_000, _call, act, None)

    def fails(self, server: Server, fault: Fault, down_ms: int) -> None:
        """Excuse errors of this server's disk from now on."""
        self.failing[server.id] = Failing(fault, down_ms)


def _call(act: Undo, _: None) -> None:
    act()


def at_server(inject: Callable[[Injector, Server, Any], Undo | None], *, running: bool = False) -> Injection:
    """Inject into the server that the fault names, if there is one, and if it has to be `running`, it is."""

    def injected(nemesis: Injector, fault: Any) -> Undo | None:
        server = nemesis.who(fault.server)
        return None if server is None or (running and not server.up) else inject(nemesis, server, fault)

    return injected


at_running = partial(at_server, running=True)
