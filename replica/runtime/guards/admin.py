"""What operators do: configurations, elections, replicas that move, users, and ACLs themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replica.core.acls import Operation
from replica.runtime.guards.asking import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    TEXT,
    TOPIC_REFUSED,
    Asked,
    Guard,
    of_cluster,
    split,
)
from replica.runtime.requests import ApiKey, Body, Handler, Reply

_TOPIC: Final = 2
_GROUP: Final = 32
_WHOLE: Final[Body] = {"error_code": CLUSTER_REFUSED, "error_message": TEXT}


def _configs(operation: Operation, answers: str) -> Guard:
    """Of topics to those who may with the topic, of all else to those who may with the cluster."""

    async def guard(asked: Asked, handler: Handler) -> Reply:
        may = {(each["resource_type"], each["resource_name"]): True for each in asked.body["resources"]}
        for kind, name in may:
            if kind == _TOPIC:
                may[kind, name] = asked.topic(operation, name)
            elif kind == _GROUP:
                may[kind, name] = asked.group(operation, name)
            else:
                may[kind, name] = asked.cluster(operation)
        return await split(
            asked,
            handler,
            "resources",
            answers,
            lambda each: may[each["resource_type"], each["resource_name"]],
            _refused_resource,
        )

    return guard


def _refused_resource(resource: Body) -> Body:
    kind = resource["resource_type"]
    code = {_TOPIC: TOPIC_REFUSED, _GROUP: GROUP_REFUSED}.get(kind, CLUSTER_REFUSED)
    return {
        "error_code": code,
        "error_message": TEXT,
        "resource_type": kind,
        "resource_name": resource["resource_name"],
    }


def _not_elected(body: Body) -> Body:
    return {
        "error_code": CLUSTER_REFUSED,
        "replica_election_results": [
            {
                "topic": topic["topic"],
                "partition_result": [
                    {"partition_id": number, "error_code": CLUSTER_REFUSED, "error_message": TEXT}
                    for number in topic["partitions"]
                ],
            }
            for topic in body["topic_partitions"] or ()
        ],
    }


def _each(field: str, answers: str) -> Guard:
    """Of requests whose answer has no place for one error of the whole."""
    return of_cluster(Operation.ALTER, lambda body: {answers: [dict(_WHOLE) for _ in body[field]]})


def _unaltered(body: Body) -> Body:
    names = dict.fromkeys(each["name"] for each in (*body["deletions"], *body["upsertions"]))
    return {"results": [{"user": name, **_WHOLE} for name in names]}


def _no_rates(body: Body) -> Body:
    return {"entries": [{"entity": each["entity"], **_WHOLE} for each in body["entries"]]}


def _whole(operation: Operation) -> Guard:
    return of_cluster(operation, lambda body: dict(_WHOLE))


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.DESCRIBE_CONFIGS: _configs(Operation.DESCRIBE_CONFIGS, "results"),
    ApiKey.ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.DESCRIBE_LOG_DIRS: of_cluster(Operation.DESCRIBE, lambda body: {"error_code": CLUSTER_REFUSED}),
    ApiKey.ELECT_LEADERS: of_cluster(Operation.ALTER, _not_elected),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(Operation.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(Operation.DESCRIBE),
    ApiKey.DESCRIBE_ACLS: _whole(Operation.DESCRIBE),
    ApiKey.CREATE_ACLS: _each("creations", "results"),
    ApiKey.DELETE_ACLS: _each("filters", "filter_results"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _whole(Operation.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: of_cluster(Operation.ALTER, _unaltered),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: of_cluster(Operation.DESCRIBE_CONFIGS, lambda body: {**_WHOLE, "entries": None}),
    ApiKey.ALTER_CLIENT_QUOTAS: of_cluster(Operation.ALTER_CONFIGS, _no_rates),
}
