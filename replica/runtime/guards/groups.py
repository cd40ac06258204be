"""Groups: to be a member and to commit is to READ the group, to see it is to DESCRIBE it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replica.core.acls import Operation, ResourceType
from replica.core.errors import ErrorCode
from replica.runtime.guards.asking import GROUP_REFUSED, TEXT, TOPIC_REFUSED, Asked, Guard, split
from replica.runtime.requests import ApiKey, Body, Handler, Reply

_BY_GROUP: Final = 0
_BY_TRANSACTION: Final = 1
_HAS_ERROR_SINCE: Final = 2


async def _find_coordinator(asked: Asked, handler: Handler) -> Reply:
    body, kind = asked.body, asked.body["key_type"]

    def may(key: str) -> bool:
        if kind == _BY_GROUP:
            return asked.group(Operation.DESCRIBE, key)
        return kind != _BY_TRANSACTION or asked.transactional_id(Operation.DESCRIBE, key)

    refused = GROUP_REFUSED if kind == _BY_GROUP else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    nobody: Body = {"node_id": -1, "host": "", "port": -1, "error_code": refused, "error_message": TEXT}
    if asked.request.version < 4:
        return await handler(asked.request) if may(body["key"]) else nobody
    keys = body["coordinator_keys"]
    mine = {key for key in dict.fromkeys(keys) if may(key)}
    reply = await handler(asked.changed(coordinator_keys=[key for key in keys if key in mine])) if mine else {}
    assert reply is not None
    found = [*reply.get("coordinators", ()), *({"key": key, **nobody} for key in keys if key not in mine)]
    return {**reply, "coordinators": found}


async def _member(asked: Asked, handler: Handler) -> Reply:
    """Of requests whose answer needs no more than the error."""
    if asked.group(Operation.READ, asked.body["group_id"]):
        return await handler(asked.request)
    return {"error_code": GROUP_REFUSED}


async def _join(asked: Asked, handler: Handler) -> Reply:
    if asked.group(Operation.READ, asked.body["group_id"]):
        return await handler(asked.request)
    return {
        "error_code": GROUP_REFUSED,
        "generation_id": -1,
        "protocol_name": None if asked.request.version >= 7 else "",
        "leader": "",
        "member_id": asked.body["member_id"],
        "members": [],
    }


def refused_parts(topic: Body, error: ErrorCode) -> Body:
    parts = [{"partition_index": part["partition_index"], "error_code": error} for part in topic["partitions"]]
    return {"name": topic["name"], "partitions": parts}


async def commit(asked: Asked, handler: Handler) -> Reply:
    topics = asked.body["topics"]
    if not asked.group(Operation.READ, asked.body["group_id"]):
        return {"topics": [refused_parts(each, GROUP_REFUSED) for each in topics]}
    mine = asked.topics(Operation.READ, [each["name"] for each in topics])
    return await split(
        asked,
        handler,
        "topics",
        "topics",
        lambda each: each["name"] in mine,
        lambda each: refused_parts(each, TOPIC_REFUSED),
    )


# -- positions -----------------------------------------------------------------------------------------------


async def _offsets(asked: Asked, handler: Handler) -> Reply:
    if asked.request.version < 8:
        return await _offsets_of_one(asked, handler)
    wanted, refused, hidden = [], [], {}
    for group in asked.body["groups"]:
        name, topics = group["group_id"], group["topics"]
        if not asked.group(Operation.DESCRIBE, name):
            refused.append({"group_id": name, "error_code": GROUP_REFUSED, "topics": []})
            continue
        mine = None if topics is None else asked.topics(Operation.DESCRIBE, [each["name"] for each in topics])
        if mine is None:
            wanted.append(group)
        else:
            wanted.append({**group, "topics": [each for each in topics if each["name"] in mine]})
            hidden[name] = [_unknown(each, TOPIC_REFUSED) for each in topics if each["name"] not in mine]
    reply = await handler(asked.changed(groups=wanted)) if wanted else {}
    assert reply is not None
    found = []
    for group in reply.get("groups", ()):
        if group["group_id"] not in hidden:
            topics = _visible(asked, group["topics"])
        else:
            topics = [*group["topics"], *(() if group["error_code"] else hidden[group["group_id"]])]
        found.append({**group, "topics": topics})
    return {**reply, "groups": [*found, *refused]}


async def _offsets_of_one(asked: Asked, handler: Handler) -> Reply:
    topics = asked.body["topics"]
    if not asked.group(Operation.DESCRIBE, asked.body["group_id"]):
        listed = asked.request.version < _HAS_ERROR_SINCE
        parts = [_unknown(each, GROUP_REFUSED) for each in topics or ()] if listed else []
        return {"topics": parts, "error_code": GROUP_REFUSED}
    if topics is None:
        reply = await handler(asked.request)
        assert reply is not None
        return {**reply, "topics": _visible(asked, reply["topics"])}
    mine = asked.topics(Operation.DESCRIBE, [each["name"] for each in topics])
    return await split(
        asked,
        handler,
        "topics",
        "topics",
        lambda each: each["name"] in mine,
        lambda each: _unknown(each, TOPIC_REFUSED),
    )


def _visible(asked: Asked, topics: list[Body]) -> list[Body]:
    """Who asks for all of them sees what he may."""
    mine = asked.topics(Operation.DESCRIBE, [each["name"] for each in topics], quiet=True)
    return [each for each in topics if each["name"] in mine]


def _unknown(topic: Body, error: ErrorCode) -> Body:
    return {
        "name": topic["name"],
        "partitions": [
            {"partition_index": index, "committed_offset": -1, "metadata": "", "error_code": error}
            for index in topic["partition_indexes"]
        ],
    }


# -- tools ---------------------------------------------------------------------------------------------------


async def _describe(asked: Asked, handler: Handler) -> Reply:
    names = asked.body["groups"]
    mine = {name for name in dict.fromkeys(names) if asked.group(Operation.DESCRIBE, name)}
    reply = await handler(asked.changed(groups=[name for name in names if name in mine])) if mine else {}
    assert reply is not None
    found = list(reply.get("groups", ()))
    if asked.body["include_authorized_operations"]:
        found = [{**each, **_operations(asked, each)} for each in found]
    return {**reply, "groups": [*found, *(_undescribed(name) for name in names if name not in mine)]}


def _operations(asked: Asked, group: Body) -> Body:
    if group["error_code"]:
        return {}
    operations = asked.authorizer.operations(asked.request, ResourceType.GROUP, group["group_id"])
    return {"authorized_operations": operations}


def _undescribed(name: str) -> Body:
    return {
        "error_code": GROUP_REFUSED,
        "group_id": name,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }


async def _list(asked: Asked, handler: Handler) -> Reply:
    reply = await handler(asked.request)
    if reply is None or asked.cluster(Operation.DESCRIBE, quiet=True):
        return reply
    seen = [each for each in reply["groups"] if asked.group(Operation.DESCRIBE, each["group_id"], quiet=True)]
    return {**reply, "groups": seen}


async def _delete(asked: Asked, handler: Handler) -> Reply:
    names = asked.body["groups_names"]
    mine = {name for name in dict.fromkeys(names) if asked.group(Operation.DELETE, name)}
    reply = await handler(asked.changed(groups_names=[name for name in names if name in mine])) if mine else {}
    assert reply is not None
    refused = [{"group_id": name, "error_code": GROUP_REFUSED} for name in names if name not in mine]
    return {**reply, "results": [*reply.get("results", ()), *refused]}


async def _delete_offsets(asked: Asked, handler: Handler) -> Reply:
    if not asked.group(Operation.DELETE, asked.body["group_id"]):
        return {"error_code": GROUP_REFUSED, "topics": []}
    mine = asked.topics(Operation.READ, [each["name"] for each in asked.body["topics"]])
    return await split(
        asked,
        handler,
        "topics",
        "topics",
        lambda each: each["name"] in mine,
        lambda each: refused_parts(each, TOPIC_REFUSED),
    )


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: _member,
    ApiKey.HEARTBEAT: _member,
    ApiKey.LEAVE_GROUP: _member,
    ApiKey.OFFSET_COMMIT: commit,
    ApiKey.OFFSET_FETCH: _offsets,
    ApiKey.DESCRIBE_GROUPS: _describe,
    ApiKey.LIST_GROUPS: _list,
    ApiKey.DELETE_GROUPS: _delete,
    ApiKey.OFFSET_DELETE: _delete_offsets,
}
