"""`Metadata` and `DescribeCluster`: the live brokers, the topics, and the leaders of their partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import Final

from attrs import frozen

from kraft_controller.core.names import INTERNAL, BrokerId, TopicId, wrong_with_name
from replica.core.errors import ErrorCode
from replica.core.metadata_cache import MetadataCache, TopicMetadata
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.schemas.cluster_schemas import (
    DESCRIBE_CLUSTER,
    METADATA,
    NOT_ASKED,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ALL_OF_TOPIC: Final = 0x0DF8
ALL_OF_CLUSTER: Final = 0x1FA0
"""The bits of all operations on the cluster. With an authorizer, the guard of the request replaces them by the
operations that the principal is authorized for."""

_LISTENER_NOT_FOUND_SINCE: Final = 6
_BROKER_ENDPOINTS: Final = 1
Create = Callable[[Sequence[str]], Awaitable[Mapping[str, ErrorCode]]]
"""Begins to create missing topics, and returns the error of each. Topics beyond its limits are neither created nor
returned. It takes about a second at most."""


@frozen
class MetadataSettings:
    """auto_create   `auto.create.topics.enable`"""

    cluster_id: str
    auto_create: bool = True


def handlers(
    cache: MetadataCache, settings: MetadataSettings, controller: Callable[[], BrokerId | None], create: Create
) -> Handlers:
    """Return the handlers. `controller` returns the controller's id, or None if this broker does not know it."""

    def controller_id() -> int:
        found = controller()
        return -1 if found is None or found not in cache.brokers else found

    async def metadata(request: Request[MetadataRequest]) -> MetadataResponse:
        """Describe the named topics, or all. Create missing ones if both broker and request allow it. A topic beyond
        the limits of `create` gets UNKNOWN_TOPIC_OR_PARTITION, which clients retry.

        Version 0 requests all topics with an empty list, later versions with null.
        """
        asked = request.body.topics
        if asked is None or (request.version == 0 and not asked):
            names: list[tuple[str | None, TopicId | None]] = [(name, None) for name in sorted(cache.topics)]
        else:
            # Return each topic once: a repeated one is a few bytes in the request, but many in the response.
            names = list(dict.fromkeys((one.name, one.topic_id) for one in asked))
        missing: dict[str, ErrorCode] = {}
        if asked is not None:
            absent = [name for name, ident in names if name is not None and ident is None and name not in cache.topics]
            missing = {name: _code_of(name) for name in absent}
            if settings.auto_create and request.body.allow_auto_topic_creation:
                valid = [name for name, code in missing.items() if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
                missing |= await create(valid)
        operations = ALL_OF_TOPIC if request.body.include_topic_authorized_operations else NOT_ASKED
        whole = request.body.include_cluster_authorized_operations
        reachable = {broker.id for broker, _ in cache.reachable(request.listener)}
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
                for broker, endpoint in cache.reachable(request.listener)
            ],
            cluster_id=settings.cluster_id,
            controller_id=controller_id(),
            topics=[
                _topic(cache, reachable, request.version, name, ident, missing, operations) for name, ident in names
            ],
            cluster_authorized_operations=ALL_OF_CLUSTER if whole else NOT_ASKED,
        )

    async def describe_cluster(request: Request[DescribeClusterRequest]) -> DescribeClusterResponse:
        if request.body.endpoint_type != _BROKER_ENDPOINTS:
            return DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="endpoint type must be 1 (brokers): controllers run inside brokers",
            )
        whole = request.body.include_cluster_authorized_operations
        return DescribeClusterResponse(
            cluster_id=settings.cluster_id,
            controller_id=controller_id(),
            brokers=[
                DescribeClusterBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
                for broker, endpoint in cache.reachable(request.listener)
            ],
            cluster_authorized_operations=ALL_OF_CLUSTER if whole else NOT_ASKED,
        )

    return handler_table(handles(METADATA, metadata), handles(DESCRIBE_CLUSTER, describe_cluster))


def _code_of(name: str) -> ErrorCode:
    """Return the error for a topic that does not exist."""
    invalid = wrong_with_name(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    cache: MetadataCache,
    reachable: Set[BrokerId],
    version: int,
    name: str | None,
    ident: TopicId | None,
    missing: dict[str, ErrorCode],
    operations: int,
) -> MetadataResponseTopic:
    if ident is not None:
        name = cache.name_of(ident)
    # A topic that was missing when the request arrived gets its error, even if the cache has it by now: the leaders of
    # its partitions may not be known yet.
    topic = None if name is None or (ident is None and name in missing) else cache.topics.get(name)
    if topic is None:
        if ident is not None:
            code, shown = ErrorCode.UNKNOWN_TOPIC_ID, None if version >= 12 else ""
        else:
            code, shown = missing.get(name or "", ErrorCode.LEADER_NOT_AVAILABLE), name or ""
        return MetadataResponseTopic(
            error_code=code, name=shown, topic_id=ident, topic_authorized_operations=operations
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL,
        partitions=_partitions(cache, reachable, version, topic),
        topic_authorized_operations=operations,
    )


def _partitions(
    cache: MetadataCache, reachable: Set[BrokerId], version: int, topic: TopicMetadata
) -> list[MetadataResponsePartition]:
    """Describe the partitions of a topic. This must be fast: many clients may reconnect at once, and each may request
    all partitions.

    reachable   live brokers that have the client's listener
    """
    alive = cache.brokers.keys()
    known = version >= _LISTENER_NOT_FOUND_SINCE
    not_reachable = ErrorCode.LISTENER_NOT_FOUND if known else ErrorCode.LEADER_NOT_AVAILABLE
    partitions = []
    for number, role in sorted(topic.partitions.items()):
        state, replicas = role.state, role.assignment.replicas
        code, leader = ErrorCode.NONE, int(state.leader)
        if state.leader not in reachable:
            code, leader = not_reachable if state.leader in alive else ErrorCode.LEADER_NOT_AVAILABLE, -1
        partitions.append(
            MetadataResponsePartition(
                error_code=code,
                partition_index=number,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=state.isr,
                offline_replicas=() if alive >= set(replicas) else cache.offline(replicas),
            )
        )
    return partitions
