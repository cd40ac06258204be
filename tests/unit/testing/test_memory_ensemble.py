"""An ensemble in memory: its leader, killed and restarted servers, and partitions."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

import zab
from tests.unit.testing.virtual import on_virtual_time
from zab.core.errors import StorageError
from zab.testing import MemoryStore, open_memory_store


async def write(session: zab.Session, data: bytes) -> None:
    """Write until it has certainly happened, in a new connection if necessary."""
    while True:
        try:
            await session.set("/a", data)
            return
        except zab.OutcomeUnknown:
            continue


async def read_everywhere(store: MemoryStore, servers: range) -> set[bytes | None]:
    """Return what the servers have under `/a`, each after a sync."""
    found = set()
    for sid in servers:
        async with store.connect(f"s{sid}:2181") as session:
            await session.sync("/a")
            found.add((await session.get("/a"))[0])
    return found


@pytest.mark.parametrize("servers", [2, 3, 5])
def test_all_servers_serve_from_the_start(servers: int) -> None:
    async def main() -> None:
        async with open_memory_store(servers=servers) as store:
            modes = [store.server(sid).mode for sid in range(1, servers + 1)]
            assert sorted(modes) == ["follower"] * (servers - 1) + ["leader"]
            leader = await store.wait_leader()
            assert leader == store.leader
            assert store.server(leader).mode == "leader"
            assert repr(store) == f"<MemoryStore of {servers} servers, server {leader} leads>"
        assert repr(store) == f"<MemoryStore of {servers} servers, closed>"

    on_virtual_time(main)


def test_ensemble_begins_without_any_time() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3):
            assert trio.current_time() == 0

    trio.run(main, clock=MockClock())


@pytest.mark.parametrize("seed", range(10))
def test_ensemble_goes_on_when_its_leader_is_killed(seed: int) -> None:
    async def main() -> None:
        async with open_memory_store(servers=3, seed=seed) as store, store.session() as session:
            await session.create("/a", b"0")
            for number in range(3):
                leader = await store.wait_leader()
                await store.kill(leader, power_loss=seed % 2 == 1)
                assert store.leader is None
                assert await store.wait_leader() != leader
                await write(session, b"%d" % number)
                await store.restart(leader)
                await store.server(leader).readable()
                assert store.server(leader).mode == "follower"
            assert await read_everywhere(store, range(1, 4)) == {b"2"}

    on_virtual_time(main)


def test_session_moves_to_another_server() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store, store.session() as session:
            await session.create("/me", ephemeral=True)
            server = session.connector.server
            assert server is not None
            await store.kill(int(server.host[1:]))
            assert await session.exists("/me") is not None
            assert session.connector.server not in (None, server)

    on_virtual_time(main)


def test_acknowledged_writes_survive_a_loss_of_power_at_all_servers() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store, store.session() as session:
            await session.create("/a", b"0")
            await write(session, b"1")
            for sid in (1, 2, 3):
                await store.kill(sid, power_loss=True)
            for sid in (1, 2, 3):
                await store.restart(sid)
            assert (await session.get("/a"))[0] == b"1"

    on_virtual_time(main)


def test_two_killed_servers_leave_no_leader() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store, store.session() as session:
            await session.create("/a", b"0")
            await store.kill(1)
            await store.kill(3)
            await trio.sleep(60)
            assert store.leader is None
            await store.restart(1)
            assert await store.wait_leader() in (1, 2)
            await write(session, b"1")

    on_virtual_time(main)


def test_leader_in_a_partition_is_replaced() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store, store.session() as session:
            await session.create("/a", b"0")
            old = await store.wait_leader()
            store.partition(old)
            assert store.leader is None, "it leads, but reaches no quorum"
            new = await store.wait_leader()
            assert new != old
            await write(session, b"1")
            store.heal()
            await trio.sleep(2 * zab.Settings().sync_ms / 1000)  # then it has noticed the partition
            await store.server(old).readable()
            assert store.server(old).mode == "follower"
            assert await read_everywhere(store, range(1, 4)) == {b"1"}

    on_virtual_time(main)


def test_partition_separates_two_sides() -> None:
    async def main() -> None:
        async with open_memory_store(servers=5) as store, store.session() as session:
            await session.create("/a", b"0")
            store.partition(4, 5)
            assert await store.wait_leader() in (1, 2, 3)
            store.partition(3)
            assert store.leader is None
            await trio.sleep(60)
            assert [store.server(sid).mode for sid in range(1, 6)] == ["looking"] * 5
            store.heal()
            await store.wait_leader()
            await write(session, b"1")
            assert await read_everywhere(store, range(1, 6)) == {b"1"}

    on_virtual_time(main)


def test_follower_in_a_partition_returns() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store, store.connect("s3:2181,s2:2181") as session:
            assert await store.wait_leader() == 3
            await session.create("/a", b"0")
            store.partition(1)
            assert store.leader == 3
            await write(session, b"1")
            await trio.sleep(30)
            assert store.server(1).mode == "looking"
            store.heal()
            await store.server(1).readable()
            assert await read_everywhere(store, range(1, 4)) == {b"1"}

    on_virtual_time(main)


def test_failure_of_a_server_ends_the_block() -> None:
    async def main() -> None:
        with pytest.raises(StorageError):
            async with open_memory_store() as store, store.session() as session:
                store._servers[1].disk.fail("sync")
                with suppress(zab.OutcomeUnknown):
                    await session.create("/a")
                await trio.sleep_forever()

    on_virtual_time(main)


def test_error_of_the_block_is_raised_unchanged() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with open_memory_store(servers=3):
                _ = 1 / 0

    on_virtual_time(main)


def test_server_may_be_killed_while_it_starts() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store, trio.open_nursery() as nursery:
            await store.kill(1)
            nursery.start_soon(store.restart, 1)
            while store._servers[1].process is None:
                await trio.lowlevel.checkpoint()
            await store.kill(1)
            await store.restart(1)
            await store.server(1).readable()

    on_virtual_time(main)
