"""Virtual time for real drivers: Trio on a mock clock, and one heap of everything that is not a member's own.

The nemesis, the workload and the liveness checker are those of the simulator of cores. They ask little of a world, and
what they ask is here under the same names.
"""

from __future__ import annotations

import gc
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heappop
from math import inf
from typing import Any, Final, cast

import trio
import trio.testing

from harness.checkers import Checker, Violation
from harness.checkers.service import NoCrash
from harness.exceptions import interrupts_bare
from harness.faults import Script
from harness.outcome import Outcome
from harness.worlds.common import Budget, Common, TooLong, unexpected
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.disks import Crashed
from harness.worlds.stack.machine import Requests
from harness.worlds.stack.network import Net
from harness.worlds.stack.scheduler import StandStill, ordered_by
from zab.core.zxid import ServerId, Zxid
from zab.net.wakeup import Wakeup

STEPS_MAX: Final = 300_000
"""A run that needs more turns and deliveries ends, and its verdict is unknown."""
MISTAKES: Final = ("client_failed",)
"""Events that a server logs when its own code fails because of a client, which it then lets go."""


def as_core(server: Any) -> CoreServer:
    """Pass a server to code for the simulator of cores. It uses only what servers here have, too."""
    return cast(CoreServer, server)


class LogListener(logging.Handler):
    def __init__(self, emit: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        self._emit(record)


@contextmanager
def listening(name: str, level: int, emit: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    """Hand all records of this logger to `emit`, and to nothing else."""
    logger, listener = logging.getLogger(name), LogListener(emit)
    before = logger.level, logger.propagate
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.propagate = before[1]
        logger.setLevel(before[0])


class Simulation(Common[Any]):
    """A run on virtual time. Subclasses bring the servers."""

    def __init__(self, script: Script, servers: int, *, trace: bool, checkers: Sequence[type[Checker]]) -> None:
        super().__init__(script, servers, trace=trace, checkers=checkers)
        self.requests = Requests()
        self.network = Net(self, script.timing, servers, str(script.seed))
        self.still = StandStill()
        self._budget = Budget(STEPS_MAX)
        self._wakeup = Wakeup()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery
        self._ended_at = 0

    # -- what servers tell -----------------------------------------------------------------------------

    @abstractmethod
    def life(self, server: Any) -> Any:
        """Make the next process of a server."""

    def jumped(self, server: ServerId, zxid: Zxid) -> None:
        """The server goes on with the state of a snapshot that it was sent."""

    def told(self, server: Any, request: bytes, result: object, error: Exception | None) -> None:
        """The outcome of a request, as the server that submitted it learns it."""
        if error is None and isinstance(result, int):
            self.workload.told(as_core(server), Zxid(result))

    # -- time ------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Microseconds."""
        return self._ended_at if self.over else round(trio.current_time() * 1e6)

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        super().push(at, act, one, other)
        if self.heap[0][0] == at:
            self._wakeup.ring()

    def beside(self, act: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run at the same time as all else, until the run is over."""
        self._nursery.start_soon(act, *arguments)

    # -- the run ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run to the end, or to the first violation."""
        with ExitStack() as stack:
            if gc.isenabled():
                gc.disable()  # it would close things at moments that depend on memory
                stack.callback(gc.enable)
            stack.enter_context(listening("zab", logging.ERROR, self._logged))
            stack.enter_context(ordered_by(str(self.script.seed)))
            stack.enter_context(interrupts_bare())
            clock = trio.testing.MockClock(autojump_threshold=0)
            # Ctrl-C comes between two steps: in one of the many destructors here it would be lost.
            trio.run(self._main, clock=clock, restrict_keyboard_interrupt_to_checkpoints=True)
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
                await self._wakeup.wait()
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                while not self.over and heap and heap[0][0] <= self.now:
                    _, _, act, one, other = heappop(heap)
                    self.step()
                    act(one, other)
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

    def _logged(self, record: logging.LogRecord) -> None:
        """Report mistakes that a running server logs. Those of one that is being taken away do not count."""
        fields: Mapping[str, Any] | None = getattr(record, "fields", None)
        event = getattr(record, "event", None)
        if event in MISTAKES and fields is not None:
            server = self.servers[fields["server"]]
            if server.up:
                what = f"server {server.id} says {event}: {fields.get('why', '')}"
                self.violated(Violation(NoCrash.invariant, what))

    def stop(self) -> None:
        if not self.over:
            self._ended_at = self.now
            self.over = True
            self.still.all_go_on()  # to their end
            self._scope.cancel()

    def crash_by(self, crash: Crashed, _: None) -> None:
        """An aimed fault has found its moment."""
        if crash.everybody:
            self.crash_all(crash.loss, crash.down_ms)
        else:
            self.crash(crash.server, crash.loss, crash.down_ms)
