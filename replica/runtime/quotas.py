"""Rates of clients at work: what is produced and fetched is counted, and whoever took too much waits.

He is told how long in the answer (`throttle_time_ms`), and his connection is not listened to for as long: see
`replica.runtime.connection`. Who wants no answer just waits. Fetches of replicas are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import trio
from attrs import evolve

from kraft_controller.core.config_keys import DEFAULT, values_of
from kraft_controller.runtime.admin.entity_configs import Entity
from replica.core.client_quotas import ClientQuotaManager, QuotaClient, QuotaType
from replica.runtime.requests import ApiKey, Handlers, Request
from replica.wire.schemas.data import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse


def hear(quotas: ClientQuotaManager, entity: Entity, said: Mapping[str, str]) -> tuple[str, ...]:
    """Of `users/...` or `clients/...`; what is wrong with it is returned, and counts for nothing."""
    user, client = user_and_client(entity)
    values, wrong = values_of(entity.kind, said)
    rates = {kind: float(value) for kind in QuotaType if isinstance(value := values.get(kind.value), int)}
    quotas.update(user, client, rates)
    return wrong


def user_and_client(entity: Entity) -> tuple[str | None, str | None]:
    kind, _, rest = entity.path.partition("/")
    if kind == "clients":
        return None, _plain(rest)
    user, inside, client = rest.partition("/clients/")
    return _plain(user), _plain(client) if inside else None


def _plain(written: str) -> str:
    """A user who is called <default> is written in another way."""
    return DEFAULT if written == DEFAULT else unquote(written)


def metered(handlers: Handlers, quotas: ClientQuotaManager, now: Callable[[], int], inter_broker: str) -> Handlers:
    """`inter_broker`: the listener at which replicas are believed to be what they say."""
    produce_to, fetch_from = handlers[ApiKey.PRODUCE], handlers[ApiKey.FETCH]

    async def produce(request: Request[ProduceRequest]) -> ProduceResponse | None:
        size = sum(len(part.records or b"") for topic in request.body.topic_data for part in topic.partition_data)
        reply: ProduceResponse | None = await produce_to(request)
        wait = quotas.record(QuotaType.PRODUCE, _who(request), size, now())
        if reply is None:
            await trio.sleep(wait / 1000)
            return None
        reply.throttle_time_ms = wait
        return reply

    async def fetch(request: Request[FetchRequest]) -> FetchResponse:
        body, who = request.body, _who(request)
        if body.replica_id >= 0 and request.listener == inter_broker:
            unmetered: FetchResponse = await fetch_from(request)
            return unmetered
        if wait := quotas.throttle_ms(QuotaType.FETCH, who, now()):
            # By another connection of his. He gets nothing, and what he asked for is still there afterwards.
            request = evolve(request, body=evolve(body, max_bytes=0, max_wait_ms=0))
            nothing: FetchResponse = await fetch_from(request)
            nothing.throttle_time_ms = wait
            return nothing
        most = quotas.request_bytes_max(QuotaType.FETCH, who)
        if most is not None and most < body.max_bytes:
            least = min(body.min_bytes, most)  # or he would wait in vain for more
            request = evolve(request, body=evolve(body, max_bytes=most, min_bytes=least))
        reply: FetchResponse = await fetch_from(request)
        size = sum(len(part.records or b"") for topic in reply.responses for part in topic.partitions)
        reply.throttle_time_ms = quotas.record(QuotaType.FETCH, who, size, now())
        return reply

    return {**handlers, ApiKey.PRODUCE: produce, ApiKey.FETCH: fetch}


def _who(request: Request[Any]) -> QuotaClient:
    return QuotaClient(request.principal.removeprefix("User:"), request.client_id or "")
