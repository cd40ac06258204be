"""Two brokers in two racks, as their files say: a consumer reads from the one in its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient

from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.admin.topic_requests import create_topic
from replica.cli.properties.plan import plan_of
from replica.runtime.network.broker_client import connect, parse_bootstrap
from replica.runtime.requests import ApiKey
from tests.integration.brokers import cluster, in_thread, until
from tests.kafka_bodies import ask_broker

pytestmark = pytest.mark.slow

SELECTOR = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"


def write(hosts: str) -> None:
    producer = Producer({"bootstrap.servers": hosts, "acks": "all"})
    for number in range(100):
        producer.produce("t", b"%d" % number)
    assert producer.flush(60) == 0


def read(hosts: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": hosts, "group.id": "g", "client.rack": "r2"})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        found: list[bytes | None] = []
        while len(found) < 100:
            for message in consumer.consume(100, timeout=1.0):
                assert message.error() is None
                found.append(message.value())
        return found
    finally:
        consumer.close()


def sizes(hosts: str) -> Any:
    admin = KafkaAdminClient(bootstrap_servers=hosts)
    try:
        return admin.describe_log_dirs()
    finally:
        admin.close()


async def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Path) -> None:
    said = plan_of("p", f"zookeeper.connect=h\n{SELECTOR}\nbroker.rack=r1").config
    async with cluster(tmp_path, 1, rack=said.rack, replication=said.replication) as made:
        made.base = evolve(made.base, rack="r2")
        await made.start(2)
        await made.all_know_all()
        async with made.store.session() as session:
            await create_topic(
                session, "t", {0: [BrokerId(1), BrokerId(2)]}, {}, lambda size: bytes(range(1, size + 1))
            )
        await until(lambda: all("t" in broker.parts.metadata_cache.topics for broker in made.brokers.values()))
        await in_thread(write, made.hosts)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        asked = {"max_bytes": 1 << 20, "topics": [{"topic": "t", "partitions": [part]}]}
        async with connect(parse_bootstrap(made.hosts)) as client:
            for rack, wanted in (("r2", 2), ("r1", -1), ("", -1)):
                reply = await ask_broker(client, 1, ApiKey.FETCH, {**asked, "rack_id": rack})
                [topic] = reply["responses"]
                [answer] = topic["partitions"]
                assert answer["preferred_read_replica"] == wanted
        assert await in_thread(read, made.hosts) == [b"%d" % number for number in range(100)]
        assert str(tmp_path / "broker1") in str(await in_thread(sizes, made.hosts))
