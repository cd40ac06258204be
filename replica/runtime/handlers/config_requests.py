"""`DescribeConfigs`, `AlterConfigs` and `IncrementalAlterConfigs` for topics, this broker, and all brokers.

The resource for all brokers has an empty name. Static keys can be described but not altered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import zab
from kraft_controller.core.configuration import config_alteration
from kraft_controller.core.configuration.config_alteration import Alteration, Change, Operation
from kraft_controller.core.configuration.config_keys import CUSTOM
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.admin.entity_configs import Entity, change_config, read_config
from replica.core.errors import ErrorCode, KafkaError
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.config_layers import (
    ConfigEntry,
    Layers,
    StartSettings,
    of_all_brokers,
    of_broker,
    of_topic,
)
from replica.runtime.requests import Handler, Handlers, Request, Turns, handler_table, handles
from replica.runtime.store.store_call import call_store
from replica.wire.schemas.topic_schemas import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

T = TypeVar("T", DescribeConfigsResult, AlterConfigsResourceResponse)
R = TypeVar("R", AlterConfigsResponse, IncrementalAlterConfigsResponse)
Resource: TypeAlias = DescribeConfigsResource | AlterConfigsResource | IncrementalAlterConfigsResource

TOPIC: Final = 2
BROKER: Final = 4
OTHERS: Final[Mapping[int, str]] = {8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
"""Resource types that Kafka's tools request and that this broker does not support."""
KINDS: Final = {CUSTOM: 0, "boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}
"""The protocol's numbers of configuration types."""
ALL_BROKERS: Final = Entity.of("brokers")


def handlers(
    me: BrokerId, cache: MetadataCache, session: Callable[[], zab.Session | None], file: StartSettings
) -> Handlers:
    """Return the handlers. `file`: the static settings of this broker."""
    mine = Entity.of("brokers", str(me))

    def entity_of(resource: Resource) -> Entity:
        kind, name = resource.resource_type, resource.resource_name
        if kind == TOPIC:
            if name not in cache.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            return Entity.of("topics", name)
        if kind != BROKER:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"unsupported resource type {_kind(kind)}: use 2 (topic) or 4 (broker)"
            )
        if name not in ("", str(me)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {me}; send the request to broker {name}")
        return mine if name else ALL_BROKERS

    async def read(entity: Entity) -> dict[str, str]:
        return await call_store(session(), lambda at: read_config(at, entity))

    async def layers() -> Layers:
        return Layers(await read(mine), await read(ALL_BROKERS), file)

    async def describe(request: Request[DescribeConfigsRequest]) -> DescribeConfigsResponse:
        named: set[Entity] = set()

        async def one(resource: DescribeConfigsResource, result: DescribeConfigsResult) -> None:
            entity = entity_of(resource)
            if entity in named:
                # For a few bytes of a request, the response would contain a whole configuration again.
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the resource is in the request more than once")
            named.add(entity)
            named_keys = resource.configuration_keys
            keys = None if named_keys is None else frozenset(named_keys)
            if entity == ALL_BROKERS:
                found = of_all_brokers(await read(entity), keys)
            elif entity == mine:
                found = of_broker(await layers(), keys)
            else:
                found = of_topic(await read(entity), await layers(), keys)
            result.configs = [_described(request.body, entry) for entry in found]

        return DescribeConfigsResponse(results=await _each(request.body.resources, DescribeConfigsResult, one))

    async def inherited(entity: Entity) -> dict[str, str]:
        """Return the values to which APPEND and SUBTRACT apply if the entity does not set the key."""
        if entity == ALL_BROKERS:
            entries = of_broker(Layers({}, {}, file))
        elif entity == mine:
            entries = of_broker(Layers({}, await read(ALL_BROKERS), file))
        else:
            entries = of_topic({}, await layers())
        return {entry.name: entry.value for entry in entries if entry.value is not None}

    def altering_with(change_of: Callable[[Entity, Any], Awaitable[Change]], response: type[R]) -> Handler[Any, R]:
        async def alter(request: Request[AlterConfigsRequest] | Request[IncrementalAlterConfigsRequest]) -> R:
            check_only, resources = request.body.validate_only, request.body.resources
            named = Counter((each.resource_type, each.resource_name) for each in resources)

            async def one(
                resource: AlterConfigsResource | IncrementalAlterConfigsResource, result: AlterConfigsResourceResponse
            ) -> None:
                if named[resource.resource_type, resource.resource_name] > 1:
                    # As in Kafka. Each repetition would cost a write to the store.
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "each resource must be in the request at most once")
                entity = entity_of(resource)

                async def change(at: zab.Session) -> Mapping[str, str]:
                    wanted = await change_of(entity, resource.configs)
                    return await change_config(at, entity, wanted, check_only=check_only)

                try:
                    await call_store(session(), change)
                except KafkaError as error:
                    if entity.kind == "brokers" and error.code is ErrorCode.INVALID_CONFIG:
                        raise KafkaError(ErrorCode.INVALID_REQUEST, error.text) from error  # as in Kafka
                    raise

            return response(responses=await _each(resources, AlterConfigsResourceResponse, one))

        return alter

    async def replaced(entity: Entity, configs: list[AlterableConfig]) -> Change:
        return config_alteration.replaced(entity.kind, {each.name: each.value for each in configs})

    async def altered(entity: Entity, configs: list[IncrementalAlterableConfig]) -> Change:
        alterations = [Alteration(each.name, _operation(each), each.value) for each in configs]
        lists = any(each.operation in (Operation.APPEND, Operation.SUBTRACT) for each in alterations)
        return config_alteration.altered(entity.kind, alterations, await inherited(entity) if lists else {})

    return handler_table(
        handles(DESCRIBE_CONFIGS, describe),
        handles(ALTER_CONFIGS, altering_with(replaced, AlterConfigsResponse)),
        handles(INCREMENTAL_ALTER_CONFIGS, altering_with(altered, IncrementalAlterConfigsResponse)),
    )


def _described(body: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if body.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=KINDS[entry.kind],
        documentation=(entry.about or None) if body.include_documentation else None,
    )


def _operation(config: IncrementalAlterableConfig) -> Operation:
    try:
        return Operation(config.config_operation)
    except ValueError:
        text = f"{config.name}: unknown operation {config.config_operation}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text) from None


def _kind(number: int) -> str:
    return f"{OTHERS[number]} ({number})" if number in OTHERS else f"{number}"


async def _each(resources: Iterable[Resource], result_of: type[T], act: Callable[[Any, T], Awaitable[None]]) -> list[T]:
    """Apply `act` to one resource after the other, and return the results."""
    results, turns = [], Turns()
    for resource in resources:
        await turns.step()
        result = result_of(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            await act(resource, result)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.text
        results.append(result)
    return results
