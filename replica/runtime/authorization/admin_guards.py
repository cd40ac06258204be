"""Guards for administrators' requests: configurations, elections, reassignments, SCRAM users, quotas and ACLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from replica.core.security.acls import Operation
from replica.runtime.authorization.guard import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    REFUSED_TEXT,
    TOPIC_REFUSED,
    Guard,
    GuardedRequest,
    handle_split,
    of_cluster,
)
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas.quota_schemas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterQuotaEntryResult,
    DescribeClientQuotasResponse,
)
from replica.wire.schemas.reassignment_schemas import (
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from replica.wire.schemas.security_schemas import (
    AclCreationResult,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsResponse,
    DescribeUserScramCredentialsResponse,
)
from replica.wire.schemas.topic_schemas import (
    AlterConfigsResourceResponse,
    DescribeConfigsResult,
    DescribeLogDirsResponse,
)

T = TypeVar("T")

_TOPIC: Final = 2
_GROUP: Final = 32


def _configs(operation: Operation, results: str, result: Callable[..., Any]) -> Guard:
    """Return a guard that checks `operation` on topics and groups, and on the cluster for all other resources."""

    async def guard(guarded: GuardedRequest[Any], handler: Handler) -> Any:
        permitted = {(each.resource_type, each.resource_name): True for each in guarded.body.resources}
        for kind, name in permitted:
            if kind == _TOPIC:
                permitted[kind, name] = guarded.topic(operation, name)
            elif kind == _GROUP:
                permitted[kind, name] = guarded.group(operation, name)
            else:
                permitted[kind, name] = guarded.cluster(operation)
        return await handle_split(
            guarded,
            handler,
            "resources",
            results,
            lambda each: permitted[each.resource_type, each.resource_name],
            refused,
        )

    def refused(resource: Any) -> Any:
        kind = resource.resource_type
        code = {_TOPIC: TOPIC_REFUSED, _GROUP: GROUP_REFUSED}.get(kind, CLUSTER_REFUSED)
        return result(
            error_code=code, error_message=REFUSED_TEXT, resource_type=kind, resource_name=resource.resource_name
        )

    return guard


def _not_elected(body: ElectLeadersRequest) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=CLUSTER_REFUSED,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=CLUSTER_REFUSED, error_message=REFUSED_TEXT)
                    for number in topic.partitions
                ],
            )
            for topic in body.topic_partitions or ()
        ],
    )


def _not_created(body: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_refused(AclCreationResult) for _ in body.creations])


def _not_deleted(body: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_refused(DeleteAclsFilterResult) for _ in body.filters])


def _unaltered(body: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(each.name for each in body.deletions) | dict.fromkeys(each.name for each in body.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[_refused(AlterUserScramCredentialsResult, user=name) for name in names]
    )


def _quotas_unaltered(body: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[_refused(AlterQuotaEntryResult, entity=each.entity) for each in body.entries]
    )


def _refused(of: Callable[..., T], **fields: object) -> T:
    return of(error_code=CLUSTER_REFUSED, error_message=REFUSED_TEXT, **fields)


def _whole(operation: Operation, response: Callable[..., Any]) -> Guard:
    """Return a guard that checks `operation` on the cluster. The response has one error for the whole request."""
    return of_cluster(operation, lambda body: _refused(response))


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.DESCRIBE_CONFIGS: _configs(Operation.DESCRIBE_CONFIGS, "results", DescribeConfigsResult),
    ApiKey.ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS, "responses", AlterConfigsResourceResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS, "responses", AlterConfigsResourceResponse),
    ApiKey.DESCRIBE_LOG_DIRS: of_cluster(
        Operation.DESCRIBE, lambda body: DescribeLogDirsResponse(error_code=CLUSTER_REFUSED)
    ),
    ApiKey.ELECT_LEADERS: of_cluster(Operation.ALTER, _not_elected),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(Operation.ALTER, AlterPartitionReassignmentsResponse),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(Operation.DESCRIBE, ListPartitionReassignmentsResponse),
    ApiKey.DESCRIBE_ACLS: _whole(Operation.DESCRIBE, DescribeAclsResponse),
    ApiKey.CREATE_ACLS: of_cluster(Operation.ALTER, _not_created),
    ApiKey.DELETE_ACLS: of_cluster(Operation.ALTER, _not_deleted),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _whole(Operation.DESCRIBE, DescribeUserScramCredentialsResponse),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: of_cluster(Operation.ALTER, _unaltered),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: of_cluster(
        Operation.DESCRIBE_CONFIGS, lambda body: _refused(DescribeClientQuotasResponse, entries=None)
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: of_cluster(Operation.ALTER_CONFIGS, _quotas_unaltered),
}
