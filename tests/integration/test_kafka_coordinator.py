"""Groups of consumers that we did not write, on three brokers; their coordinator is stopped while they work."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, TopicPartition
from replica.cli import main as zab_broker
from replica.core.groups.group_states import Cause
from replica.core.groups.partitioning import partition_of
from tests.integration.brokers import Cluster, cluster, in_thread
from tests.integration.kafka_clients import stop as leave

pytestmark = pytest.mark.slow

GROUP = "g1"
PATIENCE_S = 240.0
WHERES = range(4)


def coordinator(running: Cluster) -> int:
    """Found in a broker's own picture, from the thread of a client."""

    def look() -> BrokerId | None:
        [broker, *_] = running.brokers.values()
        where = TopicPartition(OFFSETS_TOPIC, partition_of(GROUP, running.base.offsets.partitions))
        return broker.parts.metadata_cache.leader(where)

    found = trio.from_thread.run_sync(look)
    assert found is not None
    return found


def rebalances(running: Cluster, cause: Cause) -> int:
    return trio.from_thread.run_sync(
        lambda: sum(each.parts.group_coordinator.rebalances[cause] for each in running.brokers.values())
    )


def until(true: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come to be"
        meanwhile()


def played(path: Path, story: Callable[[Cluster], None]) -> None:
    async def main() -> None:
        async with cluster(path, 3, session_timeout_ms=12_000) as running:
            await in_thread(prepared, running, story)

    trio.run(main)


def prepared(running: Cluster, story: Callable[[Cluster], None]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=running.hosts)
    admin.create_topics([NewTopic("t", len(WHERES), 3)])
    admin.close()
    story(running)


@pytest.mark.mechanism(42)
def test_librdkafka_reads_everything_and_keeps_its_positions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def consumer(running: Cluster, name: str) -> Consumer:
        made = Consumer(
            {
                "bootstrap.servers": running.hosts,
                "group.id": GROUP,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        made.subscribe(["t"])
        return made

    def story(running: Cluster) -> None:
        producer = Producer({"bootstrap.servers": running.hosts, "enable.idempotence": True, "log_level": 0})
        wrong: list[str] = []
        got: list[int] = []

        def produce(first: int, last: int) -> None:
            for number in range(first, last):
                producer.produce("t", str(number), partition=number % 4, on_delivery=sent)

        def sent(error: Any, _: Any) -> None:
            if error is not None:
                wrong.append(str(error))

        def read() -> None:
            producer.poll(0)
            for each in (first, second):
                for message in each.consume(100, 0.05):
                    if message.error() is None:
                        got.append(int(message.value() or b"-1"))

        first, second = consumer(running, "a"), consumer(running, "b")
        # Whoever is alone at first would read everything, and the other one again what it takes over of it.
        until(lambda: len(first.assignment()) == 2 == len(second.assignment()), read)
        produce(0, 1_000)
        until(lambda: len(set(got)) == 1_000, read)
        mine = first.assignment()
        first.commit(offsets=[ConfluentPartition("t", each.partition, 250) for each in mine], asynchronous=False)
        joined = rebalances(running, Cause.MEMBER_JOINED)
        stopped = coordinator(running)
        trio.from_thread.run(running.stop, stopped)
        produce(1_000, 2_000)
        until(lambda: set(got) == set(range(2_000)), read)
        until(lambda: not producer.flush(1), lambda: None)
        assert not wrong
        assert {each.offset for each in first.committed(mine)} == {250}
        # The next coordinator knew who has what: nobody had to join again.
        assert rebalances(running, Cause.MEMBER_JOINED) <= joined
        assert sorted(got) == list(range(2_000)), "nothing was read twice, either"
        first.commit(asynchronous=False)
        second.commit(asynchronous=False)
        words = ["groups", "describe", GROUP, "--json", "--bootstrap", running.hosts]
        assert zab_broker(words) == 0
        [described] = json.loads(capsys.readouterr().out)
        assert (described["state"], described["lag"], len(described["members"])) == ("Stable", 0, 2)
        first.close()
        second.close()

    played(tmp_path, story)


def test_kafka_python_goes_on_while_every_broker_is_restarted_in_turn(tmp_path: Path) -> None:
    def story(running: Cluster) -> None:
        producer = KafkaProducer(bootstrap_servers=running.hosts, retries=1_000, delivery_timeout_ms=240_000)
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=running.hosts,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=30_000,
        )
        got: set[int] = set()

        def read() -> None:
            for messages in consumer.poll(100).values():
                got.update(int(message.value) for message in messages)

        def pass_on(first: int, last: int) -> None:
            for number in range(first, last):
                producer.send("t", str(number).encode(), partition=number % 4)
            until(lambda: got == set(range(last)), read)

        for number in (1, 2, 3):
            pass_on(200 * number - 200, 200 * number - 100)
            consumer.commit()
            trio.from_thread.run(running.stop, number)
            pass_on(200 * number - 100, 200 * number)
            trio.from_thread.run(running.start, number)
            trio.from_thread.run(running.all_know_all)
        producer.flush(180)
        consumer.commit()
        assert sum(consumer.committed(where) for where in consumer.assignment()) == 600
        consumer.close()
        producer.close()

    played(tmp_path, story)


def test_aiokafka_commits_survive_the_coordinator(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=running.hosts, enable_idempotence=True)
        await producer.start()
        for number in range(200):
            await producer.send_and_wait("t", str(number).encode(), partition=number % 4)
        first = await consumer(running)
        got = {int(message.value) for message in await take(first, 200)}
        assert got == set(range(200))
        await first.commit()
        await stop(running)
        for number in range(200, 300):
            await producer.send_and_wait("t", str(number).encode(), partition=number % 4)
        got = {int(message.value) for message in await take(first, 100)}
        assert got == set(range(200, 300))
        await leave(first)  # without a commit: the next one begins where this one had committed
        second = await consumer(running)
        got = {int(message.value) for message in await take(second, 100)}
        assert got == set(range(200, 300))
        await leave(second)
        await producer.stop()

    async def consumer(running: Cluster) -> AIOKafkaConsumer:
        made = AIOKafkaConsumer(
            "t",
            bootstrap_servers=running.hosts,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await made.start()
        return made

    async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
        async with asyncio.timeout(PATIENCE_S):
            return [await consumer.getone() for _ in range(count)]

    async def stop(running: Cluster) -> None:
        trio.from_thread.run(running.stop, coordinator(running))

    played(tmp_path, lambda running: asyncio.run(work(running)))
