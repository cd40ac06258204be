"""Guards for Metadata, DescribeCluster, and requests that create topics or partitions or delete topics."""

from __future__ import annotations

from typing import Final, TypeVar

from attrs import evolve

from kraft_controller.core.names import TopicId
from replica.core.errors import ErrorCode
from replica.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from replica.runtime.authorization.guard import (
    REFUSED_TEXT,
    TOPIC_REFUSED,
    GuardedRequest,
    GuardTable,
    entry,
    guard_table,
    split,
)
from replica.runtime.requests import Handler
from replica.wire.schemas.cluster_schemas import (
    DESCRIBE_CLUSTER,
    METADATA,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from replica.wire.schemas.topic_schemas import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

Q = TypeVar("Q")


async def _metadata(
    guarded: GuardedRequest[MetadataRequest], handler: Handler[MetadataRequest, MetadataResponse]
) -> MetadataResponse:
    """If the request asks for all topics, return those that the client may describe.

    A named topic that the client may not describe gets the same error whether it exists or not, so that the error does
    not reveal its existence.
    """
    topics = guarded.body.topics
    if topics is None or (guarded.request.version == 0 and not topics):
        reply = await handler(guarded.request)
        permitted = guarded.topics(Operation.DESCRIBE, [each.name or "" for each in reply.topics], quiet=True)
        return _with_operations(
            guarded, evolve(reply, topics=[each for each in reply.topics if each.name in permitted])
        )
    wanted, refused = [], []
    for one in topics:
        error = _refusal(guarded, one)
        if error is None:
            wanted.append(one)
        else:
            hidden = one.name is None
            name = one.name if not hidden else None if guarded.request.version >= 12 else ""
            refused.append(MetadataResponseTopic(error_code=error, name=name, topic_id=one.topic_id))
    reply = await handler(guarded.with_body(evolve(guarded.body, topics=wanted)))
    return _with_operations(guarded, evolve(reply, topics=[*reply.topics, *refused]))


def _refusal(guarded: GuardedRequest[MetadataRequest], topic: MetadataRequestTopic) -> ErrorCode | None:
    name, ident = topic.name, topic.topic_id
    if ident is not None:
        known = guarded.names.name_of(ident)
        return None if known is None or guarded.topic(Operation.DESCRIBE, known) else ErrorCode.UNKNOWN_TOPIC_ID
    if name is None:
        return None
    if not guarded.topic(Operation.DESCRIBE, name):
        return TOPIC_REFUSED
    makes = guarded.auto_create and guarded.body.allow_auto_topic_creation and name not in guarded.names.topics
    if makes and not _may_create(guarded, name):
        return TOPIC_REFUSED
    return None


def _may_create(guarded: GuardedRequest[Q], name: str) -> bool:
    return guarded.cluster(Operation.CREATE, quiet=True) or guarded.topic(Operation.CREATE, name)


def _with_operations(guarded: GuardedRequest[MetadataRequest], response: MetadataResponse) -> MetadataResponse:
    if guarded.body.include_topic_authorized_operations:
        response = evolve(response, topics=[_with_topic_operations(guarded, each) for each in response.topics])
    if guarded.body.include_cluster_authorized_operations:
        response = evolve(response, cluster_authorized_operations=_cluster_operations(guarded))
    return response


def _with_topic_operations(guarded: GuardedRequest[Q], topic: MetadataResponseTopic) -> MetadataResponseTopic:
    if not topic.name or topic.error_code == TOPIC_REFUSED:
        return topic
    operations = guarded.authorizer.operations(guarded.request, ResourceType.TOPIC, topic.name)
    return evolve(topic, topic_authorized_operations=operations)


def _cluster_operations(guarded: GuardedRequest[Q]) -> int:
    seen = guarded.cluster(Operation.DESCRIBE, quiet=True)
    return guarded.authorizer.operations(guarded.request, ResourceType.CLUSTER, CLUSTER_NAME) if seen else 0


async def _describe_cluster(
    guarded: GuardedRequest[DescribeClusterRequest], handler: Handler[DescribeClusterRequest, DescribeClusterResponse]
) -> DescribeClusterResponse:
    reply = await handler(guarded.request)
    if guarded.body.include_cluster_authorized_operations:
        reply = evolve(reply, cluster_authorized_operations=_cluster_operations(guarded))
    return reply


async def _create(
    guarded: GuardedRequest[CreateTopicsRequest], handler: Handler[CreateTopicsRequest, CreateTopicsResponse]
) -> CreateTopicsResponse:
    topics = guarded.body.topics
    if guarded.cluster(Operation.CREATE, quiet=True):
        permitted = {each.name for each in topics}
    else:
        permitted = guarded.topics(Operation.CREATE, [each.name for each in topics])
    passed, refused = split(topics, lambda each: each.name in permitted)
    if not refused:
        reply = await handler(guarded.request)
    else:
        body = evolve(guarded.body, topics=passed)
        reply = await handler(guarded.with_body(body)) if passed else CreateTopicsResponse()
        reply = evolve(reply, topics=[*reply.topics, *map(_not_created, refused)])
    seen = guarded.topics(Operation.DESCRIBE_CONFIGS, [each.name for each in reply.topics], quiet=True)
    return evolve(reply, topics=[each if each.name in seen else _unseen(each) for each in reply.topics])


def _unseen(topic: CreatableTopicResult) -> CreatableTopicResult:
    return evolve(topic, topic_config_error_code=TOPIC_REFUSED, num_partitions=-1, replication_factor=-1, configs=None)


def _not_created(topic: CreatableTopic) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=TOPIC_REFUSED, error_message=REFUSED_TEXT)


