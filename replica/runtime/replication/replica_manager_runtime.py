"""The runtime side of a broker's `ReplicaManager`: the clock, disks, the store, other brokers, and pending requests.

One task at a time calls the core, and no other task runs during the call. The effects are executed after it: replies
wake pending requests, fetchers are woken, ISR changes are sent to the store, flushes run in a thread.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import trio
from attrs import evolve

import zab
from kraft_controller.core.commands import Command
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.partitions.offset_lookup import Lookup
from replica.core.partitions.partition_log import ActiveProducer, AppendOrigin, PartitionLog
from replica.core.replica_manager import ReplicaManager
from replica.core.replica_messages import (
    CONSUMER,
    Deleted,
    EpochAnswer,
    Fetch,
    Fetched,
    Note,
    OffsetAnswer,
    Produced,
    Results,
    RoleTaken,
)
from replica.core.replica_settings import ReplicaSettings
from replica.runtime.logs import Log
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.pending_reply import PendingReply
from replica.runtime.replication.alter_partition_sender import AlterPartitionPace, AlterPartitionSender
from replica.runtime.replication.batch_examiner import BatchExaminer, BatchExaminerSettings
from replica.runtime.replication.fetcher_tasks import FetcherSettings, FetcherTasks
from replica.runtime.replication.replica_durability import CheckpointedLogs, ReplicaDurability
from replica.runtime.requests import ignore
from replica.runtime.turn_loop import TurnLoop
from zab.host.clocks import steady_wall_clock, wall_ms
from zab.host.threads import InThread, in_thread
from zab.host.watchdog import UNWATCHED, Watchdogs
from zab.net.wakeup import Wakeup

SLICE: Final = 500
"""The number of partitions in a slice. If a consumer fetches more partitions than this, those without a replica on this
broker are answered slice by slice, and other tasks run in between."""
RETRY_S: Final = 1.0
"""The pause after a tick that raised an exception."""
LEVELS: Final = {"committed_records_cut": logging.ERROR, "log_failed": logging.ERROR, "stray": logging.WARNING}
"""The log levels of notes that need attention. The other notes have ERROR with an exception, WARNING if they
are in `RATE_LIMITED`, and else INFO."""
RATE_LIMITED: Final = frozenset({"role_refused", "not_appended", "log_rotten", "session_lost"})
"""Notes that may repeat without end. Their log lines are rate-limited, like those of `fetch_refused`."""
CHECKPOINT_S: Final = 5.0
"""The default of `replica.high.watermark.checkpoint.interval.ms`, in seconds."""

T = TypeVar("T")


class ReplicaNotes:
    """Writes the core's notes to the broker's log."""

    def __init__(self, log: Log) -> None:
        self.fetches_refused = 0
        """The number of refusals by leaders since the start. Each refused partition counts, and each request that is
        refused as a whole."""
        self._log = log

    def write(self, note: Note) -> None:
        fields, event = dict(note.fields), note.event
        if note.raised is not None:
            self._log.failed(event, note.raised, **fields)
        elif event == "fetch_refused":
            # Normal while leaders change, and then for many partitions at once.
            self.fetches_refused += 1
            self._log.warn_rate_limited(event, note.key, logging.INFO, total=self.fetches_refused, **fields)
        elif event in RATE_LIMITED:
            self._log.warn_rate_limited(event, note.key, **fields)
        else:
            self._log.say(event, LEVELS.get(event, logging.INFO), **fields)


class ReplicaManagerRuntime:
    """Runs the `ReplicaManager` of one broker.

    epoch     returns the broker epoch
    session   returns the current session with the store; None if there is none
    address   returns the inter-broker address of a broker; None if it is unknown
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
        pace: AlterPartitionPace | None = None,
        fetching: FetcherSettings | None = None,
        between: InterBrokerClients | None = None,
        examining: BatchExaminerSettings | None = None,
        *,
        checkpoint_s: float = CHECKPOINT_S,
        watchdogs: Watchdogs | None = None,
        in_thread: InThread = in_thread,
    ) -> None:
        self.core = ReplicaManager(me, logs, settings)
        self.now = steady_wall_clock()
        self.notes = ReplicaNotes(log)
        self.log_failed = Wakeup()
        """Rung when a log or a log directory has failed, so that the controller is notified."""
        self._log = log
        self._role_listeners: list[Callable[[RoleTaken], None]] = []
        self._fetchers = FetcherTasks(self.core, epoch, address, self.now, self._turn, log, fetching, between)
        self._examiner = BatchExaminer(examining or BatchExaminerSettings(), in_thread)
        self._isr_sender = AlterPartitionSender(
            self.core.alter_partition, session, self.now, self._turn, log, pace or AlterPartitionPace()
        )
        self._durability = ReplicaDurability(self.core, logs, self.now, self._turn, log, checkpoint_s, in_thread)
        self._waiting: dict[int, Callable[[Results], None]] = {}
        """Receivers of the results of delayed operations, by token."""
        self._last_token = 0
        self._wakeup = Wakeup()
        self._wakes_at = math.inf
        """The time at which `_tick` wakes by itself. A turn rings `_wakeup` only for an earlier deadline."""
        self._turns = TurnLoop(self._act)
        self._watchdog = UNWATCHED if watchdogs is None else watchdogs.add("replica manager", self._wakeup.ring)

    def add_role_listener(self, listener: Callable[[RoleTaken], None]) -> None:
        """Add a function that is called when this broker takes a new role in a partition or loses its role."""
        self._role_listeners.append(listener)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._fetchers.run)
                nursery.start_soon(self._isr_sender.run)
                nursery.start_soon(self._durability.run)
                task_status.started()
                await self._tick()
        finally:
            with trio.CancelScope(shield=True):
                await self._durability.checkpoint()

    # -- the controller --------------------------------------------------------------------------------------

    def apply(self, command: Command) -> Mapping[TopicPartition, int]:
        errors = self.core.apply(command, self.now())
        self._turn()
        return errors

    def require_in_sync(self, topic: str, replicas: int | None) -> None:
        """Set `min.insync.replicas` of a topic; None restores the broker's default."""
        self.core.require_in_sync(topic, replicas, self.now())
        self._turn()

    def throttle(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        """Limit the total rate at which this broker fetches these partitions (bytes/s); None: unlimited.

        A partition is exempt if this broker was in its ISR when it began to follow the leader.
        """
        self.core.fetchers.throttle(partitions, bytes_s)
        self._turn()

    def throttle_followers(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        """Limit the total rate at which followers outside the ISR fetch these partitions (bytes/s); None: unlimited."""
        self.core.fetches.quota.configure(partitions, bytes_s)

    # -- requests -----------------------------------------------------------------------------

    async def produce(
        self,
        acks: int,
        timeout_ms: int,
        entries: Sequence[tuple[TopicPartition, bytes]],
        placed: Callable[[], None] = ignore,
    ) -> list[Produced]:
        """Append batches. `placed` is called when they are in the logs, unless the results are complete at once."""
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
        if len(asked.parts) > SLICE and asked.replica == CONSUMER:
            return await self._fetch_many(asked)
        return await self._answered(lambda token: self.core.fetch(token, asked, self.now()))

    async def _fetch_many(self, asked: Fetch) -> list[Fetched]:
        """Fetch many partitions for a consumer.

        First collect the errors of the partitions without a replica on this broker, in slices, so that other tasks run
        in between. If there is an error, return the records of the other partitions without waiting for more.
        """
        core = self.core
        absent = [part for part in asked.parts if part.where not in core.partitions]
        errors: dict[TopicPartition, Fetched] = {}
        for first in range(0, len(absent), SLICE):
            found = core.fetches.read(asked, absent[first : first + SLICE], self.now())
            errors.update((result.where, result) for result in found)
            self._turn()
            await trio.lowlevel.checkpoint()
        if errors:
            held = tuple(part for part in asked.parts if part.where not in errors)
            asked_now = evolve(asked, parts=held, wait_ms=0)
        else:
            asked_now = asked
        given = iter(await self._answered(lambda token: core.fetch(token, asked_now, self.now())))
        return [errors[part.where] if part.where in errors else next(given) for part in asked.parts]

    async def delete_records(self, timeout_ms: int, entries: Iterable[tuple[TopicPartition, int]]) -> list[Deleted]:
        return await self._answered(lambda token: self.core.delete_records(token, timeout_ms, entries, self.now()))

    async def _answered(self, ask: Callable[[int], list[T] | None], placed: Callable[[], None] = ignore) -> list[T]:
        """Return the results, now or when the core completes the operation. If the caller is cancelled, the core stops
        waiting for the operation, but appended records stay in the log."""
        self._last_token += 1
        token, pending = self._last_token, PendingReply[Any]()
        self._waiting[token] = pending.give
        try:
            results = ask(token)
            self._turn()
            if results is not None:
                return results
            placed()
            found: list[T] | None = await pending.wait()
            assert found is not None  # the core answers each operation, at its deadline at the latest
            return found
        finally:
            if self._waiting.pop(token, None) is not None:
                self.core.purgatory.cancel(token)

    def logs_retired(self) -> None:
        """Check all log start offsets, which retention may have moved."""
        self.core.logs_retired()

    def disk_failed(self, where: TopicPartition, why: str) -> None:
        """Take a replica offline whose log cannot be read or written any more."""
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
        """Append with acks=all.

        `done` is called exactly once, perhaps before this returns: with NONE and the first offset, or with an error.
        """
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

    def log_and_high_watermark(self, where: TopicPartition) -> tuple[PartitionLog, int] | None:
        """Return the log of a replica and its high watermark; None if this broker has no replica."""
        partition = self.core.partitions.get(where)
        return None if partition is None else (partition.log, partition.high_watermark)

    # -- turns ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self._turns.running:
            self._turns.run()  # this only extends the current turn, which is timed already
            return
        with self._watchdog.turn("replies, roles and records of replicas"):
            self._turns.run()
        deadline = self.core.deadline
        if deadline is not None and deadline < self._wakes_at:
            self._wakeup.ring()

    def _act(self) -> None:
        ready = self.core.ready()
        for reply in ready.replies:
            waiting = self._waiting.pop(reply.token, None)
            if waiting is not None:
                self._call("reply_failed", waiting, reply.results)
        for write in ready.writes:
            self._isr_sender.send(write)
        for read in ready.reads:
            self._isr_sender.send(read)
        if ready.flushes:
            self._durability.wake()
        for leader in ready.leaders:
            self._call("fetcher_wakeup_failed", self._fetchers.wake, leader)
        for taken in ready.roles:
            for listener in self._role_listeners:
                self._call("role_listener_failed", listener, taken)
        for note in ready.notes:
            if note.event == "log_failed":
                self.log_failed.ring()
            self.notes.write(note)

    def _call(self, failure: str, receiver: Callable[..., None], *arguments: object) -> None:
        """Call the receiver of an effect. Log its exception as `failure`, so that the other effects are still
        executed."""
        try:
            receiver(*arguments)
        except Exception as error:
            self._log.failed(failure, error, receiver=receiver.__qualname__)

    async def _tick(self) -> None:
        while True:
            self._wakeup.answer()
            deadline = self.core.deadline
            self._wakes_at = math.inf if deadline is None else deadline
            with trio.move_on_after(max(self._wakes_at - self.now(), 0) / 1000):
                await self._wakeup.wait()
            deadline = self.core.deadline
            if deadline is not None and deadline <= self.now():
                try:
                    self.core.tick(self.now())
                except Exception as error:
                    self._log.failed("maintenance_failed", error)
                    await trio.sleep(RETRY_S)  # the core has dropped what was due, so the next tick makes progress
            self._turn()
