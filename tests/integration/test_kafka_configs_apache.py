"""Kafka's own command configures our brokers, topics and clients, and shows what it finds."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest
import trio

from kraft_controller.runtime.admin.topic_requests import create_topic
from replica.core.network.client_quotas import QuotaClient, QuotaType
from tests.integration.brokers import cluster, in_thread, until
from tests.integration.peers import kafka_java, needs_kafka

pytestmark = [pytest.mark.slow, needs_kafka]


def kafka_configs(hosts: str, *words: str) -> str:
    command = [*kafka_java(), "kafka.admin.ConfigCommand", "--bootstrap-server", hosts, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_topics_brokers_and_clients(tmp_path: Path) -> None:
    def work(hosts: str) -> list[str]:
        call = partial(kafka_configs, hosts)
        call("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.retention.ms=3000")
        call("--alter", "--topic", "t", "--add-config", "cleanup.policy=[compact,delete]")
        call("--alter", "--user", "ann", "--client-defaults", "--add-config", "consumer_byte_rate=2048")
        return [
            call("--describe", "--entity-type", "brokers", "--entity-default"),
            call("--describe", "--topic", "t", "--all"),
            call("--describe", "--user", "ann", "--client-defaults"),
        ]

    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            broker = made.brokers[1]
            await create_topic(session, "t", {0: [broker.config.id]}, {}, lambda size: bytes(range(1, size + 1)))
            await until(lambda: "t" in broker.parts.metadata_cache.topics)
            everybody, topic, client = await in_thread(work, made.hosts)
            assert "log.retention.ms=3000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG" in everybody
            assert "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG" in topic
            assert (
                "retention.ms=3000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=3000, DEF"
                in topic
            )
            assert "consumer_byte_rate=2048.0" in client
            await until(
                lambda: broker.parts.dynamic_configs.quotas.rate(QuotaType.FETCH, QuotaClient("ann", "x")) == 2048.0
            )
            await until(
                lambda: broker.parts.topic_configs["t"].compact and broker.parts.topic_configs["t"].retention_ms == 3000
            )

    trio.run(main)
