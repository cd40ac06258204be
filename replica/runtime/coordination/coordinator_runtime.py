"""The runtime side of a coordinator, for groups or transactions: its clock, its topic, and pending requests.

    await nursery.start(coordinator.run)
    coordinator.role_taken(taken)     # for each partition of its topic, in order
    reply = await coordinator.ask(Join(...))

One coordinator serves all groups, or all transactions, of a broker, so an exception must not stop it. A record that
cannot be encoded is an error of the request that caused it. After any other exception in a change or a turn, the
coordinator's state may be half changed: the runtime logs a traceback, puts a new coordinator in its place, and loads
the partitions from the log again. Pending requests of the old coordinator raise `KafkaError`. Unless a handler returns
this error, the connection is closed, and the client repeats its request.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import trio

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_loader import CoordinatorLoader, LoadPace
from replica.core.coordinator_topic import AppendId, CoordinatorReady, Load, Ticket, TopicCoordinator
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import PartitionLog
from replica.core.replica_messages import RoleTaken
from replica.runtime.coordination.suspension_monitor import SuspensionMonitor
from replica.runtime.logs import Log
from replica.runtime.pending_reply import PendingReply
from replica.runtime.turn_loop import TurnLoop
from replica.wire.coordinator_records import replay_batches
from replica.wire.record_fields import RecordError
from zab.host.clocks import steady_wall_clock
from zab.host.watchdog import UNWATCHED, Watchdogs
from zab.net.wakeup import Wakeup

PACE: Final = LoadPace()
COUNT_AGAIN_S: Final = 0.05
"""The pause after each read of the number of partitions, before the next one."""
RETRY_S: Final = 1.0
"""The pause before partitions are loaded after a replacement of the coordinator, and after an unexpected exception in a
read of their number."""

C = TypeVar("C", bound=TopicCoordinator[Any, Any])
K = TypeVar("K")
R = TypeVar("R")
A = TypeVar("A")
N = TypeVar("N")


class CoordinatorStorage(Protocol):
    """The part of the replica manager that coordinators use."""

    def append(
        self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[ErrorCode, int], None]
    ) -> None:
        """Append with acks=all, in the order of the calls.

        `done` is called exactly once, perhaps before this returns: with NONE and the offset of the first record, or the
        error.
        """

    def log_and_high_watermark(self, where: TopicPartition) -> tuple[PartitionLog, int] | None:
        """Return the log of a replica and its high watermark; None if this broker holds no replica."""


def _named(cause: object) -> str:
    """Return the name of a cause for the log. The name of a request is its type, since the content may be large."""
    return cause if isinstance(cause, str) else type(cause).__name__


async def always() -> bool:
    return True


class CoordinatorRuntime(ABC, Generic[C, K, R]):
    """Runs one coordinator.

    kind         "groups" or "transactions", for the log
    make         creates a coordinator, given the time
    decode       decodes a record of the topic; returns None for an unknown type, raises `RecordError` if it is invalid
    count        returns the number of partitions of the topic in the store; None if the topic does not exist
    still_leads  called after a suspension: returns whether the session with the store has lasted
    """

    def __init__(
        self,
        kind: str,
        make: Callable[[int], C],
        decode: Callable[[bytes, bytes | None], object],
        storage: CoordinatorStorage,
        count: Callable[[], Awaitable[int | None]],
        log: Log,
        still_leads: Callable[[], Awaitable[bool]],
        watchdogs: Watchdogs | None,
    ) -> None:
        self.now = steady_wall_clock()
        """A wall clock that never goes back while the process runs. Its times are stored in the topic, and later
        leaders compare them with their own clocks."""
        self.coordinator = make(self.now())
        self.rebuilt = 0
        """The number of coordinators that were replaced after an exception."""
        self._kind = kind
        self._make = make
        self._decode = decode
        self._storage = storage
        self._count = count
        self._log = log
        self._loads_from = 0.0
        """Partitions are loaded only after this time, so that a repeated error does not keep the broker busy."""
        self._waiting: dict[Ticket, PendingReply[R]] = {}
        self._last_ticket = 0
        self._wakeup = Wakeup()
        self._count_wanted = Wakeup()
        """Rung when the coordinator needs the number of partitions."""
        self._nursery: trio.Nursery | None = None
        """The nursery of `run`; None while `run` is not running, and then no effects are executed."""
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
            # The coordinator was replaced, perhaps in a turn of this task. If no other turn executes the new one's
            # effects, the next turn of this task does.
            if self.rebuilt != rebuilt:
                rebuilt, wait_s = self.rebuilt, min(wait_s, self._loads_from - trio.current_time())
            with trio.move_on_after(max(wait_s, 0)):
                await self._wakeup.wait()
            if suspension.suspended:
                await suspension.confirmed()
            if (grace_ms := suspension.grace_ms) > 0:
                await trio.sleep(grace_ms / 1000)
            self._change("the clock", lambda: self.coordinator.tick(self.now()))

    async def _begin(self, nursery: trio.Nursery) -> None:
        """Start additional tasks of the coordinator."""

    def _suspended(self, ms: int) -> None:
        self._log.say(f"{self._kind}_suspended", logging.WARNING, ms=ms)

    def _session_ended(self) -> None:
        self._change("a session that ended", lambda: self.coordinator.topic.resign_all(self.now()))

    def _is_excused(self) -> bool:
        """Return whether no turns are expected now. Then the watchdog does not report the loop as dead."""
        return self._nursery is None or self._suspension.suspended or self._suspension.grace_ms > 0

    # -- requests --------------------------------------------------------------------------------------------

    async def ask(self, ask: K) -> R:
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

    def role_taken(self, taken: RoleTaken) -> None:
        """Pass on a new role in a partition of the coordinator's topic. Ignore other topics."""
        if taken.where.topic == self.coordinator.topic.name:
            self._change("a role", lambda: self.coordinator.topic.role_taken(taken, self.now()))

    def topic_changed(self) -> None:
        """Read the number of partitions again, because the topic was created, deleted, or re-created."""
        self._change("a changed topic", self.coordinator.topic.changed)

    async def _count_partitions(self) -> None:
        """Read the number of partitions whenever the coordinator needs it."""
        while True:
            await self._count_wanted.wait()
            if self.coordinator.topic.partitions is None:
                try:
                    self.coordinator.topic.partitions = await self._count()
                except KafkaError as error:
                    topic = self.coordinator.topic.name
                    self._log.warn_rate_limited(f"{self._kind}_topic_unknown", "", topic=topic, why=error)
                    self._count_wanted.ring()
                except Exception as error:
                    self._log.failed(f"{self._kind}_topic_unknown", error, topic=self.coordinator.topic.name)
                    self._count_wanted.ring()
                    await trio.sleep(RETRY_S)
                await trio.sleep(COUNT_AGAIN_S)

    # -- turns --------------------------------------------------------------------------

    def _change(self, cause: object, change: Callable[[], object]) -> None:
        """Change the coordinator's state and run a turn. All changes are made here, except the number of partitions and
        the records of a load. `cause` names the change in the log."""
        watchdog, nested = self._watchdog, self._turns.running
        started = watchdog.clock()
        try:
            change()
        except Exception as error:
            self._rebuild(cause, error)
        self._turn()
        if not nested:  # the time of a nested change counts for the outer change
            watchdog.took(watchdog.clock() - started, lambda: _named(cause))

    def _rebuild(self, cause: object, error: Exception) -> None:
        """Replace a coordinator whose state may be inconsistent, and load its partitions from the log."""
        self._log.failed(f"{self._kind}_coordinator_rebuilt", error, cause=_named(cause))
        self.rebuilt += 1
        former, self.coordinator = self.coordinator, self._make(self.now())
        self.coordinator.succeed(former)
        self._loads_from = trio.current_time() + RETRY_S
        for pending in self._waiting.values():
            pending.give(None)

    def _turn(self) -> None:
        """Execute the coordinator's effects.

        An exception ends the turn and replaces the coordinator. The effects of the new one, its loads, are executed in
        the next turn: after the next change, or by `_keep_time`, which waits until `_loads_from`. So a repeated
        exception cannot keep this turn from ending.
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
        """Execute the coordinator's effects."""

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
        if ready.counts:
            self._count_wanted.ring()

    def _write(self, ident: AppendId, partition: int, encoded: Callable[[], bytes], timeout_ms: int) -> None:
        """Append the batch that `encoded` returns. An exception in `encoded` fails only this batch."""

        def done(error: ErrorCode, offset: int) -> None:
            self._change("a write", lambda: self.coordinator.topic.appended(ident, error, offset, self.now()))

        where = TopicPartition(self.coordinator.topic.name, partition)
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
        where = TopicPartition(self.coordinator.topic.name, load.partition)
        loader = CoordinatorLoader(load, self.coordinator.topic, self._replay, PACE)
        await trio.sleep_until(self._loads_from)
        pause_ms = self._advance(loader, where)
        while pause_ms is not None:
            await trio.sleep(pause_ms / 1000)
            pause_ms = self._advance(loader, where)
        self._change("a load", lambda: self.coordinator.loaded(load, self.now()))

    def _advance(self, loader: CoordinatorLoader, where: TopicPartition) -> int | None:
        try:
            return loader.advance(self._storage.log_and_high_watermark(where))
        except (KafkaError, OSError) as error:
            event = f"{self._kind}_load_failed"
            self._log.warn_rate_limited(event, where.partition, logging.ERROR, partition=where, why=error)
        except Exception as error:
            self._log.failed(f"{self._kind}_load_failed", error, partition=where)
        return loader.restart()

    def _replay(self, load: Load, data: bytes, since: int) -> int:
        return replay_batches(self.coordinator, load, data, since, self._decode, self._unreadable)

    def _unreadable(self, load: Load, offset: int, error: RecordError) -> None:
        where = TopicPartition(self.coordinator.topic.name, load.partition)
        self._log.say(f"{self._kind}_record_unreadable", logging.ERROR, partition=where, offset=offset, why=error)
