"""The time of the node's next tick, kept by one sleeping task.

A timeout around each wait for a turn would cost a tenth of the turn. So one task sleeps until the deadline. A turn that
makes the node's deadline earlier only moves the deadline of that task's cancel scope, and wakes no task.
"""

from __future__ import annotations

import trio

from zab.core.node import Node
from zab.core.zxid import Millis
from zab.host.clocks import now_ms
from zab.net.wakeup import Wakeup


def _trio_time(deadline: Millis) -> float:
    """Return the deadline on Trio's clock.

    Half a millisecond is added, so that the clock in whole milliseconds has reached the deadline when the alarm rings.
    """
    return (deadline + 0.5) / 1000


class DeadlineAlarm:
    """Rings the wakeup when the node's deadline has come."""

    def __init__(self, node: Node, wakeup: Wakeup) -> None:
        self.at: Millis = node.deadline
        """The time at which `run` wakes next. Between turns it is never later than the node's deadline."""
        self._node = node
        self._wakeup = wakeup
        self._scope = trio.CancelScope()
        """The scope in which `run` sleeps until `at`."""

    async def run(self) -> None:
        """Ring at each deadline, until cancelled."""
        node = self._node
        while True:
            self.at = node.deadline
            with trio.CancelScope(deadline=_trio_time(self.at)) as self._scope:
                await trio.sleep_forever()
            if now_ms() >= node.deadline:
                self._wakeup.ring()
                await trio.sleep(0.001)  # let the turn run, because it moves the deadline

    def advance(self) -> None:
        """Ring earlier if the node's deadline is earlier now."""
        deadline = self._node.deadline
        if deadline < self.at:
            self.at = deadline
            self._scope.deadline = _trio_time(deadline)
