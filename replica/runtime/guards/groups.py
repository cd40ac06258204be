"""Guards of groups: membership and commits need READ on the group, listings need DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import evolve

from replica.core.acls import Operation, ResourceType
from replica.core.errors import ErrorCode
from replica.runtime.guards.asking import GROUP_REFUSED, TEXT, TOPIC_REFUSED, Asked, Guard, handled, split
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas import APIS
from replica.wire.schemas.groups import (
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
from replica.wire.schemas.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)

_BY_GROUP: Final = 0
_BY_TRANSACTION: Final = 1
_HAS_ERROR_SINCE: Final = 2


async def _find_coordinator(asked: Asked[FindCoordinatorRequest], handler: Handler) -> Any:
    body, kind = asked.body, asked.body.key_type

    def may(key: str) -> bool:
        if kind == _BY_GROUP:
            return asked.group(Operation.DESCRIBE, key)
        return kind != _BY_TRANSACTION or asked.transactional_id(Operation.DESCRIBE, key)

    refused = GROUP_REFUSED if kind == _BY_GROUP else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if asked.request.version < 4:
        if may(body.key):
            return await handler(asked.request)
        return FindCoordinatorResponse(node_id=-1, port=-1, error_code=refused, error_message=TEXT)
    keys = body.coordinator_keys
    mine = {key for key in dict.fromkeys(keys) if may(key)}
    response: FindCoordinatorResponse = await handled(
        asked, handler, "coordinator_keys", [key for key in keys if key in mine]
    )
    hidden = [
        Coordinator(key=key, node_id=-1, port=-1, error_code=refused, error_message=TEXT)
        for key in keys
        if key not in mine
    ]
    return evolve(response, coordinators=[*response.coordinators, *hidden])


def _member(response: Callable[..., Any]) -> Guard:
    """Guard a member's request, whose refusal is an error alone."""

    async def guard(asked: Asked[Any], handler: Handler) -> Any:
        if asked.group(Operation.READ, asked.body.group_id):
            return await handler(asked.request)
        return response(error_code=GROUP_REFUSED)

    return guard


async def _join(asked: Asked[JoinGroupRequest], handler: Handler) -> Any:
    if asked.group(Operation.READ, asked.body.group_id):
        return await handler(asked.request)
    return JoinGroupResponse(
        error_code=GROUP_REFUSED,
        generation_id=-1,
        protocol_name=None if asked.request.version >= 7 else "",
        member_id=asked.body.member_id,
    )


def refused_parts(
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic | OffsetDeleteRequestTopic, error: ErrorCode
) -> OffsetCommitResponseTopic:
    parts = [
        OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
        for part in topic.partitions
    ]
    return OffsetCommitResponseTopic(name=topic.name, partitions=parts)


async def commit(asked: Asked[OffsetCommitRequest] | Asked[TxnOffsetCommitRequest], handler: Handler) -> Any:
    topics = asked.body.topics
    if not asked.group(Operation.READ, asked.body.group_id):
        refused = [refused_parts(each, GROUP_REFUSED) for each in topics]
        return APIS[asked.request.api].response(topics=refused)
    mine = asked.topics(Operation.READ, [each.name for each in topics])
    return await split(
        asked,
        handler,
        "topics",
        "topics",
        lambda each: each.name in mine,
        lambda each: refused_parts(each, TOPIC_REFUSED),
    )


# -- positions -----------------------------------------------------------------------------------------------


async def _offsets(asked: Asked[OffsetFetchRequest], handler: Handler) -> OffsetFetchResponse:
    if asked.request.version < 8:
        return await _offsets_of_one(asked, handler)
    wanted, refused, hidden = [], [], dict[str, list[OffsetFetchResponseTopic]]()
    for group in asked.body.groups:
        name, topics = group.group_id, group.topics
        if not asked.group(Operation.DESCRIBE, name):
            refused.append(OffsetFetchResponseGroup(group_id=name, error_code=GROUP_REFUSED))
            continue
        if topics is None:
            wanted.append(group)
        else:
            mine = asked.topics(Operation.DESCRIBE, [each.name for each in topics])
            wanted.append(evolve(group, topics=[each for each in topics if each.name in mine]))
            hidden[name] = [_unknown(each, TOPIC_REFUSED) for each in topics if each.name not in mine]
    response: OffsetFetchResponse = await handled(asked, handler, "groups", wanted)
    found = []
    for result in response.groups:
        if result.group_id not in hidden:
            shown = _visible(asked, result.topics)
        else:
            shown = [*result.topics, *(() if result.error_code else hidden[result.group_id])]
        found.append(evolve(result, topics=shown))
    return evolve(response, groups=[*found, *refused])


