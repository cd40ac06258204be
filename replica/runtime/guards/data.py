"""Guards of records and offsets: writing, reading and listing them, and the requests of brokers among each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from replica.core.acls import Operation, ResourceType
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.guards.asking import CLUSTER_REFUSED, TOPIC_REFUSED, Asked, Guard, of_topics, split
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas.data import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
    PartitionData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from replica.wire.schemas.transactions import (
    PartitionResponse,
    TopicResponse,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def _produce(asked: Asked[ProduceRequest], handler: Handler) -> ProduceResponse | None:
    name = asked.body.transactional_id
    if name is not None and not asked.transactional_id(Operation.WRITE, name):
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ProduceResponse(responses=[_unwritten(each, refused) for each in asked.body.topic_data])
    mine = asked.topics(Operation.WRITE, [each.name for each in asked.body.topic_data])
    response: ProduceResponse | None = await split(
        asked, handler, "topic_data", "responses", lambda each: each.name in mine, lambda each: _unwritten(each)
    )
    if asked.body.acks == 0 and any(each.name not in mine for each in asked.body.topic_data):
        raise KafkaError(TOPIC_REFUSED, f"{asked.request.principal} wants no answer, and may not write everything")
    return response


def _unwritten(topic: TopicProduceData, refused: ErrorCode = TOPIC_REFUSED) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        partition_responses=[
            PartitionProduceResponse(index=part.index, error_code=refused, base_offset=-1, log_start_offset=-1)
            for part in topic.partition_data
        ],
    )


async def _fetch(asked: Asked[FetchRequest], handler: Handler) -> Any:
    topics = asked.body.topics
    if asked.body.replica_id >= 0:
        if asked.cluster(Operation.CLUSTER_ACTION):
            return await handler(asked.request)
        return FetchResponse(responses=[_unread(each) for each in topics])
    mine = asked.topics(Operation.READ, [each.topic for each in topics])
    return await split(asked, handler, "topics", "responses", lambda each: each.topic in mine, _unread)


def _unread(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        partitions=[
            PartitionData(partition_index=part.partition, error_code=TOPIC_REFUSED, high_watermark=-1, records=b"")
            for part in topic.partitions
        ],
    )


async def _list_offsets(asked: Asked[ListOffsetsRequest], handler: Handler) -> Any:
    if asked.body.replica_id >= 0 and asked.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return await handler(asked.request)
    return await _LIST_OFFSETS(asked, handler)


_LIST_OFFSETS: Final = of_topics(
    Operation.DESCRIBE,
    "topics",
    "topics",
    "name",
    lambda topic: ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(
                partition_index=part.partition_index,
                error_code=TOPIC_REFUSED,
                timestamp=-1,
                offset=-1,
                leader_epoch=-1,
            )
            for part in topic.partitions
        ],
    ),
)


async def _epoch_ends(asked: Asked[OffsetForLeaderEpochRequest], handler: Handler) -> Any:
    if asked.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return await handler(asked.request)
    return await _EPOCH_ENDS(asked, handler)


_EPOCH_ENDS: Final = of_topics(
    Operation.DESCRIBE,
    "topics",
    "topics",
    "topic",
    lambda topic: OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            OffsetForLeaderPartitionResult(
                partition=part.partition, error_code=TOPIC_REFUSED, leader_epoch=-1, end_offset=-1
            )
            for part in topic.partitions
        ],
    ),
)

_DELETE_RECORDS: Final = of_topics(
    Operation.DELETE,
    "topics",
    "topics",
    "name",
    lambda topic: DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=part.partition_index, error_code=TOPIC_REFUSED, low_watermark=-1
            )
            for part in topic.partitions
        ],
    ),
)


async def _producer_id(asked: Asked[InitProducerIdRequest], handler: Handler) -> Any:
    """Allow a producer id to every principal that may write to some topic."""
    name = asked.body.transactional_id
    if name is not None:
        if asked.transactional_id(Operation.WRITE, name):
            return await handler(asked.request)
        return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1)
    somewhere = asked.authorizer.allows_somewhere(asked.request, Operation.WRITE, ResourceType.TOPIC)
    if somewhere or asked.cluster(Operation.IDEMPOTENT_WRITE):
        return await handler(asked.request)
    return InitProducerIdResponse(error_code=CLUSTER_REFUSED, producer_epoch=-1)


async def _markers(asked: Asked[WriteTxnMarkersRequest], handler: Handler) -> Any:
    """Allow markers to brokers, and to an operator who ends a hanging transaction."""
    if asked.cluster(Operation.ALTER, quiet=True) or asked.cluster(Operation.CLUSTER_ACTION):
        return await handler(asked.request)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=number, error_code=CLUSTER_REFUSED)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in asked.body.markers
        ]
    )


_PRODUCERS: Final = of_topics(
    Operation.READ,
    "topics",
    "topics",
    "name",
    lambda topic: TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(partition_index=number, error_code=TOPIC_REFUSED) for number in topic.partition_indexes
        ],
    ),
)

GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epoch_ends,
    ApiKey.DELETE_RECORDS: _DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID: _producer_id,
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.DESCRIBE_PRODUCERS: _PRODUCERS,
}
