"""The load: confluent-kafka in a process of its own, told by JSON lines what to do. Both sides have the same one."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

import trio
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import zab
from bench.commanded import Answer, answer_commands, log_to_stderr
from bench.report import median, quantile

PATIENCE_S: Final = 120.0
SAMPLE_EACH: Final = 64
"""Of so many records the delivery of one is timed: to hear of each would cost the client more than to send it."""
BATCH_BYTES: Final = 64 << 10
LINGER_MS: Final = 20
FETCH_BYTES: Final = 1 << 20
AT_ONCE: Final = 5_000


class Late(Exception):
    """It took longer than anybody would wait."""


class Load:
    async def topic(self, hosts: str, name: str, partitions: int, replicas: int) -> Answer:
        """Made, and led by somebody in every partition."""
        admin = AdminClient({"bootstrap.servers": hosts})
        began = time.monotonic()
        made: Future[Any] = admin.create_topics(
            [NewTopic(name, partitions, replicas)], operation_timeout=60, request_timeout=60
        )[name]
        made.result(PATIENCE_S)
        _led(admin, name, partitions, began)
        return {"seconds": time.monotonic() - began}

    async def led(self, hosts: str, name: str, partitions: int) -> Answer:
        """Until every partition of a topic has a leader."""
        began = time.monotonic()
        _led(AdminClient({"bootstrap.servers": hosts}), name, partitions, began)
        return {}

    async def gone(self, store: str, broker: int) -> Answer:
        """Until the session of one that was killed is over: only then may the next one register."""
        async with zab.connect(store) as session:
            with trio.fail_after(PATIENCE_S):
                while await session.exists(f"/brokers/ids/{broker}") is not None:
                    await trio.sleep(0.1)
        return {}

    async def produce(self, hosts: str, name: str, size: int, records: int, acks: str) -> Answer:
        waits: list[float] = []
        producer = Producer(
            {
                "bootstrap.servers": hosts, "acks": acks, "batch.size": BATCH_BYTES, "linger.ms": LINGER_MS,
                "queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 32 << 10,
            }
        )  # fmt: skip
        _send_one(producer, name, bytes(size))  # it knows now who leads
        payload = bytes(size)

        def heard(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            waits.append(message.latency() or 0.0)

        began = time.monotonic()
        for number in range(records):
            said: dict[str, Any] = {} if number % SAMPLE_EACH else {"on_delivery": heard}
            while True:
                try:
                    producer.produce(name, payload, **said)
                    break
                except BufferError:
                    producer.poll(0.01)
            if not number % 1024:
                producer.poll(0)
        if producer.flush(PATIENCE_S):
            raise Late(f"{len(producer)} records were not delivered")
        seconds = time.monotonic() - began
        return {
            "seconds": seconds,
            "megabytes": records * size / 1e6,
            "p50_ms": median(waits) * 1000,
            "p99_ms": quantile(waits, 0.99) * 1000,
        }

    async def rate(self, hosts: str, name: str, size: int, seconds: float) -> Answer:
        """Produce with acks=all, as a Java client does by default: small batches, no linger, five in flight."""
        waits: list[float] = []
        producer = Producer(
            {
                "bootstrap.servers": hosts, "acks": "all", "batch.size": 16 << 10, "linger.ms": 0,
                "max.in.flight": 5, "queue.buffering.max.messages": 2_000, "partitioner": "random",
                "sticky.partitioning.linger.ms": 0,
            }
        )  # fmt: skip
        _send_one(producer, name, bytes(size))
        payload = bytes(size)

        def heard(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            waits.append(message.latency() or 0.0)

        began = time.monotonic()
        while time.monotonic() - began < seconds:
            try:
                producer.produce(name, payload, on_delivery=heard)
            except BufferError:
                producer.poll(0.005)
            producer.poll(0)
        producer.flush(PATIENCE_S)
        took = time.monotonic() - began
        return {"seconds": took, "records": len(waits), "p50_ms": median(waits) * 1000}

    async def consume(self, hosts: str, name: str, partitions: int, size: int, records: int) -> Answer:
        """From the beginning, by a consumer that has just been started. Its own start counts."""
        began = time.monotonic()
        consumer = _consumer(hosts, name, partitions)
        found = 0
        while found < records:
            # Never more than are left: the client would wait for them until its time is over
            found += sum(1 for each in consumer.consume(min(AT_ONCE, records - found), 1.0) if _sound(each))
            if time.monotonic() - began > PATIENCE_S:
                raise Late(f"{found} of {records} records came")
        seconds = time.monotonic() - began
        consumer.close()
        return {"seconds": seconds, "megabytes": found * size / 1e6}

    async def latency(self, hosts: str, name: str, acks: str, count: int) -> Answer:
        """One record at a time, from the call that sends it to the call that gives it to the consumer."""
        producer = Producer({"bootstrap.servers": hosts, "acks": acks, "linger.ms": 0})
        _send_one(producer, name, b"first")
        consumer = _consumer(hosts, name, 1, "latest")
        deadline = time.monotonic() + PATIENCE_S
        while consumer.poll(0.3) is None:  # until it has found the end, records are sent that nobody times
            _send_one(producer, name, b"there?")
            if time.monotonic() > deadline:
                raise Late("no record came to the consumer")
        while consumer.poll(0.5) is not None:
            pass
        waits = []
        for number in range(count):
            payload, began = b"%d" % number, time.monotonic()
            producer.produce(name, payload)
            while True:
                message = consumer.poll(5.0)
                if message is not None and _sound(message) and message.value() == payload:
                    break
                if time.monotonic() - began > PATIENCE_S:
                    raise Late(f"record {number} did not come")
            waits.append((time.monotonic() - began) * 1000)
            producer.poll(0)
        producer.flush(PATIENCE_S)
        consumer.close()
        return {"seconds": sum(waits) / 1000, "p50_ms": median(waits), "p99_ms": quantile(waits, 0.99)}


def _sound(message: Message) -> bool:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return True


def _send_one(producer: Producer, name: str, payload: bytes) -> None:
    failed: list[KafkaError] = []

    def heard(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer.produce(name, payload, on_delivery=heard)
    if producer.flush(PATIENCE_S) or failed:
        raise Late(f"the first record was not delivered: {failed}")


def _consumer(hosts: str, name: str, partitions: int, offset: str = "earliest") -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": hosts, "group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": offset,
            "max.partition.fetch.bytes": FETCH_BYTES, "queued.max.messages.kbytes": 64 << 10,
            # Or it rests for a second each time that it has 100,000 records in hand
            "queued.min.messages": 10_000_000, "fetch.queue.backoff.ms": 5,
        }
    )  # fmt: skip
    begin = 0 if offset == "earliest" else -1
    consumer.assign([TopicPartition(name, number, begin) for number in range(partitions)])
    return consumer


def _led(admin: AdminClient, name: str, partitions: int, began: float) -> None:
    def is_led() -> bool:
        try:
            found = admin.list_topics(name, timeout=5).topics[name].partitions
        except KafkaException:
            return False
        return len(found) == partitions and all(each.leader >= 0 and not each.error for each in found.values())

    _until(is_led, began)


def _until(there: Callable[[], bool], began: float) -> None:
    while not there():
        if time.monotonic() - began > PATIENCE_S:
            raise Late("not all partitions have a leader")
        time.sleep(0.05)


def main() -> None:
    log_to_stderr()
    trio.run(partial(answer_commands, Load()))


if __name__ == "__main__":
    main()
