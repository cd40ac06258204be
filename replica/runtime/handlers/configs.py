"""`DescribeConfigs`, `AlterConfigs` and `IncrementalAlterConfigs`: of topics, and of this broker as far as it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import zab
from kraft_controller.core.names import BrokerId
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.configs import DEFAULT, STATIC_BROKER, TOPICS, TopicConfigs, merged, replaced
from replica.runtime.metadata import MetadataCache
from replica.runtime.requests import ApiKey, Body, Handlers, Request

TOPIC: Final = 2
BROKER: Final = 4


def handlers(
    me: BrokerId,
    configs: TopicConfigs,
    cache: MetadataCache,
    session: Callable[[], zab.Session | None],
    own: Mapping[str, tuple[str | None, bool]],
) -> Handlers:
    """`own`: what this broker's configuration says, by key; and whether it was said there, or is Kafka's default."""

    def known(name: str) -> None:
        if name not in cache.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")

    async def describe(request: Request) -> Body:
        async def one(resource: Body) -> Body:
            name, keys = resource["resource_name"], resource["configuration_keys"]
            match resource["resource_type"]:
                case 2:
                    known(name)
                    values = await configs.read(session(), TOPICS, name)
                    shown = configs.described(values, keys, synonyms=request.body["include_synonyms"])
                    return {"configs": shown}
                case 4:
                    if name != str(me):
                        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {me}: ask broker {name} itself")
                    return {"configs": _own(own, keys)}
                case other:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no resources of type {other} here")

        return {"results": [await _told(resource, one) for resource in request.body["resources"]]}

    def altering(whole: bool) -> Callable[[Request], Awaitable[Body]]:
        async def alter(request: Request) -> Body:
            async def one(resource: Body) -> Body:
                name = resource["resource_name"]
                if resource["resource_type"] != TOPIC:
                    text = "only topics can be configured while brokers run: what holds for a broker is in its file"
                    raise KafkaError(ErrorCode.INVALID_REQUEST, text)
                known(name)
                if whole:
                    change = replaced(configs.checked({each["name"]: each["value"] for each in resource["configs"]}))
                else:
                    wanted = [(each["name"], each["config_operation"], each["value"]) for each in resource["configs"]]
                    change = merged(wanted, configs.defaults.as_text())

                def checked(before: dict[str, str]) -> dict[str, str]:
                    return configs.checked(change(before))

                if request.body["validate_only"]:
                    checked(await configs.read(session(), TOPICS, name))
                else:
                    await configs.change(session(), TOPICS, name, checked)
                return {}

            return {"responses": [await _told(resource, one) for resource in request.body["resources"]]}

        return alter

    return {
        ApiKey.DESCRIBE_CONFIGS: describe,
        ApiKey.ALTER_CONFIGS: altering(whole=True),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: altering(whole=False),
    }


def _own(own: Mapping[str, tuple[str | None, bool]], keys: list[str] | None) -> list[Body]:
    return [
        {
            "name": key,
            "value": text,
            "read_only": True,
            "config_source": STATIC_BROKER if said else DEFAULT,
            "is_sensitive": text is None,
        }
        for key, (text, said) in sorted(own.items())
        if keys is None or key in keys
    ]


async def _told(resource: Body, act: Callable[[Body], Awaitable[Body]]) -> Body:
    base = {"resource_type": resource["resource_type"], "resource_name": resource["resource_name"]}
    try:
        return {**base, **await act(resource)}
    except KafkaError as error:
        return {**base, "error_code": error.code, "error_message": error.text}
