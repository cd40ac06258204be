"""Three clients of Kafka that we did not write, each as functions that a thread can run: write, and read as a group.

They are told as little as possible: what they do when nobody says anything is what has to work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

import aiokafka
import confluent_kafka
import kafka

from harness.worlds.processes.brokers.member import keep_pending_rejoins

Pairs = Sequence[tuple[bytes | None, bytes | None]]
READ_S: Final = 400.0


async def stop(consumer: aiokafka.AIOKafkaConsumer) -> None:
    """Stop a consumer of aiokafka.

    It cancels its fetches and waits for them. If one has just failed and pauses, the cancellation escapes from `stop`,
    which then leaves the connections open.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        await consumer._client.close()


class Client(Protocol):
    name: str

    def write(self, hosts: str, topic: str, pairs: Pairs, **settings: Any) -> None:
        """And wait until all of it is acknowledged."""

    def read(self, hosts: str, topic: str, group: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
        """From where the group is, at first from the beginning, as many as there are to be; and commit."""


class KafkaPython:
    name = "kafka-python"

    def write(self, hosts: str, topic: str, pairs: Pairs, **settings: Any) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=hosts, **settings)
        try:
            futures = [producer.send(topic, key=key, value=value) for key, value in pairs]
            for future in futures:
                future.get(READ_S)
        finally:
            producer.close()

    def read(self, hosts: str, topic: str, group: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
        consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=hosts, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        keep_pending_rejoins(consumer)
        found: list[tuple[bytes | None, bytes | None]] = []
        until = time.monotonic() + READ_S
        try:
            while len(found) < count and time.monotonic() < until:
                for records in consumer.poll(500, max_records=count - len(found)).values():
                    found += [(record.key, record.value) for record in records]
            consumer.commit()
        finally:
            consumer.close()
        return found


class Confluent:
    name = "confluent-kafka"

    def write(self, hosts: str, topic: str, pairs: Pairs, **settings: Any) -> None:
        failed: list[Any] = []
        producer = confluent_kafka.Producer({"bootstrap.servers": hosts, **settings})
        for key, value in pairs:
            producer.produce(topic, value, key, callback=lambda error, _: failed.append(error) if error else None)
            producer.poll(0)
        assert producer.flush(READ_S) == 0
        assert not failed, failed[0]

    def read(self, hosts: str, topic: str, group: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
        settings = {"bootstrap.servers": hosts, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
        consumer.subscribe([topic])
        found: list[tuple[bytes | None, bytes | None]] = []
        until = time.monotonic() + READ_S
        try:
            while len(found) < count and time.monotonic() < until:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    found.append((message.key(), message.value()))
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return found


class Aio:
    name = "aiokafka"

    def write(self, hosts: str, topic: str, pairs: Pairs, **settings: Any) -> None:
        async def work() -> None:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=hosts, **settings)
            await producer.start()
            try:
                futures = [await producer.send(topic, key=key, value=value) for key, value in pairs]
                await asyncio.wait_for(asyncio.gather(*futures), READ_S)
            finally:
                await producer.stop()

        asyncio.run(work())

    def read(self, hosts: str, topic: str, group: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
        async def work() -> list[tuple[bytes | None, bytes | None]]:
            consumer = aiokafka.AIOKafkaConsumer(
                topic, bootstrap_servers=hosts, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
            )
            await consumer.start()
            found: list[tuple[bytes | None, bytes | None]] = []
            until = time.monotonic() + READ_S
            try:
                while len(found) < count and time.monotonic() < until:
                    given = await consumer.getmany(timeout_ms=500, max_records=count - len(found))
                    for records in given.values():
                        found += [(record.key, record.value) for record in records]
                await consumer.commit()
            finally:
                await stop(consumer)
            return found

        return asyncio.run(work())


CLIENTS: Final[tuple[Client, ...]] = (KafkaPython(), Confluent(), Aio())
