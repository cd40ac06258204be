"""A client that we did not write consumes in a fetch session, also when the broker has forgotten it."""

from __future__ import annotations

from pathlib import Path

import trio
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition

from replica.runtime.broker import Broker
from tests.integration.brokers import cluster, in_thread


def consume(broker: Broker, hosts: str) -> None:
    producer = KafkaProducer(bootstrap_servers=hosts)
    consumer = KafkaConsumer(bootstrap_servers=hosts, auto_offset_reset="earliest", fetch_max_wait_ms=50)
    parts = [KafkaPartition("t", number) for number in range(3)]
    consumer.assign(parts)
    found: list[bytes] = []

    def sent_and_read(value: bytes) -> None:
        for part in parts:
            producer.send("t", value, partition=part.partition).get(60)
        wanted = len(found) + len(parts)
        while len(found) < wanted:
            for records in consumer.poll(timeout_ms=100).values():
                found.extend(record.value for record in records)

    sent_and_read(b"a")
    sent_and_read(b"b")
    [session] = broker.fetch_sessions._open.values()
    assert session.epoch > 1
    assert {where.partition for where in session.wishes} == {0, 1, 2}
    broker.fetch_sessions.close(session.id, session.owner)  # as if there had been no room any more
    sent_and_read(b"c")
    assert sorted(found) == [b"a"] * 3 + [b"b"] * 3 + [b"c"] * 3
    assert len(broker.fetch_sessions) == 1
    consumer.close()
    producer.close()


def test_kafka_python_consumes_in_a_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1, partitions=3) as made:
            await made.brokers[1].topics.create("t")
            await made.brokers[1].topics.led("t", 3, 60_000)
            await in_thread(consume, made.brokers[1], made.hosts)

    trio.run(main)
