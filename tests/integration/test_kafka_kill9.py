"""Processes are killed while clients that we did not write produce and consume: the leader of the store, and brokers
that lead a partition, control or coordinate.

What was acknowledged is there, once, and in its order; and consumers go on where they were.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
import trio

from kraft_controller.core.names import OFFSETS_TOPIC
from replica.core.groups.partitioning import partition_of
from tests.integration.broker_processes import PATIENCE_S, Processes, broker_processes, store_processes
from tests.integration.brokers import in_thread
from tests.integration.kafka_clients import Confluent
from tests.kafka_bodies import Body

pytestmark = pytest.mark.slow
GROUP = "those who go on"
IDEMPOTENT: dict[str, Any] = {"enable.idempotence": True, "message.timeout.ms": int(PATIENCE_S * 1_000)}


class Writer(threading.Thread):
    """One after the other, with a few under way, until it is told to stop."""

    def __init__(self, name: str, hosts: str) -> None:
        super().__init__(daemon=True)
        self.label, self.hosts = name, hosts
        self.acknowledged: list[bytes] = []
        self.failed: list[Any] = []
        self.enough = threading.Event()

    def values(self) -> Any:
        number = 0
        while not self.enough.is_set():
            yield f"{self.label} {number}".encode()
            number += 1
            time.sleep(0.02)


class ConfluentWriter(Writer):
    def run(self) -> None:
        producer = confluent_kafka.Producer({**IDEMPOTENT, "bootstrap.servers": self.hosts})

        def told(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged.append(bytes(message.value()))
            else:
                self.failed.append(error)

        for value in self.values():
            producer.produce("t", value, self.label.encode(), callback=told)
            producer.poll(0)
        producer.flush(PATIENCE_S)


class KafkaPythonWriter(Writer):
    def run(self) -> None:
        # Of itself it gives up after two minutes, in which a crowded machine may not have started a broker again.
        patience_ms = int(PATIENCE_S * 1_000)
        producer = kafka.KafkaProducer(bootstrap_servers=self.hosts, acks="all", delivery_timeout_ms=patience_ms)
        futures = [(value, producer.send("t", value, self.label.encode())) for value in self.values()]
        for value, future in futures:
            try:
                future.get(PATIENCE_S)
                self.acknowledged.append(value)
            except kafka.errors.KafkaError as error:
                self.failed.append(error)
        producer.close()


class Reader(threading.Thread):
    """A member of a group, that commits as it goes."""

    def __init__(self, hosts: str) -> None:
        super().__init__(daemon=True)
        self.hosts = hosts
        self.found: list[bytes] = []
        self.enough = threading.Event()

    def run(self) -> None:
        settings = {"bootstrap.servers": self.hosts, "group.id": GROUP, "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**settings, "auto.commit.interval.ms": 200})
        consumer.subscribe(["t"])
        while not self.enough.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.found.append(bytes(message.value() or b""))
        consumer.close()


@contextmanager
def at_work(*threads: Reader | Writer) -> Iterator[None]:
    """However it ends, they end, too."""
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.enough.set()


def leader_of(cluster: Body, topic: str, partition: int) -> int:
    [found] = [each for each in cluster["topics"] if each["name"] == topic]
    [part] = [each for each in found["partitions"] if each["partition_index"] == partition]
    return int(part["leader_id"])


async def killed_and_back(running: Processes, number: int, writers: list[Writer]) -> None:
    running.kill(number)
    await running.settled()
    before = [len(writer.acknowledged) for writer in writers if isinstance(writer, ConfluentWriter)]
    while [len(writer.acknowledged) for writer in writers if isinstance(writer, ConfluentWriter)] == before:
        await trio.sleep(0.05)
    running.start(number)
    await running.settled()


def test_the_store_a_leader_the_controller_and_a_coordinator_are_killed(tmp_path: Path) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_S):
            async with store_processes(tmp_path) as store, broker_processes(tmp_path, store.hosts) as running:
                await in_thread(Confluent().write, running.hosts, "t", [(b"k", b"first")])
                reader = Reader(running.hosts)
                writers = [ConfluentWriter("confluent", running.hosts), KafkaPythonWriter("python", running.hosts)]
                with at_work(reader, *writers):
                    while not reader.found:
                        await trio.sleep(0.05)
                    store.kill(await store.leader())
                    for who in ("leader", "controller", "coordinator"):
                        cluster = await running.settled()
                        number = {
                            "leader": leader_of(cluster, "t", 0),
                            "controller": cluster["controller_id"],
                            "coordinator": leader_of(cluster, OFFSETS_TOPIC, partition_of(GROUP, 4)),
                        }[who]
                        await killed_and_back(running, number, writers)
                    for writer in writers:
                        writer.enough.set()
                    for writer in writers:
                        await in_thread(writer.join)
                        assert writer.failed == []
                    acknowledged = [value for writer in writers for value in writer.acknowledged]
                    assert len(acknowledged) > 100
                    written = await in_thread(Confluent().read, running.hosts, "t", "late", len(acknowledged) + 1)
                    values = [bytes(value or b"") for _, value in written]
                    assert set(acknowledged) <= set(values)
                    assert [value for value, count in Counter(values).items() if count > 1] == []
                    for writer in writers:
                        mine = [
                            int((value or b"").split()[1]) for key, value in written if key == writer.label.encode()
                        ]
                        assert mine == sorted(mine)
                    while not set(acknowledged) <= set(reader.found):
                        await trio.sleep(0.05)
                    reader.enough.set()
                    await in_thread(reader.join)

    trio.run(main)


def test_a_broker_that_stood_still_for_longer_than_its_session_comes_back(tmp_path: Path) -> None:
    pairs = [(b"%d" % number, b"%d" % number) for number in range(100)]

    def write(hosts: str) -> None:
        """Leaders may change meanwhile, and then it says again what may be there already."""
        Confluent().write(hosts, "t", pairs, **IDEMPOTENT)

    async def main() -> None:
        with trio.fail_after(PATIENCE_S):
            async with store_processes(tmp_path) as store, broker_processes(tmp_path, store.hosts) as running:
                await in_thread(write, running.hosts)
                cluster = await running.settled()
                still = running.running.pop(leader_of(cluster, "t", 0))
                try:
                    still.send_signal(signal.SIGSTOP)
                    await running.settled()
                    await in_thread(write, running.hosts)
                finally:
                    still.send_signal(signal.SIGCONT)
                    running.running[next(iter(running.ports.keys() - running.running.keys()))] = still
                await running.settled()
                await in_thread(write, running.hosts)
                found = await in_thread(Confluent().read, running.hosts, "t", "g", 300)
                assert sorted(found, key=repr) == sorted(pairs * 3, key=repr)

    trio.run(main)
