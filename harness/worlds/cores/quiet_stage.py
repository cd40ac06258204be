"""The quiet stage: after the faults a minority is away, and nothing new is written.

Within a bound of its own the other servers must serve, and must have answered everything that they accepted. A new
write could free a stuck proposal, and so could a timeout: a leader drops a follower that does not acknowledge, and the
next leader commits. Therefore nothing may stay unanswered while all of these servers serve and are idle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.checkers.oracle_state import Violation
from harness.quorums import is_quorum
from harness.worlds.cores.minority import Minority
from harness.worlds.cores.server import Server
from harness.worlds.cores.simulator import Simulator
from zab.core.zxid import Epoch, ServerId, Zxid, show


class QuietStage:
    _until: int
    """The end of the bound, in microseconds."""
    _done: Callable[[Mapping[str, int]], None]
    """Called with the counters of the run when all servers are healed."""

    def __init__(self, world: Simulator, invariant: str, states: Callable[[], str]) -> None:
        self.world: Any = world
        self.minority = Minority(world)
        self._invariant = invariant
        self._states = states
        settings, timing = world.settings, world.script.timing
        spike_us = timing.spike_us_max if timing.spike_percent else 0
        self.bound_ms = (
            2 * (settings.init_ms + settings.sync_ms)
            + 2 * settings.notification_ms_max
            + 4 * settings.tick_ms
            + 2 * timing.break_ms_max
            + 40 * (timing.delay_us_max + timing.fsync_us_max + timing.turn_us_max) // 1_000
            + spike_us // 50
        )
        """The time in which roles that lack a server end, one candidate that is away is given up, and then one election
        and one synchronization take place."""
        self.idle_bound_ms = 20 + 3 * (timing.delay_us_max + timing.turn_us_max + spike_us) // 1_000
        """The bound within which idle servers have answered everything."""
        self._idle_since = 0
        """The time since which all servers that are not away serve and are idle; 0 if they do not."""
        self._proposed: tuple[ServerId, Epoch, Zxid] | None = None
        """The leader, its epoch, and the end of what it had proposed when the wait for answers began."""

    def begin(self, load: Callable[[], None], done: Callable[[Mapping[str, int]], None]) -> None:
        self._done = done
        self._revive()
        self.minority.go(load, self._gone)

    def _gone(self) -> None:
        self._until = self.world.now + self.bound_ms * 1_000
        self._revive()
        self._check(None, None)

    def _revive(self) -> None:
        for server in self.world.servers[1:]:
            if server.founded and not server.up and server.id not in self.minority.servers:
                self.world.revive(server)

    def _check(self, _: object, __: object) -> None:
        world = self.world
        waits_for = self._missing()
        if waits_for is None:
            before = world.spent()
            self.minority.return_all()
            self._done(before)
            return
        away = sorted(self.minority.servers)
        if (idle_ms := self._idle_ms()) > self.idle_bound_ms:
            idle = f"the others are idle for {idle_ms} ms, longer than {self.idle_bound_ms} ms"
            raise Violation(self._invariant, f"servers {away} are away, and {idle}: {waits_for}")
        if world.now >= self._until:
            what = f"servers {away} are away, and the others have not finished within {self.bound_ms} ms"
            raise Violation(self._invariant, f"{what}: {waits_for}")
        world.push(world.now + 10_000, self._check, None, None)

    def _here(self) -> list[Server]:
        """Return the running servers that are not away."""
        return [server for server in self.world.running() if server.id not in self.minority.servers]

    def _missing(self) -> str | None:
        """Return the condition that does not hold yet, or None."""
        leader = self.world.leader(self._here())
        if leader is None or not leader.node.serving:
            return f"no leader serves ({self._states()})"
        serving = [server for server in self._here() if server.node.serving and server.node.leader == leader.id]
        if not is_quorum(leader.node.ensemble, [server.id for server in serving]):
            ids = [server.id for server in serving]
            return f"only servers {ids} serve under leader {leader.id}, which are no quorum ({self._states()})"
        return self._unanswered(leader, serving)

    def _unanswered(self, leader: Server, serving: Sequence[Server]) -> str | None:
        """Return a proposal that is not committed, a commit that is not applied, or a request without an answer."""
        if self._proposed is None or self._proposed[:2] != (leader.id, leader.node.epoch):
            self._proposed = leader.id, leader.node.epoch, self.world.ghost.servers[leader.id].tip
        tip = self._proposed[2]
        if leader.node.committed < tip:
            committed = show(leader.node.committed)
            return f"leader {leader.id} has proposed up to {show(tip)}, but committed only up to {committed}"
        for server in serving:
            if server.machine.zxid < tip:
                return f"server {server.id} has applied up to {show(server.machine.zxid)}, but not up to {show(tip)}"
        for server in self._here():
            if server.barriers:
                return f"server {server.id} does not answer barrier {min(server.barriers)} ({self._states()})"
        return None

    def _idle_ms(self) -> int:
        """Return the time for which all servers that are not away have served under one leader and been idle."""
        leader, now = self.world.leader(self._here()), self.world.now
        if leader is None or not all(self._is_idle(server, leader) for server in self._here()):
            self._idle_since = 0
            return 0
        self._idle_since = self._idle_since or now
        return int(now - self._idle_since) // 1_000

    def _is_idle(self, server: Server, leader: Server) -> bool:
        if server.id not in leader.node.ensemble.by_id:
            return True
        return (
            server.node.serving
            and server.node.leader == leader.id
            and server.writer.idle
            and (server is leader or bool(self.world.network.is_quiet(server, leader)))
        )
