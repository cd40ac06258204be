"""Caches: complete from the first moment, never older after newer, and right again after whatever was missed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import trio

from tests.integration.recipe_stores import SESSION_KINDS, opened, until
from tests.integration.stores import stores
from zab.client.remote_session import connect
from zab.core.errors import LocalProtocolError
from zab.recipes import Cached, Change, ChildrenCache, NodeCache, TreeCache
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.session.session_errors import NodeExists, NoNode, NotEmpty, SessionExpired
from zab.session.state import SessionState

each_session_kind = pytest.mark.parametrize("via", SESSION_KINDS)


def data(cached: Cached | None) -> bytes | None:
    return None if cached is None else cached.data


def told(change: Change) -> tuple[str, bytes | None, bytes | None]:
    return change.path, data(change.before), data(change.now)


@each_session_kind
async def test_one_node_that_comes_changes_and_goes(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        async with NodeCache(session, "/n") as cache:
            assert cache.node is None
            changes = cache.changes()
            for value in (b"1", b"2"):
                await (other.create if value == b"1" else other.set)("/n", value)
                change = await anext(changes)
                assert data(change.now) == cache.value == value
            await other.create("/n/below")
            await other.delete("/n/below")
            await other.delete("/n")
            assert told(await anext(changes)) == ("/n", b"2", None)
            await other.create("/n", b"3")
            assert told(await anext(changes)) == ("/n", None, b"3")
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
        assert cache.value == b"3"
        with pytest.raises(LocalProtocolError, match="can be entered once only"):
            async with cache:
                raise AssertionError("unreachable")


@each_session_kind
async def test_children_and_only_they(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        for path in ("/c", "/c/a", "/c/b", "/c/a/deeper", "/cc"):
            await other.create(path, path.encode())
        async with ChildrenCache(session, "/c") as cache:
            assert {name: data(node) for name, node in cache.children.items()} == {"a": b"/c/a", "b": b"/c/b"}
            changes = cache.changes()
            assert {told(await anext(changes)) for _ in range(2)} == {
                ("/c/a", None, b"/c/a"),
                ("/c/b", None, b"/c/b"),
            }
            await other.set("/c/a/deeper", b"nobody looks here")
            await other.set("/c", b"nor here")
            await other.create("/c/c", b"new")
            assert told(await anext(changes)) == ("/c/c", None, b"new")
            await other.delete("/c/b")
            assert told(await anext(changes)) == ("/c/b", b"/c/b", None)
            late = cache.changes()
            assert {told(await anext(late)) for _ in range(2)} == {("/c/a", None, b"/c/a"), ("/c/c", None, b"new")}


@each_session_kind
async def test_a_whole_tree(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        async with TreeCache(session, "/t") as cache:
            assert dict(cache.nodes) == {}
            for path in ("/t", "/t/a", "/t/a/b", "/t/a/b/c"):
                await other.create(path, path.encode())
            await until(lambda: len(cache.nodes) == 4)
            assert data(cache.nodes["a/b"]) == b"/t/a/b"
            assert data(cache.nodes[""]) == b"/t"
            await other.delete_tree("/t/a")
            await until(lambda: set(cache.nodes) == {""})
        async with TreeCache(session, "/", depth_max=1) as cache:
            assert set(cache.nodes) == {"", "t", "zookeeper"}


@each_session_kind
async def test_slow_reader_misses_only_superseded_changes(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        await other.create("/c")
        async with ChildrenCache(session, "/c") as cache:
            changes = cache.changes()
            for number in range(100):
                await other.create("/c/brief")
                await other.delete("/c/brief")
                await (other.set if number else other.create)("/c/stays", b"%d" % number)
            await other.create("/c/last")
            await until(lambda: "last" in cache.children)
            assert [told(await anext(changes)) for _ in range(2)] == [
                ("/c/stays", None, b"99"),
                ("/c/last", None, b""),
            ]


@each_session_kind
@pytest.mark.parametrize("seed", range(3))
async def test_random_changes_all_arrive_and_in_order(tmp_path: Path, via: str, seed: int) -> None:
    chance = Random(seed)
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        newest: dict[str, int] = {}

        async def follow(cache: TreeCache) -> None:
            async for change in cache.changes():
                for node in (change.before, change.now):
                    if node is not None:
                        assert node.stat.mzxid >= newest.get(change.path, 0)
                        newest[change.path] = node.stat.mzxid

        async with trio.open_nursery() as nursery, TreeCache(session, "/t") as cache:
            nursery.start_soon(follow, cache)
            for number in range(300):
                path = "/t" + "".join(f"/{chance.randrange(3)}" for _ in range(chance.randrange(4)))
                try:
                    match chance.randrange(3):
                        case 0:
                            await other.create(path, b"%d" % number)
                        case 1:
                            await other.set(path, b"%d" % number)
                        case _:
                            await other.delete(path)
                except (NoNode, NotEmpty, NodeExists):
                    pass
            there = {
                path.removeprefix("/t").lstrip("/"): node[0]
                for path, node in store.server.machine.tree.nodes.items()
                if path == "/t" or path.startswith("/t/")
            }
            await until(lambda: {name: node.data for name, node in cache.nodes.items()} == there)
            nursery.cancel_scope.cancel()
        assert newest


async def test_a_watch_that_overflows_is_begun_anew(tmp_path: Path) -> None:
    client_ports = ClientPortSettings(events_max=3)
    async with stores(tmp_path, client_ports=client_ports) as running:
        server = running.servers[1]
        async with server.session() as session, server.session() as other, ChildrenCache(session, "/c") as cache:
            await other.create("/c")
            for turn in range(5):
                async with trio.open_nursery() as nursery:
                    for number in range(20):
                        nursery.start_soon(other.create, f"/c/{turn}-{number}")
            await until(lambda: len(cache.children) == 100)


@each_session_kind
async def test_cache_survives_the_removal_of_its_watch(tmp_path: Path, via: str) -> None:
    async with (
        opened(tmp_path, via) as store,
        store.session() as session,
        store.session() as other,
        NodeCache(session, "/n") as cache,
    ):
        await session.remove_watch("/n")
        await other.create("/n", b"seen all the same")
        await until(lambda: cache.value == b"seen all the same")


@each_session_kind
async def test_the_end_of_the_session_ends_the_block(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        with pytest.raises(SessionExpired):
            async with TreeCache(session, "/t"):
                store.expire(session)
                await trio.sleep_forever()


async def test_cache_reads_changes_missed_during_a_lost_connection(tmp_path: Path) -> None:
    async with (
        stores(tmp_path, 3) as running,
        connect(running.hosts(1), timeout_ms=20_000) as session,
        running.servers[2].session() as other,
    ):
        await other.create("/c")
        await other.create("/c/goes")
        await session.sync()
        async with ChildrenCache(session, "/c") as cache:
            states, changes = session.states(), cache.changes()
            assert set(cache.children) == {"goes"}
            assert await anext(states) is SessionState.CONNECTED
            await running.stop(1)
            assert await anext(states) is SessionState.SUSPENDED
            await other.delete("/c/goes")
            await other.create("/c/comes", b"1")
            await running.start(1)
            await until(lambda: set(cache.children) == {"comes"})
            assert told(await anext(changes)) == ("/c/comes", None, b"1")
            await other.set("/c/comes", b"2")
            await until(lambda: data(cache.children["comes"]) == b"2")
