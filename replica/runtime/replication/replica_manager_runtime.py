"""What turns a broker's replicas: the clock, the disk, the store, other brokers, and those who wait for an answer.

Everything goes into the core at once and by one task at a time, and what the core then wants is done behind it: answers
wake who waits, fetchers are rung, ISRs go to the store, flushes to threads. Nothing in the core waits for any of it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import trio
from attrs import define, field, frozen

import zab
from kraft_controller.core.commands import Command
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition, Version
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode, KafkaError
from replica.core.offset_lookup import Lookup
from replica.core.partition_log import ActiveProducer, AppendOrigin, PartitionLog
from replica.core.replica_manager import Logs, ReplicaManager
from replica.core.replica_messages import (
    CONSUMER,
    Deleted,
    EpochAnswer,
    Fetch,
    Fetched,
    LogFlush,
    OffsetAnswer,
    Produced,
    ReadIsr,
    Results,
    WriteIsr,
)
from replica.core.replica_settings import ReplicaSettings
from replica.runtime import isr_store
from replica.runtime.logs import Log
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.replication.batch_examiner import BatchExaminer, BatchExaminerSettings
from replica.runtime.replication.fetcher_tasks import FetcherSettings, FetcherTasks
from replica.runtime.replication.isr_store import Outcome
from replica.runtime.requests import unheard
from zab.host.clocks import steady_wall_clock, wall_ms
from zab.host.watchdog import UNWATCHED
from zab.net.wakeup import Wakeup

AGAIN_S: Final = 1.0
"""Before the next look after one that failed."""
LOUD: Final = {"committed_records_cut": logging.ERROR, "log_failed": logging.ERROR, "stray": logging.WARNING}
"""Notes that somebody has to see. Others are told as they are."""
QUIET: Final = frozenset({"role_refused", "not_appended", "log_rotten", "session_lost"})
"""Notes that may come again and again."""

RoleTaken = Callable[[TopicPartition, bool | None, int], None]
"""Leads, follows, or (None) has nothing to do with it any more; in which leader epoch."""

T = TypeVar("T")


class CheckpointedLogs(Logs, Protocol):
    def keep_high_watermarks(self, watermarks: Mapping[TopicPartition, int]) -> None:
        """They are durable when it returns. Slow; called from a thread."""


@frozen
class ReplicationPace:
    """checkpoint_s    `replica.high.watermark.checkpoint.interval.ms`
    notices_s       how often it is looked whether the controller is to be told of changed ISRs
    store_s         before the store is asked again, when it could not be
    writes_max      ISRs under way to the store at a time
    """

    checkpoint_s: float = 5.0
    notices_s: float = 2.5
    store_s: float = 0.5
    writes_max: int = 64


@define(eq=False)
class _Waiter:
    answered: trio.Event = field(factory=trio.Event)
    results: Any = None

    def answer(self, results: Results) -> None:
        self.results = results
        self.answered.set()


class ReplicaManagerRuntime:
    """One broker's replicas at work.

    epoch     of this broker's life
    session   the one that lasts, if one does
    address   where another broker is reached by brokers
    """

    def __init__(
        self,
        me: BrokerId,
        logs: CheckpointedLogs,
        log: Log,
        epoch: Callable[[], BrokerEpoch],
        session: Callable[[], zab.Session | None],
        address: Callable[[BrokerId], tuple[str, int] | None],
        settings: ReplicaSettings | None = None,
        pace: ReplicationPace | None = None,
        fetching: FetcherSettings | None = None,
        between: InterBrokerClients | None = None,
        examining: BatchExaminerSettings | None = None,
    ) -> None:
        self.core = ReplicaManager(me, logs, settings)
        self.role_taken: list[RoleTaken] = []
        """Called whenever the controller has given this broker another role."""
        self._logs = logs
        self._log = log
        self._session = session
        self._pace = pace or ReplicationPace()
        self.now = steady_wall_clock()
        self._fetchers = FetcherTasks(self.core, epoch, address, self.now, self._turn, log, fetching, between)
        self._examiner = BatchExaminer(examining or BatchExaminerSettings())
        self._waiting: dict[int, Callable[[Results], None]] = {}
        self._last_token = 0
        self.fetches_refused = 0
        """Partitions for which a leader refused this follower's fetch, since the start."""
        self._bell = Wakeup()
        self._wakes_at = math.inf
        """When `_tick` looks by itself. It is rung for only when it has to look sooner."""
        self._store_bell = Wakeup()
        self._disk_bell = Wakeup()
        self._broken_bell = Wakeup()
        self._at_store: dict[TopicPartition, WriteIsr | ReadIsr] = {}
        """At most one for each partition: the core asks for the next when it knows what became of the one before."""
        self._to_flush: dict[TopicPartition, LogFlush] = {}
        self._turning = self._again = False
        self.watchdog = UNWATCHED

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._fetchers.run)
                nursery.start_soon(self._write_isrs)
                nursery.start_soon(self._flush)
                nursery.start_soon(self._checkpoint)
                nursery.start_soon(self._tell_controller)
                nursery.start_soon(self._tell_of_disks)
                task_status.started()
                await self._tick()
        finally:
            with trio.CancelScope(shield=True):
                await self._keep_watermarks()

    # -- the controller --------------------------------------------------------------------------------------

    def obey(self, command: Command) -> Mapping[TopicPartition, int]:
        errors = self.core.apply(command, self.now())
        self._turn()
        return errors

    def require_in_sync(self, topic: str, replicas: int | None) -> None:
        """`min.insync.replicas` of a topic; None: as of all that do not say."""
        self.core.require_in_sync(topic, replicas, self.now())
        self._turn()

    def throttle(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        """Of these, replicas that are not in sync fetch no more than so much together; None: as much as comes."""
        self.core.fetchers.throttle(partitions, bytes_s)
        self._turn()

    def throttle_followers(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        """Of these, which are led here, no more than so much together is sent to replicas that are not in sync."""
        self.core.fetches.quota.configure(partitions, bytes_s)

    # -- those who ask, and wait -----------------------------------------------------------------------------

    async def produce(
        self,
        acks: int,
        timeout_ms: int,
        entries: Sequence[tuple[TopicPartition, bytes]],
        placed: Callable[[], None] = unheard,
    ) -> list[Produced]:
        """`placed`: it is called when they are in the logs, and all that is left is to wait for others."""
        ready = await self._examiner.all_examined(entries, self._log_of)
        clock = wall_ms()
        results = await self._answered(
            lambda token: self.core.produce(token, acks, timeout_ms, ready, self.now(), clock=clock), placed
        )
        return await self._examiner.with_record_errors(results, entries, self._log_of, clock) if acks else results

    def _log_of(self, where: TopicPartition) -> PartitionLog | None:
        partition = self.core.partitions.get(where)
        return None if partition is None else partition.log

    async def fetch(self, asked: Fetch) -> list[Fetched]:
        return await self._answered(lambda token: self.core.fetch(token, asked, self.now()))

    async def delete_records(self, timeout_ms: int, entries: Iterable[tuple[TopicPartition, int]]) -> list[Deleted]:
        return await self._answered(lambda token: self.core.delete_records(token, timeout_ms, entries, self.now()))

    async def _answered(self, ask: Callable[[int], list[T] | None], placed: Callable[[], None] = unheard) -> list[T]:
        """At once, or when the core says so. Who is cancelled meanwhile, his connection being gone, is forgotten."""
        self._last_token += 1
        token, waiter = self._last_token, _Waiter()
        self._waiting[token] = waiter.answer
        try:
            results = ask(token)
            self._turn()
            if results is not None:
                return results
            placed()
            await waiter.answered.wait()
            found: list[T] = waiter.results
            return found
        finally:
            if self._waiting.pop(token, None) is not None:
                self.core.purgatory.cancel(token)

    def logs_retired(self) -> None:
        """Retention ran, and may have moved the start of any log."""
        self.core.logs_retired()

    def disk_failed(self, where: TopicPartition, why: str) -> None:
        """Its log can be neither read nor written any more."""
        self.core.disk_failed(where, why, self.now())
        self._turn()

    async def look_up(self, asked: Lookup, *, replica: BrokerId = CONSUMER, committed: bool = False) -> OffsetAnswer:
        partition = self.core.partitions.get(asked.where)
        if partition is None or not asked.by_time:
            return self.core.look_up(asked, replica=replica, committed=committed)
        search = await self._examiner.searched(partition.log, asked.timestamp)
        return self.core.look_up(asked, replica=replica, committed=committed, search=search)

    def epoch_end(self, where: TopicPartition, current: int, epoch: int) -> EpochAnswer:
        return self.core.epoch_end(where, current, epoch)

    def active_producers(self, where: TopicPartition) -> tuple[ActiveProducer, ...]:
        return self.core.active_producers(where)

    # -- coordinators ------------------------------------------------------------------------------------------

    def append(
        self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[ErrorCode, int], None]
    ) -> None:
        """With acks = all. `done` is called once, at once or later: NONE and the first offset, or the error."""
        self._last_token += 1
        token = self._last_token

        def answer(results: Results) -> None:
            [result] = results
            assert isinstance(result, Produced)
            done(result.error, result.base_offset)

        self._waiting[token] = answer
        results = self.core.produce(
            token, -1, timeout_ms, [(where, records)], self.now(), origin=AppendOrigin.COORDINATOR, clock=wall_ms()
        )
        if results is not None:
            del self._waiting[token]
            answer(results)
        self._turn()

    def held(self, where: TopicPartition) -> tuple[PartitionLog, int] | None:
        """Its log, and its high watermark now; None where this broker has no replica of it."""
        partition = self.core.partitions.get(where)
        return None if partition is None else (partition.log, partition.high_watermark)

    # -- what the core wants ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._again = True
        if self._turning:
            return  # it is seen to before the turn ends in whose middle we are
        self._turning = True
        try:
            with self.watchdog.turn("what became of requests, roles and records"):
                while self._again:
                    self._again = False
                    self._act()
        finally:
            self._turning = False
        deadline = self.core.deadline
        if deadline is not None and deadline < self._wakes_at:
            self._bell.ring()

    def _act(self) -> None:
        ready = self.core.ready()
        for reply in ready.replies:
            waiting = self._waiting.pop(reply.token, None)
            if waiting is not None:
                self._tell(waiting, reply.results)
        wishes: list[WriteIsr | ReadIsr] = [*ready.writes, *ready.reads]
        for wish in wishes:
            self._at_store[wish.where] = wish
            self._store_bell.ring()
        for flush in ready.flushes:
            self._to_flush[flush.where] = flush
            self._disk_bell.ring()
        for leader in ready.leaders:
            self._tell(self._fetchers.wake, leader)
        for taken in ready.roles:
            for hear in self.role_taken:
                self._tell(hear, taken.where, taken.leads, taken.epoch)
        for note in ready.notes:
            if note.event == "log_failed":
                self._broken_bell.ring()
            fields, event = dict(note.fields), note.event.replace("_", "-")
            if isinstance(error := fields.pop("raised", None), Exception):
                self._log.failed(event, error, **fields)
            elif note.event == "fetch_refused":
                # Normal for a moment when leaders change, and then of many partitions at once.
                self.fetches_refused += 1
                key = fields["leader"], fields["error"]
                self._log.warn_rate_limited(event, key, logging.INFO, total=self.fetches_refused, **fields)
            elif note.event in QUIET:
                self._log.warn_rate_limited(event, fields.get("partition"), **fields)
            else:
                self._log.say(event, LOUD.get(note.event, logging.INFO), **fields)

    def _tell(self, hear: Callable[..., None], *what: object) -> None:
        """An exception of one of those that are told is logged: the others are told all the same."""
        try:
            hear(*what)
        except Exception as error:
            self._log.failed("not-told", error, hearer=hear.__qualname__)

    def poke(self) -> None:
        """Have a turn soon, even if there is nothing to do."""
        self._bell.ring()

    async def _tick(self) -> None:
        while True:
            self._bell.answer()
            deadline = self.core.deadline
            self._wakes_at = math.inf if deadline is None else deadline
            with trio.move_on_after(max(self._wakes_at - self.now(), 0) / 1000):
                await self._bell.wait()
            deadline = self.core.deadline
            if deadline is not None and deadline <= self.now():
                try:
                    self.core.tick(self.now())
                except Exception as error:
                    self._log.failed("upkeep-failed", error)
                    await trio.sleep(AGAIN_S)  # what was due is taken off the list, so the next look goes further
            self._turn()

    # -- the store -------------------------------------------------------------------------------------------

    async def _write_isrs(self) -> None:
        limit = trio.CapacityLimiter(self._pace.writes_max)
        async with trio.open_nursery() as nursery:
            while True:
                await self._store_bell.wait()
                wishes, self._at_store = self._at_store, {}
                for wish in wishes.values():
                    await limit.acquire_on_behalf_of(wish)
                    nursery.start_soon(self._one_at_store, wish, limit)

    async def _one_at_store(self, wish: WriteIsr | ReadIsr, limit: trio.CapacityLimiter) -> None:
        try:
            session = self._session()
            if session is None:
                raise zab.ZabError("there is no session")
            if isinstance(wish, WriteIsr):
                self._wrote(wish, await isr_store.write(session, wish))
            else:
                state = await isr_store.read(session, wish.where)
                self.core.alter_partition.read(wish.where, wish.epoch, state, self.now())
        except Exception as error:
            if isinstance(error, zab.ZabError | DamagedNode):
                self._log.warn_rate_limited("isr-not-written", "", why=error, partition=wish.where)
            else:
                self._log.failed("isr-not-written", error, partition=wish.where)
            await trio.sleep(self._pace.store_s)
            # What a session did that is over may have come to be: nothing is known of it, as if the answer were lost.
            if isinstance(wish, WriteIsr):
                self.core.alter_partition.lost(wish)
            else:
                self.core.alter_partition.unread(wish.where, self.now())
        finally:
            limit.release_on_behalf_of(wish)
        self._turn()

    def _wrote(self, wish: WriteIsr, outcome: Version | Outcome) -> None:
        match outcome:
            case Outcome.REFUSED:
                self.core.alter_partition.refused(wish)
            case Outcome.LOST:
                self.core.alter_partition.lost(wish)
            case Outcome.UNWANTED:
                self.core.alter_partition.unwanted(wish, self.now())
            case Outcome.GONE:
                self.core.alter_partition.gone(wish.where, wish.state.leader_epoch, self.now())
            case version:
                self.core.alter_partition.written(wish, version, self.now())

    async def _tell_controller(self) -> None:
        while True:
            await trio.sleep(self._pace.notices_s)
            due = self.core.alter_partition.propagation.due(self.now())
            session = self._session()
            if due and session is not None:
                try:
                    await isr_store.tell(session, due)
                    self.core.alter_partition.propagation.notified(due, self.now())
                except zab.ZabError as error:
                    self._log.warn_rate_limited("isr-changes-not-told", "", why=error)

    async def _tell_of_disks(self) -> None:
        """The controller hears of a log that failed, or its partitions would have a leader that cannot lead."""
        while True:
            await self._broken_bell.wait()
            session = self._session()
            try:
                if session is None:
                    raise zab.ZabError("there is no session")
                await isr_store.tell_of_disk(session, self.core.me)
            except zab.ZabError as error:
                self._log.warn_rate_limited("disk-failure-not-told", "", why=error)
                self._broken_bell.ring()
                await trio.sleep(self._pace.store_s)

    # -- the disk --------------------------------------------------------------------------------------------

    async def _flush(self) -> None:
        """What has to be durable before it counts. All that is wished meanwhile is one flush for each partition."""
        while True:
            await self._disk_bell.wait()
            wishes, self._to_flush = self._to_flush, {}
            for where, wish in wishes.items():
                partition = self.core.partitions.get(where)
                if partition is None or partition.cuts != wish.cuts:
                    continue
                try:
                    upto = await trio.to_thread.run_sync(partition.log.flush)
                except KafkaError as error:
                    self.core.disk_failed(where, error.text, self.now())
                except Exception as error:
                    self._log.failed("not-flushed", error, partition=where)
                    self.core.disk_failed(where, repr(error), self.now())
                else:
                    self.core.flushed(where, wish.cuts, upto, self.now())
                self._turn()

    async def _checkpoint(self) -> None:
        while True:
            await trio.sleep(self._pace.checkpoint_s)
            await self._keep_watermarks()

    async def _keep_watermarks(self) -> None:
        values = self.core.high_watermarks()
        try:
            await trio.to_thread.run_sync(partial(self._logs.keep_high_watermarks, values))
        except (KafkaError, OSError) as error:
            self._log.warn_rate_limited("watermarks-not-kept", "", logging.ERROR, why=error)
        except Exception as error:
            self._log.failed("watermarks-not-kept", error)
