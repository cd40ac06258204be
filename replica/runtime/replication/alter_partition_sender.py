"""Sends ISR changes to the store, reads ISRs whose last change has an unknown outcome, and notifies the controller.

The core decides what to send: see `replica.core.alter_partition_manager`.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from attrs import frozen

import zab
from kraft_controller.core.names import TopicPartition, Version
from kraft_controller.wire.znodes import DamagedNode
from replica.core.alter_partition_manager import AlterPartitionManager
from replica.core.replica_messages import ReadIsr, WriteIsr
from replica.runtime.logs import Log
from replica.runtime.replication import isr_store
from replica.runtime.replication.isr_store import Outcome
from zab.net.wakeup import Wakeup


@frozen
class AlterPartitionPace:
    """notices_s    the pause between checks for ISR changes that the controller does not know of
    store_s      the pause after a failed request to the store
    writes_max   requests to the store under way at once
    """

    notices_s: float = 2.5
    store_s: float = 0.5
    writes_max: int = 64


class AlterPartitionSender:
    """Carries the requests of one `AlterPartitionManager` to the store, many partitions at once."""

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
        """Returns the current session; None while there is none."""
        self._now = now
        self._turn = turn
        """Carries out what an outcome makes possible."""
        self._log = log
        self._pace = pace
        self._queued: dict[TopicPartition, WriteIsr | ReadIsr] = {}
        """At most one request for each partition: the core makes the next one when it has the outcome of the last."""
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
            if isinstance(request, WriteIsr):
                self._wrote(request, await isr_store.write(session, request))
            else:
                state = await isr_store.read(session, request.where)
                self._core.read(request.where, request.epoch, state, self._now())
        except Exception as error:
            if isinstance(error, zab.ZabError | DamagedNode):
                self._log.warn_rate_limited("isr-not-written", "", why=error, partition=request.where)
            else:
                self._log.failed("isr-not-written", error, partition=request.where)
            await trio.sleep(self._pace.store_s)
            # A request of a session that is over may have succeeded, so its outcome is unknown.
            if isinstance(request, WriteIsr):
                self._core.lost(request)
            else:
                self._core.unread(request.where, self._now())
        finally:
            limit.release_on_behalf_of(request)
        self._turn()

    def _wrote(self, write: WriteIsr, outcome: Version | Outcome) -> None:
        match outcome:
            case Outcome.REFUSED:
                self._core.refused(write)
            case Outcome.LOST:
                self._core.lost(write)
            case Outcome.UNWANTED:
                self._core.unwanted(write, self._now())
            case Outcome.GONE:
                self._core.gone(write.where, write.state.leader_epoch, self._now())
            case version:
                self._core.written(write, version, self._now())

    async def _notify_controller(self) -> None:
        propagation = self._core.propagation
        while True:
            await trio.sleep(self._pace.notices_s)
            due = propagation.due(self._now())
            session = self._session()
            if due and session is not None:
                try:
                    await isr_store.notify_of_isr_changes(session, due)
                    propagation.notified(due, self._now())
                except zab.ZabError as error:
                    self._log.warn_rate_limited("isr-changes-not-told", "", why=error)
