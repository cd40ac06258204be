"""What configurations are not kept of is told by name, not only by its number."""

from __future__ import annotations

import pytest

from kraft_controller.core.names import BrokerId
from replica.core.errors import ErrorCode
from replica.runtime.handlers.configs import handlers
from replica.runtime.metadata import MetadataCache
from replica.runtime.requests import ApiKey, Request


@pytest.mark.parametrize(
    ("kind", "called"), [(8, "BROKER_LOGGER (8)"), (16, "CLIENT_METRICS (16)"), (32, "GROUP (32)"), (64, "64")]
)
async def test_a_kind_that_is_not_here_is_named(kind: int, called: str) -> None:
    act = handlers(BrokerId(1), MetadataCache(), lambda: None, {})[ApiKey.DESCRIBE_CONFIGS]
    asked = {"resource_type": kind, "resource_name": "1", "configuration_keys": None}
    body = {"resources": [asked], "include_synonyms": False, "include_documentation": False}
    reply = await act(Request(ApiKey.DESCRIBE_CONFIGS, 4, 1, None, body))
    assert reply is not None
    [result] = reply["results"]
    assert result["error_code"] is ErrorCode.INVALID_REQUEST
    assert result["error_message"] == f"there are no resources of type {called} here"


async def test_a_resource_that_is_named_again_is_not_described_again() -> None:
    act = handlers(BrokerId(1), MetadataCache(), lambda: None, {})[ApiKey.DESCRIBE_CONFIGS]
    asked = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    body = {"resources": [asked] * 3, "include_synonyms": False, "include_documentation": False}
    reply = await act(Request(ApiKey.DESCRIBE_CONFIGS, 4, 1, None, body))
    assert reply is not None
    first, *others = reply["results"]
    assert first["error_code"] is not ErrorCode.INVALID_REQUEST  # there is no session to read the first one with
    assert {each["error_code"] for each in others} == {ErrorCode.INVALID_REQUEST}
