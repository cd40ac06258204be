"""The simulator of cores: a heap of virtual time, whose events drive the servers.

A run takes events off the heap in the order of their times, and events of equal time in the order of their insertion.
Nothing else decides an order: no code iterates a set or uses a hash or an address, and all random numbers come from
generators that are seeded by the script, one for each server and purpose.

Each system under test has a simulator that derives from `Simulator`. It names its parts (server, network, nemesis,
workload, liveness) and adds the state that these parts share.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from heapq import heappop
from random import Random
from typing import Any, ClassVar, Final

from harness.budgets import COMMITTED, MESSAGES, SYNCS
from harness.checkers import ALL, Checker, Violation
from harness.checkers.service import NoCrash
from harness.faults import Script
from harness.outcome import Outcome
from harness.watchdog import RunAway
from harness.worlds.common import Budget, BudgetExceeded, Common, violation_of
from harness.worlds.cores.network import Network
from harness.worlds.disks import Crashed, lose
from zab.core.messages import State
from zab.core.ready import Note

EVENTS_MAX: Final = 300_000
"""The budget of a run. A run that exceeds it ends, and its verdict is unknown."""


class Simulator(Common):
    network_type: ClassVar[Any] = Network
    network: Network
    now: int = 0

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        super().__init__(script, trace=trace, checkers=checkers)
        timing = script.timing
        self.fsync_min = timing.fsync_us_min
        self.fsync_span = max(1, timing.fsync_us_max - timing.fsync_us_min)
        self.turn_max = timing.turn_us_max
        self.act = self.nemesis.act
        self.acknowledged = self.workload.write_acknowledged

    def _open_network(self) -> None:
        self.network = self.network_type(self, self.script.timing, self.servers, str(self.script.seed))

    # -- the run ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run to the end, or to the first violation. The garbage collector is off, because a run makes few cycles."""
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
                            budget.check(events, self.now)
                            until = budget.until
                except Crashed as crash:
                    self.crashed(crash)
        except RunAway as away:
            self.violated(Violation(NoCrash.invariant, str(away)))
        except BudgetExceeded as spent:
            self.give_up(spent)
        except Violation as violation:
            self.violated(violation)
        except Exception as error:
            self.violated(violation_of(error))
        self.events, self.messages = events, self.network.messages

    def fsync_us(self, random: Random, times: int = 1) -> int:
        """Draw the duration of an fsync; `times` is its spread."""
        return self.fsync_min + int(random.random() * self.fsync_span * times)

    # -- processes -------------------------------------------------------------------------------------

    def start(self, server: Any, life: int) -> None:
        if server.up or server.life != life:
            return
        try:
            started, wait_ms = server.start(), 50
        except Crashed as crash:
            lose(server.disk, crash.loss, server.random.randrange)
            started, wait_ms = False, crash.down_ms
        if not started:
            self.push(self.now + wait_ms * 1_000, self.start, server, server.life)

    def restart(self, server: Any, down_ms: int) -> None:
        """End a server in good order, and start it again after a downtime."""
        if server.up:
            self.counted("restart")
            server.end()
            self.push(self.now + down_ms * 1_000, self.start, server, server.life)

    # -- observations ----------------------------------------------------------------------------------

    def _observe(self, _: object, __: object) -> None:
        """Report the voters from which a leader has received nothing for longer than it may lead without them."""
        for server in self.servers[1:]:
            settings = server.settings
            limit = (settings.init_ms + 2 * settings.sync_ms + 4 * settings.tick_ms) * 1_000
            if server.up and not server.paused and server.clock.plain and server.node.state is State.LEADING:
                since = max(server.resumed_at, 0)
                silent = [
                    sid
                    for sid in server.node.ensemble.voters
                    if sid != server.id and self.now - max(server.last_received_at.get(sid, 0), since) > limit
                ]
                self.judge.observed(server.id, silent)
        self.push(self.now + self.settings.sync_ms * 1_000, self._observe, None, None)

    def noted(self, server: Any, note: Note) -> None:
        super().noted(server, note)
        if note.event == "learner_dropped":
            sync_ms = server.settings.sync_ms if server.clock.plain else 0
            learner: Any = dict(note.fields)["peer"]
            self.judge.dropped(server.id, learner, sync_ms)

    def spent(self) -> dict[str, int]:
        calls = [server.disk.counts for server in self.servers[1:]]
        syncs = sum(counts.get("sync", 0) + counts.get("sync_dir", 0) for counts in calls)
        if any(drawn.name == "snapshot_sync_bytes" for drawn in self.script.constants):
            syncs = 0  # a snapshot is synced after every few bytes, so the number of syncs has no bound
        return {**super().spent(), MESSAGES: self.network.messages, SYNCS: syncs, COMMITTED: len(self.ghost.canon)}
