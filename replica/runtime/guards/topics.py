"""Guards of topics: listing, creating, changing and deleting them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from kraft_controller.core.names import TopicId
from replica.core.acls import CLUSTER_NAME, Operation, ResourceType
from replica.core.errors import ErrorCode
from replica.runtime.guards.asking import TEXT, TOPIC_REFUSED, Asked, Guard, handled, of_topics, split
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from replica.wire.schemas.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


async def _metadata(asked: Asked[MetadataRequest], handler: Handler) -> MetadataResponse:
    """Show the visible topics to a client that asks for all. A named topic that the client may not see is refused
    whether it exists or not, since another answer would tell that it exists."""
    topics = asked.body.topics
    if topics is None or (asked.request.version == 0 and not topics):
        reply: MetadataResponse = await handler(asked.request)
        mine = asked.topics(Operation.DESCRIBE, [each.name or "" for each in reply.topics], quiet=True)
        return _with_operations(asked, evolve(reply, topics=[each for each in reply.topics if each.name in mine]))
    wanted, refused = [], []
    for one in topics:
        error = _why_not_shown(asked, one)
        if error is None:
            wanted.append(one)
        else:
            hidden = one.name is None
            name = one.name if not hidden else None if asked.request.version >= 12 else ""
            refused.append(MetadataResponseTopic(error_code=error, name=name, topic_id=one.topic_id))
    reply = await handler(asked.changed(topics=wanted))
    return _with_operations(asked, evolve(reply, topics=[*reply.topics, *refused]))


def _why_not_shown(asked: Asked[MetadataRequest], topic: MetadataRequestTopic) -> ErrorCode | None:
    name, ident = topic.name, topic.topic_id
    if ident is not None:
        known = asked.names.name_of(ident)
        return None if known is None or asked.topic(Operation.DESCRIBE, known) else ErrorCode.UNKNOWN_TOPIC_ID
    if name is None:
        return None
    if not asked.topic(Operation.DESCRIBE, name):
        return TOPIC_REFUSED
    makes = asked.auto_create and asked.body.allow_auto_topic_creation and name not in asked.names.topics
    if makes and not _may_create(asked, name):
        return TOPIC_REFUSED
    return None


def _may_create(asked: Asked[Any], name: str) -> bool:
    return asked.cluster(Operation.CREATE, quiet=True) or asked.topic(Operation.CREATE, name)


def _with_operations(asked: Asked[MetadataRequest], response: MetadataResponse) -> MetadataResponse:
    if asked.body.include_topic_authorized_operations:
        response = evolve(response, topics=[_with_topic_operations(asked, each) for each in response.topics])
    if asked.body.include_cluster_authorized_operations:
        response = evolve(response, cluster_authorized_operations=_cluster_operations(asked))
    return response


def _with_topic_operations(asked: Asked[Any], topic: MetadataResponseTopic) -> MetadataResponseTopic:
    if not topic.name or topic.error_code == TOPIC_REFUSED:
        return topic
    operations = asked.authorizer.operations(asked.request, ResourceType.TOPIC, topic.name)
    return evolve(topic, topic_authorized_operations=operations)


def _cluster_operations(asked: Asked[Any]) -> int:
    seen = asked.cluster(Operation.DESCRIBE, quiet=True)
    return asked.authorizer.operations(asked.request, ResourceType.CLUSTER, CLUSTER_NAME) if seen else 0


async def _describe_cluster(asked: Asked[DescribeClusterRequest], handler: Handler) -> DescribeClusterResponse:
    reply: DescribeClusterResponse = await handler(asked.request)
    if asked.body.include_cluster_authorized_operations:
        reply = evolve(reply, cluster_authorized_operations=_cluster_operations(asked))
    return reply


async def _create(asked: Asked[CreateTopicsRequest], handler: Handler) -> CreateTopicsResponse:
    topics = asked.body.topics
    if asked.cluster(Operation.CREATE, quiet=True):
        mine = {each.name for each in topics}
    else:
        mine = asked.topics(Operation.CREATE, [each.name for each in topics])
    reply: CreateTopicsResponse = await split(
        asked, handler, "topics", "topics", lambda each: each.name in mine, _not_created
    )
    seen = asked.topics(Operation.DESCRIBE_CONFIGS, [each.name for each in reply.topics], quiet=True)
    return evolve(reply, topics=[each if each.name in seen else _unseen(each) for each in reply.topics])


def _unseen(topic: CreatableTopicResult) -> CreatableTopicResult:
    return evolve(topic, topic_config_error_code=TOPIC_REFUSED, num_partitions=-1, replication_factor=-1, configs=None)


def _not_created(topic: CreatableTopic) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=TOPIC_REFUSED, error_message=TEXT)


def _not_grown(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=topic.name, error_code=TOPIC_REFUSED, error_message=TEXT)


def _not_deleted(name: str | None, topic_id: TopicId | None = None) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=TOPIC_REFUSED, error_message=TEXT)


async def _delete(asked: Asked[DeleteTopicsRequest], handler: Handler) -> DeleteTopicsResponse:
    if asked.request.version < 6:
        names = asked.body.topic_names
        mine = asked.topics(Operation.DELETE, names)
        reply: DeleteTopicsResponse = await handled(
            asked, handler, "topic_names", [name for name in names if name in mine]
        )
        refused = [_not_deleted(name) for name in names if name not in mine]
        return evolve(reply, responses=[*reply.responses, *refused])
    wanted, answers = [], []
    for one in asked.body.topics:
        ident = one.topic_id
        name = one.name if one.name is not None or ident is None else asked.names.name_of(ident)
        if name is None or asked.topic(Operation.DELETE, name):
            wanted.append(one)
        else:
            # A client that may not see the topic does not learn its name.
            shown = name if one.name is not None or asked.topic(Operation.DESCRIBE, name, quiet=True) else None
            answers.append(_not_deleted(shown, ident))
    reply = await handled(asked, handler, "topics", wanted)
    return evolve(reply, responses=[*reply.responses, *answers])


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.CREATE_TOPICS: _create,
    ApiKey.CREATE_PARTITIONS: of_topics(Operation.ALTER, "topics", "results", "name", _not_grown),
    ApiKey.DELETE_TOPICS: _delete,
}
