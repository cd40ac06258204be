"""The connections by which a broker fetches from leaders. Each leader has one task, with at most one request in flight.

The core decides what to request and how a response is handled (`replica.core.fetching.replica_fetcher_manager`). If a
connection breaks, or a request is abandoned, the core begins a new fetch session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio
from attrs import frozen

from kraft_controller.core.names import BrokerEpoch, BrokerId
from replica.core.errors import KafkaError, WireError
from replica.core.replica_manager import ReplicaManager
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings, Unreachable
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.replication.leader_requests import send_request
from zab.core.addresses import with_port
from zab.net.wakeup import Wakeup

EXPECTED: Final = (Unreachable, KafkaError, WireError, OSError, trio.BrokenResourceError)
"""Errors of a leader that is unreachable or stops, or whose response cannot be used."""


class AddressUnknown(Unreachable):
    """The leader's address is unknown, for example at the broker's start: LeaderAndIsr precedes UpdateMetadata."""


@frozen
class FetcherSettings:
    """connect_s        the timeout of a connection attempt
    answer_s         `replica.socket.timeout.ms`: the timeout of a response, in addition to the maximum wait of the
                     request
    reply_bytes_max  the limit of one response, which may exceed the requested size, because batches are sent whole
    pause_s          the longest pause after a failed connection attempt or request
    """

    connect_s: float = 5.0
    answer_s: float = 30.0
    reply_bytes_max: int = 256 * 1024 * 1024
    pause_s: float = 0.2


class FetcherTasks:
    """Fetches from every leader that the core names.

    address   returns the inter-broker address of a broker; None if it is unknown
    turn      called after each response, to execute the effects of the core
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        epoch: Callable[[], BrokerEpoch],
        address: Callable[[BrokerId], tuple[str, int] | None],
        now: Callable[[], int],
        turn: Callable[[], None],
        log: Log,
        settings: FetcherSettings | None = None,
        between: InterBrokerClients | None = None,
    ) -> None:
        self.settings = settings or FetcherSettings()
        self._replicas = replicas
        self._epoch = epoch
        self._address = address
        self._now = now
        self._turn = turn
        self._log = log
        self._between = between or InterBrokerClients()
        self._wakeups: dict[BrokerId, Wakeup] = {}
        """The wakeup of each leader's task."""
        self._under_way: dict[BrokerId, trio.CancelScope] = {}
        """The cancel scopes of the requests in flight."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                for leader in self._replicas.fetchers.leaders:
                    self.wake(leader)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def wake(self, leader: BrokerId) -> None:
        """Let the leader's task check for a new request. Start the task if there is none."""
        if leader in self._wakeups:
            self._wakeups[leader].ring()
            self._interrupt(leader)
        elif self._nursery is not None and leader in self._replicas.fetchers.leaders:
            self._wakeups[leader] = Wakeup()
            self._nursery.start_soon(self._follow, leader)

    def _interrupt(self, leader: BrokerId) -> None:
        """Abandon the fetch in flight, with its connection, if the core decides so: it omits a partition that can be
        fetched now."""
        scope = self._under_way.get(leader)
        if scope is not None and self._replicas.fetchers.interrupts(leader, self._now()):
            scope.cancel()

    async def _follow(self, leader: BrokerId) -> None:
        """Fetch from a leader while this broker follows it in some partition."""
        connection: BrokerConnection | None = None
        try:
            while leader in self._replicas.fetchers.leaders:
                self._wakeups[leader].answer()
                request = self._replicas.fetchers.next_request(leader, self._epoch(), self._now())
                if request is None:
                    await self._rest(leader)
                    continue
                try:
                    if connection is None:
                        connection = await self._dial(leader)
                    answers = None
                    with trio.CancelScope() as scope:
                        self._under_way[leader] = scope
                        answers = await send_request(connection, request, self._replicas.me)
                except EXPECTED as error:
                    usual = isinstance(error, AddressUnknown)
                    level = logging.INFO if usual else logging.WARNING
                    self._log.warn_rate_limited("leader_unreachable", (leader, usual), level, leader=leader, why=error)
                    self._replicas.fetchers.failed(request, self._now())
                    if connection is not None:
                        await connection.aclose()
                        connection = None
                    with trio.move_on_after(self.settings.pause_s):
                        await self._wakeups[leader].wait()
                    continue
                finally:
                    self._under_way.pop(leader, None)
                if answers is None:  # the fetch was abandoned
                    await connection.aclose()
                    connection = None
                    continue
                try:
                    self._replicas.fetchers.answered(request, answers, self._now())
                except Exception as error:
                    self._log.failed("fetch_response_failed", error, leader=leader)
                    self._replicas.fetchers.failed(request, self._now())
                self._turn()
        finally:
            del self._wakeups[leader]
            if connection is not None:
                with trio.CancelScope(shield=True):
                    await connection.aclose()

    async def _rest(self, leader: BrokerId) -> None:
        now = self._now()
        resume = self._replicas.fetchers.resume_at(leader, now)
        with trio.move_on_after(float("inf") if resume is None else max(resume - now, 1) / 1000):
            await self._wakeups[leader].wait()

    async def _dial(self, leader: BrokerId) -> BrokerConnection:
        address = self._address(leader)
        if address is None:
            raise AddressUnknown(f"the address of broker {leader} is not known yet")
        with trio.move_on_after(self.settings.connect_s):
            wait_s = self._replicas.settings.fetch_wait_ms / 1000
            settings = ClientSettings(
                client_id=f"broker-{self._replicas.me}-fetcher",
                request_s=self.settings.answer_s + wait_s,
                reply_bytes_max=self.settings.reply_bytes_max,
            )
            return await self._between.connection(address, settings)
        raise Unreachable(f"{with_port(*address)}: no connection within {self.settings.connect_s} s")
