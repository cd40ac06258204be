"""The minority that is away in the quiet stage: when the faults end, at first only a quorum of the servers is healed.

The script says whether there is a quiet stage. Its seed draws the servers of the minority, and when they go: at once,
or after a short load that ends at that moment. The rest is a quorum of every membership. So the recovery of the rest
must not depend on a server that is away, and no later write frees a stuck request.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from harness.worlds.cores.inject_disk import can_spare
from harness.worlds.cores.simulator import Simulator
from zab.core.learner.learner_synchronization import LearnerSynchronization

DOWN: Final = 1
"""The value of `quiet_stage` with which the minority is down; otherwise it is cut off."""
AT_ONCE_SHARE: Final = 0.35
"""The share of runs in which the minority goes at once, without a load."""
RESTART_SHARE: Final = 0.7
"""The share of runs with a load in which a follower restarts. The minority may go during its synchronization."""
WAIT_MS_MAX: Final = 150
"""The longest time from the end of the faults to the moment at which the minority goes."""
CHECK_US: Final = 1_000
"""The period of the check whether the minority goes."""
LOAD_MS_MAX: Final = 15
"""The longest time between two writes of the load."""
LEADER_SHARE: Final = 0.3
"""The share of runs in which the leader goes first."""
FAVOURITE_SHARE: Final = 0.3
"""The share of runs in which the server that an election favours goes first."""
NEEDED_SHARE: Final = 0.8
"""The share of runs in which a leader and the followers that it synchronizes go last, so that it needs them."""
SYNCHRONIZES: Final = LearnerSynchronization.name


class Minority:
    def __init__(self, world: Simulator) -> None:
        self.world: Any = world
        self.wanted = bool(world.script.knobs.quiet_stage) and world.has_quiet_stage
        self.servers: frozenset[int] = frozenset()
        """The ids of the servers that are away."""
        self._random = Random(f"{world.script.seed}/minority")
        self._cut: list[tuple[int, int]] = []
        self._until = self._period_us = self._load_at = 0
        self._restarts = self._on_return = False

    def go(self, load: Callable[[], None], gone: Callable[[], None]) -> None:
        """Take a minority away now or soon, and call `gone` then. Call `load` every few milliseconds until then."""
        random = self._random
        if random.random() < AT_ONCE_SHARE:
            self._take_away(gone)
            return
        share = random.random()
        self._period_us = CHECK_US * (2 + int(random.random() ** 2 * LOAD_MS_MAX))
        self._restarts = self._on_return = random.random() < RESTART_SHARE
        wait_ms = WAIT_MS_MAX if self._on_return else int(share * share * WAIT_MS_MAX)
        self._until = self.world.now + 1_000 * (1 + wait_ms)
        self._wait(load, gone)

    def _wait(self, load: Callable[[], None], gone: Callable[[], None]) -> None:
        world = self.world
        if world.now >= self._until or (self._on_return and self._returning() and self._random.random() < 0.4):
            load()  # its proposals have to commit without the minority
            self._take_away(gone)
            return
        if world.now >= self._load_at:
            load()
            self._load_at = world.now + self._period_us
        if self._restarts:
            self._restart_follower()
        world.push(world.now + CHECK_US, self._wait, load, gone)

    def _restart_follower(self) -> None:
        """Restart a follower, so that the quorum that stays depends on a server that has just come back."""
        world, leader = self.world, self.world.leader()
        if leader is None or not leader.node.serving:
            return
        followers = [each for each in world.running() if each.node.leader == leader.id and each is not leader]
        if followers:
            self._restarts = False
            world.restart(followers[int(self._random.random() * len(followers))], 1 + int(self._random.random() * 20))

    def _returning(self) -> list[int]:
        """Return the followers that a serving leader synchronizes at this moment."""
        leader = self.world.leader()
        if leader is None or not leader.node.serving:
            return []
        return [
            server.id
            for server in self.world.running()
            if server.node.leader == leader.id and server.node.phase == SYNCHRONIZES
        ]

    def _take_away(self, gone: Callable[[], None]) -> None:
        world, random = self.world, self._random
        away: list[Any] = []
        for server in self._in_order():
            if can_spare(world, *away, server):
                away.append(server)
        if away and random.random() < 0.3:
            del away[1 + int(random.random() * len(away)) :]
        self.servers = frozenset(server.id for server in away)
        down = world.script.knobs.quiet_stage == DOWN
        world.record(0, "minority", 0, f"{sorted(self.servers)} {'down' if down else 'cut off'}")
        world.counted("minority down" if down else "minority cut off")
        rest = [server.id for server in world.servers[1:] if server.id not in self.servers]
        self._cut = [pair for one in self.servers for other in rest for pair in ((one, other), (other, one))]
        for source, target in self._cut:
            world.network.block(source, target)
        for server in away:
            if down:
                world.crash(server, "keep" if random.random() < 0.5 else "lose", world.liveness.bound_ms)
        gone()

    def _in_order(self) -> list[Any]:
        """Return the servers in the order in which they may go: the last ones are needed by a quorum."""
        world, random = self.world, self._random
        servers = [server for server in world.servers[1:] if server.founded]
        random.shuffle(servers)
        share, leader, returning = random.random(), world.leader(), self._returning()
        if returning and random.random() < NEEDED_SHARE:
            servers.sort(key=lambda server: server is leader or server.id in returning)
        elif share < LEADER_SHARE:
            servers.sort(key=lambda server: server is not leader)
        elif share < LEADER_SHARE + FAVOURITE_SHARE:
            known = world.ghost.servers
            favourite = max(servers, key=lambda each: (known[each.id].current, known[each.id].tip, each.id))
            servers.sort(key=lambda server: server is not favourite)
        return servers

    def return_all(self) -> None:
        for source, target in self._cut:
            self.world.network.unblock(source, target)
        self._cut, self.servers = [], frozenset()
