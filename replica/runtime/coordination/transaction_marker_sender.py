"""The connections by which a coordinator sends markers. Each leader has one task, with at most one request in flight.

The core decides what a request contains and how a response is handled: see
`replica.core.transactions.transaction_marker_manager`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar

import trio
from attrs import frozen

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.core.transactions.transaction_effects import Marker, MarkerId
from replica.core.transactions.transaction_marker_manager import (
    MarkerResult,
    PartitionLeaders,
    TransactionMarkerManager,
)
from replica.runtime.coordination.write_txn_markers import answers_in, request_body
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import ClientSettings, Unreachable
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.wire.fields import Api
from replica.wire.schemas.transaction_schemas import WRITE_TXN_MARKERS
from zab.core.addresses import with_port
from zab.host.clocks import now_ms
from zab.net.wakeup import Wakeup

Q = TypeVar("Q")
R = TypeVar("R")

_EXPECTED: Final = (Unreachable, KafkaError, WireError, OSError, trio.BrokenResourceError)
"""Errors of an unreachable or stopping leader. Any other error is logged with a traceback, and also retried."""


@frozen
class MarkerSenderSettings:
    """connect_s  the timeout of a connection attempt
    answer_s   the timeout of a response, which comes after the markers are committed
    idle_s     the idle time after which a connection is closed
    """

    connect_s: float = 5.0
    answer_s: float = 60.0
    idle_s: float = 60.0


class LeaderConnection(Protocol):
    """A connection to a leader."""

    async def ask(self, api: Api[Q, R], body: Q) -> R: ...
    async def aclose(self) -> None: ...


class LeaderDialer(Protocol):
    """Opens connections to leaders."""

    async def connection(self, address: tuple[str, int], settings: ClientSettings) -> LeaderConnection: ...


class MarkerOwner(Protocol):
    """The coordinator that owns the markers."""

    def awaits_marker(self, number: MarkerId) -> bool: ...
    def marked(self, number: MarkerId, where: TopicPartition) -> None: ...
    def refused(self, number: MarkerId, where: TopicPartition, error: ErrorCode) -> None: ...


class TransactionMarkerSender:
    """Sends the requests of the `TransactionMarkerManager`, and reports each outcome to the owner.

    exists    returns whether the store has the partition; True while the store is unreachable
    address   returns the inter-broker address of a broker; None if it is unknown
    """

    def __init__(
        self,
        me: BrokerId,
        metadata: PartitionLeaders,
        exists: Callable[[TopicPartition], Awaitable[bool]],
        address: Callable[[BrokerId], tuple[str, int] | None],
        log: Log,
        between: LeaderDialer | None = None,
        settings: MarkerSenderSettings | None = None,
    ) -> None:
        self.settings = settings or MarkerSenderSettings()
        self._me = me
        self._exists = exists
        self._address = address
        self._log = log
        self._between: LeaderDialer = between or InterBrokerClients()
        self._manager = TransactionMarkerManager(metadata, self._awaits)
        self._wakeup = Wakeup()
        self._wakes_at = math.inf
        """The time at which `run` wakes by itself. `_wakeup` is rung only for an earlier time."""
        self._wakeups: dict[BrokerId, Wakeup] = {}
        """The wakeup of each leader's task."""
        self._owner: MarkerOwner | None = None
        self._nursery: trio.Nursery | None = None

    def __len__(self) -> int:
        """Return the number of markers that wait to be sent, or sent again, counted once for each partition."""
        return len(self._manager)

    def _awaits(self, number: MarkerId) -> bool:
        assert self._owner is not None
        return self._owner.awaits_marker(number)

    async def run(self, owner: MarkerOwner, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._owner = owner
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                self._wakeup.answer()
                self._wakes_at = self._manager.deadline
                with trio.move_on_after(max(self._wakes_at - now_ms(), 0) / 1000):
                    await self._wakeup.wait()
                if unknown := self._manager.tick(now_ms()):
                    self._nursery.start_soon(self._check, unknown)
                self._wake()

    def send(self, marker: Marker) -> None:
        self._manager.add(marker, now_ms())
        self._wake()

    def _wake(self) -> None:
        """Wake the tasks of leaders with markers, and `run` if its deadline is earlier now."""
        assert self._nursery is not None
        for leader in self._manager.leaders:
            wakeup = self._wakeups.get(leader)
            if wakeup is None:
                wakeup = self._wakeups[leader] = Wakeup()
                self._nursery.start_soon(self._serve, leader, wakeup)
            wakeup.ring()
        if self._manager.deadline < self._wakes_at:
            self._wakeup.ring()

    async def _check(self, unknown: Iterable[TopicPartition]) -> None:
        """Ask the store whether partitions that are missing in the metadata exist."""
        for where in unknown:
            if not await self._exists(where):
                for result in self._manager.deleted(where):
                    self._log.say("marker_of_deleted_topic", partition=where)
                    self._report(result)
        self._manager.checked(now_ms())
        self._wake()

    def _report(self, result: MarkerResult) -> None:
        assert self._owner is not None
        marker, where, error = result.marker, result.where, result.error
        if result.written:
            self._owner.marked(marker.number, where)
        elif result.refused:
            self._owner.refused(marker.number, where, error)
        else:
            self._log.warn_rate_limited("marker_write_failed", where, partition=where, id=marker.id, error=error.name)

    # -- one leader ------------------------------------------------------------------------------------------

    async def _serve(self, leader: BrokerId, wakeup: Wakeup) -> None:
        """Send requests to a leader. Return when no marker for the leader has arrived within `idle_s`."""
        connection: LeaderConnection | None = None
        try:
            while True:
                wakeup.answer()
                request = self._manager.next_request(leader)
                if request is None:
                    with trio.move_on_after(self.settings.idle_s):
                        await wakeup.wait()
                    if leader not in self._manager.leaders:
                        return
                    continue
                results: list[MarkerResult] = []
                try:
                    if connection is None:
                        connection = await self._dial(leader)
                    response = await connection.ask(WRITE_TXN_MARKERS, request_body(request))
                    results = self._manager.answered(request, answers_in(response), now_ms())
                except Exception as error:
                    if isinstance(error, _EXPECTED):
                        self._log.warn_rate_limited("marker_write_failed", leader, leader=leader, why=error)
                    else:
                        self._log.failed("marker_write_failed", error, leader=leader)
                    self._manager.failed(request, now_ms())
                    if connection is not None:
                        await connection.aclose()
                        connection = None
                for result in results:
                    self._report(result)
                self._wake()
        finally:
            del self._wakeups[leader]
            if connection is not None:
                with trio.CancelScope(shield=True):
                    await connection.aclose()

    async def _dial(self, leader: BrokerId) -> LeaderConnection:
        address = self._address(leader)
        if address is None:
            raise Unreachable(f"the address of broker {leader} is unknown")
        with trio.move_on_after(self.settings.connect_s):
            settings = ClientSettings(f"broker-{self._me}-transactions", request_s=self.settings.answer_s)
            return await self._between.connection(address, settings)
        raise Unreachable(f"{with_port(*address)}: no connection within {self.settings.connect_s} s")
