"""What a broker tells its operators: the page, the same as values, measurements, and whether it is well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families

from kraft_controller.core.names import TopicPartition
from replica.cli.produce_command import Producer
from replica.runtime.admin import overview
from replica.runtime.admin.broker_operator_port import BrokerOperatorPort
from replica.runtime.admin_client import group_admin
from replica.runtime.broker import Broker
from replica.runtime.network.broker_client import connect
from replica.wire.compression import Codec
from tests.integration.brokers import Cluster, cluster, until
from tests.integration.http_client import get
from zab.admin.admin_settings import AdminSettings

pytestmark = pytest.mark.slow


async def told(port: int, path: str = "/status.json") -> Any:
    return (await get(port, path)).json


async def at(brokers: Cluster, broker: Broker) -> int:
    port: int = await brokers.nursery.start(BrokerOperatorPort(broker, AdminSettings(port=0)).run)
    return port


async def read_by(brokers: Cluster, group: str, topic: str, offset: int) -> int:
    """It has committed so much of the first partition. Who coordinates it."""
    async with connect([("127.0.0.1", port) for port in brokers.ports.values()]) as client:
        await group_admin.commit(client, group, {TopicPartition(topic, 0): offset})
        return await client.coordinator(group)


async def write(brokers: Cluster, topic: str, count: int) -> None:
    async with connect([("127.0.0.1", port) for port in brokers.ports.values()]) as client:
        producer = Producer(client, topic, "all", Codec.NONE)
        await producer.begin()
        await producer.send([(None, b"x")] * count)


async def test_a_broker_that_is_gone_is_seen_by_the_others(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3) as brokers:
        await write(brokers, "orders", 10)
        coordinator = await read_by(brokers, "billing", "orders", 4)
        port = await at(brokers, brokers.brokers[coordinator])

        async def seen(true: Any) -> Any:
            while not true(now := await told(port)):
                await trio.sleep(0.05)
            return now

        now = await seen(lambda now: now["health"] == "healthy" and [each["lag"] for each in now["groups"]] == [6])
        assert [each["alive"] for each in now["brokers"]] == [True] * 3
        assert sum(each["leads"] for each in now["brokers"]) == now["partitions"]["total"]
        [group] = now["groups"]
        assert (group["group"], group["state"], group["topics"]) == ("billing", "Empty", ["orders"])
        health = await get(port, "/health")
        assert (health.status, health.json["healthy"], health.json["worries"]) == (200, True, [])

        families = text_string_to_metric_families((await get(port, "/metrics")).text)
        found = {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}
        assert found["kafka_consumergroup_lag", "billing", "0", "orders"] == 6
        assert found["kafka_log_log_log_end_offset", "0", "orders"] == 10
        assert found["kafka_server_broker_serves",] == 1

        gone = next(number for number in brokers.brokers if number != coordinator)
        await brokers.stop(gone)
        now = await seen(
            lambda now: len(now["troubled"]) == now["partitions"]["total"] and not now["partitions"]["offline"]
        )
        assert now["health"] == "degraded"
        assert f"brokers that are gone and hold replicas: {gone}" in now["warnings"]
        assert [each["id"] for each in now["brokers"] if not each["alive"]] == [gone]
        page = (await get(port, "/")).text
        assert "Needs attention" in page
        assert f"<li>brokers that are gone and hold replicas: {gone}</li>" in page
        assert all(f'href="{path}"' in page for path in ("/status.json", "/metrics", "/health"))
        assert all(each["gone"] == [gone] for each in now["troubled"])
        health = await get(port, "/health")
        assert (health.status, health.json["healthy"]) == (200, True), "for others' trouble nobody restarts it"
        while (await get(port, "/health")).json["worries"] != (await told(port))["warnings"]:
            await trio.sleep(0.05)  # something happened between the two


async def test_a_broker_answers_to_names_of_its_listeners_and_lists_a_part_of_many_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "LISTED_MAX", 2)
    async with cluster(tmp_path, 1) as brokers:
        broker = brokers.brokers[1]
        port = await at(brokers, broker)
        for topic in ("a", "b", "c"):
            await write(brokers, topic, 1)
        await until(lambda: len(broker.parts.metadata_cache.topics) == 3)
        found = await told(port)
        assert ([each["topic"] for each in found["topics"]], found["topics_total"]) == (["a", "b"], 3)
        assert found["omitted"] == {"topics": 1, "groups": 0}
        (listener, *_) = broker.config.listeners
        broker.config = evolve(broker.config, listeners=(evolve(listener, advertised_host="kafka1.example"),))
        for host, status in (("kafka1.example", 200), ("evil.example", 421)):
            for path in ("/", "/status.json", "/metrics", "/health"):
                assert (await get(port, path, Host=host)).status == status
        assert (await get(port, "/", "POST")).status == 405
