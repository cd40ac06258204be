"""After the last fault: within a bound, a quorum serves, a new write commits, and then all serve and are equal.

If the script has a quiet stage, it comes first: a minority is away, nothing new is written, and within its own bound a
quorum serves and has answered everything that was accepted. A new write could free what is stuck.

The bound is made of the settings: the durations of elections, discovery and synchronization, several times
over, because the first attempt may still meet the remains of a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from harness.budgets import INVARIANT as BUDGETS
from harness.budgets import Recovery, exceeded
from harness.checkers.ghost import Violation
from harness.faults import Write
from harness.quorums import is_quorum
from harness.worlds.cores.minority import Minority
from harness.worlds.cores.server import Server
from harness.worlds.cores.simulator import Simulator
from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId, Zxid, show

INVARIANT = "liveness"


class Stage(Enum):
    """The condition that recovery waits for."""

    QUORUM = "a quorum that serves"
    ANSWERS = "all that was accepted to be answered, and all proposals to commit, without a new write"
    WRITE = "a new write to be acknowledged"
    EQUAL = "all servers to serve, and to be equal, also in their members"


class Liveness:
    _until: int
    """The end of the bound, in microseconds."""
    _wanted: int
    """The number of acknowledged writes, once the new one is among them."""
    _proposed: tuple[ServerId, Epoch, Zxid]
    """The leader, its epoch, and the end of what it had proposed when the present wait for answers began."""
    _before: Mapping[str, int]
    """The counters of the run at the last fault."""

    def __init__(self, world: Simulator) -> None:
        self.world: Any = world
        self.invariant = INVARIANT
        """The invariant that is violated if the present stage does not end in time."""
        self._stage = Stage.QUORUM
        self.minority = Minority(world)
        self._is_quiet = self.minority.wanted
        settings, timing = world.settings, world.script.timing
        spike_us = timing.spike_us_max if timing.spike_percent else 0
        slack_ms = (
            2 * timing.break_ms_max
            + 40 * (timing.delay_us_max + timing.fsync_us_max) // 1_000
            + 40 * timing.turn_us_max // 1_000
            + spike_us // 50
        )
        self.bound_ms = (
            4 * (settings.init_ms + settings.sync_ms)
            + 4 * settings.notification_ms_max
            + 20 * settings.tick_ms
            + slack_ms
        )
        self.quiet_bound_ms = (
            2 * (settings.init_ms + settings.sync_ms)
            + 2 * settings.notification_ms_max
            + 4 * settings.tick_ms
            + slack_ms
        )
        """The bound of the quiet stage: roles end that lack a server, one candidate that is away is given up, and then
        one election and one synchronization take place."""
        self.idle_bound_ms = 20 + 3 * (timing.delay_us_max + timing.turn_us_max + spike_us) // 1_000
        """The bound within which healthy servers answer in the quiet stage, while none of them writes to its disk."""
        self._idle_since = 0
        """The time since which all healthy servers serve and are idle; 0 if they do not."""
        self._limit_ms = self.bound_ms
        """The bound of the present stage."""
        self.began = 0
        self._since = 0
        """The time at which the present servers were healed."""
        self.took_ms = 0
        self.done = False

    def begin(self) -> None:
        world, before = self.world, self.world.spent()
        self.began = world.now
        world.record(0, "heals", 0, None)
        world.nemesis.rest()
        if self.minority.wanted:
            self._revive()
            self.minority.go(self._load, self._begin_quiet_stage)
        else:
            self._start(before, self.bound_ms)

    def _begin_quiet_stage(self) -> None:
        self._start(self.world.spent(), self.quiet_bound_ms)

    def _start(self, before: Mapping[str, int], bound_ms: int) -> None:
        """Begin to wait, for all servers but the minority that is away."""
        world = self.world
        self._stage = Stage.QUORUM
        self._since, self._before, self._limit_ms = world.now, before, bound_ms
        self._until = world.now + bound_ms * 1_000
        self._revive()
        self._look(None, None)

    def _revive(self) -> None:
        for server in self.world.servers[1:]:
            if server.founded and not server.up and server.id not in self.minority.servers:
                self.world.revive(server)

    def _load(self) -> None:
        """Write, while all servers are healed and the minority is about to go."""
        self.world.workload.write(Write(0, 1, 0))

    def _look(self, _: object, __: object) -> None:
        world = self.world
        waits_for = self._missing()
        if waits_for is None and self._is_quiet:
            before = world.spent()
            self._is_quiet = False
            self.minority.return_all()
            self._start(before, self.bound_ms)
            return
        if waits_for is None:
            self.done = True
            self.took_ms = (world.now - self._since) // 1_000
            self._check_budgets()
            world.stop()
            return
        if self._is_quiet and (stuck := self._stuck(waits_for)) is not None:
            raise Violation(self.invariant, stuck)
        if world.now >= self._until:
            away = f" while {sorted(self.minority.servers)} are away" if self._is_quiet else ""
            raise Violation(self.invariant, f"waited {self._limit_ms} ms for {self._stage.value}{away}: {waits_for}")
        world.push(world.now + 10_000, self._look, None, None)

    def _check_budgets(self) -> None:
        spent = self.world.spent()
        counts = {counter: number - self._before.get(counter, 0) for counter, number in spent.items()}
        servers = sum(server.founded for server in self.world.servers[1:])
        what = exceeded(Recovery(counts, servers, self.took_ms, self.world.script.knobs.counter_max))
        if what is not None:
            raise Violation(BUDGETS, what)

    def _missing(self) -> str | None:
        """Return the condition that does not hold yet, or None."""
        world = self.world
        leader = self._leader()
        if leader is None or not leader.node.serving:
            return f"no server leads ({self._states()})"
        node = leader.node
        serving = [server for server in self._here() if server.node.serving and server.node.leader == leader.id]
        if not is_quorum(node.ensemble, [server.id for server in serving]):
            return f"only {[server.id for server in serving]} serve under {leader.id} ({self._states()})"
        if self._is_quiet:
            return self._unanswered(leader, serving)
        if self._stage is Stage.QUORUM:
            self._stage = Stage.WRITE
            self._wanted = world.workload.acknowledged + 1
        if self._stage is Stage.WRITE:
            unwritten = self._unwritten()
            if unwritten is not None:
                return unwritten
            self._stage = Stage.EQUAL
        return self._unequal(leader)

    def _here(self) -> list[Server]:
        """Return the running servers that are not away."""
        away = self.minority.servers
        return [server for server in self.world.running() if server.id not in away]

    def _leader(self) -> Server | None:
        """Return the leader, which is not away."""
        if not self.minority.servers:
            leader: Server | None = self.world.leader()
            return leader
        leading = [server for server in self._here() if server.node.state is State.LEADING]
        return max(leading, key=lambda server: (server.node.serving, server.node.epoch), default=None)

    def _stuck(self, waits_for: str) -> str | None:
        """Return a request or proposal that stays unanswered although all healthy servers serve and are idle."""
        leader, now = self._leader(), self.world.now
        if self._stage is not Stage.ANSWERS or leader is None or not self._idle(leader):
            self._idle_since = 0
            return None
        self._idle_since = self._idle_since or now
        idle_ms = (now - self._idle_since) // 1_000
        if idle_ms <= self.idle_bound_ms:
            return None
        away = sorted(self.minority.servers)
        return f"all serve under {leader.id} and are idle for {idle_ms} ms while {away} are away, but {waits_for}"

    def _idle(self, leader: Server) -> bool:
        """Return whether all members that are not away serve under this leader, and nothing is under way there."""
        members = [server for server in self._here() if server.id in leader.node.ensemble.by_id]
        return all(
            server.node.serving
            and server.node.leader == leader.id
            and server.writer.idle
            and (server is leader or self.world.network.is_quiet(server, leader))
            for server in members
        )

    def _unanswered(self, leader: Server, serving: Sequence[Server]) -> str | None:
        """Return a proposal that is not committed, a commit that is not applied, or a request without an answer."""
        if self._stage is Stage.QUORUM or self._proposed[:2] != (leader.id, leader.node.epoch):
            self._stage = Stage.ANSWERS
            self._proposed = leader.id, leader.node.epoch, self.world.ghost.servers[leader.id].tip
        tip = self._proposed[2]
        if leader.node.committed < tip:
            return f"server {leader.id} has proposed up to {show(tip)}, and committed {show(leader.node.committed)}"
        for server in serving:
            if server.machine.zxid < tip:
                return f"server {server.id} has applied up to {show(server.machine.zxid)}, not {show(tip)}"
        for server in self._here():
            if server.barriers:
                return f"server {server.id} does not answer barrier {min(server.barriers)} ({self._states()})"
        return None

    def _unwritten(self) -> str | None:
        world = self.world
        if world.workload.acknowledged >= self._wanted:
            return None
        world.workload.write(Write(0, 1, 0))
        return "no write is acknowledged"

    def _unequal(self, leader: Server) -> str | None:
        for server in self.world.servers[1:]:
            if server.founded and server.id in leader.node.ensemble.by_id and not self._equal(server, leader):
                return f"server {server.id} is not where {leader.id} is ({self._states()})"
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
    whom = f" {node.leader}" if node.state in (State.FOLLOWING, State.OBSERVING) else ""
    where = f"epoch {node.epoch}, {show(node.applied)}, members of {show(node.ensemble.version)}"
    return f"{server.id} {role}{whom} in {node.phase}, {where}"
