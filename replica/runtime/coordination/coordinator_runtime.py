"""Drives a coordinator, whatever it coordinates: time, its topic, and whoever waits for an answer.

await nursery.start(driver.run)
driver.role_taken(where, leads, epoch)     # of each partition of its topic, in the order in which it happens
reply = await driver.ask(Join(...))

One coordinator serves all groups, or all transactions, of a broker, so an exception in it must not end its service.
A record that cannot be encoded is an error of the request that wanted it. After any other exception the coordinator's
state may be half changed: the driver logs a traceback, puts a new coordinator in its place, and loads the partitions
from the log again. Requests that waited for the old coordinator end with their connections, and clients repeat them.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import trio
from attrs import define, field

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import AppendId, CoordinatorReady, Load, Ticket, TopicCoordinator
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.coordination.coordinator_log import LOAD_AGAIN_S, LOOK_AGAIN_S, CoordinatorStorage, read_all
from replica.runtime.logs import Log
from replica.wire.batch import Header
from replica.wire.record_fields import RecordError
from replica.wire.records import Record
from zab.host.clocks import steady_wall_clock
from zab.host.watchdog import UNWATCHED
from zab.net.wakeup import Wakeup

AWAKE_S: Final = 0.25
LATE_MS: Final = 1_000
"""Who looks at the clock four times in a second and finds so much gone has stood still: stopped, or swapped out."""
GRACE_MS: Final = 1_000
"""What was said meanwhile lies unread in sockets. It is heard first: all members of groups would be dead at once, and
all transactions overdue."""

C = TypeVar("C", bound=TopicCoordinator[Any])
K = TypeVar("K")
R = TypeVar("R")
A = TypeVar("A")
N = TypeVar("N")
D = TypeVar("D")


@define(eq=False)
class _Waiter(Generic[R]):
    answered: trio.Event = field(factory=trio.Event)
    reply: R | None = None


def _named(cause: object) -> str:
    """As the log calls it: a request by its kind, since what is in it may be large."""
    return cause if isinstance(cause, str) else type(cause).__name__


async def surely() -> bool:
    return True


class CoordinatorRuntime(ABC, Generic[C, K, R]):
    """One broker's.

    what         is coordinated, as the log calls it
    topic        on which
    count        how many partitions that has, as the store knows it; None: there is none
    make         the coordinator, at this time
    still_leads  asked when this process stood still: whether it is certain that nobody was put in its place meanwhile
    """

    def __init__(
        self,
        what: str,
        topic: str,
        make: Callable[[int], C],
        storage: CoordinatorStorage,
        count: Callable[[], Awaitable[int | None]],
        log: Log,
        still_leads: Callable[[], Awaitable[bool]],
    ) -> None:
        self._what = what
        self._topic = topic
        self._storage = storage
        self._count = count
        self._log = log
        self._still_leads = still_leads
        self.now = steady_wall_clock()
        """Times are kept in the topic and compared by other brokers."""
        self.coordinator = make(self.now())
        self._make = make
        self.watchdog = UNWATCHED
        self.rebuilt = 0
        """Coordinators that were replaced after an exception."""
        self._loads_from = 0.0
        """No partition is loaded before this, so that what fails each time does not keep the broker busy."""
        self._waiting: dict[Ticket, _Waiter[R]] = {}
        self._last_ticket = 0
        self._bell = Wakeup()
        self._wanted = Wakeup()
        self._nursery: trio.Nursery | None = None
        self._turning = self._again = False
        self._awake = self.now()
        self._sure = trio.Event()
        self._grace_ends = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await self._begin(nursery)
            self._nursery, self._awake = nursery, self.now()
            nursery.start_soon(self._count_partitions)
            nursery.start_soon(self._look_at_the_clock)
            self._turn()
            task_status.started()
            try:
                await self._keep_time()
            finally:
                self._nursery = None

    async def _keep_time(self) -> None:
        while True:
            self._bell.answer()
            with trio.move_on_after(max((self.coordinator.deadline - self.now()) / 1000, 0)):
                await self._bell.wait()
            if self._stood_still:  # and whoever looks at the clock has not seen it yet
                await self._sure.wait()
            if (grace := self._grace_ends - self.now()) > 0:
                await trio.sleep(grace / 1000)
            self._change("the clock", lambda: self.coordinator.tick(self.now()))

    async def _begin(self, nursery: trio.Nursery) -> None:
        """What else runs beside it."""

    # -- standing still --------------------------------------------------------------------------------------

    @property
    def _stood_still(self) -> bool:
        return self.now() - self._awake > LATE_MS

    async def _look_at_the_clock(self) -> None:
        """Of a broker that stands still for longer than its session everybody thinks that it is dead. When it goes on
        it must not answer with what it remembers before it has heard that."""
        while True:
            await trio.sleep(AWAKE_S)
            if self._stood_still:
                self._log.say(f"{self._what}-stood-still", logging.WARNING, ms=self.now() - self._awake)
                if not await self._still_leads():
                    self._change("a session that ended", lambda: self.coordinator.topic.resign_all(self.now()))
                self._grace_ends = self.now() + GRACE_MS
                sure, self._sure = self._sure, trio.Event()
                sure.set()
            self._awake = self.now()

    # -- requests --------------------------------------------------------------------------------------------

    async def ask(self, ask: K) -> R:
        if self.coordinator.topic.partitions is None:
            self._wanted.ring()
        if self._stood_still:
            await self._sure.wait()
        self._last_ticket += 1
        ticket, waiter = Ticket(self._last_ticket), _Waiter[R]()
        self._waiting[ticket] = waiter
        try:
            self._change(ask, lambda: self.coordinator.step(ticket, ask, self.now()))
            if waiter.reply is None:
                await waiter.answered.wait()
            if waiter.reply is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator of {self._what} failed; see the log")
            return waiter.reply
        finally:
            del self._waiting[ticket]  # an answer to somebody who has gone is thrown away

    # -- what happens to the topic ---------------------------------------------------------------------------

    def role_taken(self, where: TopicPartition, leads: bool | None, epoch: int) -> None:
        """`leads` None: there is no replica of it here any more."""
        if where.topic != self._topic:
            return
        self._wanted.ring()

        def taken() -> None:
            if leads:
                self.coordinator.topic.elected(where.partition, epoch)
            else:
                self.coordinator.topic.resigned(where.partition, None if leads is None else epoch, self.now())

        self._change("a role", taken)

    def topic_changed(self) -> None:
        """It was deleted, or there is a new one, perhaps of more partitions. What was loaded ends with its roles."""
        self.coordinator.topic.partitions = None
        self._wanted.ring()

    async def _count_partitions(self) -> None:
        """When somebody wants to know it. The number of a topic never changes; but there may be another topic."""
        while True:
            await self._wanted.wait()
            if self.coordinator.topic.partitions is None:
                try:
                    self.coordinator.topic.partitions = await self._count()
                except KafkaError as error:
                    self._log.warn_rate_limited(f"{self._what}-topic-unknown", "", topic=self._topic, why=error)
                    self._wanted.ring()
                except Exception as error:
                    self._log.failed(f"{self._what}-topic-unknown", error, topic=self._topic)
                    self._wanted.ring()
                    await trio.sleep(LOAD_AGAIN_S)
                await trio.sleep(LOOK_AGAIN_S)

    # -- what the coordinator wants --------------------------------------------------------------------------

    def _change(self, cause: object, change: Callable[[], object]) -> None:
        """Every change of the coordinator's state comes this way. `cause`: what to call it in the log."""
        dog, inside = self.watchdog, self._turning
        started = dog.clock()
        try:
            change()
        except Exception as error:
            self._rebuild(cause, error)
        self._turn()
        if not inside:  # else the turn in whose middle this is takes the time
            dog.took(dog.clock() - started, lambda: _named(cause))

    def _rebuild(self, cause: object, error: Exception) -> None:
        """Replace a coordinator whose state may be half changed, and load what it led from the log."""
        self._log.failed(f"{self._what}-coordinator-rebuilt", error, cause=_named(cause))
        self.rebuilt += 1
        former, self.coordinator = self.coordinator, self._make(self.now())
        self.coordinator.succeed(former)
        self._loads_from = trio.current_time() + LOAD_AGAIN_S
        for waiter in self._waiting.values():
            waiter.answered.set()

    def _turn(self) -> None:
        self._again = True
        if self._nursery is None or self._turning:
            return  # it is seen to when `run` begins, or before the turn ends in whose middle we are
        self._turning = True
        try:
            while self._again:
                self._again = False
                self._act()
        except Exception as error:
            self._rebuild("a turn", error)  # what the new coordinator wants is done when the clock is looked at next
        finally:
            self._turning = False
        self.watchdog.turns += 1
        self._bell.ring()

    def poke(self) -> None:
        """Have a turn soon, even if there is nothing to do."""
        self._bell.ring()

    @property
    def excused(self) -> bool:
        """No turn is to be expected now."""
        return self._nursery is None or self._stood_still or self._grace_ends > self.now()

    @abstractmethod
    def _act(self) -> None:
        """All that has come up."""

    def _carry_out(
        self, ready: CoordinatorReady[R, A, N], tell: Callable[[N], None], append: Callable[[A], None]
    ) -> None:
        assert self._nursery is not None
        for answer in ready.answers:
            waiter = self._waiting.get(answer.ticket)
            if waiter is not None:
                waiter.reply = answer.reply
                waiter.answered.set()
        for note in ready.notes:
            tell(note)
        for load in ready.loads:
            self._nursery.start_soon(self._load, load)
        for each in ready.appends:
            append(each)

    def _write(self, ident: AppendId, partition: int, encoded: Callable[[], bytes], timeout_ms: int) -> None:
        """`encoded`: a batch. It changes nothing, so whatever it raises is an error of this record alone."""

        def done(error: ErrorCode, offset: int) -> None:
            self._change("a write", lambda: self.coordinator.topic.appended(ident, error, offset, self.now()))

        where = TopicPartition(self._topic, partition)
        try:
            data = encoded()
        except RecordError as error:
            self._log.say(f"{self._what}-record-refused", logging.WARNING, partition=where, why=error)
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
        except Exception as error:
            self._log.failed(f"{self._what}-record-not-encoded", error, partition=where)
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
                    f"{self._what}-not-loaded", load.partition, logging.ERROR, partition=where, why=error
                )
            except Exception as error:
                self._log.failed(f"{self._what}-not-loaded", error, partition=where)
            await trio.sleep(LOAD_AGAIN_S)

    @abstractmethod
    def _replay(self, load: Load, header: Header, found: Iterator[Record]) -> None:
        """A batch of the topic."""

    def _read(self, load: Load, record: Record, decode: Callable[[bytes, bytes | None], D]) -> D | None:
        """None: it says nothing that is understood here."""
        if record.key is None:
            return None
        try:
            return decode(record.key, record.value)
        except RecordError as error:
            where = TopicPartition(self._topic, load.partition)
            event = f"{self._what}-record-unreadable"
            self._log.say(event, logging.ERROR, partition=where, offset=record.offset, why=error)
            return None
