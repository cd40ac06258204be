"""Faults that strike at the n-th write of a broker to the store.

A write counts when the client of the broker sends it. A struck client stops at once, before or after this write: it
sends no later write of the same step, and receives no reply. The fault of the process follows in an event of its own,
because the procedure that writes is still on the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define

from harness.faults import StrikeWrite
from harness.history import Request

_WRITES: Final = frozenset({"multi", "create", "set", "delete"})


@define
class ArmedStrike:
    op: StrikeWrite
    aims_at: Callable[[int], bool]
    """Returns whether writes of the broker with this number count now."""
    left: int
    """The number of writes up to the one that is struck."""


class WriteStrikes:
    def __init__(self) -> None:
        self._armed: list[ArmedStrike] = []

    def arm(self, op: StrikeWrite, aims_at: Callable[[int], bool]) -> None:
        self._armed.append(ArmedStrike(op, aims_at, op.nth))

    def disarm(self) -> None:
        self._armed.clear()

    def due(self, broker: int, request: Request) -> StrikeWrite | None:
        """Count a request that this broker is about to send, and return the strike that is due at it."""
        if not self._armed or request.op not in _WRITES:
            return None
        due: StrikeWrite | None = None
        for strike in [strike for strike in self._armed if strike.aims_at(broker)]:
            strike.left -= 1
            if strike.left <= 0:
                due = due or strike.op
                self._armed.remove(strike)
        return due
