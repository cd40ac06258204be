"""The heap of virtual time, and everything that lives on it.

A run takes events off the heap in the order of time, equal times in the order in which they were put there.
Nothing else decides an order: no set is iterated, no hash or address is looked at, and every chance comes
from generators that are seeded by the script, one for each server and purpose.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from heapq import heappop
from typing import Any, Final

from harness import worlds
from harness.budgets import COMMITTED, MESSAGES, SYNCS
from harness.checkers import ALL, Checker, Violation
from harness.checkers.service import NoCrash
from harness.faults import BROKER_OPS, JOINING, PARTITION_OPS, JoinGroup, Reconfigure, Script, Transact
from harness.members import with_server
from harness.outcome import Outcome
from harness.watchdog import RunAway
from harness.worlds.common import Budget, Common, TooLong, unexpected
from harness.worlds.cores.crashed import Crashed
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.network import Network
from harness.worlds.cores.server import Server
from harness.worlds.cores.workload import Workload, member
from harness.worlds.losses import lose
from zab.core.ensemble import Ensemble, Role
from zab.core.messages import State
from zab.core.zxid import ServerId

EVENTS_MAX = 300_000
"""A run that needs more is given up, undecided."""


class World(Common[Server]):
    now: int = 0

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        joining = [op.server for op in script.ops if isinstance(op, Reconfigure) and op.change in JOINING]
        total = max([script.servers, *joining])
        super().__init__(script, total, trace=trace, checkers=checkers)
        timing = script.timing
        self.fsync_min = timing.fsync_us_min
        self.fsync_span = max(1, timing.fsync_us_max - timing.fsync_us_min)
        self.turn_max = timing.turn_us_max
        seed = str(script.seed)
        self.servers = [self.make_server(ServerId(sid), seed) for sid in range(total + 1)]
        for server in self.servers[1 : script.servers + 1]:
            server.founded = True
        self.network = self.make_network(seed)
        self.nemesis = Nemesis(self)
        self.workload = self.make_workload()
        self.liveness = self.make_liveness()
        self.act = self.nemesis.act
        self.excuses = self.nemesis.excuses
        self.acknowledged = self.workload.told

    # What a world of another machine makes its own way.

    def make_server(self, sid: ServerId, seed: str) -> Server:
        return Server(self, sid, self.founders, seed)

    def make_network(self, seed: str) -> Network:
        return Network(self, self.script.timing, self.servers, seed)

    def make_workload(self) -> Workload:
        return Workload(self)

    def make_liveness(self) -> Liveness:
        return Liveness(self)

    # -- the run ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """To the end, or to the first broken promise. The cyclic collector sleeps: a run makes few cycles."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._prepare()
            self._loop()
            return self.outcome()
        finally:
            if collecting:
                gc.enable()

    def _prepare(self) -> None:
        for server in self.servers[1:]:
            if server.founded:
                self.push(int(server.random.random() * 5_000), self.start, server, server.life)
        self.push_script()
        self.push(self.settings.sync_ms * 1_000, self._observe, None, None)

    def _loop(self) -> None:
        heap, pop = self.heap, heappop
        events, budget = 0, Budget(EVENTS_MAX)
        until = budget.until
        try:
            while not self.over:
                try:
                    while not self.over:
                        self.now, _, act, one, other = pop(heap)
                        events += 1
                        act(one, other)
                        if events >= until:
                            budget.look(events, self.now)
                            until = budget.until
                except Crashed as crash:
                    self.crashed(crash)
        except RunAway as away:
            self.violated(Violation(NoCrash.promise, str(away)))
        except TooLong as spent:
            self.gave_up(spent)
        except Violation as violation:
            self.violated(violation)
        except Exception as error:
            self.violated(unexpected(error))
        self.events, self.messages = events, self.network.messages

    # -- processes -------------------------------------------------------------------------------------

    def crashed(self, crash: Crashed) -> None:
        """A fault has crashed a server in the middle of a turn."""
        if crash.everybody:
            self.crash_all(crash.loss, crash.down_ms)
        else:
            same: Any = crash.server
            self.crash(same, crash.loss, crash.down_ms)

    def counted_call(self, where: str) -> None:
        """Count a crash at a call to a disk, by the kind of the call: `where` is "before change 12, sync log.1"."""
        self.counted(f"crash {where.split(', ')[1].split(' ')[0]}")

    def join(self, sid: ServerId, ensemble: Ensemble) -> None:
        """A new server is started, to which its operator gave the members and itself as an observer."""
        server = self.servers[sid]
        if server.founded:
            return
        ensemble_of_file = with_server(ensemble, member(sid, Role.OBSERVER))
        assert ensemble_of_file is not None, "who only watches takes nobody's vote"
        server.ensemble = ensemble_of_file
        server.founded = True
        self.start(server, server.life)

    def start(self, server: Server, life: int) -> None:
        if server.up or server.life != life:
            return
        try:
            started, wait_ms = server.start(), 50
        except Crashed as crash:
            lose(server.disk, crash.loss, server.random.randrange)
            started, wait_ms = False, crash.down_ms
        if not started:
            self.push(self.now + wait_ms * 1_000, self.start, server, server.life)

    def restart(self, server: Server, down_ms: int) -> None:
        """As its operator does it: it ends in good order, and is started again."""
        if server.up:
            self.counted("restart")
            server.end()
            self.push(self.now + down_ms * 1_000, self.start, server, server.life)

    # -- looking on ------------------------------------------------------------------------------------

    def _observe(self, _: object, __: object) -> None:
        """Now and then: whom has a serving leader not heard for longer than it may lead without hearing anybody?"""
        for server in self.servers[1:]:
            settings = server.settings
            limit = (settings.init_ms + 2 * settings.sync_ms + 4 * settings.tick_ms) * 1_000
            if server.up and not server.paused and server.clock.plain and server.node.state is State.LEADING:
                since = max(server.resumed_at, 0)
                silent = [
                    sid
                    for sid in server.node.ensemble.voters
                    if sid != server.id and self.now - max(server.heard_at.get(sid, 0), since) > limit
                ]
                self.judge.observed(server.id, silent)
        self.push(self.now + self.settings.sync_ms * 1_000, self._observe, None, None)

    def spent(self) -> dict[str, int]:
        calls = [server.disk.counts for server in self.servers[1:]]
        syncs = sum(counts.get("sync", 0) + counts.get("sync_dir", 0) for counts in calls)
        return {**super().spent(), MESSAGES: self.network.messages, SYNCS: syncs, COMMITTED: len(self.ghost.canon)}

    def activated(self, server: Server, ensemble: Ensemble) -> None:
        self.counted("activated")


def run(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> Outcome:
    """Run a script without the items that this world cannot carry out: see `World.playable`."""
    return world_of(WORLD.playable(script).script, trace=trace, checkers=checkers).run()


def world_of(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> World:
    """Return the world of the machine that the script names. Others are not imported."""
    if script.machine == "list":
        return World(script, trace=trace, checkers=checkers)
    if script.machine == "controller":
        from harness.worlds.cores.controller.world import ControllerWorld

        return ControllerWorld(script, trace=trace, checkers=checkers)
    if script.machine == "partitions":
        from harness.worlds.cores.partitions.world import PartitionsWorld

        return PartitionsWorld(script, trace=trace, checkers=checkers)
    from harness.worlds.cores.store.world import StoreWorld

    return StoreWorld(script, trace=trace, checkers=checkers)


WORLD: Final = worlds.World(
    "cores",
    "the consensus cores alone, turned by hand",
    lambda item: (
        type(item) in Nemesis.STRIKES
        or type(item) in Workload.PERFORM
        or (
            isinstance(item, (*worlds.OF_CLIENTS, *BROKER_OPS, *PARTITION_OPS))
            and not isinstance(item, JoinGroup | Transact)  # they need threads and sockets, and a coordinator
        )
    ),
    run,
)
