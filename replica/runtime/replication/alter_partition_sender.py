"""Writes ISR changes to the store, reads ISRs after a conflict or an unknown outcome, and notifies the controller.

The core decides what to send: see `replica.core.alter_partition_manager`.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from attrs import frozen

import zab
from kraft_controller.core.names import TopicPartition
from kraft_controller.runtime.store_session import StoreSession
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode
from replica.core.alter_partition_manager import AlterPartitionManager
from replica.core.replica_messages import ReadIsr, WriteIsr
from replica.runtime.logs import Log
from replica.wire.isr_requests import ISR_CHANGE_NOTICE, read_isr, write_isr
from zab.net.wakeup import Wakeup


@frozen
class AlterPartitionPace:
    """notices_s    the pause between checks for ISR changes to report to the controller
    store_s      the pause after a failed request to the store
    writes_max   the maximum number of concurrent requests to the store
    """

    notices_s: float = 2.5
    store_s: float = 0.5
    writes_max: int = 64


class AlterPartitionSender:
    """Sends the requests of one `AlterPartitionManager` to the store, for many partitions concurrently."""

    def __init__(
        self,
        core: AlterPartitionManager,
        session: Callable[[], zab.Session | None],
        now: Callable[[], int],
        turn: Callable[[], None],
        log: Log,
        pace: AlterPartitionPace,
    ) -> None:
        self._core = core
        self._session = session
        """Returns the current session; None if there is none."""
        self._now = now
        self._turn = turn
        """Runs a turn of the core, after an outcome was reported to it."""
        self._log = log
        self._pace = pace
        self._queued: dict[TopicPartition, WriteIsr | ReadIsr] = {}
        """The requests to send. The core makes the next one of a partition after the outcome of the last one."""
        self._wakeup = Wakeup()

    def send(self, request: WriteIsr | ReadIsr) -> None:
        self._queued[request.where] = request
        self._wakeup.ring()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._notify_controller)
            limit = trio.CapacityLimiter(self._pace.writes_max)
            while True:
                await self._wakeup.wait()
                requests, self._queued = self._queued, {}
                for request in requests.values():
                    await limit.acquire_on_behalf_of(request)
                    nursery.start_soon(self._send, request, limit)

    async def _send(self, request: WriteIsr | ReadIsr, limit: trio.CapacityLimiter) -> None:
        try:
            session = self._session()
            if session is None:
                raise zab.ZabError("there is no session")
            store = StoreSession(session)
            if isinstance(request, WriteIsr):
                outcome = await store.run(write_isr(request))
                self._core.completed(request, outcome, self._now())
            else:
                state = await store.run(read_isr(request.where))
                self._core.read(request.where, request.epoch, state, self._now())
        except Exception as error:
            if isinstance(error, zab.ZabError | DamagedNode):
                self._log.warn_rate_limited("isr_write_failed", "", why=error, partition=request.where)
            else:
                self._log.failed("isr_write_failed", error, partition=request.where)
            await trio.sleep(self._pace.store_s)
            # A write may have succeeded although its session ended, so its outcome is unknown.
            if isinstance(request, WriteIsr):
                self._core.lost(request)
            else:
                self._core.unread(request.where, self._now())
        finally:
            limit.release_on_behalf_of(request)
        self._turn()

    async def _notify_controller(self) -> None:
        propagation = self._core.propagation
        while True:
            await trio.sleep(self._pace.notices_s)
            due = propagation.due(self._now())
            session = self._session()
            if due and session is not None:
                try:
                    # If the reply is lost, the notification is written again; a duplicate is harmless.
                    await session.create(ISR_CHANGE_NOTICE, znodes.partitions(due), sequential=True)
                    propagation.notified(due, self._now())
                except zab.ZabError as error:
                    self._log.warn_rate_limited("isr_change_notification_failed", "", why=error)
