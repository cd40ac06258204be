"""Drives a coordinator, whatever it coordinates: time, its topic, and whoever waits for an answer.

await nursery.start(driver.run)
driver.role_taken(where, leads, epoch)     # of each partition of its topic, in the order in which it happens
reply = await driver.ask(Join(...))
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar

import trio
from attrs import define, field

from kraft_controller.core.names import TopicPartition
from replica.core.coordinating import AppendId, Load, Ready, Ticket, TopicCoordinator
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.coordinator_log import LOAD_AGAIN_S, LOOK_AGAIN_S, Storage, read_all
from replica.runtime.logs import Log
from replica.wire.batch import Header
from replica.wire.fields_of_records import RecordError
from replica.wire.records import Record

AWAKE_S: Final = 0.25
LATE_MS: Final = 1_000
"""Who looks at the clock four times in a second and finds so much gone has stood still: stopped, or swapped out."""
GRACE_MS: Final = 1_000
"""What was said meanwhile lies unread in sockets. It is heard first: all members of groups would be dead at once, and
all transactions overdue."""

C = TypeVar("C", bound=TopicCoordinator[Any, Any, Any])
K = TypeVar("K")
R = TypeVar("R")
A = TypeVar("A")
N = TypeVar("N")
D = TypeVar("D")


@define(eq=False)
class _Waiter(Generic[R]):
    answered: trio.Event = field(factory=trio.Event)
    reply: R | None = None


async def surely() -> bool:
    return True


class Driver(ABC, Generic[C, K, R]):
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
        storage: Storage,
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
        # Times are kept in the topic and compared by other brokers, so they are those of a wall clock; but one that
        # nobody can set: sessions and transactions would be over before their time.
        self._origin = time.time() - trio.current_time()
        self.coordinator = make(self.now())
        self._waiting: dict[Ticket, _Waiter[R]] = {}
        self._last_ticket = 0
        self._bell = trio.Event()
        self._wanted = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._turning = self._again = False
        self._awake = self.now()
        self._sure = trio.Event()
        self._grace_ends = 0

    def now(self) -> int:
        return int((self._origin + trio.current_time()) * 1000)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await self._begin(nursery)
            self._nursery, self._awake = nursery, self.now()
            nursery.start_soon(self._count_partitions)
            nursery.start_soon(self._look_at_the_clock)
            self._turn()
            task_status.started()
            while True:
                self._bell = trio.Event()
                with trio.move_on_after(max((self.coordinator.deadline - self.now()) / 1000, 0)):
                    await self._bell.wait()
                if self._stood_still:  # and whoever looks at the clock has not seen it yet
                    await self._sure.wait()
                if (grace := self._grace_ends - self.now()) > 0:
                    await trio.sleep(grace / 1000)
                self.coordinator.tick(self.now())
                self._turn()

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
                    self.coordinator.resign_all(self.now())
                    self._turn()
                self._grace_ends = self.now() + GRACE_MS
                sure, self._sure = self._sure, trio.Event()
                sure.set()
            self._awake = self.now()

    # -- who asks --------------------------------------------------------------------------------------------

    async def ask(self, ask: K) -> R:
        if self.coordinator.partitions is None:
            self._wanted.set()
        if self._stood_still:
            await self._sure.wait()
        self._last_ticket += 1
        ticket, waiter = Ticket(self._last_ticket), _Waiter[R]()
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

    # -- what happens to the topic ---------------------------------------------------------------------------

    def role_taken(self, where: TopicPartition, leads: bool | None, epoch: int) -> None:
        """`leads` None: there is no replica of it here any more."""
        if where.topic != self._topic:
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
                    self._log.grumble(f"{self._what}-topic-unknown", "", topic=self._topic, why=error)
                    self._wanted.set()
                await trio.sleep(LOOK_AGAIN_S)

    # -- what the coordinator wants --------------------------------------------------------------------------

    def _turn(self) -> None:
        self._again = True
        if self._nursery is None or self._turning:
            return  # it is seen to when `run` begins, or before the turn ends in whose middle we are
        self._turning = True
        while self._again:
            self._again = False
            self._act()
        self._turning = False
        self._bell.set()

    @abstractmethod
    def _act(self) -> None:
        """All that has come up."""

    def _carry_out(self, ready: Ready[R, A, N], tell: Callable[[N], None], append: Callable[[A], None]) -> None:
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
        """`encoded`: a batch; it may find that there is no room for something in a record."""

        def done(error: ErrorCode, offset: int) -> None:
            self.coordinator.appended(ident, error, offset, self.now())
            self._turn()

        where = TopicPartition(self._topic, partition)
        try:
            data = encoded()
        except RecordError as error:
            self._log.say(f"{self._what}-record-refused", logging.WARNING, partition=where, why=error)
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        self._storage.append(where, data, timeout_ms, done)

    # -- loading ---------------------------------------------------------------------------------------------

    async def _load(self, load: Load) -> None:
        where = TopicPartition(self._topic, load.partition)
        awaits, take = partial(self.coordinator.awaits, load), partial(self._replay, load)
        while awaits():
            try:
                if await read_all(self._storage, where, awaits, take):
                    self.coordinator.loaded(load, self.now())
                    self._turn()
                    return
            except (KafkaError, OSError) as error:
                self._log.grumble(f"{self._what}-not-loaded", load.partition, logging.ERROR, partition=where, why=error)
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
