"""Clients of Kafka that we did not write produce to brokers and consume from them, alone and in groups."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import trio
from confluent_kafka import KafkaError

from replica.core.partitions.log_config import LogConfig
from tests.integration.brokers import cluster, in_thread, until
from tests.integration.kafka_clients import CLIENTS, Client, Confluent

pytestmark = pytest.mark.slow
EACH = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
ODD_PAIRS = [
    (b"k", b"v"),
    (None, b"no key"),
    (b"no value", None),
    (b"", b""),
    (b"large", b"x" * 900_000),
    ("ключ".encode(), "значение".encode()),
]


@EACH
@pytest.mark.parametrize("brokers", [1, 3])
def test_records_of_one_client_are_read_by_all_clients(client: Client, brokers: int, tmp_path: Path) -> None:
    pairs = ODD_PAIRS + [(b"%d" % number, b"value %d" % number) for number in range(200)]

    async def main() -> None:
        async with cluster(tmp_path, brokers, partitions=3) as running:
            await in_thread(client.write, running.hosts, "t", pairs)
            for reader in CLIENTS:
                found = await in_thread(reader.read, running.hosts, "t", f"group of {reader.name}", len(pairs))
                assert sorted(found, key=repr) == sorted(pairs, key=repr)

    trio.run(main)


def test_only_the_records_without_a_key_are_refused_by_a_compacted_topic(tmp_path: Path) -> None:
    """As librdkafka's own test 0011 shows: the others of the batch fail for another reason, and may be sent again."""
    without_key = set(range(5, 100, 10))
    errors: dict[int, Any] = {}

    def note(number: int, error: object, _: object) -> None:
        errors[number] = error

    def write(hosts: str) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": hosts, "linger.ms": 1000})
        for number in range(100):
            producer.produce(
                "compacted",
                b"v",
                None if number in without_key else b"%d" % number,
                callback=partial(note, number),
            )
        assert producer.flush(60) == 0

    async def main() -> None:
        async with cluster(tmp_path, 1, log=LogConfig(cleanup_policy=("compact",))) as running:
            await in_thread(Confluent().write, running.hosts, "compacted", [(b"first", b"v")])
            await in_thread(write, running.hosts)

    trio.run(main)
    codes = {number: error.code() for number, error in errors.items()}
    refused = {number for number, code in codes.items() if code == KafkaError.INVALID_RECORD}
    assert refused == without_key, codes
    assert {codes[number] for number in codes.keys() - refused} == {KafkaError._INVALID_DIFFERENT_RECORD}


@EACH
def test_a_group_goes_on_where_it_was(client: Client, tmp_path: Path) -> None:
    def pairs(numbers: range) -> list[tuple[bytes | None, bytes | None]]:
        return [(b"same", b"%d" % number) for number in numbers]

    async def main() -> None:
        async with cluster(tmp_path, 1) as running:
            await in_thread(client.write, running.hosts, "t", pairs(range(10)))
            assert await in_thread(client.read, running.hosts, "t", "g", 4) == pairs(range(4))
            assert await in_thread(client.read, running.hosts, "t", "g", 6) == pairs(range(4, 10))
            await in_thread(client.write, running.hosts, "t", pairs(range(10, 12)))
            assert await in_thread(client.read, running.hosts, "t", "g", 2) == pairs(range(10, 12))

    trio.run(main)


@EACH
def test_everything_is_there_after_a_restart(client: Client, tmp_path: Path) -> None:
    pairs = [(b"%d" % number, b"value %d" % number) for number in range(50)]

    async def main() -> None:
        async with cluster(tmp_path, 1) as running:
            await in_thread(client.write, running.hosts, "t", pairs)
            assert len(await in_thread(client.read, running.hosts, "t", "g", 20)) == 20
            await running.stop(1)
            await running.start(1)
            found = await in_thread(client.read, running.hosts, "t", "g", 30)
            assert len(found) == 30
            again = await in_thread(client.read, running.hosts, "t", "another", 50)
            assert sorted(again, key=repr) == sorted(pairs, key=repr)

    trio.run(main)


@EACH
def test_a_broker_that_leads_ends_and_nothing_is_lost(client: Client, tmp_path: Path) -> None:
    first = [(b"%d" % number, b"first %d" % number) for number in range(60)]
    second = [(b"%d" % number, b"second %d" % number) for number in range(60)]

    async def main() -> None:
        async with cluster(tmp_path, 3, partitions=3) as running:
            await in_thread(client.write, running.hosts, "t", first)
            assert len(await in_thread(client.read, running.hosts, "t", "g", 30)) == 30
            await running.stop(1)
            await running.all_know_all()
            await in_thread(client.write, running.hosts, "t", second)
            rest = await in_thread(client.read, running.hosts, "t", "g", 90)
            assert len(rest) == 90
            everything = await in_thread(client.read, running.hosts, "t", "another", 120)
            assert sorted(everything, key=repr) == sorted(first + second, key=repr)
            await running.start(1)
            await until(lambda: all(len(role.state.isr) == 3 for role in running.roles("t")))

    trio.run(main)
