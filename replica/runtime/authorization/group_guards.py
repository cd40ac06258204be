"""Guards for groups: membership and commits need READ on the group, queries need DESCRIBE, deletions need DELETE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import evolve

from replica.core.errors import ErrorCode
from replica.core.security.acls import Operation, ResourceType
from replica.runtime.authorization.guard import (
    GROUP_REFUSED,
    REFUSED_TEXT,
    TOPIC_REFUSED,
    Guard,
    GuardedRequest,
    handle_permitted,
    handle_split,
)
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas import APIS
from replica.wire.schemas.group_schemas import (
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
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
    SyncGroupResponse,
)
from replica.wire.schemas.transaction_schemas import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)

_BY_GROUP: Final = 0
_BY_TRANSACTION: Final = 1
_HAS_ERROR_SINCE: Final = 2


async def _find_coordinator(guarded: GuardedRequest[FindCoordinatorRequest], handler: Handler) -> Any:
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
    keys = body.coordinator_keys
    permitted = {key for key in dict.fromkeys(keys) if may(key)}
    response: FindCoordinatorResponse = await handle_permitted(
        guarded, handler, "coordinator_keys", [key for key in keys if key in permitted]
    )
    hidden = [
        Coordinator(key=key, node_id=-1, port=-1, error_code=refused, error_message=REFUSED_TEXT)
        for key in keys
        if key not in permitted
    ]
    return evolve(response, coordinators=[*response.coordinators, *hidden])


def _member(response: Callable[..., Any]) -> Guard:
    """Return the guard for a member's request. The response to a refused one has only an error code."""

    async def guard(guarded: GuardedRequest[Any], handler: Handler) -> Any:
        if guarded.group(Operation.READ, guarded.body.group_id):
            return await handler(guarded.request)
        return response(error_code=GROUP_REFUSED)

    return guard


async def _join(guarded: GuardedRequest[JoinGroupRequest], handler: Handler) -> Any:
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


async def _handle_readable_topics(
    guarded: GuardedRequest[OffsetCommitRequest]
    | GuardedRequest[TxnOffsetCommitRequest]
    | GuardedRequest[OffsetDeleteRequest],
    handler: Handler,
) -> Any:
    """Pass on the topics that the client may read, and refuse the others."""
    permitted = guarded.topics(Operation.READ, [each.name for each in guarded.body.topics])
    return await handle_split(
        guarded,
        handler,
        "topics",
        "topics",
        lambda each: each.name in permitted,
        lambda each: refused_parts(each, TOPIC_REFUSED),
    )


async def commit(
    guarded: GuardedRequest[OffsetCommitRequest] | GuardedRequest[TxnOffsetCommitRequest], handler: Handler
) -> Any:
    if not guarded.group(Operation.READ, guarded.body.group_id):
        refused = [refused_parts(each, GROUP_REFUSED) for each in guarded.body.topics]
        return APIS[guarded.request.api].response(topics=refused)
    return await _handle_readable_topics(guarded, handler)


# -- offsets -----------------------------------------------------------------------------------------------


async def _offsets(guarded: GuardedRequest[OffsetFetchRequest], handler: Handler) -> OffsetFetchResponse:
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
    response: OffsetFetchResponse = await handle_permitted(guarded, handler, "groups", wanted)
    found = []
    for result in response.groups:
        if result.group_id not in hidden:
            shown = _visible(guarded, result.topics)
        else:
            shown = [*result.topics, *(() if result.error_code else hidden[result.group_id])]
        found.append(evolve(result, topics=shown))
    return evolve(response, groups=[*found, *refused])


async def _offsets_of_one(guarded: GuardedRequest[OffsetFetchRequest], handler: Handler) -> OffsetFetchResponse:
    topics = guarded.body.topics
    if not guarded.group(Operation.DESCRIBE, guarded.body.group_id):
        listed = guarded.request.version < _HAS_ERROR_SINCE
        parts = [_unknown(each, GROUP_REFUSED) for each in topics or ()] if listed else []
        return OffsetFetchResponse(topics=parts, error_code=GROUP_REFUSED)
    if topics is None:
        response: OffsetFetchResponse = await handler(guarded.request)
        return evolve(response, topics=_visible(guarded, response.topics))
    permitted = guarded.topics(Operation.DESCRIBE, [each.name for each in topics])
    result: OffsetFetchResponse = await handle_split(
        guarded,
        handler,
        "topics",
        "topics",
        lambda each: each.name in permitted,
        lambda each: _unknown(each, TOPIC_REFUSED),
    )
    return result


def _visible(guarded: GuardedRequest[Any], topics: list[OffsetFetchResponseTopic]) -> list[OffsetFetchResponseTopic]:
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


async def _describe(guarded: GuardedRequest[DescribeGroupsRequest], handler: Handler) -> DescribeGroupsResponse:
    names = guarded.body.groups
    permitted = {name for name in dict.fromkeys(names) if guarded.group(Operation.DESCRIBE, name)}
    response: DescribeGroupsResponse = await handle_permitted(
        guarded, handler, "groups", [name for name in names if name in permitted]
    )
    found = response.groups
    if guarded.body.include_authorized_operations:
        found = [each if each.error_code else _with_operations(guarded, each) for each in found]
    hidden = [
        DescribeGroupsResponseGroup(error_code=GROUP_REFUSED, group_id=name) for name in names if name not in permitted
    ]
    return evolve(response, groups=[*found, *hidden])


def _with_operations(guarded: GuardedRequest[Any], group: DescribeGroupsResponseGroup) -> DescribeGroupsResponseGroup:
    operations = guarded.authorizer.operations(guarded.request, ResourceType.GROUP, group.group_id)
    return evolve(group, authorized_operations=operations)


async def _list(guarded: GuardedRequest[ListGroupsRequest], handler: Handler) -> ListGroupsResponse:
    reply: ListGroupsResponse = await handler(guarded.request)
    if guarded.cluster(Operation.DESCRIBE, quiet=True):
        return reply
    seen = [each for each in reply.groups if guarded.group(Operation.DESCRIBE, each.group_id, quiet=True)]
    return evolve(reply, groups=seen)


async def _delete(guarded: GuardedRequest[DeleteGroupsRequest], handler: Handler) -> DeleteGroupsResponse:
    names = guarded.body.groups_names
    permitted = {name for name in dict.fromkeys(names) if guarded.group(Operation.DELETE, name)}
    reply: DeleteGroupsResponse = await handle_permitted(
        guarded, handler, "groups_names", [name for name in names if name in permitted]
    )
    refused = [DeletableGroupResult(group_id=name, error_code=GROUP_REFUSED) for name in names if name not in permitted]
    return evolve(reply, results=[*reply.results, *refused])


async def _delete_offsets(guarded: GuardedRequest[OffsetDeleteRequest], handler: Handler) -> Any:
    if not guarded.group(Operation.DELETE, guarded.body.group_id):
        return OffsetDeleteResponse(error_code=GROUP_REFUSED)
    return await _handle_readable_topics(guarded, handler)


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: _member(SyncGroupResponse),
    ApiKey.HEARTBEAT: _member(HeartbeatResponse),
    ApiKey.LEAVE_GROUP: _member(LeaveGroupResponse),
    ApiKey.OFFSET_COMMIT: commit,
    ApiKey.OFFSET_FETCH: _offsets,
    ApiKey.DESCRIBE_GROUPS: _describe,
    ApiKey.LIST_GROUPS: _list,
    ApiKey.DELETE_GROUPS: _delete,
    ApiKey.OFFSET_DELETE: _delete_offsets,
}
