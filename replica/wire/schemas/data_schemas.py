"""Requests about the records of partitions: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords. Also
InitProducerId."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import define

from replica.wire.api import ApiKey
from replica.wire.fields import (
    Api,
    i8,
    i16,
    i32,
    i32s,
    i64,
    message,
    octets,
    struct,
    structs,
    text,
)


@define
class PartitionProduceData:
    index: int = i32()
    records: bytes | None = octets(null=0)


@define
class TopicProduceData:
    name: str = text()
    partition_data: list[PartitionProduceData] = structs(PartitionProduceData)


@define
class ProduceRequest:
    transactional_id: str | None = text(null=0, default=None)
    acks: int = i16()
    timeout_ms: int = i32()
    topic_data: list[TopicProduceData] = structs(TopicProduceData)


@define
class BatchIndexAndErrorMessage:
    batch_index: int = i32()
    batch_index_error_message: str | None = message(null=0, default=None)


@define
class PartitionProduceResponse:
    index: int = i32()
    error_code: int = i16()
    base_offset: int = i64()
    log_append_time_ms: int = i64(default=-1)
    log_start_offset: int = i64(since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = structs(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = message(since=8, null=0, default=None)


@define
class TopicProduceResponse:
    name: str = text()
    partition_responses: list[PartitionProduceResponse] = structs(PartitionProduceResponse)


@define
class ProduceResponse:
    responses: list[TopicProduceResponse] = structs(TopicProduceResponse)
    throttle_time_ms: int = i32()


# Version 10 adds optional tagged fields with the new leader and its address, and version 11 adds the error code
# TRANSACTION_ABORTABLE. This broker sends neither.
PRODUCE: Final = Api(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, first=3, last=11, flexible=9)


@define
class ReplicaState:
    """The follower that fetches, and its broker epoch (KIP-903). In Kafka, version 15 adds this tagged field; here,
    followers send it in version 12."""

    replica_id: int = i32(default=-1)
    replica_epoch: int = i64(default=-1)


@define
class FetchRequestPartition:
    partition: int = i32()
    current_leader_epoch: int = i32(since=9, default=-1)
    fetch_offset: int = i64()
    last_fetched_epoch: int = i32(since=12, default=-1)
    log_start_offset: int = i64(since=5, default=-1)
    partition_max_bytes: int = i32()


@define
class FetchTopic:
    topic: str = text()
    partitions: list[FetchRequestPartition] = structs(FetchRequestPartition)


@define
class ForgottenTopic:
    topic: str = text()
    partitions: Sequence[int] = i32s()


@define
class FetchRequest:
    cluster_id: str | None = text(since=12, null=0, tag=0, default=None)
    replica_state: ReplicaState | None = struct(ReplicaState, since=12, tag=1)
    replica_id: int = i32(default=-1)
    max_wait_ms: int = i32()
    min_bytes: int = i32()
    max_bytes: int = i32(default=0x7FFF_FFFF)
    isolation_level: int = i8()
    session_id: int = i32(since=7)
    session_epoch: int = i32(since=7, default=-1)
    topics: list[FetchTopic] = structs(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = structs(ForgottenTopic, since=7)
    rack_id: str = text(since=11)


@define
class DivergingEpoch:
    epoch: int = i32(default=-1)
    end_offset: int = i64(default=-1)


@define
class LeaderIdAndEpoch:
    leader_id: int = i32(default=-1)
    leader_epoch: int = i32(default=-1)


@define
class SnapshotId:
    end_offset: int = i64(default=-1)
    epoch: int = i32(default=-1)


@define
class AbortedTransaction:
    producer_id: int = i64()
    first_offset: int = i64()


@define
class PartitionData:
    partition_index: int = i32()
    error_code: int = i16()
    high_watermark: int = i64()
    last_stable_offset: int = i64(default=-1)
    log_start_offset: int = i64(since=5, default=-1)
    diverging_epoch: DivergingEpoch | None = struct(DivergingEpoch, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = structs(AbortedTransaction, null=0)
    preferred_read_replica: int = i32(since=11, default=-1)
    records: bytes | None = octets(null=0)


@define
class FetchableTopicResponse:
    topic: str = text()
    partitions: list[PartitionData] = structs(PartitionData)


@define
class FetchResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16(since=7)
    session_id: int = i32(since=7)
    responses: list[FetchableTopicResponse] = structs(FetchableTopicResponse)


FETCH: Final = Api(ApiKey.FETCH, FetchRequest, FetchResponse, first=4, last=12, flexible=12)


@define
class ListOffsetsPartition:
    partition_index: int = i32()
    current_leader_epoch: int = i32(since=4, default=-1)
    timestamp: int = i64()


@define
class ListOffsetsTopic:
    name: str = text()
    partitions: list[ListOffsetsPartition] = structs(ListOffsetsPartition)


@define
class ListOffsetsRequest:
    replica_id: int = i32()
    isolation_level: int = i8(since=2)
    topics: list[ListOffsetsTopic] = structs(ListOffsetsTopic)


@define
class ListOffsetsPartitionResponse:
    partition_index: int = i32()
    error_code: int = i16()
    timestamp: int = i64(default=-1)
    offset: int = i64(default=-1)
    leader_epoch: int = i32(since=4, default=-1)


@define
class ListOffsetsTopicResponse:
    name: str = text()
    partitions: list[ListOffsetsPartitionResponse] = structs(ListOffsetsPartitionResponse)


@define
class ListOffsetsResponse:
    throttle_time_ms: int = i32(since=2)
    topics: list[ListOffsetsTopicResponse] = structs(ListOffsetsTopicResponse)


LIST_OFFSETS: Final = Api(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, first=1, last=7, flexible=6)


@define
class OffsetForLeaderPartition:
    partition: int = i32()
    current_leader_epoch: int = i32(default=-1)
    leader_epoch: int = i32()


@define
class OffsetForLeaderTopic:
    topic: str = text()
    partitions: list[OffsetForLeaderPartition] = structs(OffsetForLeaderPartition)


@define
class OffsetForLeaderEpochRequest:
    replica_id: int = i32(since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = structs(OffsetForLeaderTopic)


@define
class OffsetForLeaderPartitionResult:
    error_code: int = i16()
    partition: int = i32()
    leader_epoch: int = i32(default=-1)
    end_offset: int = i64(default=-1)


@define
class OffsetForLeaderTopicResult:
    topic: str = text()
    partitions: list[OffsetForLeaderPartitionResult] = structs(OffsetForLeaderPartitionResult)


@define
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = i32()
    topics: list[OffsetForLeaderTopicResult] = structs(OffsetForLeaderTopicResult)


OFFSET_FOR_LEADER_EPOCH: Final = Api(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    first=2,
    last=4,
    flexible=4,
)


@define
class DeleteRecordsPartition:
    partition_index: int = i32()
    offset: int = i64()


@define
class DeleteRecordsTopic:
    name: str = text()
    partitions: list[DeleteRecordsPartition] = structs(DeleteRecordsPartition)


@define
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = structs(DeleteRecordsTopic)
    timeout_ms: int = i32()


@define
class DeleteRecordsPartitionResult:
    partition_index: int = i32()
    low_watermark: int = i64()
    error_code: int = i16()


@define
class DeleteRecordsTopicResult:
    name: str = text()
    partitions: list[DeleteRecordsPartitionResult] = structs(DeleteRecordsPartitionResult)


@define
class DeleteRecordsResponse:
    throttle_time_ms: int = i32()
    topics: list[DeleteRecordsTopicResult] = structs(DeleteRecordsTopicResult)


DELETE_RECORDS: Final = Api(
    ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse, first=0, last=2, flexible=2
)


@define
class InitProducerIdRequest:
    transactional_id: str | None = text(null=0)
    transaction_timeout_ms: int = i32()
    producer_id: int = i64(since=3, default=-1)
    producer_epoch: int = i16(since=3, default=-1)


@define
class InitProducerIdResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    producer_id: int = i64(default=-1)
    producer_epoch: int = i16()


INIT_PRODUCER_ID: Final = Api(
    ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse, first=0, last=4, flexible=2
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    DELETE_RECORDS,
    INIT_PRODUCER_ID,
)
