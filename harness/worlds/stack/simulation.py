"""Virtual time for real drivers: Trio on a mock clock, and one heap of all events outside of members.

The nemesis, the workload and the liveness check are those of the simulator of cores. The methods that they call have
the same names here.
"""

from __future__ import annotations

import gc
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heappop
from math import inf
from typing import Any, Final

import trio

from harness.checkers import ALL, Checker, Violation
from harness.checkers.service import NoCrash
from harness.exceptions import interrupts_bare
from harness.faults import Script
from harness.outcome import Outcome
from harness.worlds.common import Budget, BudgetExceeded, Common, violation_of
from harness.worlds.stack.checked_machine import RequestCheck
from harness.worlds.stack.scheduler import TaskFreezer, ordered_by, virtual_clock
from zab.core.zxid import ServerId, Zxid
from zab.net.memory_network import MemoryNetwork
from zab.net.wakeup import Wakeup

STEPS_MAX: Final = 300_000
"""The budget of turns and deliveries. The verdict on a run that needs more is unknown."""
MISTAKES: Final = ("client_failed",)
"""The events that a server logs when its own code fails while it handles a client."""


class LogHandler(logging.Handler):
    def __init__(self, emit: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        self._emit(record)


@contextmanager
def redirected_log(name: str, level: int, emit: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    """Hand all records of this logger to `emit`, and to nothing else."""
    logger, listener = logging.getLogger(name), LogHandler(emit)
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


class Simulation(Common):
    """A run on virtual time. Subclasses create the servers."""

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        super().__init__(script, trace=trace, checkers=checkers)
        self.request_check = RequestCheck()
        self.freezer = TaskFreezer()
        self._budget = Budget(STEPS_MAX)
        self._wakeup = Wakeup()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery
        self._ended_at = 0

    def _open_network(self) -> None:
        self.network = MemoryNetwork(self, self.script.timing, len(self.servers) - 1, str(self.script.seed))

    # -- reports of servers ----------------------------------------------------------------------------

    @abstractmethod
    def life(self, server: Any) -> Any:
        """Return the next process of a server."""

    def jumped(self, server: ServerId, zxid: Zxid) -> None:
        """Note that a server continues from the state of a snapshot that it was sent."""

    def request_done(self, server: Any, request: bytes, result: object, error: Exception | None) -> None:
        """Report the outcome of a request at the server that submitted it."""
        if error is None and isinstance(result, int):
            self.workload.write_acknowledged(server, Zxid(result))

    # -- time ------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Return the virtual time in microseconds."""
        return self._ended_at if self.over else round(trio.current_time() * 1e6)

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        super().push(at, act, one, other)
        if self.heap[0][0] == at:
            self._wakeup.ring()

    def spawn(self, act: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run `act` in a task of its own, until the run is over."""
        self._nursery.start_soon(act, *arguments)

    # -- the run ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run to the end, or to the first violation."""
        with ExitStack() as stack:
            if gc.isenabled():
                gc.disable()  # it would close streams at moments that depend on memory
                stack.callback(gc.enable)
            stack.enter_context(redirected_log("zab", logging.ERROR, self._logged))
            stack.enter_context(ordered_by(str(self.script.seed)))
            stack.enter_context(interrupts_bare())
            clock = virtual_clock()
            # Ctrl-C is delivered between two steps: in one of the many destructors here it would be lost.
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
            self.violated(violation_of(error))

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
                self.violated(violation_of(error))

    def step(self) -> None:
        self.events += 1
        if self.events >= self._budget.until:
            try:
                self._budget.check(self.events, self.now)
            except BudgetExceeded as spent:
                self.give_up(spent)
            except Violation as violation:
                self.violated(violation)

    def _logged(self, record: logging.LogRecord) -> None:
        """Report the `MISTAKES` that a running server logs. Those of a server that is crashing do not count."""
        fields: Mapping[str, Any] | None = getattr(record, "fields", None)
        event = getattr(record, "event", None)
        if event in MISTAKES and fields is not None:
            server = self.servers[fields["server"]]
            if server.up:
                what = f"server {server.id} logs {event}: {fields.get('why', '')}"
                self.violated(Violation(NoCrash.invariant, what))

    def stop(self) -> None:
        if not self.over:
            self._ended_at = self.now
            self.over = True
            self.freezer.thaw_all()  # so that they can end
            self._scope.cancel()

    def saw(self, event: Any) -> bool:
        """Record an event of a client; return whether it belongs to the history: the run is not over."""
        if self.over:
            return False
        self.record(0, "client", event.client, event)
        return True
