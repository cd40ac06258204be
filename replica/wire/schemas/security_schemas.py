"""ACLs and SCRAM credentials."""

from __future__ import annotations

from typing import Any, Final

from attrs import define

from replica.wire.api import ApiKey
from replica.wire.fields import (
    Api,
    i8,
    i16,
    i32,
    message,
    octets,
    structs,
    text,
)


@define
class DescribeAclsRequest:
    resource_type_filter: int = i8()
    resource_name_filter: str | None = text(null=0)
    pattern_type_filter: int = i8(since=1, default=3)
    principal_filter: str | None = text(null=0)
    host_filter: str | None = text(null=0)
    operation: int = i8()
    permission_type: int = i8()


@define
class AclDescription:
    principal: str = text()
    host: str = text()
    operation: int = i8()
    permission_type: int = i8()


@define
class DescribeAclsResource:
    resource_type: int = i8()
    resource_name: str = text()
    pattern_type: int = i8(since=1, default=3)
    acls: list[AclDescription] = structs(AclDescription)


@define
class DescribeAclsResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)
    resources: list[DescribeAclsResource] = structs(DescribeAclsResource)


DESCRIBE_ACLS: Final = Api(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest, DescribeAclsResponse, first=0, last=3, flexible=2)


@define
class AclCreation:
    resource_type: int = i8()
    resource_name: str = text()
    resource_pattern_type: int = i8(since=1, default=3)
    principal: str = text()
    host: str = text()
    operation: int = i8()
    permission_type: int = i8()


@define
class CreateAclsRequest:
    creations: list[AclCreation] = structs(AclCreation)


@define
class AclCreationResult:
    error_code: int = i16()
    error_message: str | None = message(null=0)


@define
class CreateAclsResponse:
    throttle_time_ms: int = i32()
    results: list[AclCreationResult] = structs(AclCreationResult)


CREATE_ACLS: Final = Api(ApiKey.CREATE_ACLS, CreateAclsRequest, CreateAclsResponse, first=0, last=3, flexible=2)


@define
class DeleteAclsFilter:
    resource_type_filter: int = i8()
    resource_name_filter: str | None = text(null=0)
    pattern_type_filter: int = i8(since=1, default=3)
    principal_filter: str | None = text(null=0)
    host_filter: str | None = text(null=0)
    operation: int = i8()
    permission_type: int = i8()


@define
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = structs(DeleteAclsFilter)


@define
class DeleteAclsMatchingAcl:
    error_code: int = i16()
    error_message: str | None = message(null=0)
    resource_type: int = i8()
    resource_name: str = text()
    pattern_type: int = i8(since=1, default=3)
    principal: str = text()
    host: str = text()
    operation: int = i8()
    permission_type: int = i8()


@define
class DeleteAclsFilterResult:
    error_code: int = i16()
    error_message: str | None = message(null=0)
    matching_acls: list[DeleteAclsMatchingAcl] = structs(DeleteAclsMatchingAcl)


@define
class DeleteAclsResponse:
    throttle_time_ms: int = i32()
    filter_results: list[DeleteAclsFilterResult] = structs(DeleteAclsFilterResult)


DELETE_ACLS: Final = Api(ApiKey.DELETE_ACLS, DeleteAclsRequest, DeleteAclsResponse, first=0, last=3, flexible=2)


@define
class UserName:
    name: str = text()


@define
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = structs(UserName, null=0)


@define
class CredentialInfo:
    mechanism: int = i8()
    iterations: int = i32()


@define
class DescribeUserScramCredentialsResult:
    user: str = text()
    error_code: int = i16()
    error_message: str | None = message(null=0)
    credential_infos: list[CredentialInfo] = structs(CredentialInfo)


@define
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)
    results: list[DescribeUserScramCredentialsResult] = structs(DescribeUserScramCredentialsResult)


DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    first=0,
    last=0,
    flexible=0,
)


@define
class ScramCredentialDeletion:
    name: str = text()
    mechanism: int = i8()


@define
class ScramCredentialUpsertion:
    name: str = text()
    mechanism: int = i8()
    iterations: int = i32()
    salt: bytes = octets()
    salted_password: bytes = octets()


@define
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = structs(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = structs(ScramCredentialUpsertion)


@define
class AlterUserScramCredentialsResult:
    user: str = text()
    error_code: int = i16()
    error_message: str | None = message(null=0)


@define
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = i32()
    results: list[AlterUserScramCredentialsResult] = structs(AlterUserScramCredentialsResult)


ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    first=0,
    last=0,
    flexible=0,
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    DESCRIBE_ACLS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ALTER_USER_SCRAM_CREDENTIALS,
)
