"""Rates of clients at a broker: set by whoever asks for it, counted, and waited for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import trio

from kraft_controller.runtime.admin.entity_configs import Entity, read_config
from replica.core.errors import ErrorCode
from replica.core.network.client_quotas import QuotaClient, QuotaType
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings
from replica.runtime.requests import ApiKey
from tests.integration.brokers import Cluster, cluster, in_thread, until
from tests.kafka_bodies import ask

RATE = "producer_byte_rate"


async def dialled(made: Cluster, client: str) -> BrokerConnection:
    return BrokerConnection(await trio.open_tcp_stream("127.0.0.1", made.ports[1]), ClientSettings(client_id=client))


def entry(names: Mapping[str, str | None], **values: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()],
    }


async def alter(connection: BrokerConnection, *entries: dict[str, Any], check_only: bool = False) -> list[int]:
    body = {"entries": list(entries), "validate_only": check_only}
    return [each["error_code"] for each in (await ask(connection, ApiKey.ALTER_CLIENT_QUOTAS, body))["entries"]]


async def described(connection: BrokerConnection, *parts: tuple[str, int, str | None], strict: bool = False) -> Any:
    components = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in parts]
    reply = await ask(connection, ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": components, "strict": strict})
    return reply["error_code"] or sorted(
        (
            tuple((one["entity_type"], one["entity_name"]) for one in each["entity"]),
            {value["key"]: value["value"] for value in each["values"]},
        )
        for each in reply["entries"]
    )


def test_rates_are_set_and_looked_at_by_clients(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            asks = await dialled(made, "admin")
            everybody, both = {"client-id": None}, {"user": "ann", "client-id": "app"}
            done = await alter(
                asks,
                entry(everybody, producer_byte_rate=1024.0),
                entry(both, consumer_byte_rate=2048.0, producer_byte_rate=1.0),
                entry({"user": "ann"}, request_percentage=50.5),
            )
            assert done == [0, 0, 0]
            assert await read_config(session, Entity.of("clients")) == {RATE: "1024"}
            both_have = {"consumer_byte_rate": 2048.0, RATE: 1.0}
            assert await described(asks) == [
                ((("client-id", None),), {RATE: 1024.0}),
                ((("user", "ann"),), {"request_percentage": 50.5}),
                ((("user", "ann"), ("client-id", "app")), both_have),
            ]
            assert len(await described(asks, ("user", 0, "ann"))) == 2
            assert len(await described(asks, ("user", 2, None), strict=True)) == 1
            assert await described(asks, ("client-id", 1, None)) == [((("client-id", None),), {RATE: 1024.0})]
            assert await alter(asks, entry({"user": "<default>"}, producer_byte_rate=9.0)) == [0]
            assert await described(asks, ("user", 1, None)) == []
            assert await described(asks, ("user", 0, "<default>")) == [((("user", "<default>"),), {RATE: 9.0})]
            assert await described(asks, ("colour", 2, None)) == ErrorCode.INVALID_REQUEST
            broker = made.brokers[1]
            await until(
                lambda: broker.parts.dynamic_configs.quotas.rate(QuotaType.FETCH, QuotaClient("ann", "app")) == 2048.0
            )
            wrong = [
                entry({"user": "ann"}, colour=1.0),
                entry({"user": "ann"}, producer_byte_rate=0.5),
                entry({"user": "", "client-id": "app"}, producer_byte_rate=1.0),
                entry({"ip": "10.0.0.1", "user": "ann"}, producer_byte_rate=1.0),
                entry({}, producer_byte_rate=1.0),
            ]
            assert await alter(asks, *wrong) == [ErrorCode.INVALID_REQUEST] * len(wrong)
            assert await alter(asks, entry(both, producer_byte_rate=None), check_only=True) == [0]
            assert await alter(asks, entry(both, producer_byte_rate=None)) == [0]
            [(_, left)] = await described(asks, ("client-id", 0, "app"))
            assert left == {"consumer_byte_rate": 2048.0}
            await asks.aclose()

    trio.run(main)


def test_client_above_its_quota_is_throttled_and_muted(tmp_path: Path) -> None:
    def produce(hosts: str, client: str) -> int:
        """Returns the longest that the client was told to wait."""
        told: list[int] = []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": hosts,
                "client.id": client,
                "throttle_cb": lambda event: told.append(int(event.throttle_time * 1000)),
                "compression.type": "none",
            }
        )
        for _ in range(5):
            producer.produce("t", bytes(2_000))
            producer.flush(60)
        producer.poll(0)
        return max(told, default=0)

    async def main() -> None:
        async with cluster(tmp_path, 1) as made:
            asks = await dialled(made, "admin")
            broker = made.brokers[1]
            await in_thread(produce, made.hosts, "other")
            assert await alter(asks, entry({"client-id": "slow"}, producer_byte_rate=2000.0)) == [0]
            await until(
                lambda: broker.parts.dynamic_configs.quotas.rate(QuotaType.PRODUCE, QuotaClient("", "slow")) is not None
            )
            assert await in_thread(produce, made.hosts, "other") == 0
            assert await in_thread(produce, made.hosts, "slow") > 0
            await asks.aclose()
            # A consumer gets a part at a time, and all of it in the end.
            slow = await dialled(made, "reader")
            assert await alter(slow, entry({"client-id": "reader"}, consumer_byte_rate=1 << 20)) == [0]
            await until(
                lambda: broker.parts.dynamic_configs.quotas.rate(QuotaType.FETCH, QuotaClient("", "reader")) is not None
            )
            part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
            topics = [{"topic": "t", "partitions": [part]}]
            body = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics}
            first: dict[str, Any] = {"throttle_time_ms": 0}
            while not first["throttle_time_ms"]:  # unless the machine stood still until it was over
                broker.parts.dynamic_configs.quotas.record(
                    QuotaType.FETCH, QuotaClient("", "reader"), 4 << 20, broker.parts.replica_manager.now()
                )
                first = await ask(slow, ApiKey.FETCH, body)
            [answer] = first["responses"][0]["partitions"]
            assert (answer["records"], answer["high_watermark"]) == (b"", 15)
            second = await ask(slow, ApiKey.FETCH, body)  # heard when the time is over
            assert second["responses"][0]["partitions"][0]["records"]
            await slow.aclose()
            # Who asks for nothing has no quota that says so, and gets on.
            other = await dialled(made, "other")
            third = await ask(other, ApiKey.FETCH, {**body, "max_bytes": 0})
            assert third["responses"][0]["partitions"][0]["records"]
            await other.aclose()

    trio.run(main)
