"""Members on virtual time, and one heap of everything that is not their own: deliveries, faults, workload.

The nemesis, the workload and the oracle of liveness are those of the cores world: they ask little of a world,
and what they ask is here under the same names.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final, cast

import trio
import trio.testing

from harness import worlds
from harness.availability import Availability
from harness.checkers import ALL, Checker, Ghost, Judge, Violation
from harness.checkers.service import NoCrash
from harness.faults import (
    Barrier,
    Clog,
    Crash,
    CrashAll,
    CutLinks,
    Deaf,
    FailDisk,
    Isolate,
    LoseDisk,
    OneWay,
    Partition,
    Script,
    SlowDisk,
    Snapshot,
    Write,
)
from harness.outcome import Outcome
from harness.trace import Trace
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.workload import Workload, member
from harness.worlds.cores.world import settings_of
from harness.worlds.stack.network import Net
from harness.worlds.stack.requests import Requests
from harness.worlds.stack.scheduler import ordered_by
from harness.worlds.stack.server import Life, Server
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import StorageError
from zab.core.messages import State
from zab.core.ready import Note
from zab.core.zxid import Millis, ServerId
from zab.runtime.doorbell import Doorbell
from zab.runtime.errors import Stopped

STEPS_MAX: Final = 300_000
"""A run that needs more turns and deliveries is stuck in a loop without time going on."""

CAN: Final = (
    Partition, Isolate, OneWay, Deaf, Clog, CutLinks, Crash, CrashAll, LoseDisk, FailDisk, SlowDisk,
    Write, Barrier, Snapshot,
)  # fmt: skip
"""What this world can do. Flaky needs an election channel that loses words, and here it is a stream; Pause a process
that stands still, and here is one for all; CrashIn and When name moments between acts that only the cores world has;
FlipBit may hit the file that says whose disk it is; Reconfigure needs servers that join."""


class EveryWorkload(Workload):
    """Whoever runs is asked now and then, not only who leads: members bring requests to their leader."""

    def believers(self) -> list[CoreServer]:
        running = self._world.running()
        leaders = super().believers()
        other = running[self._number % len(running)] if running else None
        return leaders if other is None or other in leaders else [*leaders, other]


class World:
    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.script = script
        self.trace = Trace() if trace else None
        self.settings = settings_of(script)
        self.over = False
        self.events = 0
        self.messages = 0
        self.counts: dict[str, int] = {}
        self.violation: Violation | None = None
        self.failure: BaseException | None = None
        self._heap: list[tuple[int, int, Callable[[Any, Any], None], Any, Any]] = []
        self._serial = count(1)
        self._bell = Doorbell()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery
        self._ended_at = 0
        founders = [
            member(ServerId(sid), Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER)
            for sid in range(1, script.servers + 1)
        ]
        ensemble = Ensemble(tuple(founders))
        seed = str(script.seed)
        self.ghost = Ghost(ensemble, script.servers)
        self.availability = Availability(self.ghost, lambda: self.now)
        self.judge = Judge(self.ghost, checkers, self.availability.looked)
        self.requests = Requests()
        self.network = Net(self, script.timing, script.servers, seed)
        self.servers = [Server(self, ServerId(sid), ensemble, seed) for sid in range(script.servers + 1)]
        """By id; nobody has id 0."""
        self.servers[0].founded = False
        same: Any = self
        self.nemesis = Nemesis(same)
        self.workload = EveryWorkload(same)
        self.liveness = Liveness(same)

    @staticmethod
    def as_core(server: Server) -> CoreServer:
        """To those who know the servers of the cores world, and ask of them what ours have, too."""
        return cast(CoreServer, server)

    # -- time ------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Microseconds."""
        return self._ended_at if self.over else round(trio.current_time() * 1e6)

    @property
    def now_ms(self) -> Millis:
        return self.now // 1_000

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        heappush(self._heap, (at, next(self._serial), act, one, other))
        if self._heap[0][0] == at:
            self._bell.ring()

    def push_fault_end(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        """The end of a fault. When everything is healed before, it does not come any more."""
        self.push(at, self._end_fault, act, (one, other))

    def _end_fault(self, act: Callable[[Any, Any], None], what: tuple[Any, Any]) -> None:
        if not self.liveness.began:
            act(*what)

    # -- the run ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """To the end, or to the first broken promise."""
        collecting = gc.isenabled()
        gc.disable()  # what it would close, it would close whenever memory says so
        logger = logging.getLogger("zab")
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            with ordered_by(str(self.script.seed)):
                trio.run(self._main, clock=trio.testing.MockClock(autojump_threshold=0))
        finally:
            logger.setLevel(level)
            if collecting:
                gc.enable()
        if self.failure is not None:
            self.failure.add_note(f"seed {self.script.seed}, {self.script.voters} voters, at {self.now_ms} ms")
            raise self.failure
        broken = self.violation
        return Outcome(
            script=self.script,
            promise=None if broken is None else broken.promise,
            what="" if broken is None else broken.what,
            at_ms=self.now_ms,
            events=self.events,
            simulated_ms=self.now_ms,
            committed=len(self.ghost.canon) - 1,
            acknowledged=self.workload.acknowledged,
            elections=len(self.ghost.ruler),
            recovered_ms=self.liveness.took_ms,
            counts=tuple(sorted(self.counts.items())),
            messages=self.messages,
            strikes=self.availability.strikes(),
            outages=self.availability.outages(),
            trace=self.trace,
        )

    async def _main(self) -> None:
        script = self.script
        for server in self.servers[1:]:
            self.push(int(server.random.random() * 5_000), self.start, server, server.life)
        for op in script.ops:
            self.push(op.at * 1_000, self.workload.perform, op, None)
        for fault in script.faults:
            self.push(fault.at * 1_000, self.nemesis.strike, fault, None)
        self.push(script.length_ms * 1_000, self._heal, None, None)
        with self._scope:
            async with trio.open_nursery() as self._nursery:
                for server in self.servers[1:]:
                    self._nursery.start_soon(server.live)
                await self._pump()

    async def _pump(self) -> None:
        heap = self._heap
        while True:
            with trio.CancelScope(deadline=heap[0][0] / 1e6 if heap else inf):
                await self._bell.wait()
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                while not self.over and heap and heap[0][0] <= self.now:
                    _, _, act, one, other = heappop(heap)
                    self.step()
                    act(one, other)
            except Violation as violation:
                self.violated(violation)
            except Exception as error:  # a mistake of the harness itself: it must be possible to see it again
                self.failure = error
                self.stop()

    def _heal(self, _: object, __: object) -> None:
        self.liveness.begin()

    def step(self) -> None:
        self.events += 1
        if self.events > STEPS_MAX:
            raise Violation(NoCrash.promise, f"{self.events} steps, and no end")

    def violated(self, violation: Violation) -> None:
        if self.violation is None and not self.over:
            self.violation = violation
            self.record(0, "violation", 0, str(violation))
        self.stop()

    def stop(self) -> None:
        if not self.over:
            self._ended_at = self.now
            self.over = True
            self._scope.cancel()

    # -- who is there ----------------------------------------------------------------------------------

    def running(self) -> list[Server]:
        return [server for server in self.servers if server.up]

    def leader(self) -> Server | None:
        """Who leads, of several that believe so the one of the newest epoch, and rather one that serves."""
        leading = [server for server in self.running() if server.node.state is State.LEADING]
        return max(leading, key=lambda server: (server.node.serving, server.node.epoch), default=None)

    # -- processes -------------------------------------------------------------------------------------

    def start(self, server: Server, life: int) -> None:
        if not server.up and server.life == life and not server.starting:
            server.start()

    def revive(self, server: Server) -> None:
        self.push(self.now + 1 + int(server.random.random() * 2_000), self.start, server, server.life)

    def crash(self, server: Server, loss: str, down_ms: int) -> None:
        if server.up:
            self.counted("crash")
            server.crash(loss)
            self.push(self.now + down_ms * 1_000, self.start, server, server.life)

    def crash_all(self, loss: str, down_ms: int) -> None:
        for server in self.servers[1:]:
            # Not all at one moment again: who comes back first is chance.
            self.crash(server, loss, down_ms + int(server.random.random() * 50))

    def disk_failed(self, server: Server, error: StorageError) -> None:
        """The disk of a running server failed. It stops; that is all it may do."""
        if not self.nemesis.excuses(self.as_core(server)):
            self.fell(server, "uses its disk", error)
        self.record(server.id, "stops", 0, str(error))
        self.counted("disk failed")
        self.nemesis.disk_failed(self.as_core(server))

    def fell(self, server: Server, doing: str, error: Exception) -> None:
        if isinstance(error, Violation):
            raise error
        self.judge.failed(server.id, doing, error)

    def spawn(self, life: Life) -> None:
        self._nursery.start_soon(self._snapshot, life)

    async def _snapshot(self, life: Life) -> None:
        with suppress(Stopped):
            await life.member.take_snapshot()

    # -- looking on ------------------------------------------------------------------------------------

    def noted(self, server: Server, note: Note) -> None:
        self.record(server.id, "notes", 0, note)
        self.counted(note.event)
        if note.event == "synchronize":
            self.counted(f"sync {dict(note.fields)['form']}")
        elif note.event in ("protocol_error", "diverged", "history_distrusted"):
            self.judge.failed(server.id, note.event, AssertionError(dict(note.fields)))

    def counted(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        if self.trace is not None and not self.over:
            self.trace.acts.append((self.now, server, verb, other, what))


def run(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> Outcome:
    """What this world cannot do is left out of the script: see `World.playable`."""
    return World(WORLD.playable(script).script, trace=trace, checkers=checkers).run()


WORLD: Final = worlds.World("stack", "whole members on virtual time", lambda item: isinstance(item, CAN), run)
