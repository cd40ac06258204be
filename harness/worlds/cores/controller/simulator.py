"""The simulator of brokers that are clients of a store, one of which is the controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from attrs import define

from harness.checkers import ALL, Checker
from harness.faults import Script, StrikeWrite
from harness.history import Request
from harness.worlds.controller.settled import ControllerCluster
from harness.worlds.cores.controller.nodes import NodesClient
from harness.worlds.cores.store.simulator import StoreSimulator

_WRITES: Final = frozenset({"multi", "create", "set", "delete"})


@define
class ArmedStrike:
    op: StrikeWrite
    aims_at: Callable[[int], bool]
    """Returns whether writes of the broker with this number count now."""
    left: int
    """The number of writes up to the one that is struck."""


class WriteStrikes:
    """The faults that strike at the n-th write of a broker to the store.

    A write counts when the client of the broker sends it. A struck client stops at once, before or after this write: it
    sends no later write of the same step, and receives no reply. The fault of the process follows in an event of its
    own, because the procedure that writes is still on the stack.
    """

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


class ControllerSimulator(ControllerCluster, StoreSimulator):
    broker_type: ClassVar[Any]

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.strikes = WriteStrikes()
        super().__init__(script, trace=trace, checkers=checkers)

    def make_broker(self, number: int) -> Any:
        return self.broker_type(self, number)

    def _prepare(self) -> None:
        super()._prepare()
        self.start_brokers()

    def _heal(self, _: object, __: object) -> None:
        self.strikes.disarm()
        super()._heal(_, __)

    def new_client(self, on_watch_event: Callable[[str], None], on_session_event: Callable[[str], None]) -> NodesClient:
        number = max(self.workload.clients, default=0) + 1
        client = self.workload.clients[number] = NodesClient(self, number, on_watch_event, on_session_event)
        return client
