"""Clients of Kafka that we did not write produce to brokers and consume from them, alone and in groups."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.integration.brokers import cluster, in_thread, until
from tests.integration.kafka_clients import CLIENTS, Client

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
def test_what_one_writes_all_read(client: Client, brokers: int, tmp_path: Path) -> None:
    pairs = ODD_PAIRS + [(b"%d" % number, b"value %d" % number) for number in range(200)]

    async def main() -> None:
        async with cluster(tmp_path, brokers, partitions=3) as running:
            await in_thread(client.write, running.hosts, "t", pairs)
            for reader in CLIENTS:
                found = await in_thread(reader.read, running.hosts, "t", f"group of {reader.name}", len(pairs))
                assert sorted(found, key=repr) == sorted(pairs, key=repr)

    trio.run(main)


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