async def _grow(
    guarded: GuardedRequest[CreatePartitionsRequest],
    handler: Handler[CreatePartitionsRequest, CreatePartitionsResponse],
) -> CreatePartitionsResponse:
    permitted = guarded.topics(Operation.ALTER, [each.name for each in guarded.body.topics])
    passed, refused = split(guarded.body.topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else CreatePartitionsResponse()
    return evolve(response, results=[*response.results, *map(_not_grown, refused)])


def _not_grown(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=topic.name, error_code=TOPIC_REFUSED, error_message=REFUSED_TEXT)


def _not_deleted(name: str | None, topic_id: TopicId | None = None) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=TOPIC_REFUSED, error_message=REFUSED_TEXT)


async def _delete(
    guarded: GuardedRequest[DeleteTopicsRequest], handler: Handler[DeleteTopicsRequest, DeleteTopicsResponse]
) -> DeleteTopicsResponse:
    if guarded.request.version < 6:
        names = guarded.body.topic_names
        permitted = guarded.topics(Operation.DELETE, names)
        passed, refused = split(names, lambda name: name in permitted)
        body = evolve(guarded.body, topic_names=passed)
        reply = await handler(guarded.with_body(body)) if passed else DeleteTopicsResponse()
        return evolve(reply, responses=[*reply.responses, *map(_not_deleted, refused)])
    wanted, answers = [], []
    for one in guarded.body.topics:
        ident = one.topic_id
        name = one.name if one.name is not None or ident is None else guarded.names.name_of(ident)
        if name is None or guarded.topic(Operation.DELETE, name):
            wanted.append(one)
        else:
            # A request by id must not reveal the name of a topic that the client may not describe.
            shown = name if one.name is not None or guarded.topic(Operation.DESCRIBE, name, quiet=True) else None
            answers.append(_not_deleted(shown, ident))
    body = evolve(guarded.body, topics=wanted)
    reply = await handler(guarded.with_body(body)) if wanted else DeleteTopicsResponse()
    return evolve(reply, responses=[*reply.responses, *answers])


GUARDS: Final[GuardTable] = guard_table(
    entry(METADATA, _metadata),
    entry(DESCRIBE_CLUSTER, _describe_cluster),
    entry(CREATE_TOPICS, _create),
    entry(CREATE_PARTITIONS, _grow),
    entry(DELETE_TOPICS, _delete),
)