async def _offsets_of_one(asked: Asked[OffsetFetchRequest], handler: Handler) -> OffsetFetchResponse:
    topics = asked.body.topics
    if not asked.group(Operation.DESCRIBE, asked.body.group_id):
        listed = asked.request.version < _HAS_ERROR_SINCE
        parts = [_unknown(each, GROUP_REFUSED) for each in topics or ()] if listed else []
        return OffsetFetchResponse(topics=parts, error_code=GROUP_REFUSED)
    if topics is None:
        response: OffsetFetchResponse = await handler(asked.request)
        return evolve(response, topics=_visible(asked, response.topics))
    mine = asked.topics(Operation.DESCRIBE, [each.name for each in topics])
    result: OffsetFetchResponse = await split(
        asked,
        handler,
        "topics",
        "topics",
        lambda each: each.name in mine,
        lambda each: _unknown(each, TOPIC_REFUSED),
    )
    return result


def _visible(asked: Asked[Any], topics: list[OffsetFetchResponseTopic]) -> list[OffsetFetchResponseTopic]:
    """Return the topics that a client may see which asked for all."""
    mine = asked.topics(Operation.DESCRIBE, [each.name for each in topics], quiet=True)
    return [each for each in topics if each.name in mine]


def _unknown(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            for index in topic.partition_indexes
        ],
    )


# -- tools ---------------------------------------------------------------------------------------------------


async def _describe(asked: Asked[DescribeGroupsRequest], handler: Handler) -> DescribeGroupsResponse:
    names = asked.body.groups
    mine = {name for name in dict.fromkeys(names) if asked.group(Operation.DESCRIBE, name)}
    response: DescribeGroupsResponse = await handled(asked, handler, "groups", [name for name in names if name in mine])
    found = response.groups
    if asked.body.include_authorized_operations:
        found = [each if each.error_code else _with_operations(asked, each) for each in found]
    hidden = [
        DescribeGroupsResponseGroup(error_code=GROUP_REFUSED, group_id=name) for name in names if name not in mine
    ]
    return evolve(response, groups=[*found, *hidden])


def _with_operations(asked: Asked[Any], group: DescribeGroupsResponseGroup) -> DescribeGroupsResponseGroup:
    operations = asked.authorizer.operations(asked.request, ResourceType.GROUP, group.group_id)
    return evolve(group, authorized_operations=operations)


async def _list(asked: Asked[ListGroupsRequest], handler: Handler) -> ListGroupsResponse:
    reply: ListGroupsResponse = await handler(asked.request)
    if asked.cluster(Operation.DESCRIBE, quiet=True):
        return reply
    seen = [each for each in reply.groups if asked.group(Operation.DESCRIBE, each.group_id, quiet=True)]
    return evolve(reply, groups=seen)


async def _delete(asked: Asked[DeleteGroupsRequest], handler: Handler) -> DeleteGroupsResponse:
    names = asked.body.groups_names
    mine = {name for name in dict.fromkeys(names) if asked.group(Operation.DELETE, name)}
    reply: DeleteGroupsResponse = await handled(
        asked, handler, "groups_names", [name for name in names if name in mine]
    )
    refused = [DeletableGroupResult(group_id=name, error_code=GROUP_REFUSED) for name in names if name not in mine]
    return evolve(reply, results=[*reply.results, *refused])


async def _delete_offsets(asked: Asked[OffsetDeleteRequest], handler: Handler) -> Any:
    if not asked.group(Operation.DELETE, asked.body.group_id):
        return OffsetDeleteResponse(error_code=GROUP_REFUSED)
    mine = asked.topics(Operation.READ, [each.name for each in asked.body.topics])
    return await split(
        asked,
        handler,
        "topics",
        "topics",
        lambda each: each.name in mine,
        lambda each: refused_parts(each, TOPIC_REFUSED),
    )


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
