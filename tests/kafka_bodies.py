"""Bodies of Kafka's messages from mappings and back, for tests that make many bodies or make them by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
from attrs import evolve

from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import BrokerConnection
from replica.runtime.requests import Handler, Handlers, Request
from replica.wire.api import ApiKey
from replica.wire.fields import fields_of
from replica.wire.messages import decode_response, encode_request, encode_response
from replica.wire.schemas import APIS

T = TypeVar("T")
Body = dict[str, Any]
"""Values of a body's fields, by name."""


def body_of(struct: type[T], values: Mapping[str, Any]) -> T:
    """Return a body with these values. A name that the struct does not have is a `TypeError`."""
    made = dict(values)
    for field in fields_of(struct):
        value = made.get(field.name)
        if field.struct is not None and value is not None:
            of = field.struct
            made[field.name] = [body_of(of, each) for each in value] if field.many else body_of(of, value)
    return struct(**made)


def values_of(body: object) -> dict[str, Any]:
    return attrs.asdict(body)  # type: ignore[arg-type]  # every body is a class of attrs


async def ask(
    client: Client | BrokerConnection, api: ApiKey, values: Mapping[str, Any], version_max: int | None = None
) -> dict[str, Any]:
    """Ask a broker with a body of these values, and return the values of its response."""
    spoken = APIS[api]
    return values_of(await client.ask(spoken, body_of(spoken.request, values), version_max))


async def ask_broker(client: Client, broker: int, api: ApiKey, values: Mapping[str, Any]) -> dict[str, Any]:
    spoken = APIS[api]
    return values_of(await client.ask_broker(broker, spoken, body_of(spoken.request, values)))


def request_frame(
    api: ApiKey, version: int, correlation: int, client_id: str | None, values: Mapping[str, Any]
) -> bytes:
    return encode_request(APIS[api], version, correlation, client_id, body_of(APIS[api].request, values))


def response_frame(api: ApiKey, version: int, correlation: int, values: Mapping[str, Any]) -> bytes:
    return encode_response(APIS[api], version, correlation, body_of(APIS[api].response, values))


def response_values(api: ApiKey, version: int, data: bytes) -> tuple[int, dict[str, Any]]:
    correlation, body = decode_response(APIS[api], version, data)
    return correlation, values_of(body)


def typed(handlers: Handlers) -> Handlers:
    """Return handlers for a port from handlers that take and return values."""

    def one(handler: Handler[Any, Any]) -> Handler[Any, Any]:
        async def handle(request: Request[Any]) -> Any:
            values = await handler(evolve(request, body=values_of(request.body)))
            return None if values is None else body_of(APIS[request.api].response, values)

        return handle

    return {key: one(handler) for key, handler in handlers.items()}


def on_values(handlers: Handlers) -> Handlers:
    """Return handlers that take and return values from those of a port."""

    def one(handler: Handler[Any, Any]) -> Handler[Any, Any]:
        async def handle(request: Request[Any]) -> Any:
            body = await handler(evolve(request, body=body_of(APIS[request.api].request, request.body)))
            return None if body is None else values_of(body)

        return handle

    return {key: one(handler) for key, handler in handlers.items()}
