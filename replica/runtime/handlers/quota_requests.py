"""`DescribeClientQuotas` and `AlterClientQuotas`: quotas of users, client ids, pairs of both, and IP addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

import zab
from kraft_controller.core.configuration import config_alteration
from kraft_controller.core.configuration.config_alteration import Alteration, Operation
from kraft_controller.core.configuration.config_keys import CLIENT, DEFAULT, IPS, ConfigError
from kraft_controller.runtime.admin.entity_configs import Entity, change_config, entities, quoted, read_configs
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.handlers.client_throttling import user_and_client
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.runtime.store.store_call import call_store
from replica.wire.schemas.quota_schemas import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterQuotaEntry,
    AlterQuotaEntryResult,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
    ValueData,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
EXACT, DEFAULT_ENTITY, ANY = range(3)

Names = Mapping[str, str | None]
"""Entity names by entity type. None stands for the default of a type."""


def handlers(session: Callable[[], zab.Session | None]) -> Handlers:
    async def describe(request: Request[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
        try:
            wanted = _EntityFilter(request.body)
            found = await call_store(session(), _read)
        except KafkaError as error:
            return DescribeClientQuotasResponse(error_code=error.code, error_message=error.text, entries=None)
        return DescribeClientQuotasResponse(
            entries=[
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
                    values=values,
                )
                for names, quotas in found
                if (values := list(_values(quotas))) and wanted.matches(names)
            ],
        )

    async def alter(request: Request[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
        check_only: bool = request.body.validate_only

        async def one(entry: AlterQuotaEntry) -> AlterQuotaEntryResult:
            try:
                entity = _entity(entry.entity)
                alterations = [_alteration(entity, op) for op in entry.ops]

                async def change(at: zab.Session) -> object:
                    wanted = config_alteration.altered(entity.kind, alterations, {})
                    return await change_config(at, entity, wanted, check_only=check_only)

                await call_store(session(), change)
            except KafkaError as error:
                # Kafka returns INVALID_REQUEST for an invalid quota.
                code = ErrorCode.INVALID_REQUEST if error.code is ErrorCode.INVALID_CONFIG else error.code
                return AlterQuotaEntryResult(error_code=code, error_message=error.text, entity=entry.entity)
            return AlterQuotaEntryResult(entity=entry.entity)

        return AlterClientQuotasResponse(entries=[await one(entry) for entry in request.body.entries])

    return handler_table(handles(DESCRIBE_CLIENT_QUOTAS, describe), handles(ALTER_CLIENT_QUOTAS, alter))


# -- entities ------------------------------------------------------------------------------------------------


async def _read(session: zab.Session) -> list[tuple[Names, Mapping[str, str]]]:
    wanted = [entity for kind in ("users", "clients", "ips") for entity in await entities(session, kind)]
    found = await read_configs(session, wanted)
    return [(names_of(each), quotas) for each, quotas in found.items() if not isinstance(quotas, DamagedNode)]


def names_of(entity: Entity) -> Names:
    kind, _, rest = entity.path.partition("/")
    if kind == "ips":
        return {IP: None if rest == DEFAULT else unquote(rest)}
    user, client = user_and_client(entity)
    named = {USER: user, CLIENT_ID: client}
    return {kind: name if isinstance(name, str) else None for kind, name in named.items() if name is not None}


def _entity(parts: list[EntityData]) -> Entity:
    """Return the entity of a quota (KIP-546): a user, a client id, a pair of both, or an IP address."""
    names: dict[str, str | None] = {part.entity_type: part.entity_name for part in parts}
    if len(names) != len(parts) or not names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an entity must have at least one type, and no type twice")
    if any(name == "" for name in names.values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an entity name is empty; use null for the default of a type")
    match sorted(names):
        case ["user"]:
            return Entity(f"users/{_written(names[USER])}")
        case ["client-id"]:
            return Entity(f"clients/{_written(names[CLIENT_ID])}")
        case ["client-id", "user"]:
            return Entity(f"users/{_written(names[USER])}/clients/{_written(names[CLIENT_ID])}")
        case ["ip"]:
            return Entity.of("ips", names[IP])
        case others:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"an entity cannot consist of {', '.join(others)}: use user, client-id, both of them, or ip",
            )


def _written(name: str | None) -> str:
    """Return the name for the path; None stands for the default, and `<default>` for a user or client of that name."""
    return DEFAULT if name is None else quoted(name)


class _EntityFilter:
    """The filter of a DescribeClientQuotas request."""

    def __init__(self, body: DescribeClientQuotasRequest) -> None:
        self._strict: bool = body.strict
        self._parts: dict[str, tuple[int, str | None]] = {}
        for part in body.components:
            kind, how, name = part.entity_type, part.match_type, part.match
            if kind not in (USER, CLIENT_ID, IP) or kind in self._parts:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"unsupported or repeated component {kind}: use {USER}, {CLIENT_ID} or {IP}, each at most once",
                )
            if how not in (EXACT, DEFAULT_ENTITY, ANY) or (name is None) == (how == EXACT):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"component {kind}: match type {how} with name {name!r}; use 0 (exact) with a name, or 1 (default) "
                    "or 2 (any) without a name",
                )
            self._parts[kind] = how, name
        if IP in self._parts and len(self._parts) > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a filter cannot combine ip with user or client-id")

    def matches(self, names: Names) -> bool:
        for kind, (how, name) in self._parts.items():
            if kind not in names or (how != ANY and names[kind] != name):
                return False
        return not self._strict or set(names) == set(self._parts)


# -- values --------------------------------------------------------------------------------------------------


def _values(quotas: Mapping[str, str]) -> Iterator[ValueData]:
    for key in {**CLIENT, **IPS}.values():
        if key.name in quotas:
            try:
                value = key.value(quotas[key.name])
            except ConfigError:
                continue  # an invalid value, written to the store by hand and not in force
            assert isinstance(value, int | float)
            yield ValueData(key=key.name, value=float(value))


def _alteration(entity: Entity, op: OpData) -> Alteration:
    name, value = op.key, op.value
    if name not in (IPS if entity.kind == "ips" else CLIENT):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"quota {name} is not supported for this entity: users and clients have {', '.join(CLIENT)}, "
            f"IP addresses {', '.join(IPS)}",
        )
    if op.remove:
        return Alteration(name, Operation.DELETE)
    return Alteration(name, Operation.SET, str(int(value)) if value == value // 1 else str(value))
