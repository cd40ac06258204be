"""Requests about transactions: from producers to coordinators, from those to leaders, from administrators to both.

In the supported versions a producer may use the same epoch for many transactions. Later versions, in which each
transaction has its own epoch (KIP-890), are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import define

from replica.wire.api import ApiKey
from replica.wire.fields import (
    Api,
    boolean,
    i16,
    i32,
    i32s,
    i64,
    i64s,
    message,
    structs,
    text,
    texts,
)
from replica.wire.schemas.group_schemas import OffsetCommitResponseTopic


@define
class AddPartitionsToTxnTopic:
    name: str = text()
    partitions: Sequence[int] = i32s()


@define
class AddPartitionsToTxnRequest:
    transactional_id: str = text()
    producer_id: int = i64()
    producer_epoch: int = i16()
    topics: list[AddPartitionsToTxnTopic] = structs(AddPartitionsToTxnTopic)


@define
class AddPartitionsToTxnPartitionResult:
    partition_index: int = i32()
    partition_error_code: int = i16()


@define
class AddPartitionsToTxnTopicResult:
    name: str = text()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = structs(AddPartitionsToTxnPartitionResult)


@define
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = i32()
    results_by_topic: list[AddPartitionsToTxnTopicResult] = structs(AddPartitionsToTxnTopicResult)


ADD_PARTITIONS_TO_TXN: Final = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, first=0, last=3, flexible=3
)


@define
class AddOffsetsToTxnRequest:
    transactional_id: str = text()
    producer_id: int = i64()
    producer_epoch: int = i16()
    group_id: str = text()


@define
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()


ADD_OFFSETS_TO_TXN: Final = Api(
    ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, first=0, last=3, flexible=3
)


@define
class EndTxnRequest:
    transactional_id: str = text()
    producer_id: int = i64()
    producer_epoch: int = i16()
    committed: bool = boolean()


@define
class EndTxnResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()


END_TXN: Final = Api(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse, first=0, last=3, flexible=3)


@define
class TxnOffsetCommitRequestPartition:
    partition_index: int = i32()
    committed_offset: int = i64()
    committed_leader_epoch: int = i32(since=2, default=-1)
    committed_metadata: str | None = text(null=0)


@define
class TxnOffsetCommitRequestTopic:
    name: str = text()
    partitions: list[TxnOffsetCommitRequestPartition] = structs(TxnOffsetCommitRequestPartition)


@define
class TxnOffsetCommitRequest:
    transactional_id: str = text()
    group_id: str = text()
    producer_id: int = i64()
    producer_epoch: int = i16()
    generation_id: int = i32(since=3, default=-1)
    member_id: str = text(since=3)
    group_instance_id: str | None = text(since=3, null=0, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = structs(TxnOffsetCommitRequestTopic)


@define
class TxnOffsetCommitResponse:
    throttle_time_ms: int = i32()
    topics: list[OffsetCommitResponseTopic] = structs(OffsetCommitResponseTopic)


TXN_OFFSET_COMMIT: Final = Api(
    ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse, first=0, last=3, flexible=3
)


@define
class WritableTxnMarkerTopic:
    name: str = text()
    partition_indexes: Sequence[int] = i32s()


@define
class WritableTxnMarker:
    producer_id: int = i64()
    producer_epoch: int = i16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = structs(WritableTxnMarkerTopic)
    coordinator_epoch: int = i32()


@define
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = structs(WritableTxnMarker)


@define
class WritableTxnMarkerPartitionResult:
    partition_index: int = i32()
    error_code: int = i16()


@define
class WritableTxnMarkerTopicResult:
    name: str = text()
    partitions: list[WritableTxnMarkerPartitionResult] = structs(WritableTxnMarkerPartitionResult)


@define
class WritableTxnMarkerResult:
    producer_id: int = i64()
    topics: list[WritableTxnMarkerTopicResult] = structs(WritableTxnMarkerTopicResult)


@define
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = structs(WritableTxnMarkerResult)


WRITE_TXN_MARKERS: Final = Api(
    ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, WriteTxnMarkersResponse, first=0, last=1, flexible=1
)


@define
class TopicRequest:
    name: str = text()
    partition_indexes: Sequence[int] = i32s()


@define
class DescribeProducersRequest:
    topics: list[TopicRequest] = structs(TopicRequest)


@define
class ProducerState:
    producer_id: int = i64()
    producer_epoch: int = i32()
    last_sequence: int = i32(default=-1)
    last_timestamp: int = i64(default=-1)
    coordinator_epoch: int = i32()
    current_txn_start_offset: int = i64(default=-1)


@define
class PartitionResponse:
    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0, default=None)
    active_producers: list[ProducerState] = structs(ProducerState)


@define
class TopicResponse:
    name: str = text()
    partitions: list[PartitionResponse] = structs(PartitionResponse)


@define
class DescribeProducersResponse:
    throttle_time_ms: int = i32()
    topics: list[TopicResponse] = structs(TopicResponse)


DESCRIBE_PRODUCERS: Final = Api(
    ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest, DescribeProducersResponse, first=0, last=0, flexible=0
)


@define
class DescribeTransactionsRequest:
    transactional_ids: Sequence[str] = texts()


@define
class TopicData:
    topic: str = text()
    partitions: Sequence[int] = i32s()


@define
class TransactionState:
    error_code: int = i16()
    transactional_id: str = text()
    transaction_state: str = text()
    transaction_timeout_ms: int = i32()
    transaction_start_time_ms: int = i64()
    producer_id: int = i64()
    producer_epoch: int = i16()
    topics: list[TopicData] = structs(TopicData)


@define
class DescribeTransactionsResponse:
    throttle_time_ms: int = i32()
    transaction_states: list[TransactionState] = structs(TransactionState)


DESCRIBE_TRANSACTIONS: Final = Api(
    ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest, DescribeTransactionsResponse, first=0, last=0, flexible=0
)


@define
class ListTransactionsRequest:
    state_filters: Sequence[str] = texts()
    producer_id_filters: Sequence[int] = i64s()
    duration_filter: int = i64(since=1, default=-1)


@define
class ListedTransaction:
    transactional_id: str = text()
    producer_id: int = i64()
    transaction_state: str = text()


@define
class ListTransactionsResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    unknown_state_filters: Sequence[str] = texts()
    transaction_states: list[ListedTransaction] = structs(ListedTransaction)


LIST_TRANSACTIONS: Final = Api(
    ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest, ListTransactionsResponse, first=0, last=1, flexible=0
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
