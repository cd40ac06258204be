"""Fetching from leaders: for each of them a task, a connection, and one request under way.

What is asked and what comes of it is decided by the core; here it becomes Kafka's Fetch, ListOffsets and
OffsetForLeaderEpoch, in at most the versions that have what replicas need. If a connection breaks, or a request is
given up, the core begins a new fetch session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

import trio
from attrs import frozen

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.core.partition_log import EpochEndOffset
from replica.core.replica_fetcher import SESSION_LOST, Answers
from replica.core.replica_manager import ReplicaManager
from replica.core.replica_messages import (
    EpochAnswer,
    EpochAsk,
    Fetch,
    Fetched,
    LeaderRequest,
    OffsetAnswer,
    OffsetAsk,
    SessionFetched,
)
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings, Unreachable
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.wire.schemas.data_schemas import (
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    PartitionData,
    ReplicaState,
)
from zab.net.wakeup import Wakeup

P = TypeVar("P")

LATEST: Final = -1
EARLIEST: Final = -2


class NotToldYet(Unreachable):
    """At the start a broker hears whom to follow before it hears where they are."""


@frozen
class FetcherSettings:
    """connect_s   for a connection to a leader
    answer_s    `replica.socket.timeout.ms`: for one answer, beside what it is told to wait
    reply_bytes_max  of one answer; batches are sent whole, so one may be larger than what was asked for
    pause_s     before a leader of whom nobody knows where he is, or that did not answer, is asked again
    """

    connect_s: float = 5.0
    answer_s: float = 30.0
    reply_bytes_max: int = 256 * 1024 * 1024
    pause_s: float = 0.2


class FetcherTasks:
    """address   where a broker is reached by other brokers; None if it is not known
    turned    to be called after each answer
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        epoch: Callable[[], BrokerEpoch],
        address: Callable[[BrokerId], tuple[str, int] | None],
        now: Callable[[], int],
        turned: Callable[[], None],
        log: Log,
        settings: FetcherSettings | None = None,
        between: InterBrokerClients | None = None,
    ) -> None:
        self.settings = settings or FetcherSettings()
        self._replicas = replicas
        self._epoch = epoch
        self._address = address
        self._now = now
        self._turned = turned
        self._log = log
        self._between = between or InterBrokerClients()
        self._bells: dict[BrokerId, Wakeup] = {}
        self._under_way: dict[BrokerId, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                for leader in self._replicas.fetchers.leaders:
                    self.wake(leader)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def wake(self, leader: BrokerId) -> None:
        """There is something new to be asked of this one, or nothing any more."""
        if leader in self._bells:
            self._bells[leader].ring()
            self._interrupt(leader)
        elif self._nursery is not None and leader in self._replicas.fetchers.leaders:
            self._bells[leader] = Wakeup()
            self._nursery.start_soon(self._follow, leader)

    def _interrupt(self, leader: BrokerId) -> None:
        """Give up a fetch under way, and its connection, if the core wants to fetch more at once."""
        scope = self._under_way.get(leader)
        if scope is not None and self._replicas.fetchers.interrupts(leader, self._now()):
            scope.cancel()

    async def _follow(self, leader: BrokerId) -> None:
        """For as long as this broker follows him in anything."""
        connection: BrokerConnection | None = None
        try:
            while leader in self._replicas.fetchers.leaders:
                self._bells[leader].answer()
                request = self._replicas.fetchers.next_request(leader, self._epoch(), self._now())
                if request is None:
                    await self._rest(leader)
                    continue
                try:
                    if connection is None:
                        connection = await self._dial(leader)
                    answers = None
                    with trio.CancelScope() as scope:
                        self._under_way[leader] = scope
                        answers = await _ask(connection, request, self._replicas.me)
                except (Unreachable, KafkaError, WireError, OSError, trio.BrokenResourceError) as error:
                    usual = isinstance(error, NotToldYet)
                    level = logging.INFO if usual else logging.WARNING
                    self._log.warn_rate_limited("leader-not-reached", (leader, usual), level, leader=leader, why=error)
                    self._replicas.fetchers.failed(request, self._now())
                    if connection is not None:
                        await connection.aclose()
                        connection = None
                    with trio.move_on_after(self.settings.pause_s):
                        await self._bells[leader].wait()
                    continue
                finally:
                    self._under_way.pop(leader, None)
                if answers is None:  # interrupted
                    await connection.aclose()
                    connection = None
                    continue
                try:
                    self._replicas.fetchers.answered(request, answers, self._now())
                except Exception as error:
                    self._log.failed("answer-not-taken", error, leader=leader)
                    self._replicas.fetchers.failed(request, self._now())
                self._turned()
        finally:
            del self._bells[leader]
            if connection is not None:
                with trio.CancelScope(shield=True):
                    await connection.aclose()

    async def _rest(self, leader: BrokerId) -> None:
        now = self._now()
        resume = self._replicas.fetchers.resume_at(leader, now)
        with trio.move_on_after(float("inf") if resume is None else max(resume - now, 1) / 1000):
            await self._bells[leader].wait()

    async def _dial(self, leader: BrokerId) -> BrokerConnection:
        address = self._address(leader)
        if address is None:
            raise NotToldYet(f"nobody has said where broker {leader} is")
        with trio.move_on_after(self.settings.connect_s):
            wait_s = self._replicas.settings.fetch_wait_ms / 1000
            settings = ClientSettings(
                client_id=f"broker-{self._replicas.me}-fetcher",
                request_s=self.settings.answer_s + wait_s,
                reply_bytes_max=self.settings.reply_bytes_max,
            )
            return await self._between.connection(address, settings)
        raise Unreachable(f"{address[0]}:{address[1]}: no connection within {self.settings.connect_s} s")


# -- in the words of the protocol --------------------------------------------------------------------------


async def _ask(connection: BrokerConnection, request: LeaderRequest, me: BrokerId) -> Answers:
    if request.fetch is not None:
        return fetched(await connection.ask(FETCH, fetch_body(request.fetch)))
    if request.epochs:
        return _epochs(await connection.ask(OFFSET_FOR_LEADER_EPOCH, _epoch_body(request.epochs, me)))
    return _offsets(await connection.ask(LIST_OFFSETS, _offset_body(request.offsets, me)))


def _by_topic(parts: Iterable[tuple[TopicPartition, P]]) -> Iterator[tuple[str, list[P]]]:
    topics: dict[str, list[P]] = {}
    for where, part in parts:
        topics.setdefault(where.topic, []).append(part)
    return iter(topics.items())


def fetch_body(asked: Fetch) -> FetchRequest:
    parts = (
        (
            part.where,
            FetchRequestPartition(
                partition=part.where.partition,
                current_leader_epoch=part.leader_epoch,
                fetch_offset=part.offset,
                last_fetched_epoch=part.last_epoch,
                log_start_offset=part.start_offset,
                partition_max_bytes=part.bytes_max,
            ),
        )
        for part in asked.parts
    )
    place = asked.session
    forgotten = () if place is None else sorted(place.forgotten)
    return FetchRequest(
        replica_id=asked.replica,
        replica_state=ReplicaState(replica_id=asked.replica, replica_epoch=asked.broker_epoch),
        max_wait_ms=asked.wait_ms,
        min_bytes=asked.bytes_min,
        max_bytes=asked.bytes_max,
        isolation_level=0,
        session_id=0 if place is None else place.id,
        session_epoch=-1 if place is None else place.epoch,
        topics=[FetchTopic(topic, each) for topic, each in _by_topic(parts)],
        forgotten_topics_data=[
            ForgottenTopic(topic=topic, partitions=[where.partition for where in wheres])
            for topic, wheres in groupby(forgotten, lambda where: where.topic)
        ],
        rack_id="",
    )


def fetched(reply: FetchResponse) -> SessionFetched:
    error = _error(reply.error_code)
    if error and error not in SESSION_LOST:
        raise KafkaError(error, "the leader answers to the whole request")
    parts = [_fetched(topic.topic, part) for topic in reply.responses for part in topic.partitions]
    return SessionFetched(reply.session_id, parts, error)


def _fetched(topic: str, part: PartitionData) -> Fetched:
    end = part.diverging_epoch
    return Fetched(
        TopicPartition(topic, part.partition_index),
        _error(part.error_code),
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        part.records or b"",
        None if end is None else EpochEndOffset(end.epoch, end.end_offset),
    )


def _epoch_body(asks: Sequence[EpochAsk], me: BrokerId) -> OffsetForLeaderEpochRequest:
    parts = (
        (
            ask.where,
            OffsetForLeaderPartition(
                partition=ask.where.partition, current_leader_epoch=ask.leader_epoch, leader_epoch=ask.epoch
            ),
        )
        for ask in asks
    )
    return OffsetForLeaderEpochRequest(me, [OffsetForLeaderTopic(topic, each) for topic, each in _by_topic(parts)])


def _epochs(reply: OffsetForLeaderEpochResponse) -> list[EpochAnswer]:
    return [
        EpochAnswer(
            TopicPartition(topic.topic, part.partition),
            _error(part.error_code),
            EpochEndOffset(part.leader_epoch, part.end_offset),
        )
        for topic in reply.topics
        for part in topic.partitions
    ]


def _offset_body(asks: Sequence[OffsetAsk], me: BrokerId) -> ListOffsetsRequest:
    parts = [
        (
            ask.where,
            ListOffsetsPartition(
                partition_index=ask.where.partition,
                current_leader_epoch=ask.leader_epoch,
                timestamp=LATEST if ask.latest else EARLIEST,
            ),
        )
        for ask in asks
    ]
    return ListOffsetsRequest(me, topics=[ListOffsetsTopic(topic, each) for topic, each in _by_topic(parts)])


def _offsets(reply: ListOffsetsResponse) -> list[OffsetAnswer]:
    return [
        OffsetAnswer(TopicPartition(topic.name, part.partition_index), _error(part.error_code), part.offset)
        for topic in reply.topics
        for part in topic.partitions
    ]


def _error(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
