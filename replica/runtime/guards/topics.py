"""Topics: who sees them, who makes them, who changes and deletes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replica.core.acls import CLUSTER_NAME, Operation, ResourceType
from replica.core.errors import ErrorCode
from replica.runtime.guards.asking import TEXT, TOPIC_REFUSED, Asked, Guard, of_topics, split
from replica.runtime.requests import ApiKey, Body, Handler, Reply


async def _metadata(asked: Asked, handler: Handler) -> Reply:
    """Who asks for all topics sees those that he may. Who names one that he may not see hears so, whether it is there
    or not: he would learn of it otherwise."""
    topics = asked.body["topics"]
    if topics is None or (asked.request.version == 0 and not topics):
        reply = await handler(asked.request)
        assert reply is not None
        mine = asked.topics(Operation.DESCRIBE, [each["name"] for each in reply["topics"]], quiet=True)
        reply = {**reply, "topics": [each for each in reply["topics"] if each["name"] in mine]}
        return {**reply, **_operations(asked, reply)}
    wanted, refused = [], []
    for one in topics:
        error = _why_not_shown(asked, one)
        if error is None:
            wanted.append(one)
        else:
            hidden = one["name"] is None
            name = one["name"] if not hidden else None if asked.request.version >= 12 else ""
            refused.append({"error_code": error, "name": name, "topic_id": one["topic_id"], "partitions": []})
    reply = await handler(asked.changed(topics=wanted))
    assert reply is not None
    told = {**reply, "topics": [*reply["topics"], *refused]}
    return {**told, **_operations(asked, told)}


def _why_not_shown(asked: Asked, topic: Body) -> ErrorCode | None:
    name, ident = topic["name"], topic["topic_id"]
    if ident is not None:
        known = asked.names.name_of(ident)
        return None if known is None or asked.topic(Operation.DESCRIBE, known) else ErrorCode.UNKNOWN_TOPIC_ID
    if name is None:
        return None
    if not asked.topic(Operation.DESCRIBE, name):
        return TOPIC_REFUSED
    makes = asked.auto_create and asked.body["allow_auto_topic_creation"] and name not in asked.names.topics
    if makes and not _may_create(asked, name):
        return TOPIC_REFUSED
    return None


def _may_create(asked: Asked, name: str) -> bool:
    return asked.cluster(Operation.CREATE, quiet=True) or asked.topic(Operation.CREATE, name)


def _operations(asked: Asked, reply: Body) -> Body:
    changed: Body = {}
    if asked.body["include_topic_authorized_operations"]:
        changed["topics"] = [_with_operations(asked, each) for each in reply["topics"]]
    return {**changed, **_of_cluster(asked)}


def _with_operations(asked: Asked, topic: Body) -> Body:
    if not topic.get("name") or topic.get("error_code") == TOPIC_REFUSED:
        return topic
    operations = asked.authorizer.operations(asked.request, ResourceType.TOPIC, topic["name"])
    return {**topic, "topic_authorized_operations": operations}


def _of_cluster(asked: Asked) -> Body:
    if not asked.body["include_cluster_authorized_operations"]:
        return {}
    seen = asked.cluster(Operation.DESCRIBE, quiet=True)
    operations = asked.authorizer.operations(asked.request, ResourceType.CLUSTER, CLUSTER_NAME) if seen else 0
    return {"cluster_authorized_operations": operations}


async def _describe_cluster(asked: Asked, handler: Handler) -> Reply:
    reply = await handler(asked.request)
    return None if reply is None else {**reply, **_of_cluster(asked)}


async def _create(asked: Asked, handler: Handler) -> Reply:
    topics = asked.body["topics"]
    if asked.cluster(Operation.CREATE, quiet=True):
        mine = {each["name"] for each in topics}
    else:
        mine = asked.topics(Operation.CREATE, [each["name"] for each in topics])
    reply = await split(asked, handler, "topics", "topics", lambda each: each["name"] in mine, _refused)
    assert reply is not None
    seen = asked.topics(Operation.DESCRIBE_CONFIGS, [each["name"] for each in reply["topics"]], quiet=True)
    return {**reply, "topics": [each if each["name"] in seen else {**each, **_UNSEEN} for each in reply["topics"]]}


_UNSEEN: Final = {
    "topic_config_error_code": TOPIC_REFUSED,
    "num_partitions": -1,
    "replication_factor": -1,
    "configs": None,
}


def _refused(topic: Body) -> Body:
    return {"name": topic["name"], "error_code": TOPIC_REFUSED, "error_message": TEXT}


async def _delete(asked: Asked, handler: Handler) -> Reply:
    if asked.request.version < 6:
        names = asked.body["topic_names"]
        mine = asked.topics(Operation.DELETE, names)
        reply = await handler(asked.changed(topic_names=[name for name in names if name in mine])) if mine else {}
        assert reply is not None
        refused = [_refused({"name": name}) for name in names if name not in mine]
        return {**reply, "responses": [*reply.get("responses", ()), *refused]}
    wanted, answers = [], []
    for one in asked.body["topics"]:
        ident = one["topic_id"]
        name = one["name"] if one["name"] is not None or ident is None else asked.names.name_of(ident)
        if name is None or asked.topic(Operation.DELETE, name):
            wanted.append(one)
        else:
            # Who does not even see it is not told what it is called.
            shown = name if one["name"] is not None or asked.topic(Operation.DESCRIBE, name, quiet=True) else None
            answers.append({**_refused({"name": shown}), "topic_id": ident})
    reply = await handler(asked.changed(topics=wanted)) if wanted else {}
    assert reply is not None
    return {**reply, "responses": [*reply.get("responses", ()), *answers]}


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.CREATE_TOPICS: _create,
    ApiKey.CREATE_PARTITIONS: of_topics(Operation.ALTER, "topics", "results", "name", _refused),
    ApiKey.DELETE_TOPICS: _delete,
}
