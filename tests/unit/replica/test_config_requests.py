"""Requests for configurations: refusals name the resource type or the key."""

from __future__ import annotations

import pytest

from kraft_controller.core.names import BrokerId
from replica.core.errors import ErrorCode
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.broker_config import Setting
from replica.runtime.configuration.config_layers import Layers, of_broker
from replica.runtime.handlers.config_requests import handlers
from replica.runtime.requests import ApiKey, Request
from tests.kafka_bodies import on_values


@pytest.mark.parametrize(
    ("kind", "called"), [(8, "BROKER_LOGGER (8)"), (16, "CLIENT_METRICS (16)"), (32, "GROUP (32)"), (64, "64")]
)
async def test_refusal_of_resource_type_names_it(kind: int, called: str) -> None:
    act = on_values(handlers(BrokerId(1), MetadataCache(), lambda: None, {}))[ApiKey.DESCRIBE_CONFIGS]
    asked = {"resource_type": kind, "resource_name": "1", "configuration_keys": None}
    body = {"resources": [asked], "include_synonyms": False, "include_documentation": False}
    reply = await act(Request(ApiKey.DESCRIBE_CONFIGS, 4, 1, None, body))
    assert reply is not None
    [result] = reply["results"]
    assert result["error_code"] is ErrorCode.INVALID_REQUEST
    assert result["error_message"] == f"unsupported resource type {called}: use 2 (topic) or 4 (broker)"


@pytest.mark.parametrize("key", ["broker.id", "advertised.listeners"])
async def test_refusal_of_static_key_names_the_remedy(key: str) -> None:
    act = on_values(handlers(BrokerId(1), MetadataCache(), lambda: None, {key: Setting("x", True)}))[
        ApiKey.INCREMENTAL_ALTER_CONFIGS
    ]
    config = {"name": key, "value": "7", "config_operation": 0}
    body = {"resources": [{"resource_type": 4, "resource_name": "1", "configs": [config]}], "validate_only": False}
    reply = await act(Request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 1, None, body))
    assert reply is not None
    [result] = reply["responses"]
    assert result["error_code"] is ErrorCode.INVALID_REQUEST
    assert result["error_message"].startswith(f"{key} is read when a broker starts: set it in the broker's file")


def test_key_without_value_has_none_if_coarser_key_is_set() -> None:
    file = {"log.retention.ms": Setting("172800000"), "log.retention.hours": Setting("48", True)}
    keys = ["log.retention.ms", "log.retention.hours"]
    assert {each.name: each.value for each in of_broker(Layers({}, {}, file), keys)} == {
        "log.retention.ms": None,
        "log.retention.hours": "48",
    }
    (said,) = of_broker(Layers({"log.retention.ms": "5"}, {}, file), keys[:1])
    assert (said.value, said.source) == ("5", 2)


async def test_repeated_resource_is_refused() -> None:
    act = on_values(handlers(BrokerId(1), MetadataCache(), lambda: None, {}))[ApiKey.DESCRIBE_CONFIGS]
    asked = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    body = {"resources": [asked] * 3, "include_synonyms": False, "include_documentation": False}
    reply = await act(Request(ApiKey.DESCRIBE_CONFIGS, 4, 1, None, body))
    assert reply is not None
    first, *others = reply["results"]
    assert first["error_code"] is not ErrorCode.INVALID_REQUEST  # there is no session to read the first one with
    assert {each["error_code"] for each in others} == {ErrorCode.INVALID_REQUEST}
