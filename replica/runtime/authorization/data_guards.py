"""Guards for requests about records, offsets in logs, producers and transaction markers."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from replica.core.errors import ErrorCode, KafkaError
from replica.core.security.acls import Operation, ResourceType
from replica.runtime.authorization.guard import (
    CLUSTER_REFUSED,
    TOPIC_REFUSED,
    GuardedRequest,
    GuardTable,
    entry,
    guard_table,
    split,
)
from replica.runtime.requests import Handler
from replica.wire.schemas.data_schemas import (
    DELETE_RECORDS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
    PartitionData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from replica.wire.schemas.transaction_schemas import (
    DESCRIBE_PRODUCERS,
    WRITE_TXN_MARKERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def _produce(
    guarded: GuardedRequest[ProduceRequest], handler: Handler[ProduceRequest, ProduceResponse | None]
) -> ProduceResponse | None:
    name, topics = guarded.body.transactional_id, guarded.body.topic_data
    if name is not None and not guarded.transactional_id(Operation.WRITE, name):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ProduceResponse(responses=[_unwritten(each, error) for each in topics])
    permitted = guarded.topics(Operation.WRITE, [each.name for each in topics])
    passed, refused = split(topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    response: ProduceResponse | None = ProduceResponse()
    if passed:
        response = await handler(guarded.with_body(evolve(guarded.body, topic_data=passed)))
    if guarded.body.acks == 0:
        raise KafkaError(
            TOPIC_REFUSED,
            f"a produce request with acks=0 names a topic to which {guarded.request.principal} may not write",
        )
    if response is None:
        return None
    return evolve(response, responses=[*response.responses, *(_unwritten(each) for each in refused)])


def _unwritten(topic: TopicProduceData, refused: ErrorCode = TOPIC_REFUSED) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        partition_responses=[
            PartitionProduceResponse(index=part.index, error_code=refused, base_offset=-1, log_start_offset=-1)
            for part in topic.partition_data
        ],
    )


async def _fetch(guarded: GuardedRequest[FetchRequest], handler: Handler[FetchRequest, FetchResponse]) -> FetchResponse:
    topics = guarded.body.topics
    if guarded.body.replica_id >= 0:
        if guarded.cluster(Operation.CLUSTER_ACTION):
            return await handler(guarded.request)
        return FetchResponse(responses=[_unread(each) for each in topics])
    permitted = guarded.topics(Operation.READ, [each.topic for each in topics])
    passed, refused = split(topics, lambda each: each.topic in permitted)
    if not refused:
        return await handler(guarded.request)
    response = await handler(guarded.with_body(evolve(guarded.body, topics=passed))) if passed else FetchResponse()
    if response.error_code:
        return response
    return evolve(response, responses=[*response.responses, *map(_unread, refused)])


def _unread(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        partitions=[
            PartitionData(partition_index=part.partition, error_code=TOPIC_REFUSED, high_watermark=-1, records=b"")
            for part in topic.partitions
        ],
    )


async def _list_offsets(
    guarded: GuardedRequest[ListOffsetsRequest], handler: Handler[ListOffsetsRequest, ListOffsetsResponse]
) -> ListOffsetsResponse:
    if guarded.body.replica_id >= 0 and guarded.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return await handler(guarded.request)
    permitted = guarded.topics(Operation.DESCRIBE, [each.name for each in guarded.body.topics])
    passed, refused = split(guarded.body.topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else ListOffsetsResponse()
    return evolve(response, topics=[*response.topics, *map(_unlisted, refused)])


def _unlisted(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
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
    )


async def _epoch_ends(
    guarded: GuardedRequest[OffsetForLeaderEpochRequest],
    handler: Handler[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse],
) -> OffsetForLeaderEpochResponse:
    if guarded.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return await handler(guarded.request)
    permitted = guarded.topics(Operation.DESCRIBE, [each.topic for each in guarded.body.topics])
    passed, refused = split(guarded.body.topics, lambda each: each.topic in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else OffsetForLeaderEpochResponse()
    return evolve(response, topics=[*response.topics, *map(_no_epoch_ends, refused)])


def _no_epoch_ends(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            OffsetForLeaderPartitionResult(
                partition=part.partition, error_code=TOPIC_REFUSED, leader_epoch=-1, end_offset=-1
            )
            for part in topic.partitions
        ],
    )


async def _delete_records(
    guarded: GuardedRequest[DeleteRecordsRequest], handler: Handler[DeleteRecordsRequest, DeleteRecordsResponse]
) -> DeleteRecordsResponse:
    permitted = guarded.topics(Operation.DELETE, [each.name for each in guarded.body.topics])
    passed, refused = split(guarded.body.topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else DeleteRecordsResponse()
    return evolve(response, topics=[*response.topics, *map(_undeleted, refused)])


def _undeleted(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=part.partition_index, error_code=TOPIC_REFUSED, low_watermark=-1
            )
            for part in topic.partitions
        ],
    )


async def _producer_id(
    guarded: GuardedRequest[InitProducerIdRequest], handler: Handler[InitProducerIdRequest, InitProducerIdResponse]
) -> InitProducerIdResponse:
    """Require WRITE on the transactional id. Without an id, require WRITE on at least one topic, or IDEMPOTENT_WRITE on
    the cluster."""
    name = guarded.body.transactional_id
    if name is not None:
        if guarded.transactional_id(Operation.WRITE, name):
            return await handler(guarded.request)
        return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1)
    somewhere = guarded.authorizer.allows_somewhere(guarded.request, Operation.WRITE, ResourceType.TOPIC)
    if somewhere or guarded.cluster(Operation.IDEMPOTENT_WRITE):
        return await handler(guarded.request)
    return InitProducerIdResponse(error_code=CLUSTER_REFUSED, producer_epoch=-1)


async def _markers(
    guarded: GuardedRequest[WriteTxnMarkersRequest], handler: Handler[WriteTxnMarkersRequest, WriteTxnMarkersResponse]
) -> WriteTxnMarkersResponse:
    """Require CLUSTER_ACTION or ALTER on the cluster. The first is for brokers, the second for operators who abort
    hanging transactions."""
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


async def _producers(
    guarded: GuardedRequest[DescribeProducersRequest],
    handler: Handler[DescribeProducersRequest, DescribeProducersResponse],
) -> DescribeProducersResponse:
    permitted = guarded.topics(Operation.READ, [each.name for each in guarded.body.topics])
    passed, refused = split(guarded.body.topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else DescribeProducersResponse()
    return evolve(response, topics=[*response.topics, *map(_no_producers, refused)])


def _no_producers(topic: TopicRequest) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(partition_index=number, error_code=TOPIC_REFUSED) for number in topic.partition_indexes
        ],
    )


GUARDS: Final[GuardTable] = guard_table(
    entry(PRODUCE, _produce),
    entry(FETCH, _fetch),
    entry(LIST_OFFSETS, _list_offsets),
    entry(OFFSET_FOR_LEADER_EPOCH, _epoch_ends),
    entry(DELETE_RECORDS, _delete_records),
    entry(INIT_PRODUCER_ID, _producer_id),
    entry(WRITE_TXN_MARKERS, _markers),
    entry(DESCRIBE_PRODUCERS, _producers),
)
