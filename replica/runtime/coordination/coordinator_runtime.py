"""The runtime side of a coordinator, of groups or of transactions: time, its topic, and the requests that wait.

await nursery.start(coordinator.run)
coordinator.role_taken(where, leads, epoch)     # for each partition of its topic, in order
reply = await coordinator.ask(Join(...))

One coordinator serves all groups, or all transactions, of a broker, so an exception in it must not end its service.
A record that cannot be encoded is an error of the request that caused it. After any other exception the coordinator's
state may be half changed: the runtime logs a traceback, puts a new coordinator in its place, and loads the partitions
from the log again. Requests that waited for the old coordinator end with their connections, and clients repeat them.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

import trio

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import AppendId, CoordinatorReady, Load, Ticket, TopicCoordinator
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.coordination.coordinator_log import LOAD_AGAIN_S, LOOK_AGAIN_S, CoordinatorStorage, read_all
from replica.runtime.coordination.suspension_monitor import SuspensionMonitor
from replica.runtime.logs import Log
from replica.runtime.pending_reply import PendingReply
from replica.runtime.turn_loop import TurnLoop
from replica.wire.batch import Header
from replica.wire.record_fields import RecordError
from replica.wire.records import Record
from zab.host.clocks import steady_wall_clock
from zab.host.watchdog import UNWATCHED, Watchdogs
from zab.net.wakeup import Wakeup

C = TypeVar("C", bound=TopicCoordinator[Any])
K = TypeVar("K")
R = TypeVar("R")
A = TypeVar("A")
N = TypeVar("N")
D = TypeVar("D")


def _named(cause: object) -> str:
    """Return the name of a cause for the log: of a request only its kind, since its content may be large."""
    return cause if isinstance(cause, str) else type(cause).__name__


async def always() -> bool:
    return True


class CoordinatorRuntime(ABC, Generic[C, K, R]):
    """Runs one coordinator.

    kind         the name of what it coordinates, in the log
    topic        the topic with its state
    make         creates a coordinator, given the time
    count        returns the number of partitions of the topic in the store; None if there is no such topic
    still_leads  is asked after a suspension: returns whether no other broker was elected meanwhile
    """

    def __init__(
        self,
        kind: str,
        topic: str,
        make: Callable[[int], C],
        storage: CoordinatorStorage,
        count: Callable[[], Awaitable[int | None]],
        log: Log,
        still_leads: Callable[[], Awaitable[bool]],
        watchdogs: Watchdogs | None,
    ) -> None:
        self.now = steady_wall_clock()
        """Times are kept in the topic, and other brokers compare them."""
        self.coordinator = make(self.now())
        self.rebuilt = 0
        """Coordinators that were replaced after an exception."""
        self._kind = kind
        self._topic = topic
        self._make = make
        self._storage = storage
        self._count = count
        self._log = log
        self._loads_from = 0.0
        """No partition is loaded before this time, so that an error that repeats does not keep the broker busy."""
        self._waiting: dict[Ticket, PendingReply[R]] = {}
        self._last_ticket = 0
        self._wakeup = Wakeup()
        self._count_wanted = Wakeup()
        """Rung when the number of partitions is needed and may be unknown."""
        self._nursery: trio.Nursery | None = None
        """None while `run` does not run: nothing is carried out then."""
        self._turns = TurnLoop(self._act)
        self._suspension = SuspensionMonitor(self.now, still_leads, self._suspended, self._session_ended)
        self._watchdog = UNWATCHED
        if watchdogs is not None:
            self._watchdog = watchdogs.add(f"{kind.removesuffix('s')} coordinator", self._wakeup.ring, self._is_excused)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await self._begin(nursery)
            self._nursery = nursery
            self._suspension.begin()
            nursery.start_soon(self._count_partitions)
            nursery.start_soon(self._suspension.run)
            self._turn()
            task_status.started()
            try:
                await self._keep_time()
            finally:
                self._nursery = None

    async def _keep_time(self) -> None:
        suspension, rebuilt = self._suspension, self.rebuilt
        while True:
            self._wakeup.answer()
            wait_s = (self.coordinator.deadline - self.now()) / 1000
            if self.rebuilt != rebuilt:  # perhaps in this task's own turn, so no turn has taken the new one's effects
                rebuilt, wait_s = self.rebuilt, min(wait_s, self._loads_from - trio.current_time())
            with trio.move_on_after(max(wait_s, 0)):
                await self._wakeup.wait()
            if suspension.suspended:
                await suspension.confirmed()
            if (grace_ms := suspension.grace_ms) > 0:
                await trio.sleep(grace_ms / 1000)
            self._change("the clock", lambda: self.coordinator.tick(self.now()))

    async def _begin(self, nursery: trio.Nursery) -> None:
        """Start what runs beside the coordinator."""

    def _suspended(self, ms: int) -> None:
        self._log.say(f"{self._kind}_suspended", logging.WARNING, ms=ms)

    def _session_ended(self) -> None:
        self._change("a session that ended", lambda: self.coordinator.topic.resign_all(self.now()))

    def _is_excused(self) -> bool:
        """Return whether no turn is to be expected now."""
        return self._nursery is None or self._suspension.suspended or self._suspension.grace_ms > 0

    # -- requests --------------------------------------------------------------------------------------------

    async def ask(self, ask: K) -> R:
        if self.coordinator.topic.partitions is None:
            self._count_wanted.ring()
        if self._suspension.suspended:
            await self._suspension.confirmed()
        self._last_ticket += 1
        ticket, pending = Ticket(self._last_ticket), PendingReply[R]()
        self._waiting[ticket] = pending
        try:
            self._change(ask, lambda: self.coordinator.step(ticket, ask, self.now()))
            reply = pending.value if pending.value is not None else await pending.wait()
            if reply is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator of {self._kind} failed; see the log")
            return reply
        finally:
            del self._waiting[ticket]  # a reply to a cancelled request is dropped

    # -- the topic ---------------------------------------------------------------------------

    def role_taken(self, where: TopicPartition, leads: bool | None, epoch: int) -> None:
        """Take or give up a partition. `leads` None: this broker holds no replica any more."""
        if where.topic != self._topic:
            return
        self._count_wanted.ring()

        def taken() -> None:
            if leads:
                self.coordinator.topic.elected(where.partition, epoch)
            else:
                self.coordinator.topic.resigned(where.partition, None if leads is None else epoch, self.now())

        self._change("a role", taken)

    def topic_changed(self) -> None:
        """Count the partitions anew: the topic was deleted, perhaps re-created. Loaded state ends with the roles."""
        self.coordinator.topic.partitions = None
        self._count_wanted.ring()

    async def _count_partitions(self) -> None:
        """Count the partitions whenever the number is needed. It never changes, but the topic may be re-created."""
        while True:
            await self._count_wanted.wait()
            if self.coordinator.topic.partitions is None:
                try:
                    self.coordinator.topic.partitions = await self._count()
                except KafkaError as error:
                    self._log.warn_rate_limited(f"{self._kind}_topic_unknown", "", topic=self._topic, why=error)
                    self._count_wanted.ring()
                except Exception as error:
                    self._log.failed(f"{self._kind}_topic_unknown", error, topic=self._topic)
                    self._count_wanted.ring()
                    await trio.sleep(LOAD_AGAIN_S)
                await trio.sleep(LOOK_AGAIN_S)

    # -- turns --------------------------------------------------------------------------

    def _change(self, cause: object, change: Callable[[], object]) -> None:
        """Change the coordinator's state; nothing else does. `cause` names the change in the log."""
        watchdog, nested = self._watchdog, self._turns.running
        started = watchdog.clock()
        try:
            change()
        except Exception as error:
            self._rebuild(cause, error)
        self._turn()
        if not nested:  # else the turn under way takes the time
            watchdog.took(watchdog.clock() - started, lambda: _named(cause))

    def _rebuild(self, cause: object, error: Exception) -> None:
        """Replace a coordinator whose state may be half changed, and load what it led from the log."""
        self._log.failed(f"{self._kind}_coordinator_rebuilt", error, cause=_named(cause))
        self.rebuilt += 1
        former, self.coordinator = self.coordinator, self._make(self.now())
        self.coordinator.succeed(former)
        self._loads_from = trio.current_time() + LOAD_AGAIN_S
        for pending in self._waiting.values():
            pending.give(None)

    def _turn(self) -> None:
        """Carry out the coordinator's effects.

        An exception ends the turn and replaces the coordinator. The effects of the new one, its loads, wait for the
        next turn, at the next request or in `_keep_time`. A second exception there is treated in the same way, so this
        turn retries nothing; `_keep_time` waits until `_loads_from` in between.
        """
        if self._nursery is None:
            return  # `run` begins with a turn
        try:
            ended = self._turns.run()
        except Exception as error:
            self._rebuild("a turn", error)
            ended = True
        if not ended:
            return
        self._watchdog.turns += 1
        self._wakeup.ring()

    @abstractmethod
    def _act(self) -> None:
        """Carry out the coordinator's effects."""

    def _carry_out(
        self, ready: CoordinatorReady[R, A, N], tell: Callable[[N], None], append: Callable[[A], None]
    ) -> None:
        assert self._nursery is not None
        for answer in ready.answers:
            pending = self._waiting.get(answer.ticket)
            if pending is not None:
                pending.give(answer.reply)
        for note in ready.notes:
            tell(note)
        for load in ready.loads:
            self._nursery.start_soon(self._load, load)
        for each in ready.appends:
            append(each)

    def _write(self, ident: AppendId, partition: int, encoded: Callable[[], bytes], timeout_ms: int) -> None:
        """Append the batch that `encoded` returns. It has no effects: its exception concerns only this batch."""

        def done(error: ErrorCode, offset: int) -> None:
            self._change("a write", lambda: self.coordinator.topic.appended(ident, error, offset, self.now()))

        where = TopicPartition(self._topic, partition)
        try:
            data = encoded()
        except RecordError as error:
            self._log.say(f"{self._kind}_record_refused", logging.WARNING, partition=where, why=error)
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
        except Exception as error:
            self._log.failed(f"{self._kind}_record_not_encoded", error, partition=where)
            done(ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        else:
            self._storage.append(where, data, timeout_ms, done)

    # -- loading ---------------------------------------------------------------------------------------------

    async def _load(self, load: Load) -> None:
        where = TopicPartition(self._topic, load.partition)
        await trio.sleep_until(self._loads_from)

        def awaits() -> bool:
            return self.coordinator.topic.awaits(load)

        def take(header: Header, found: Iterator[Record]) -> None:
            self._replay(load, header, found)

        while awaits():
            try:
                if await read_all(self._storage, where, awaits, take):
                    self._change("a load", lambda: self.coordinator.loaded(load, self.now()))
                    return
            except (KafkaError, OSError) as error:
                self._log.warn_rate_limited(
                    f"{self._kind}_load_failed", load.partition, logging.ERROR, partition=where, why=error
                )
            except Exception as error:
                self._log.failed(f"{self._kind}_load_failed", error, partition=where)
            await trio.sleep(LOAD_AGAIN_S)

    @abstractmethod
    def _replay(self, load: Load, header: Header, found: Iterator[Record]) -> None:
        """Pass a batch of the topic to the coordinator."""

    def _read(self, load: Load, record: Record, decode: Callable[[bytes, bytes | None], D]) -> D | None:
        """Decode a record of the topic; return None if it is unreadable, or of a newer version."""
        if record.key is None:
            return None
        try:
            return decode(record.key, record.value)
        except RecordError as error:
            where = TopicPartition(self._topic, load.partition)
            event = f"{self._kind}_record_unreadable"
            self._log.say(event, logging.ERROR, partition=where, offset=record.offset, why=error)
            return None
