"""Client quotas: count the bytes of Produce and Fetch, and delay clients above their rates.

The response names the delay (`throttle_time_ms`), and the broker executes no request of the connection during it. A
produce with acks=0 has no response: its handler sleeps. Fetches of followers are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import trio
from attrs import evolve

from kraft_controller.core.configuration import config_keys
from kraft_controller.core.configuration.config_keys import values_of
from kraft_controller.runtime.admin.entity_configs import Entity
from replica.core.network.client_quotas import DEFAULT, ClientQuotaManager, Name, QuotaClient, QuotaType
from replica.runtime.requests import ApiKey, Handler, Handlers, Request, handler_table, handles
from replica.wire.schemas.data_schemas import (
    FETCH,
    PRODUCE,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)


def apply_quotas(quotas: ClientQuotaManager, entity: Entity, configs: Mapping[str, str]) -> tuple[str, ...]:
    """Set the quotas of an entity `users/...` or `clients/...`. Return the errors of invalid keys and values,
    which are ignored."""
    user, client = user_and_client(entity)
    values, invalid = values_of(entity.kind, configs)
    rates = {kind: float(value) for kind in QuotaType if isinstance(value := values.get(kind.value), int)}
    quotas.update(user, client, rates)
    return invalid


def user_and_client(entity: Entity) -> tuple[Name, Name]:
    kind, _, rest = entity.path.partition("/")
    if kind == "clients":
        return None, _unquoted(rest)
    user, inside, client = rest.partition("/clients/")
    return _unquoted(user), _unquoted(client) if inside else None


def _unquoted(name: str) -> Name:
    """Return the decoded name of a path element. The default entity is not encoded, but a name like it is."""
    return DEFAULT if name == config_keys.DEFAULT else unquote(name)


def metered(handlers: Handlers, quotas: ClientQuotaManager, now: Callable[[], int], inter_broker: str) -> Handlers:
    """Return the handlers with quotas on Produce and Fetch. `inter_broker`: the listener at which followers fetch."""
    produce_to: Handler[ProduceRequest, ProduceResponse | None] = handlers[ApiKey.PRODUCE]
    fetch_from: Handler[FetchRequest, FetchResponse] = handlers[ApiKey.FETCH]

    async def produce(request: Request[ProduceRequest]) -> ProduceResponse | None:
        size = sum(len(part.records or b"") for topic in request.body.topic_data for part in topic.partition_data)
        reply = await produce_to(request)
        wait = quotas.record(QuotaType.PRODUCE, _client(request), size, now())
        if reply is None:
            await trio.sleep(wait / 1000)
            return None
        reply.throttle_time_ms = wait
        return reply

    async def fetch(request: Request[FetchRequest]) -> FetchResponse:
        body, client = request.body, _client(request)
        if body.replica_id >= 0 and request.listener == inter_broker:
            return await fetch_from(request)
        if wait := quotas.throttle_ms(QuotaType.FETCH, client, now()):
            # The client has exceeded its quota, perhaps on another connection. It fetches again after the empty
            # response and the delay.
            request = evolve(request, body=evolve(body, max_bytes=0, max_wait_ms=0))
            nothing = await fetch_from(request)
            nothing.throttle_time_ms = wait
            return nothing
        most = quotas.request_bytes_max(QuotaType.FETCH, client)
        if most is not None and most < body.max_bytes:
            least = min(body.min_bytes, most)  # otherwise the fetch would wait for more bytes than it may return
            request = evolve(request, body=evolve(body, max_bytes=most, min_bytes=least))
        reply = await fetch_from(request)
        size = sum(len(part.records or b"") for topic in reply.responses for part in topic.partitions)
        reply.throttle_time_ms = quotas.record(QuotaType.FETCH, client, size, now())
        return reply

    return {**handlers, **handler_table(handles(PRODUCE, produce), handles(FETCH, fetch))}


def _client(request: Request[Any]) -> QuotaClient:
    return QuotaClient(request.principal.removeprefix("User:"), request.client_id or "")
