"""Drives the coordinator of groups: time, the offsets topic, and whoever waits for an answer.

groups = Groups(storage, look, settings)
await nursery.start(groups.run)
groups.role_taken(where, leads, epoch)     # of each partition of the offsets topic, in the order in which it happens
reply = await groups.ask(Join(...))
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial
from typing import Final
from uuid import uuid4

import trio
from attrs import define, field

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.groups.coordinator import Coordinator
from replica.core.groups.desk import Settings
from replica.core.groups.messages import Ask, Reply, Ticket
from replica.core.groups.ready import (
    Append,
    Dropped,
    Expired,
    Load,
    Loaded,
    Note,
    NotWritten,
    Rebalancing,
    Refused,
    StateChanged,
    Unloaded,
)
from replica.core.groups.states import Cause
from replica.runtime.coordinator_log import LOAD_AGAIN_S, LOOK_AGAIN_S, Storage, read_all
from replica.runtime.logs import Log
from replica.runtime.offsets_topic import OFFSETS_TOPIC
from replica.wire import group_records
from replica.wire.batch import Header
from replica.wire.records import ControlType, Record, batch_of, read_control

AWAKE_S: Final = 0.25
LATE_MS: Final = 1_000
"""Who looks at the clock four times in a second and finds so much gone has stood still: stopped, or swapped out."""
GRACE_MS: Final = 1_000
"""What members said meanwhile lies unread in sockets. They are heard first, or all of them would be dead at once."""


@define(eq=False)
class _Waiter:
    answered: trio.Event = field(factory=trio.Event)
    reply: Reply | None = None


async def _surely() -> bool:
    return True


class Groups:
    """One broker's.

    count        how many partitions the offsets topic has, as the store knows it; None: there is none
    still_leads  asked when this process stood still: whether it is certain that nobody was put in its place meanwhile
    """

    def __init__(
        self,
        storage: Storage,
        count: Callable[[], Awaitable[int | None]],
        log: Log,
        settings: Settings | None = None,
        commit_timeout_ms: int = 5_000,
        still_leads: Callable[[], Awaitable[bool]] = _surely,
    ) -> None:
        self.settings = settings or Settings()
        self.rebalances: Counter[Cause] = Counter()
        """By what they began with, since this broker was started."""
        self._storage = storage
        self._count = count
        self._log = log
        self._commit_timeout_ms = commit_timeout_ms
        # Times are kept in the topic and compared by other brokers, so they are those of a wall clock; but one that
        # nobody can set: sessions would be over before their time.
        self._origin = time.time() - trio.current_time()
        self.coordinator = Coordinator(self.settings, self.now(), _new_id, group_records.topics_of)
        self._waiting: dict[Ticket, _Waiter] = {}
        self._last_ticket = 0
        self._bell = trio.Event()
        self._wanted = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._turning = self._again = False
        self._still_leads = still_leads
        self._awake = self.now()
        self._sure = trio.Event()
        self._grace_ends = 0

    def now(self) -> int:
        return int((self._origin + trio.current_time()) * 1000)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery, self._awake = nursery, self.now()
            nursery.start_soon(self._count_partitions)
            nursery.start_soon(self._look_at_the_clock)
            self._turn()
            task_status.started()
            while True:
                self._bell = trio.Event()
                deadline = self.coordinator.deadline
                with trio.move_on_after(max((deadline - self.now()) / 1000, 0)):
                    await self._bell.wait()
                if self._stood_still:  # and whoever looks at the clock has not seen it yet
                    await self._sure.wait()
                if (grace := self._grace_ends - self.now()) > 0:
                    await trio.sleep(grace / 1000)
                self.coordinator.tick(self.now())
                self._turn()

    # -- standing still ----------------------------------------------------------------------------------------

    @property
    def _stood_still(self) -> bool:
        return self.now() - self._awake > LATE_MS

    async def _look_at_the_clock(self) -> None:
        """Of a broker that stands still for longer than its session everybody thinks that it is dead. When it goes on
        it must not answer with what it remembers before it has heard that."""
        while True:
            await trio.sleep(AWAKE_S)
            if self._stood_still:
                self._log.say("groups-stood-still", logging.WARNING, ms=self.now() - self._awake)
                if not await self._still_leads():
                    self.coordinator.resign_all(self.now())
                    self._turn()
                self._grace_ends = self.now() + GRACE_MS
                sure, self._sure = self._sure, trio.Event()
                sure.set()
            self._awake = self.now()

    # -- who asks --------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Reply:
        if self.coordinator.partitions is None:
            self._wanted.set()
        if self._stood_still:
            await self._sure.wait()
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

    # -- what happens to the topic -----------------------------------------------------------------------------

    def role_taken(self, where: TopicPartition, leads: bool | None, epoch: int) -> None:
        """`leads` None: there is no replica of it here any more."""
        if where.topic != OFFSETS_TOPIC:
            return
        self._wanted.set()
        if leads:
            self.coordinator.elected(where.partition, epoch)
        else:
            self.coordinator.resigned(where.partition, None if leads is None else epoch, self.now())
        self._turn()

    def complete_transaction(self, partition: int, producer: int, committed: bool, offset: int) -> None:
        """The end of the producer's transaction stands in this partition of the offsets topic, at that offset, and
        every replica in sync has it. Not to be called before; once more does no harm."""
        self.coordinator.transaction_ended(partition, producer, committed, offset)
        self._turn()

    def topics_deleted(self, topics: Collection[str]) -> None:
        self.coordinator.forget_topics(topics, self.now())
        self._turn()

    def offsets_topic_changed(self) -> None:
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
                    self._log.grumble("offsets-topic-unknown", "", why=error)
                    self._wanted.set()
                await trio.sleep(LOOK_AGAIN_S)

    # -- what the coordinator wants ------------------------------------------------------------------------------

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
            for append in ready.appends:
                self._append(append)
        self._turning = False
        self._bell.set()

    def _append(self, append: Append) -> None:
        where = TopicPartition(OFFSETS_TOPIC, append.partition)

        def done(error: ErrorCode, offset: int) -> None:
            self.coordinator.appended(append.id, error, offset, self.now())
            self._turn()

        try:
            pairs = [(group_records.encode_key(each), group_records.encode_value(each)) for each in append.records]
        except group_records.RecordError as error:
            self._log.say("group-record-refused", logging.WARNING, partition=append.partition, why=error)
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        data = batch_of(pairs, append.now_ms, transaction=append.producer)
        self._storage.append(where, data, self._commit_timeout_ms, done)

    # -- loading -------------------------------------------------------------------------------------------------

    async def _load(self, load: Load) -> None:
        where = TopicPartition(OFFSETS_TOPIC, load.partition)
        awaits, take = partial(self.coordinator.awaits, load), partial(self._replay, load)
        while awaits():
            try:
                if await read_all(self._storage, where, awaits, take):
                    self.coordinator.loaded(load, self.now())
                    self._turn()
                    return
            except (KafkaError, OSError) as error:
                self._log.grumble("groups-not-loaded", load.partition, logging.ERROR, partition=where, why=error)
            await trio.sleep(LOAD_AGAIN_S)

    def _replay(self, load: Load, header: Header, found: Iterator[Record]) -> None:
        producer = header.producer_id if header.transactional else None
        for record in found:
            if header.control:
                kind, _ = read_control(record)
                if kind is not None:
                    committed = kind is ControlType.COMMIT
                    self.coordinator.replay_end(load, record.offset, header.producer_id, committed)
            elif record.key is not None:
                try:
                    entry = group_records.decode(record.key, record.value)
                except group_records.RecordError as error:
                    say, where = self._log.say, f"{OFFSETS_TOPIC}-{load.partition}"
                    say("group-record-unreadable", logging.ERROR, partition=where, offset=record.offset, why=error)
                    continue
                if entry is not None:
                    self.coordinator.replay(load, record.offset, entry, producer)

    # -- telling -------------------------------------------------------------------------------------------------

    def _tell(self, note: Note) -> None:
        say = self._log.say
        match note:
            case Rebalancing(group, cause, why, generation):
                self.rebalances[cause] += 1
                say("group-rebalances", group=group, cause=cause.value, why=why, generation=generation)
            case StateChanged(group, before, after, generation, members):
                say(
                    "group-state",
                    logging.DEBUG,
                    group=group,
                    before=before.value,
                    after=after.value,
                    generation=generation,
                    members=members,
                )
            case Dropped(group, member, why):
                say("group-member-dropped", group=group, member=member, why=why)
            case Refused(group, member, error, why):
                self._log.grumble(
                    "group-member-refused", (group, error), group=group, member=member, error=error.name, why=why
                )
            case NotWritten(group, what, error):
                say("group-not-written", logging.WARNING, group=group, what=what, error=error.name)
            case Expired(group, offsets, group_too):
                say("group-offsets-forgotten", group=group, offsets=offsets, group_too=group_too)
            case Loaded(partition, epoch, groups, offsets):
                # Most of them are empty in a young cluster, and there are fifty of them.
                level = logging.INFO if groups else logging.DEBUG
                say("groups-loaded", level, partition=partition, epoch=epoch, groups=groups, offsets=offsets)
            case Unloaded(partition, groups):
                say("groups-unloaded", logging.INFO if groups else logging.DEBUG, partition=partition, groups=groups)


def _new_id() -> str:
    return str(uuid4())
