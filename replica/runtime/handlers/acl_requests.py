"""`DescribeAcls`, `CreateAcls` and `DeleteAcls`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TypeVar

from replica.core.errors import ErrorCode, KafkaError
from replica.core.security.acls import (
    Acl,
    BadAcl,
    Entry,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
)
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.schemas.security_schemas import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

E = TypeVar("E", ResourceType, PatternType, Operation, Permission)


def handlers(authorizer: Authorizer | None) -> Handlers:
    """Return the handlers. Each ACL to create and each filter has an error code of its own. Without an authorizer each
    of these codes is SECURITY_DISABLED."""

    def present() -> Authorizer:
        if authorizer is None:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, "no authorizer is configured on this broker")
        return authorizer

    async def describe(request: Request[DescribeAclsRequest]) -> DescribeAclsResponse:
        try:
            (found,) = await present().matching([_filter(request.body)])
        except KafkaError as error:
            return DescribeAclsResponse(error_code=error.code, error_message=error.text)
        return DescribeAclsResponse(
            resources=[
                DescribeAclsResource(
                    resource_type=pattern.resource,
                    resource_name=pattern.name,
                    pattern_type=pattern.kind,
                    acls=[_described(acl.entry) for acl in held],
                )
                for pattern, held in groupby(found, lambda acl: acl.pattern)
            ]
        )

    async def create(request: Request[CreateAclsRequest]) -> CreateAclsResponse:
        creations = request.body.creations
        results = [AclCreationResult() for _ in creations]
        wanted: dict[Pattern, list[tuple[int, Entry]]] = {}
        for place, each in enumerate(creations):
            try:
                present()
                acl = _acl(each)
            except KafkaError as error:
                results[place] = AclCreationResult(error.code, error.text or None)
            else:
                wanted.setdefault(acl.pattern, []).append((place, acl.entry))
        for pattern, some in wanted.items():
            try:
                await present().add(pattern, [entry for _, entry in some])
            except KafkaError as error:
                for place, _ in some:
                    results[place] = AclCreationResult(error.code, error.text or None)
        return CreateAclsResponse(results=results)

    async def delete(request: Request[DeleteAclsRequest]) -> DeleteAclsResponse:
        filters = request.body.filters
        results = [DeleteAclsFilterResult() for _ in filters]
        wanted: dict[int, Filter] = {}
        for place, each in enumerate(filters):
            try:
                present()
                wanted[place] = _filter(each)
            except KafkaError as error:
                results[place] = DeleteAclsFilterResult(error.code, error.text or None)
        if not wanted:
            return DeleteAclsResponse(filter_results=results)
        try:
            found = await present().matching(list(wanted.values()))
        except KafkaError as error:
            for place in wanted:
                results[place] = DeleteAclsFilterResult(error.code, error.text or None)
            return DeleteAclsResponse(filter_results=results)
        failed = await remove(acl for some in found for acl in some)
        for place, some in zip(wanted, found, strict=True):
            results[place].matching_acls = [_matching(acl, failed[acl.pattern]) for acl in some]
        return DeleteAclsResponse(filter_results=results)

    async def remove(acls: Iterable[Acl]) -> dict[Pattern, KafkaError]:
        """Remove the ACLs. Return the error of each pattern; NONE for success. The node of a pattern is changed once
        for all filters."""
        gone: dict[Pattern, list[Entry]] = {}
        for acl in acls:
            gone.setdefault(acl.pattern, []).append(acl.entry)
        failed = dict.fromkeys(gone, KafkaError(ErrorCode.NONE))
        for pattern, entries in gone.items():
            try:
                await present().remove(pattern, entries)
            except KafkaError as error:
                failed[pattern] = error
        return failed

    return handler_table(handles(DESCRIBE_ACLS, describe), handles(CREATE_ACLS, create), handles(DELETE_ACLS, delete))


def _described(entry: Entry) -> AclDescription:
    return AclDescription(
        principal=entry.principal, host=entry.host, operation=entry.operation, permission_type=entry.permission
    )


def _matching(acl: Acl, error: KafkaError) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=error.code,
        error_message=error.text or None,
        resource_type=acl.pattern.resource,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.kind,
        principal=acl.entry.principal,
        host=acl.entry.host,
        operation=acl.entry.operation,
        permission_type=acl.entry.permission,
    )


def _one_of(kind: type[E], number: int) -> E:
    try:
        found = kind(number)
    except ValueError:
        found = kind(0)
    if found == 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown {kind.__name__} {number}")
    return found


def _acl(asked: AclCreation) -> Acl:
    pattern = Pattern(
        _one_of(ResourceType, asked.resource_type),
        asked.resource_name,
        _one_of(PatternType, asked.resource_pattern_type),
    )
    entry = Entry(
        asked.principal,
        asked.host,
        _one_of(Operation, asked.operation),
        _one_of(Permission, asked.permission_type),
    )
    try:
        check_acl(Acl(pattern, entry))
    except BadAcl as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    return Acl(pattern, entry)


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    return Filter(
        _one_of(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _one_of(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        _one_of(Operation, asked.operation),
        _one_of(Permission, asked.permission_type),
    )
