"""Decide which task runs a turn: the member's own, or one that is already awake and calls it.

A turn in the member's own task costs two passes of Trio's loop. The socket reader and the writer's report cause most
turns and run in the loop anyway, so they call the turn directly. Only a turn that has to wait needs the member's task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import trio

from zab.core.ready import Restore
from zab.core.zxid import Ticket
from zab.host.watchdog import STALL_S, Watchdog
from zab.net.wakeup import Wakeup
from zab.runtime.driver import Driver
from zab.runtime.snapshot_restorer import SnapshotRestorer
from zab.service.batch_applier import BatchApplier, Pause, TurnWait
from zab.service.forwarding.proposal_queue import ProposalQueue


class TurnRunner:
    """Runs the turns of one driver, one at a time. Any task of the loop may ask for a turn."""

    def __init__(
        self,
        driver: Driver,
        applier: BatchApplier,
        restorer: SnapshotRestorer,
        queue: ProposalQueue,
        wakeup: Wakeup,
        watchdog: Watchdog,
        clock: Callable[[], float],
        on_turn: Callable[[], None],
    ) -> None:
        self.turns = 0
        """The number of turns that were begun."""
        self.turning = False
        """True while a turn runs, False while it waits. `on_turn` is called when a turn ends or begins to wait."""
        self._driver = driver
        self._applier = applier
        self._restorer = restorer
        self._queue = queue
        self._wakeup = wakeup
        """Rung when there is input. `run` waits for it."""
        self._watchdog = watchdog
        self._clock = clock
        self._on_turn = on_turn
        self._waiting: tuple[Iterator[TurnWait], TurnWait] | None = None
        """A turn that waits, and its reason; None without one. No other turn begins before it has ended."""
        self._failure: Exception | None = None
        """The exception of a turn that `saved` ran, or None. `run` raises it."""

    async def run(self) -> None:
        """Until cancelled, run a turn whenever the wakeup is rung, and continue turns that wait."""
        wakeup = self._wakeup
        while True:
            await wakeup.wait()
            if self._failure is not None:
                raise self._failure
            if self._waiting is None:
                self.turn()
            while self._waiting is not None:
                steps, reason = self._waiting
                if isinstance(reason, Restore):
                    await self._restorer.restore_in_thread(reason)
                else:
                    await trio.lowlevel.checkpoint()
                self._continue(steps, self._clock())

    def turn(self) -> bool:
        """Run one turn in the calling task. Return False if it has to wait: then the caller must ring the wakeup."""
        assert self._waiting is None, "a turn that waits comes first"
        self.turns += 1
        started = self._clock()
        return self._continue(self._driver.turn(started), started)

    def saved(self, ticket: Ticket) -> None:
        """Record the writer's report, and run a turn at once in the caller's task. Called in the event loop.

        If `run` is not waiting for the wakeup, ring the wakeup instead: `run` then runs the next turn.
        """
        self._driver.saved(ticket)
        wakeup = self._wakeup
        if not wakeup.hold():
            wakeup.ring()
            return
        try:
            if not self.turn():
                wakeup.ring()
        except Exception as error:  # `run` raises it, not the caller
            self._failure = error
            wakeup.ring()
        finally:
            wakeup.release()

    def _continue(self, steps: Iterator[TurnWait], started: float) -> bool:
        watchdog, queue, applier = self._watchdog, self._queue, self._applier
        stalls, applied, proposed = watchdog.stalls, applier.applied, queue.proposed
        self.turning = True
        self._waiting = None
        try:
            for reason in steps:
                if reason is Pause.TURN_AGAIN:
                    self._wakeup.ring()
                self._waiting = steps, reason
                break
        finally:
            # Reset this also after an exception, which ends the member: other tasks must not wait for this turn.
            self.turning = False
        self._on_turn()
        watchdog.turns += 1
        seconds = self._clock() - started
        if seconds > STALL_S and watchdog.stalls == stalls:  # otherwise a slow part was reported already
            watchdog.took(
                seconds,
                lambda: f"applying {applier.applied - applied} transactions, proposing {queue.proposed - proposed}",
            )
        return self._waiting is None
