"""Fetch sessions over sockets: of a client that we did not write, and between brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.partitions.partition import Partition
from replica.core.replica_messages import Fetched
from replica.runtime.broker import Broker
from tests.integration.brokers import cluster, in_thread, until


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
    [session] = broker.parts.fetch_sessions._open.values()
    assert session.epoch > 1
    assert {where.partition for where in session.requests} == {0, 1, 2}
    broker.parts.fetch_sessions.close(session.id, session.owner)  # as if there had been no room any more
    sent_and_read(b"c")
    assert sorted(found) == [b"a"] * 3 + [b"b"] * 3 + [b"c"] * 3
    assert len(broker.parts.fetch_sessions) == 1
    consumer.close()
    producer.close()


def test_kafka_python_consumes_in_a_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1, partitions=3) as made:
            await made.brokers[1].parts.topics.create("t")
            await made.brokers[1].parts.topics.led("t", 3, 60_000)
            await in_thread(consume, made.brokers[1], made.hosts)

    trio.run(main)


IDLE = 60
RECORDS = 30
LOOKS_MAX = 12
"""Partitions that leaders look at for a record: two followers, each asked for at most a few times."""


def produce_all(hosts: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=hosts, acks="all")
    for number in range(count):
        producer.send("busy", b"%d" % number).get(60)
    producer.close()


def test_follower_fetches_read_only_changed_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[TopicPartition] = []
    read = Partition.read

    def counting(*arguments: object) -> Fetched:
        result: Fetched = read(*arguments)  # type: ignore[arg-type]
        looked.append(result.where)
        return result

    async def main() -> None:
        async with cluster(tmp_path, 3) as made:
            brokers = made.brokers.values()
            await made.brokers[1].parts.topics.create("idle", partitions=IDLE, factor=3)
            await made.brokers[1].parts.topics.create("busy", partitions=1, factor=3)
            await made.brokers[1].parts.topics.led("idle", IDLE, 60_000)
            await made.brokers[1].parts.topics.led("busy", 1, 60_000)
            await in_thread(produce_all, made.hosts, 1)
            await until(lambda: all(at_rest(broker) for broker in brokers))
            monkeypatch.setattr(Partition, "read", counting)
            await in_thread(produce_all, made.hosts, RECORDS)
            assert {where.topic for where in looked} == {"busy"}
            assert len(looked) <= LOOKS_MAX * RECORDS
            busy = TopicPartition("busy", 0)
            await until(
                lambda: {each.parts.replica_manager.core.high_watermarks()[busy] for each in brokers} == {RECORDS + 1}
            )

            # A leader that has lost a session is fetched from in full, once, and then again in a session.
            leader = made.brokers[made.brokers[1].parts.metadata_cache.leader(busy) or 0]
            sessions = leader.parts.replica_manager.core.fetches.sessions
            former = {each: sessions.of(BrokerId(each)) for each in made.brokers if each != leader.config.id}
            for each in former:
                sessions.close(BrokerId(each))
            await in_thread(produce_all, made.hosts, 1)
            for each, session in former.items():
                now = sessions.of(BrokerId(each))
                assert session is not None
                assert now is not None
                assert now.id != session.id
                assert now.requests.keys() == session.requests.keys()

    trio.run(main)


def at_rest(broker: Broker) -> bool:
    sessions = broker.parts.replica_manager.core.fetches.sessions
    return len(sessions) == 2 and not any(each.dirty for each in sessions._open.values())
