"""The recovery after the last fault: a quorum serves, a new write commits, and then all members serve and are equal.

If the script has a quiet stage, that comes first (`harness.worlds.cores.quiet_stage`).

The recovery has a bound, which is computed from the settings: several times the durations of elections, discovery and
synchronization, because the first attempt may still meet the remains of a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from harness.budgets import INVARIANT as BUDGETS
from harness.budgets import Recovery, exceeded
from harness.checkers.oracle_state import Violation
from harness.faults import Write
from harness.quorums import is_quorum
from harness.worlds.cores.quiet_stage import QuietStage
from harness.worlds.cores.server import Server
from zab.core.messages import State
from zab.core.zxid import show

INVARIANT = "liveness"


class Stage(Enum):
    """The condition that recovery waits for."""

    QUORUM = "a quorum to serve"
    WRITE = "a new write to be acknowledged"
    EQUAL = "all members to serve with equal states and memberships"


class Liveness:
    _until: int
    """The end of the bound, in microseconds."""
    _wanted: int
    """The number of acknowledged writes that shows that the new write is acknowledged."""
    _before: Mapping[str, int]
    """The counters of the run at the last fault."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.invariant = INVARIANT
        """The invariant that is violated if the present stage does not end in time."""
        self._stage = Stage.QUORUM
        settings = world.settings
        self.bound_ms = (
            4 * (settings.init_ms + settings.sync_ms)
            + 4 * settings.notification_ms_max
            + 20 * settings.tick_ms
            + 2 * world.script.timing.break_ms_max
            + 40 * (world.script.timing.delay_us_max + world.script.timing.fsync_us_max) // 1_000
            + 40 * world.script.timing.turn_us_max // 1_000
            + (world.script.timing.spike_us_max // 50 if world.script.timing.spike_percent else 0)
        )
        self.quiet_stage = QuietStage(world, INVARIANT, self._states)
        self.began = 0
        self._since = 0
        """The virtual time at which all servers were healed."""
        self.took_ms = 0
        self.done = False

    def begin(self) -> None:
        world = self.world
        self.began = world.now
        before = world.spent()
        world.record(0, "heals", 0, None)
        world.nemesis.rest()
        if self.quiet_stage.minority.wanted:
            self.quiet_stage.begin(self._load, self._heal_all)
        else:
            self._heal_all(before)

    def _load(self) -> None:
        """Write before the quiet stage, until the minority goes."""
        self.world.workload.write(Write(0, 1, 0))

    def _heal_all(self, before: Mapping[str, int]) -> None:
        world = self.world
        self._since, self._before = world.now, before
        self._until = world.now + self.bound_ms * 1_000
        for server in world.servers[1:]:
            if server.founded and not server.up:
                world.revive(server)
        self._check(None, None)

    def _check(self, _: object, __: object) -> None:
        world = self.world
        waits_for = self._missing()
        if waits_for is None:
            self.done = True
            self.took_ms = (world.now - self._since) // 1_000
            self._check_budgets()
            world.stop()
            return
        if world.now >= self._until:
            raise Violation(self.invariant, f"{self.bound_ms} ms are too short for {self._stage.value}: {waits_for}")
        world.push(world.now + 10_000, self._check, None, None)

    def _check_budgets(self) -> None:
        spent = self.world.spent()
        counts = {counter: number - self._before.get(counter, 0) for counter, number in spent.items()}
        servers = sum(server.founded for server in self.world.servers[1:])
        what = exceeded(Recovery(counts, servers, self.took_ms))
        if what is not None:
            raise Violation(BUDGETS, what)

    def _missing(self) -> str | None:
        """Return the condition that does not hold yet, or None."""
        world = self.world
        leader = world.leader()
        if leader is None or not leader.node.serving:
            return f"no leader serves ({self._states()})"
        node = leader.node
        serving = [server for server in world.running() if server.node.serving and server.node.leader == leader.id]
        if not is_quorum(node.ensemble, [server.id for server in serving]):
            ids = [server.id for server in serving]
            return f"only servers {ids} serve under leader {leader.id}, which are no quorum ({self._states()})"
        if self._stage is Stage.QUORUM:
            self._stage = Stage.WRITE
            self._wanted = world.workload.acknowledged + 1
        if self._stage is Stage.WRITE:
            unwritten = self._unwritten()
            if unwritten is not None:
                return unwritten
            self._stage = Stage.EQUAL
        return self._unequal(leader)

    def _unwritten(self) -> str | None:
        world = self.world
        if world.workload.acknowledged >= self._wanted:
            return None
        world.workload.write(Write(0, 1, 0))
        return "the new write is not acknowledged"

    def _unequal(self, leader: Server) -> str | None:
        for server in self.world.servers[1:]:
            if server.founded and server.id in leader.node.ensemble.by_id and not self._equal(server, leader):
                return f"server {server.id} differs from leader {leader.id} ({self._states()})"
        return None

    def _equal(self, server: Server, leader: Server) -> bool:
        return (
            server.up
            and server.node.serving
            and server.node.leader == leader.id
            and server.node.ensemble == leader.node.ensemble
            and (server.node.state is State.OBSERVING) is (server.id in leader.node.ensemble.observers)
            and server.machine.zxid == leader.node.committed == leader.machine.zxid
            and server.machine.digest == leader.machine.digest
        )

    def _states(self) -> str:
        return "; ".join(_described(server) for server in self.world.servers[1:] if server.founded)


def _described(server: Server) -> str:
    if not server.up:
        return f"{server.id} down"
    node = server.node
    role = node.state.name.lower()
    leader = f" {node.leader}" if node.state in (State.FOLLOWING, State.OBSERVING) else ""
    position = f"epoch {node.epoch}, applied {show(node.applied)}, membership {show(node.ensemble.version)}"
    return f"{server.id} {role}{leader} in {node.phase}, {position}"
