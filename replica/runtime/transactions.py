"""Drives the coordinator of transactions: time, its topic, partitions that are to be told, and whoever waits.

transactions = Transactions(storage, count, markers, ids, log, settings)
await nursery.start(transactions.run)
transactions.role_taken(where, leads, epoch)   # of each partition of the topic, in the order in which it happens
reply = await transactions.ask(End(...))
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol

import trio
from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.coordinator import Coordinator
from replica.core.transactions.desk import Settings
from replica.core.transactions.messages import Ask, Init, Initialized, NeedsId, Reply, Ticket
from replica.core.transactions.ready import (
    Append,
    Forgotten,
    Load,
    Loaded,
    Marker,
    MarkerId,
    Moved,
    Note,
    NotWritten,
    Stuck,
    TimedOut,
    Unloaded,
)
from replica.runtime.coordinator_log import LOAD_AGAIN_S, LOOK_AGAIN_S, Storage, read_all
from replica.runtime.logs import Log
from replica.runtime.markers import Told
from replica.runtime.offsets_topic import TRANSACTIONS_TOPIC
from replica.wire import transaction_records
from replica.wire.batch import Header
from replica.wire.records import Record, batch_of


class Ids(Protocol):
    async def take(self) -> int:
        """One that nobody ever had. `KafkaError` while there is none to be had."""


class Spreads(Protocol):
    async def run(self, told: Told, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None: ...
    def send(self, marker: Marker) -> None: ...
    def __len__(self) -> int: ...


@define(eq=False)
class _Waiter:
    answered: trio.Event = field(factory=trio.Event)
    reply: Reply | None = None


class Transactions:
    """One broker's. `count`: how many partitions the topic has, as the store knows it; None: there is none."""

    def __init__(
        self,
        storage: Storage,
        count: Callable[[], Awaitable[int | None]],
        markers: Spreads,
        ids: Ids,
        log: Log,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.timed_out = 0
        """Transactions that were aborted because they were open for too long, since this broker was started."""
        self._storage = storage
        self._count = count
        self._markers = markers
        self._ids = ids
        self._log = log
        # Times are kept in the topic and compared by other brokers, so they are those of a wall clock; but one that
        # nobody can set: transactions would be over before their time.
        self._origin = time.time() - trio.current_time()
        self.coordinator = Coordinator(self.settings, self.now())
        self._waiting: dict[Ticket, _Waiter] = {}
        self._last_ticket = 0
        self._bell = trio.Event()
        self._wanted = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._turning = self._again = False

    @property
    def untold(self) -> int:
        """Partitions that are to be told of the end of a transaction, and wait for their turn."""
        return len(self._markers)

    def now(self) -> int:
        return int((self._origin + trio.current_time()) * 1000)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._markers.run, self)
            self._nursery = nursery
            nursery.start_soon(self._count_partitions)
            self._turn()
            task_status.started()
            while True:
                self._bell = trio.Event()
                with trio.move_on_after(max((self.coordinator.deadline - self.now()) / 1000, 0)):
                    await self._bell.wait()
                self.coordinator.tick(self.now())
                self._turn()

    # -- who asks --------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Reply:
        if self.coordinator.partitions is None:
            self._wanted.set()
        self._last_ticket += 1
        ticket, waiter = Ticket(self._last_ticket), _Waiter()
        self._waiting[ticket] = waiter
        try:
            self.coordinator.step(ticket, ask, self.now())
            self._turn()
            if waiter.reply is None:
                await waiter.answered.wait()
            assert waiter.reply is not None
            return waiter.reply
        finally:
            del self._waiting[ticket]  # an answer to somebody who has gone is thrown away

    async def init(self, ask: Init) -> Initialized:
        reply = await self.ask(ask)
        if isinstance(reply, NeedsId):
            try:
                reply = await self.ask(evolve(ask, fresh=await self._ids.take()))
            except KafkaError as error:
                return Initialized(error.code)
        assert isinstance(reply, Initialized)
        return reply

    # -- what happens to the topic ---------------------------------------------------------------------------

    def role_taken(self, where: TopicPartition, leads: bool | None, epoch: int) -> None:
        """`leads` None: there is no replica of it here any more."""
        if where.topic != TRANSACTIONS_TOPIC:
            return
        self._wanted.set()
        if leads:
            self.coordinator.elected(where.partition, epoch)
        else:
            self.coordinator.resigned(where.partition, None if leads is None else epoch, self.now())
        self._turn()

    def topic_changed(self) -> None:
        """It was deleted, or there is a new one, perhaps of more partitions. What was loaded ends with its roles."""
        self.coordinator.partitions = None
        self._wanted.set()

    async def _count_partitions(self) -> None:
        """When somebody wants to know it. The number of a topic never changes; but there may be another topic."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            if self.coordinator.partitions is None:
                try:
                    self.coordinator.partitions = await self._count()
                except KafkaError as error:
                    self._log.grumble("transactions-topic-unknown", "", why=error)
                    self._wanted.set()
                await trio.sleep(LOOK_AGAIN_S)

    # -- partitions that are told ----------------------------------------------------------------------------

    def awaits_marks(self, number: MarkerId) -> bool:
        return self.coordinator.awaits_marks(number)

    def marked(self, number: MarkerId, where: TopicPartition) -> None:
        self.coordinator.marked(number, where, self.now())
        self._turn()

    def refused(self, number: MarkerId, where: TopicPartition, error: ErrorCode) -> None:
        self.coordinator.refused(number, where, error)
        self._turn()

    # -- what the coordinator wants --------------------------------------------------------------------------

    def _turn(self) -> None:
        self._again = True
        if self._nursery is None or self._turning:
            return  # it is seen to when `run` begins, or before the turn ends in whose middle we are
        self._turning = True
        while self._again:
            self._again = False
            ready = self.coordinator.ready()
            for answer in ready.answers:
                waiter = self._waiting.get(answer.ticket)
                if waiter is not None:
                    waiter.reply = answer.reply
                    waiter.answered.set()
            for note in ready.notes:
                self._tell(note)
            for load in ready.loads:
                self._nursery.start_soon(self._load, load)
            for marker in ready.markers:
                self._markers.send(marker)
            for append in ready.appends:
                self._append(append)
        self._turning = False
        self._bell.set()

    def _append(self, append: Append) -> None:
        def done(error: ErrorCode, _: int) -> None:
            self.coordinator.appended(append.id, error, self.now())
            self._turn()

        try:
            pair = transaction_records.encode_key(append.record), transaction_records.encode_value(append.record)
        except transaction_records.RecordError as error:
            self._log.say("transaction-refused", logging.WARNING, partition=append.partition, why=error)
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        where = TopicPartition(TRANSACTIONS_TOPIC, append.partition)
        self._storage.append(where, batch_of([pair], append.now_ms), append.timeout_ms, done)

    # -- loading ---------------------------------------------------------------------------------------------

    async def _load(self, load: Load) -> None:
        where = TopicPartition(TRANSACTIONS_TOPIC, load.partition)
        awaits, take = partial(self.coordinator.awaits, load), partial(self._replay, load)
        while awaits():
            try:
                if await read_all(self._storage, where, awaits, take):
                    self.coordinator.loaded(load, self.now())
                    self._turn()
                    return
            except (KafkaError, OSError) as error:
                self._log.grumble("transactions-not-loaded", load.partition, logging.ERROR, partition=where, why=error)
            await trio.sleep(LOAD_AGAIN_S)

    def _replay(self, load: Load, header: Header, found: Iterator[Record]) -> None:
        if header.control:
            return
        for record in found:
            if record.key is None:
                continue
            try:
                entry = transaction_records.decode(record.key, record.value)
            except transaction_records.RecordError as error:
                say, where = self._log.say, f"{TRANSACTIONS_TOPIC}-{load.partition}"
                say("transaction-unreadable", logging.ERROR, partition=where, offset=record.offset, why=error)
                continue
            if entry is not None:
                self.coordinator.replay(load, entry)

    # -- telling ---------------------------------------------------------------------------------------------

    def _tell(self, note: Note) -> None:
        say = self._log.say
        match note:
            case Moved(ident, producer, epoch, before, after):
                states = {"before": before.value, "after": after.value}
                say("transaction", logging.DEBUG, id=ident, producer=producer, epoch=epoch, **states)
            case TimedOut(ident, producer, epoch, after_ms):
                self.timed_out += 1
                say("transaction-timed-out", id=ident, producer=producer, epoch=epoch, ms=after_ms)
            case NotWritten(ident, state, error):
                self._log.grumble("transaction-not-written", ident, id=ident, state=state.value, error=error.name)
            case Stuck(ident, where, error):
                say("transaction-stuck", logging.ERROR, id=ident, partition=where, error=error.name)
            case Forgotten(ident):
                say("transaction-forgotten", id=ident)
            case Loaded(partition, epoch, count, unfinished):
                level = logging.INFO if count else logging.DEBUG
                counts = {"transactions": count, "unfinished": unfinished}
                say("transactions-loaded", level, partition=partition, epoch=epoch, **counts)
            case Unloaded(partition, count):
                level = logging.INFO if count else logging.DEBUG
                say("transactions-unloaded", level, partition=partition, transactions=count)
