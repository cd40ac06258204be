"""A follower's requests to a leader, translated to Kafka's Fetch, ListOffsets and OffsetForLeaderEpoch, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import KafkaError, error_of
from replica.core.fetching.replica_fetcher import SESSION_LOST, Answers
from replica.core.partitions.partition_log import EpochEndOffset
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
from replica.runtime.network.broker_connection import BrokerConnection
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

P = TypeVar("P")

LATEST: Final = -1
EARLIEST: Final = -2


async def send_request(connection: BrokerConnection, request: LeaderRequest, me: BrokerId) -> Answers:
    """Send one request of the core and return the leader's response. Raises `KafkaError` if a fetch is refused as a
    whole, unless the reason is a lost fetch session."""
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
    error = error_of(reply.error_code)
    if error and error not in SESSION_LOST:
        raise KafkaError(error, "the leader refused the fetch as a whole")
    parts = [_fetched(topic.topic, part) for topic in reply.responses for part in topic.partitions]
    return SessionFetched(reply.session_id, parts, error)


def _fetched(topic: str, part: PartitionData) -> Fetched:
    end = part.diverging_epoch
    return Fetched(
        TopicPartition(topic, part.partition_index),
        error_of(part.error_code),
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
            error_of(part.error_code),
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
        OffsetAnswer(TopicPartition(topic.name, part.partition_index), error_of(part.error_code), part.offset)
        for topic in reply.topics
        for part in topic.partitions
    ]
