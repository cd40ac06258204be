"""Members on virtual time, and one heap of everything that is not their own: deliveries, faults, workload.

The nemesis, the workload and the oracle of liveness are those of the cores world: they ask little of a world,
and what they ask is here under the same names.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from heapq import heappop
from math import inf
from typing import Any, Final, cast

import trio
import trio.testing

from harness import worlds
from harness.checkers import ALL, Checker, Violation
from harness.checkers.service import NoCrash
from harness.exceptions import interrupts_bare
from harness.faults import (
    BROKER_OPS,
    JOINING,
    AllowUnclean,
    Apart,
    Barrier,
    Blackout,
    BreakDisk,
    ClockSkew,
    ClockStep,
    ClockStrobe,
    Clog,
    Consume,
    Crash,
    CrashAll,
    CrashIn,
    CutBroker,
    CutLinks,
    Deaf,
    Delay,
    DeleteRecords,
    FailDisk,
    Fault,
    FlipBit,
    FullDisk,
    Isolate,
    LoseDisk,
    LoseFsync,
    LosePower,
    Loss,
    MisdirectRecord,
    OldDisk,
    OneWay,
    Op,
    PartBrokers,
    Partition,
    Pause,
    Produce,
    Reconfigure,
    Replication,
    Restart,
    RollingRestart,
    Script,
    Setting,
    SlowDisk,
    Snapshot,
    Split,
    Swizzle,
    Transact,
    When,
    WipeBroker,
    Write,
)
from harness.members import member, with_server
from harness.outcome import Outcome
from harness.worlds.common import Budget, Common, TooLong, unexpected
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.workload import Workload
from harness.worlds.disks import Crashed
from harness.worlds.stack.network import Net
from harness.worlds.stack.requests import Requests
from harness.worlds.stack.scheduler import StandStill, ordered_by
from harness.worlds.stack.server import Life, Server
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import Stopped, StorageError
from zab.core.zxid import ServerId, Zxid
from zab.net.wakeup import Wakeup

STEPS_MAX: Final = 300_000
"""A run that needs more turns and deliveries is given up, undecided."""

CAN: Final = (
    Partition, Split, Isolate, Apart, OneWay, Deaf, Clog, Swizzle, Delay, Loss, CutLinks,
    Crash, CrashAll, CrashIn, When, Pause, Restart, RollingRestart, Setting, ClockStep, ClockSkew, ClockStrobe,
    LoseDisk, OldDisk, FlipBit, MisdirectRecord, LoseFsync, FailDisk, FullDisk, SlowDisk,
    Write, Barrier, Snapshot, Reconfigure, *worlds.OF_CLIENTS, *BROKER_OPS,
    Produce, Consume, DeleteRecords, AllowUnclean, LosePower, Blackout, WipeBroker, BreakDisk, CutBroker, PartBrokers,
    Replication, Transact,
)  # fmt: skip
"""What this world can do, and what it means here.

Loss  Every channel is a stream here: what is lost is said again, and comes late.
Pause  Nothing reaches the server and nothing leaves it, and none of its tasks has a turn until the end. Trio's clock is
    one for all and goes on: what was to happen meanwhile is overdue then, all at once.
When, CrashIn  Words leave in the turn in which the node hands them out, and what is behind the moment in it does not.

