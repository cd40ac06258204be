"""Guards for produce, fetch, offset lookups and the requests between brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from replica.core.errors import ErrorCode, KafkaError
from replica.core.security.acls import Operation, ResourceType
from replica.runtime.authorization.guard import (
    CLUSTER_REFUSED,
    TOPIC_REFUSED,
    Guard,
    GuardedRequest,
    handle_split,
    of_topics,
)
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas.data_schemas import (
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
from replica.wire.schemas.transaction_schemas import (
    PartitionResponse,
    TopicResponse,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def _produce(guarded: GuardedRequest[ProduceRequest], handler: Handler) -> ProduceResponse | None:
    name = guarded.body.transactional_id
    if name is not None and not guarded.transactional_id(Operation.WRITE, name):
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ProduceResponse(responses=[_unwritten(each, refused) for each in guarded.body.topic_data])
    permitted = guarded.topics(Operation.WRITE, [each.name for each in guarded.body.topic_data])
    response: ProduceResponse | None = await handle_split(
        guarded, handler, "topic_data", "responses", lambda each: each.name in permitted, lambda each: _unwritten(each)
    )
    if guarded.body.acks == 0 and any(each.name not in permitted for each in guarded.body.topic_data):
        raise KafkaError(
            TOPIC_REFUSED,
            f"{guarded.request.principal} is not authorized to write to all topics of its produce request with acks=0",
        )
    return response


def _unwritten(topic: TopicProduceData, refused: ErrorCode = TOPIC_REFUSED) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        partition_responses=[
            PartitionProduceResponse(index=part.index, error_code=refused, base_offset=-1, log_start_offset=-1)
            for part in topic.partition_data
        ],
    )


async def _fetch(guarded: GuardedRequest[FetchRequest], handler: Handler) -> Any:
    topics = guarded.body.topics
    if guarded.body.replica_id >= 0:
        if guarded.cluster(Operation.CLUSTER_ACTION):
            return await handler(guarded.request)
        return FetchResponse(responses=[_unread(each) for each in topics])
    permitted = guarded.topics(Operation.READ, [each.topic for each in topics])
    return await handle_split(guarded, handler, "topics", "responses", lambda each: each.topic in permitted, _unread)


def _unread(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        partitions=[
            PartitionData(partition_index=part.partition, error_code=TOPIC_REFUSED, high_watermark=-1, records=b"")
            for part in topic.partitions
        ],
    )


async def _list_offsets(guarded: GuardedRequest[ListOffsetsRequest], handler: Handler) -> Any:
    if guarded.body.replica_id >= 0 and guarded.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return await handler(guarded.request)
    return await _LIST_OFFSETS(guarded, handler)


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


async def _epoch_ends(guarded: GuardedRequest[OffsetForLeaderEpochRequest], handler: Handler) -> Any:
    if guarded.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return await handler(guarded.request)
    return await _EPOCH_ENDS(guarded, handler)


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


async def _producer_id(guarded: GuardedRequest[InitProducerIdRequest], handler: Handler) -> Any:
    """Require WRITE on the transactional id; without an id, WRITE on at least one topic, or IDEMPOTENT_WRITE."""
    name = guarded.body.transactional_id
    if name is not None:
        if guarded.transactional_id(Operation.WRITE, name):
            return await handler(guarded.request)
        return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1)
    somewhere = guarded.authorizer.allows_somewhere(guarded.request, Operation.WRITE, ResourceType.TOPIC)
    if somewhere or guarded.cluster(Operation.IDEMPOTENT_WRITE):
        return await handler(guarded.request)
    return InitProducerIdResponse(error_code=CLUSTER_REFUSED, producer_epoch=-1)


async def _markers(guarded: GuardedRequest[WriteTxnMarkersRequest], handler: Handler) -> Any:
    """Require CLUSTER_ACTION, as brokers have, or ALTER for an operator that ends a hanging transaction."""
    if guarded.cluster(Operation.ALTER, quiet=True) or guarded.cluster(Operation.CLUSTER_ACTION):
        return await handler(guarded.request)
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
            for marker in guarded.body.markers
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
