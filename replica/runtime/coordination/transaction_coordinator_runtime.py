"""The runtime side of the `TransactionCoordinator`: the records of its topic, producer ids, markers, and the log.

transactions = TransactionCoordinatorRuntime(storage, count, markers, ids, log, settings)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio
from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.transaction_coordinator import TransactionCoordinator
from replica.core.transactions.transaction_effects import (
    Marker,
    MarkerId,
    Moved,
    Note,
    TimedOut,
    TransactionAppend,
    TransactionExpired,
    TransactionNotWritten,
    TransactionsLoaded,
    TransactionStuck,
    TransactionsUnloaded,
)
from replica.core.transactions.transaction_messages import Ask, Init, Initialized, NeedsId, Reply
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.runtime.coordination.coordinator_runtime import CoordinatorRuntime, CoordinatorStorage, always
from replica.runtime.coordination.transaction_marker_sender import MarkerOwner
from replica.runtime.logs import Log
from replica.wire import transaction_records
from replica.wire.records import batch_of
from zab.host.watchdog import Watchdogs


class ProducerIdSource(Protocol):
    async def take(self) -> int:
        """Return an unused producer id. Raise `KafkaError` if the store does not provide one."""


class MarkerSender(Protocol):
    """Writes markers to partitions, and reports the outcomes to their owner."""

    async def run(
        self, owner: MarkerOwner, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None: ...
    def send(self, marker: Marker) -> None: ...
    def __len__(self) -> int: ...


class TransactionCoordinatorRuntime(CoordinatorRuntime[TransactionCoordinator, Ask, Reply]):
    """Runs the transaction coordinator of one broker."""

    def __init__(
        self,
        storage: CoordinatorStorage,
        count: Callable[[], Awaitable[int | None]],
        markers: MarkerSender,
        ids: ProducerIdSource,
        log: Log,
        settings: TransactionSettings | None = None,
        still_leads: Callable[[], Awaitable[bool]] = always,
        watchdogs: Watchdogs | None = None,
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.timed_out = 0
        """The number of attempts to abort transactions that exceeded their timeout, since the start."""
        self._markers = markers
        self._ids = ids

        def make(now: int) -> TransactionCoordinator:
            return TransactionCoordinator(self.settings, now)

        decode = transaction_records.decode
        super().__init__("transactions", make, decode, storage, count, log, still_leads, watchdogs)

    @property
    def markers_pending(self) -> int:
        """The number of markers that wait to be sent, or sent again, counted once for each partition."""
        return len(self._markers)

    async def _begin(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._markers.run, self)

    async def init(self, ask: Init) -> Initialized:
        reply = await self.ask(ask)
        if isinstance(reply, NeedsId):
            try:
                reply = await self.ask(evolve(ask, fresh=await self._ids.take()))
            except KafkaError as error:
                return Initialized(error.code)
        assert isinstance(reply, Initialized)
        return reply

    # -- markers ----------------------------------------------------------------------------

    def awaits_marker(self, number: MarkerId) -> bool:
        return self.coordinator.completion.awaits(number)

    def marked(self, number: MarkerId, where: TopicPartition) -> None:
        self._change("a marker", lambda: self.coordinator.completion.marked(number, where, self.now()))

    def refused(self, number: MarkerId, where: TopicPartition, error: ErrorCode) -> None:
        self._change("a marker", lambda: self.coordinator.completion.refused(number, where, error))

    # -- effects --------------------------------------------------------------------------

    def _act(self) -> None:
        ready = self.coordinator.ready()
        for marker in ready.markers:
            self._markers.send(marker)
        self._carry_out(ready, self._tell, self._append)

    def _append(self, append: TransactionAppend) -> None:
        def encoded() -> bytes:
            key, value = transaction_records.encode_key(append.record), transaction_records.encode_value(append.record)
            return batch_of([(key, value)], append.now_ms)

        self._write(append.id, append.partition, encoded, append.timeout_ms)

    # -- log messages ----------------------------------------------------------------------------------------

    def _tell(self, note: Note) -> None:
        say = self._log.say
        match note:
            case Moved(ident, producer, epoch, before, after):
                states = {"before": before.value, "after": after.value}
                say("transaction", logging.DEBUG, id=ident, producer=producer, epoch=epoch, **states)
            case TimedOut(ident, producer, epoch, after_ms):
                self.timed_out += 1
                say("transaction_timed_out", id=ident, producer=producer, epoch=epoch, ms=after_ms)
            case TransactionNotWritten(ident, state, error):
                self._log.warn_rate_limited(
                    "transaction_write_failed", ident, id=ident, state=state.value, error=error.name
                )
            case TransactionStuck(ident, where, error):
                say("transaction_stuck", logging.ERROR, id=ident, partition=where, error=error.name)
            case TransactionExpired(ident):
                say("transaction_expired", id=ident)
            case TransactionsLoaded(partition, epoch, count, unfinished):
                level = logging.INFO if count else logging.DEBUG
                counts = {"transactions": count, "unfinished": unfinished}
                say("transactions_loaded", level, partition=partition, epoch=epoch, **counts)
            case TransactionsUnloaded(partition, count):
                level = logging.INFO if count else logging.DEBUG
                say("transactions_unloaded", level, partition=partition, transactions=count)