And what it cannot: Flaky and Reorder need an election channel that loses words, and here it is a stream; DoubleLinks
and
Overflow act on words, and here are bytes; ClockDrift and ClockFreeze need a monotonic clock for each server.
"""


MISTAKES: Final = ("client_failed",)
"""What a server logs when code of its own stumbles over a client, whom it then lets go."""


class Listens(logging.Handler):
    def __init__(self, said: Callable[[str, Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "event") and hasattr(record, "fields"):
            self._said(record.event, record.fields)


def can(item: Fault | Op) -> bool:
    if isinstance(item, Produce) and item.acks == "none":
        return False
    if isinstance(item, CrashIn | LosePower) and item.calls:
        return False
    return isinstance(item, CAN) and not (isinstance(item, When) and item.does == "freeze clock")


class EveryWorkload(Workload):
    """Whoever runs is asked now and then, not only who leads: members bring requests to their leader."""

    def believers(self) -> list[CoreServer]:
        running = self.world.running()
        leaders = super().believers()
        other = running[self._number % len(running)] if running else None
        return leaders if other is None or other in leaders else [*leaders, other]


class World(Common[Server]):
    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        joining = [op.server for op in script.ops if isinstance(op, Reconfigure) and op.change in JOINING]
        total = max([script.servers, *joining])
        super().__init__(script, total, trace=trace, checkers=checkers)
        self._budget = Budget(STEPS_MAX)
        self._bell = Wakeup()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery
        self._ended_at = 0
        seed = str(script.seed)
        self.requests = Requests()
        self.network = Net(self, script.timing, total, seed)
        self.still = StandStill()
        self.servers = [Server(self, ServerId(sid), self.founders, seed) for sid in range(total + 1)]
        for server in self.servers[1 : script.servers + 1]:
            server.founded = True
        same: Any = self
        self.nemesis = Nemesis(same)
        self.workload = self.make_workload()
        self.liveness = self.make_liveness()

    def make_workload(self) -> Workload:
        same: Any = self
        return EveryWorkload(same)

    def make_liveness(self) -> Liveness:
        same: Any = self
        return Liveness(same)

    # -- what is replicated ----------------------------------------------------------------------------

    def life(self, server: Server) -> Life:
        return Life(server)

    def jumped(self, server: ServerId, zxid: Zxid) -> None:
        """It goes on with the state of a snapshot that it was sent."""

    def told(self, server: Server, request: bytes, result: object, error: Exception | None) -> None:
        """What became of a request, as the one that made it hears."""
        if error is None and isinstance(result, int):
            self.workload.told(self.as_core(server), Zxid(result))

    @staticmethod
    def as_core(server: Server) -> CoreServer:
        """To those who know the servers of the cores world, and ask of them what ours have, too."""
        return cast(CoreServer, server)

    # -- time ------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Microseconds."""
        return self._ended_at if self.over else round(trio.current_time() * 1e6)

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        super().push(at, act, one, other)
        if self.heap[0][0] == at:
            self._bell.ring()

    # -- the run ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """To the end, or to the first broken promise."""
        collecting = gc.isenabled()
        gc.disable()  # what it would close, it would close whenever memory says so
        logger, listens = logging.getLogger("zab"), Listens(self._said)
        level, propagates = logger.level, logger.propagate
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(listens)
        try:
            with ordered_by(str(self.script.seed)), interrupts_bare():
                clock = trio.testing.MockClock(autojump_threshold=0)
                # Between two steps: in a destructor, of which there are many here, an interruption would be lost.
                trio.run(self._main, clock=clock, restrict_keyboard_interrupt_to_checkpoints=True)
        finally:
            logger.removeHandler(listens)
            logger.propagate = propagates
            logger.setLevel(level)
            if collecting:
                gc.enable()
        return self.outcome()

    async def _main(self) -> None:
        for server in self.servers[1 : self.script.servers + 1]:
            self.push(int(server.random.random() * 5_000), self.start, server, server.life)
        self.push_script()
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    for server in self.servers[1:]:
                        self._nursery.start_soon(server.live)
                    await self._pump()
        except Exception as error:  # raised by a task of the nursery
            self.violated(unexpected(error))

    async def _pump(self) -> None:
        heap = self.heap
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
            except Exception as error:
                self.violated(unexpected(error))

    def step(self) -> None:
        self.events += 1
        if self.events >= self._budget.until:
            try:
                self._budget.look(self.events, self.now)
            except TooLong as spent:
                self.gave_up(spent)
            except Violation as violation:
                self.violated(violation)

    def _said(self, event: str, fields: Mapping[str, Any]) -> None:
        """What a server that is there says of its own mistakes. Of one that is being taken away it does not count."""
        server = self.servers[fields["server"]]
        if event in MISTAKES and server.up:
            self.violated(Violation(NoCrash.promise, f"server {server.id} says {event}: {fields.get('why', '')}"))

    def stop(self) -> None:
        if not self.over:
            self._ended_at = self.now
            self.over = True
            self.still.all_go_on()  # to their end
            self._scope.cancel()

    # -- processes -------------------------------------------------------------------------------------

    def start(self, server: Server, life: int) -> None:
        if not server.up and server.life == life and not server.starting:
            server.start()

    def join(self, sid: ServerId, ensemble: Ensemble) -> None:
        """A new server is started, to which its operator gave the members and itself as an observer."""
        server = self.servers[sid]
        if not server.founded:
            ensemble_of_file = with_server(ensemble, member(sid, Role.OBSERVER))
            assert ensemble_of_file is not None, "who only watches takes nobody's vote"
            server.ensemble = ensemble_of_file
            server.founded = True
            self.start(server, server.life)

    def restart(self, server: Server, down_ms: int) -> None:
        """It ends in good order, and is started again so long after that."""
        if server.up:
            self.counted("restart")

            def again() -> None:
                self.push(self.now + down_ms * 1_000, self.start, server, server.life + 1)

            server.stop(again)

    def crash_by(self, crash: Crashed, _: None) -> None:
        """An aimed fault has found its moment."""
        if crash.everybody:
            self.crash_all(crash.loss, crash.down_ms)
        else:
            same: Any = crash.server
            self.crash(same, crash.loss, crash.down_ms)

    def beside(self, act: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """At the same time as all else, until the run is over."""
        self._nursery.start_soon(act, *arguments)

    def spawn(self, life: Life) -> None:
        self.beside(self._snapshot, life)

    async def _snapshot(self, life: Life) -> None:
        with suppress(Stopped, StorageError):  # it has nothing to store before it is healed
            await life.member.take_snapshot()


def run(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> Outcome:
    """Run a script without the items that this world cannot carry out: see `World.playable`."""
    return world_of(WORLD.playable(script).script, trace=trace, checkers=checkers).run()


def world_of(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> World:
    """Of the machine that the script names."""
    if script.machine == "list":
        return World(script, trace=trace, checkers=checkers)
    if script.machine == "controller":
        from harness.worlds.stack.controller.world import ControllerWorld

        return ControllerWorld(script, trace=trace, checkers=checkers)
    if script.machine == "partitions":
        from harness.worlds.stack.brokers.world import BrokersWorld

        return BrokersWorld(script, trace=trace, checkers=checkers)
    from harness.worlds.stack.store.world import StoreWorld

    return StoreWorld(script, trace=trace, checkers=checkers)


WORLD: Final = worlds.World("stack", "whole members on virtual time", can, run)
