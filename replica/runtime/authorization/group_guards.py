"""Guards for groups: membership and commits need READ on the group, queries need DESCRIBE, deletions need DELETE.

Commits, queries and deletions of offsets also need a permission on each topic. FindCoordinator is guarded here for
groups and for transactional ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from attrs import evolve

from replica.core.errors import ErrorCode
from replica.core.security.acls import Operation, ResourceType
from replica.runtime.authorization.guard import (
    GROUP_REFUSED,
    REFUSED_TEXT,
    TOPIC_REFUSED,
    Guard,
    GuardedRequest,
    GuardTable,
    entry,
    guard_table,
    split,
)
from replica.runtime.requests import Handler
from replica.wire.schemas.group_schemas import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from replica.wire.schemas.transaction_schemas import TxnOffsetCommitRequestTopic

Q = TypeVar("Q")
R = TypeVar("R")


class _MemberRequest(Protocol):
    group_id: str


M = TypeVar("M", bound=_MemberRequest)

_BY_GROUP: Final = 0
_BY_TRANSACTION: Final = 1
_HAS_ERROR_SINCE: Final = 2


async def _find_coordinator(
    guarded: GuardedRequest[FindCoordinatorRequest], handler: Handler[FindCoordinatorRequest, FindCoordinatorResponse]
) -> FindCoordinatorResponse:
    body, kind = guarded.body, guarded.body.key_type

    def may(key: str) -> bool:
        if kind == _BY_GROUP:
            return guarded.group(Operation.DESCRIBE, key)
        return kind != _BY_TRANSACTION or guarded.transactional_id(Operation.DESCRIBE, key)

    refused = GROUP_REFUSED if kind == _BY_GROUP else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if guarded.request.version < 4:
        if may(body.key):
            return await handler(guarded.request)
        return FindCoordinatorResponse(node_id=-1, port=-1, error_code=refused, error_message=REFUSED_TEXT)
    permitted = {key for key in dict.fromkeys(body.coordinator_keys) if may(key)}
    passed, others = split(body.coordinator_keys, lambda key: key in permitted)
    response = FindCoordinatorResponse()
    if passed:
        response = await handler(guarded.with_body(evolve(body, coordinator_keys=passed)))
    hidden = [
        Coordinator(key=key, node_id=-1, port=-1, error_code=refused, error_message=REFUSED_TEXT) for key in others
    ]
    return evolve(response, coordinators=[*response.coordinators, *hidden])


def _member(refused: Callable[[], R]) -> Guard[M, R]:
    """Return a guard for requests of members. `refused` returns the response to a refused request."""

    async def guard(guarded: GuardedRequest[M], handler: Handler[M, R]) -> R:
        if guarded.group(Operation.READ, guarded.body.group_id):
            return await handler(guarded.request)
        return refused()

    return guard


_SYNC: Final[Guard[SyncGroupRequest, SyncGroupResponse]] = _member(lambda: SyncGroupResponse(error_code=GROUP_REFUSED))
_HEARTBEAT: Final[Guard[HeartbeatRequest, HeartbeatResponse]] = _member(
    lambda: HeartbeatResponse(error_code=GROUP_REFUSED)
)
_LEAVE: Final[Guard[LeaveGroupRequest, LeaveGroupResponse]] = _member(
    lambda: LeaveGroupResponse(error_code=GROUP_REFUSED)
)


async def _join(
    guarded: GuardedRequest[JoinGroupRequest], handler: Handler[JoinGroupRequest, JoinGroupResponse]
) -> JoinGroupResponse:
    if guarded.group(Operation.READ, guarded.body.group_id):
        return await handler(guarded.request)
    return JoinGroupResponse(
        error_code=GROUP_REFUSED,
        generation_id=-1,
        protocol_name=None if guarded.request.version >= 7 else "",
        member_id=guarded.body.member_id,
    )


def refused_parts(
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic | OffsetDeleteRequestTopic, error: ErrorCode
) -> OffsetCommitResponseTopic:
    parts = [
        OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
        for part in topic.partitions
    ]
    return OffsetCommitResponseTopic(name=topic.name, partitions=parts)


async def _commit(
    guarded: GuardedRequest[OffsetCommitRequest], handler: Handler[OffsetCommitRequest, OffsetCommitResponse]
) -> OffsetCommitResponse:
    topics = guarded.body.topics
    if not guarded.group(Operation.READ, guarded.body.group_id):
        return OffsetCommitResponse(topics=[refused_parts(each, GROUP_REFUSED) for each in topics])
    permitted = guarded.topics(Operation.READ, [each.name for each in topics])
    passed, refused = split(topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else OffsetCommitResponse()
    return evolve(response, topics=[*response.topics, *(refused_parts(each, TOPIC_REFUSED) for each in refused)])


# -- offsets -----------------------------------------------------------------------------------------------


async def _offsets(
    guarded: GuardedRequest[OffsetFetchRequest], handler: Handler[OffsetFetchRequest, OffsetFetchResponse]
) -> OffsetFetchResponse:
    if guarded.request.version < 8:
        return await _offsets_of_one(guarded, handler)
    wanted, refused, hidden = [], [], dict[str, list[OffsetFetchResponseTopic]]()
    for group in guarded.body.groups:
        name, topics = group.group_id, group.topics
        if not guarded.group(Operation.DESCRIBE, name):
            refused.append(OffsetFetchResponseGroup(group_id=name, error_code=GROUP_REFUSED))
            continue
        if topics is None:
            wanted.append(group)
        else:
            permitted = guarded.topics(Operation.DESCRIBE, [each.name for each in topics])
            wanted.append(evolve(group, topics=[each for each in topics if each.name in permitted]))
            hidden[name] = [_unknown(each, TOPIC_REFUSED) for each in topics if each.name not in permitted]
    response = OffsetFetchResponse()
    if wanted:
        response = await handler(guarded.with_body(evolve(guarded.body, groups=wanted)))
    found = []
    for result in response.groups:
        if result.group_id not in hidden:
            shown = _visible(guarded, result.topics)
        else:
            shown = [*result.topics, *(() if result.error_code else hidden[result.group_id])]
        found.append(evolve(result, topics=shown))
    return evolve(response, groups=[*found, *refused])


async def _offsets_of_one(
    guarded: GuardedRequest[OffsetFetchRequest], handler: Handler[OffsetFetchRequest, OffsetFetchResponse]
) -> OffsetFetchResponse:
    topics = guarded.body.topics
    if not guarded.group(Operation.DESCRIBE, guarded.body.group_id):
        listed = guarded.request.version < _HAS_ERROR_SINCE
        parts = [_unknown(each, GROUP_REFUSED) for each in topics or ()] if listed else []
        return OffsetFetchResponse(topics=parts, error_code=GROUP_REFUSED)
    if topics is None:
        response = await handler(guarded.request)
        return evolve(response, topics=_visible(guarded, response.topics))
    permitted = guarded.topics(Operation.DESCRIBE, [each.name for each in topics])
    passed, refused = split(topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else OffsetFetchResponse()
    if response.error_code:
        return response
    return evolve(response, topics=[*response.topics, *(_unknown(each, TOPIC_REFUSED) for each in refused)])


def _visible(guarded: GuardedRequest[Q], topics: list[OffsetFetchResponseTopic]) -> list[OffsetFetchResponseTopic]:
    """Return the topics that the client may describe, for a request that names no topics."""
    permitted = guarded.topics(Operation.DESCRIBE, [each.name for each in topics], quiet=True)
    return [each for each in topics if each.name in permitted]


def _unknown(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            for index in topic.partition_indexes
        ],
    )


# -- administration ---------------------------------------------------------------------------------------------------


async def _describe(
    guarded: GuardedRequest[DescribeGroupsRequest], handler: Handler[DescribeGroupsRequest, DescribeGroupsResponse]
) -> DescribeGroupsResponse:
    names = guarded.body.groups
    permitted = {name for name in dict.fromkeys(names) if guarded.group(Operation.DESCRIBE, name)}
    passed, refused = split(names, lambda name: name in permitted)
    body = evolve(guarded.body, groups=passed)
    response = await handler(guarded.with_body(body)) if passed else DescribeGroupsResponse()
    found = response.groups
    if guarded.body.include_authorized_operations:
        found = [each if each.error_code else _with_operations(guarded, each) for each in found]
    hidden = [DescribeGroupsResponseGroup(error_code=GROUP_REFUSED, group_id=name) for name in refused]
    return evolve(response, groups=[*found, *hidden])


def _with_operations(guarded: GuardedRequest[Q], group: DescribeGroupsResponseGroup) -> DescribeGroupsResponseGroup:
    operations = guarded.authorizer.operations(guarded.request, ResourceType.GROUP, group.group_id)
    return evolve(group, authorized_operations=operations)


async def _list(
    guarded: GuardedRequest[ListGroupsRequest], handler: Handler[ListGroupsRequest, ListGroupsResponse]
) -> ListGroupsResponse:
    reply = await handler(guarded.request)
    if guarded.cluster(Operation.DESCRIBE, quiet=True):
        return reply
    seen = [each for each in reply.groups if guarded.group(Operation.DESCRIBE, each.group_id, quiet=True)]
    return evolve(reply, groups=seen)


async def _delete(
    guarded: GuardedRequest[DeleteGroupsRequest], handler: Handler[DeleteGroupsRequest, DeleteGroupsResponse]
) -> DeleteGroupsResponse:
    names = guarded.body.groups_names
    permitted = {name for name in dict.fromkeys(names) if guarded.group(Operation.DELETE, name)}
    passed, refused = split(names, lambda name: name in permitted)
    body = evolve(guarded.body, groups_names=passed)
    reply = await handler(guarded.with_body(body)) if passed else DeleteGroupsResponse()
    hidden = [DeletableGroupResult(group_id=name, error_code=GROUP_REFUSED) for name in refused]
    return evolve(reply, results=[*reply.results, *hidden])


async def _delete_offsets(
    guarded: GuardedRequest[OffsetDeleteRequest], handler: Handler[OffsetDeleteRequest, OffsetDeleteResponse]
) -> OffsetDeleteResponse:
    if not guarded.group(Operation.DELETE, guarded.body.group_id):
        return OffsetDeleteResponse(error_code=GROUP_REFUSED)
    topics = guarded.body.topics
    permitted = guarded.topics(Operation.READ, [each.name for each in topics])
    passed, refused = split(topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else OffsetDeleteResponse()
    if response.error_code:
        return response
    return evolve(response, topics=[*response.topics, *(refused_parts(each, TOPIC_REFUSED) for each in refused)])


GUARDS: Final[GuardTable] = guard_table(
    entry(FIND_COORDINATOR, _find_coordinator),
    entry(JOIN_GROUP, _join),
    entry(SYNC_GROUP, _SYNC),
    entry(HEARTBEAT, _HEARTBEAT),
    entry(LEAVE_GROUP, _LEAVE),
    entry(OFFSET_COMMIT, _commit),
    entry(OFFSET_FETCH, _offsets),
    entry(DESCRIBE_GROUPS, _describe),
    entry(LIST_GROUPS, _list),
    entry(DELETE_GROUPS, _delete),
    entry(OFFSET_DELETE, _delete_offsets),
)
