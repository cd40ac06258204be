"""Guards for administrators' requests: configurations, log directories, elections, reassignments, SCRAM users, quotas
and ACLs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from attrs import evolve

from replica.core.errors import ErrorCode
from replica.core.security.acls import Operation
from replica.runtime.authorization.guard import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    REFUSED_TEXT,
    TOPIC_REFUSED,
    GuardedRequest,
    GuardTable,
    entry,
    guard_table,
    of_cluster,
    split,
)
from replica.runtime.requests import Handler
from replica.wire.schemas.quota_schemas import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterQuotaEntryResult,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from replica.wire.schemas.reassignment_schemas import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from replica.wire.schemas.security_schemas import (
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    AclCreationResult,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from replica.wire.schemas.topic_schemas import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    INCREMENTAL_ALTER_CONFIGS,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Q = TypeVar("Q")

_TOPIC: Final = 2
_GROUP: Final = 32


class _Resource(Protocol):
    resource_type: int
    resource_name: str


def _permits(
    guarded: GuardedRequest[Q], operation: Operation, resources: Sequence[_Resource]
) -> Callable[[_Resource], bool]:
    """Return a predicate that is true for permitted resources.

    `operation` is checked on the topic or the group, and for all other resource types on the cluster. Each resource is
    checked once, even if the request repeats it.
    """
    permitted = {(each.resource_type, each.resource_name): True for each in resources}
    for kind, name in permitted:
        if kind == _TOPIC:
            permitted[kind, name] = guarded.topic(operation, name)
        elif kind == _GROUP:
            permitted[kind, name] = guarded.group(operation, name)
        else:
            permitted[kind, name] = guarded.cluster(operation)
    return lambda each: permitted[each.resource_type, each.resource_name]


def _code(resource: _Resource) -> ErrorCode:
    return {_TOPIC: TOPIC_REFUSED, _GROUP: GROUP_REFUSED}.get(resource.resource_type, CLUSTER_REFUSED)


async def _describe_configs(
    guarded: GuardedRequest[DescribeConfigsRequest], handler: Handler[DescribeConfigsRequest, DescribeConfigsResponse]
) -> DescribeConfigsResponse:
    resources = guarded.body.resources
    passed, refused = split(resources, _permits(guarded, Operation.DESCRIBE_CONFIGS, resources))
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, resources=passed)
    response = await handler(guarded.with_body(body)) if passed else DescribeConfigsResponse()
    hidden = [
        DescribeConfigsResult(
            error_code=_code(each),
            error_message=REFUSED_TEXT,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in refused
    ]
    return evolve(response, results=[*response.results, *hidden])


async def _alter_configs(
    guarded: GuardedRequest[AlterConfigsRequest], handler: Handler[AlterConfigsRequest, AlterConfigsResponse]
) -> AlterConfigsResponse:
    resources = guarded.body.resources
    passed, refused = split(resources, _permits(guarded, Operation.ALTER_CONFIGS, resources))
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, resources=passed)
    response = await handler(guarded.with_body(body)) if passed else AlterConfigsResponse()
    return evolve(response, responses=[*response.responses, *map(_unset, refused)])


async def _incremental_alter_configs(
    guarded: GuardedRequest[IncrementalAlterConfigsRequest],
    handler: Handler[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse],
) -> IncrementalAlterConfigsResponse:
    resources = guarded.body.resources
    passed, refused = split(resources, _permits(guarded, Operation.ALTER_CONFIGS, resources))
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, resources=passed)
    response = await handler(guarded.with_body(body)) if passed else IncrementalAlterConfigsResponse()
    return evolve(response, responses=[*response.responses, *map(_unset, refused)])


def _unset(resource: _Resource) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=_code(resource),
        error_message=REFUSED_TEXT,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


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
    return CreateAclsResponse(results=[AclCreationResult(CLUSTER_REFUSED, REFUSED_TEXT) for _ in body.creations])


def _not_deleted(body: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(CLUSTER_REFUSED, REFUSED_TEXT) for _ in body.filters]
    )


def _unaltered(body: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(each.name for each in body.deletions) | dict.fromkeys(each.name for each in body.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(name, CLUSTER_REFUSED, REFUSED_TEXT) for name in names]
    )


def _quotas_unaltered(body: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[AlterQuotaEntryResult(CLUSTER_REFUSED, REFUSED_TEXT, each.entity) for each in body.entries]
    )


# -- requests whose response has one error for the whole request --------------------------------------------------


def _no_log_dirs(body: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=CLUSTER_REFUSED)


def _not_reassigned(body: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=CLUSTER_REFUSED, error_message=REFUSED_TEXT)


def _no_reassignments(body: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=CLUSTER_REFUSED, error_message=REFUSED_TEXT)


def _no_acls(body: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=CLUSTER_REFUSED, error_message=REFUSED_TEXT)


def _no_users(body: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=CLUSTER_REFUSED, error_message=REFUSED_TEXT)


def _no_quotas(body: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=CLUSTER_REFUSED, error_message=REFUSED_TEXT, entries=None)


GUARDS: Final[GuardTable] = guard_table(
    entry(DESCRIBE_CONFIGS, _describe_configs),
    entry(ALTER_CONFIGS, _alter_configs),
    entry(INCREMENTAL_ALTER_CONFIGS, _incremental_alter_configs),
    entry(DESCRIBE_LOG_DIRS, of_cluster(Operation.DESCRIBE, _no_log_dirs)),
    entry(ELECT_LEADERS, of_cluster(Operation.ALTER, _not_elected)),
    entry(ALTER_PARTITION_REASSIGNMENTS, of_cluster(Operation.ALTER, _not_reassigned)),
    entry(LIST_PARTITION_REASSIGNMENTS, of_cluster(Operation.DESCRIBE, _no_reassignments)),
    entry(DESCRIBE_ACLS, of_cluster(Operation.DESCRIBE, _no_acls)),
    entry(CREATE_ACLS, of_cluster(Operation.ALTER, _not_created)),
    entry(DELETE_ACLS, of_cluster(Operation.ALTER, _not_deleted)),
    entry(DESCRIBE_USER_SCRAM_CREDENTIALS, of_cluster(Operation.DESCRIBE, _no_users)),
    entry(ALTER_USER_SCRAM_CREDENTIALS, of_cluster(Operation.ALTER, _unaltered)),
    entry(DESCRIBE_CLIENT_QUOTAS, of_cluster(Operation.DESCRIBE_CONFIGS, _no_quotas)),
    entry(ALTER_CLIENT_QUOTAS, of_cluster(Operation.ALTER_CONFIGS, _quotas_unaltered)),
)
