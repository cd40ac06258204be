"""Requests for configurations: refusals name the resource type or the key."""

from __future__ import annotations

import pytest

from kraft_controller.core.configuration.config_keys import BROKER
from kraft_controller.core.configuration.start_keys import START_KEYS
from kraft_controller.core.names import BrokerId
from replica.cli.properties.keys import KEYS
from replica.core.errors import ErrorCode
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.broker_config import Setting
from replica.runtime.configuration.config_layers import Layers, of_all_brokers, of_broker
from replica.runtime.handlers.config_requests import handlers
from replica.runtime.requests import ApiKey, Request
from tests.kafka_bodies import Body, on_values


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


def test_every_key_of_the_file_is_dynamic_or_read_at_the_start() -> None:
    assert set(KEYS) <= {*BROKER, *START_KEYS}
    assert not set(BROKER) & START_KEYS


def test_custom_key_is_listed_without_its_value() -> None:
    layers = Layers({"cleanup.policy": "compact"}, {"cleanup.policy": "delete", "num.cats": "1"}, {})
    mine, every = of_broker(layers, ["cleanup.policy", "num.cats"])
    assert (mine.name, mine.value, mine.source, mine.read_only, mine.is_sensitive) == (
        "cleanup.policy", None, 2, True, True,
    )  # fmt: skip
    assert [(each.value, each.source) for each in mine.synonyms] == [(None, 2), (None, 3)]
    assert (every.name, every.value, every.source) == ("num.cats", None, 3)
    [default] = of_all_brokers({"num.cats": "1"})
    assert (default.value, default.source, default.read_only, default.is_sensitive) == (None, 3, True, True)


def test_key_of_the_file_that_kafka_wrote_to_the_store_is_listed_as_in_the_file() -> None:
    layers = Layers({"advertised.listeners": "A://:1"}, {}, {"advertised.listeners": Setting("A://:2", True)})
    [entry] = of_broker(layers, ["advertised.listeners"])
    assert (entry.value, entry.source) == ("A://:2", 4)


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


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
async def test_no_mention_of_a_repeated_resource_is_altered(key: ApiKey) -> None:
    act = on_values(handlers(BrokerId(1), MetadataCache(), lambda: None, {}))[key]
    named: list[Body] = [{"resource_type": 4, "resource_name": name, "configs": []} for name in ("1", "", "1")]
    reply = await act(Request(key, 1, 1, None, {"resources": named, "validate_only": False}))
    assert reply is not None
    first, other, last = (each["error_code"] for each in reply["responses"])
    assert first is last is ErrorCode.INVALID_REQUEST
    assert other is not ErrorCode.INVALID_REQUEST  # there is no session to alter the other one with
