"""Client quotas."""

from __future__ import annotations

from typing import Any, Final

from attrs import define

from replica.wire.api import ApiKey
from replica.wire.fields import (
    Api,
    boolean,
    f64,
    i8,
    i16,
    i32,
    message,
    structs,
    text,
)


@define
class ComponentData:
    entity_type: str = text()
    match_type: int = i8()
    match: str | None = text(null=0)


@define
class DescribeClientQuotasRequest:
    components: list[ComponentData] = structs(ComponentData)
    strict: bool = boolean()


@define
class EntityData:
    entity_type: str = text()
    entity_name: str | None = text(null=0)


@define
class ValueData:
    key: str = text()
    value: float = f64()


@define
class EntryData:
    entity: list[EntityData] = structs(EntityData)
    values: list[ValueData] = structs(ValueData)


@define
class DescribeClientQuotasResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)
    entries: list[EntryData] | None = structs(EntryData, null=0)


DESCRIBE_CLIENT_QUOTAS: Final = Api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    first=0,
    last=1,
    flexible=1,
)


@define
class OpData:
    key: str = text()
    value: float = f64()
    remove: bool = boolean()


@define
class AlterQuotaEntry:
    entity: list[EntityData] = structs(EntityData)
    ops: list[OpData] = structs(OpData)


@define
class AlterClientQuotasRequest:
    entries: list[AlterQuotaEntry] = structs(AlterQuotaEntry)
    validate_only: bool = boolean()


@define
class AlterQuotaEntryResult:
    error_code: int = i16()
    error_message: str | None = message(null=0)
    entity: list[EntityData] = structs(EntityData)


@define
class AlterClientQuotasResponse:
    throttle_time_ms: int = i32()
    entries: list[AlterQuotaEntryResult] = structs(AlterQuotaEntryResult)


ALTER_CLIENT_QUOTAS: Final = Api(
    ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest, AlterClientQuotasResponse, first=0, last=1, flexible=1
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    DESCRIBE_CLIENT_QUOTAS,
    ALTER_CLIENT_QUOTAS,
)
