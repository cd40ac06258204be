"""Recipes over the wire, at our server and at Apache's, also while connections break at any moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing

import zab
from tests.integration import apache
from tests.integration.session_kinds import REMOTE, Opened, Proxy, SessionKind, one_apache, proxied, session_kind_of
from tests.integration.stores import stores
from zab.recipes import (
    Barrier,
    ChildrenCache,
    Counter,
    DoubleBarrier,
    Election,
    EntryInDoubt,
    Held,
    Lock,
    LockingQueue,
    Lost,
    NodeCache,
    Party,
    Queue,
    ReadLock,
    RecipeSettings,
    Semaphore,
    ShallowParty,
    Taken,
    WriteLock,
)
from zab.recipes.holding import Holdable

QUICK = zab.ClientSettings(pause_ms_min=10, pause_ms_max=50)


@pytest.fixture(scope="module")
def apache_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apache.Server]:
    with one_apache(Path(tmp_path_factory.mktemp("apache"))) as server:
        yield server


@pytest.fixture(params=REMOTE)
def via(request: pytest.FixtureRequest) -> SessionKind:
    return session_kind_of(request.param, request)


@asynccontextmanager
async def behind_a_proxy(it: Opened) -> AsyncIterator[tuple[zab.Session, Proxy]]:
    assert it.hosts is not None
    async with proxied(it.hosts) as (proxy, hosts), it.session(at=hosts, timeout_ms=8_000, settings=QUICK) as session:
        yield session, proxy


async def cut(proxies: list[Proxy], seconds: float, progress: Callable[[], int]) -> None:
    """A few times, until something is done again: on a busy machine a connection may take longer than it is left."""
    chance = Random(1)
    while True:
        before = progress()
        for _ in range(3):
            await trio.sleep(chance.random() * seconds)
            chance.choice(proxies).cut()
        while progress() == before:
            await trio.sleep(seconds / 10)


async def test_each_recipe_once(via: SessionKind) -> None:
    async with via.open() as it, it.session() as one, it.session() as two:
        pairs: list[tuple[Lock | Semaphore, Lock | Semaphore]] = [
            (Lock(one, f"{it.root}/l"), Lock(two, f"{it.root}/l")),
            (ReadLock(one, f"{it.root}/rw"), WriteLock(two, f"{it.root}/rw")),
            (Semaphore(one, f"{it.root}/s"), Semaphore(two, f"{it.root}/s")),
        ]
        for first, second in pairs:
            async with first.hold(wait=False) as held:
                with pytest.raises(Taken):
                    async with second.hold(wait=False):
                        raise AssertionError("unreachable")
            async with second.hold(wait=False) as later:
                assert later.token > held.token
        async with Election(one, f"{it.root}/e", "one").candidate():
            assert await Election(two, f"{it.root}/e").leader() == "one"
        for kind in (Party, ShallowParty):
            async with kind(one, f"{it.root}/{kind.__name__}", "me"):
                assert await kind(two, f"{it.root}/{kind.__name__}").members() == ["me"]
        await Barrier(one, f"{it.root}/b").create()
        assert await Barrier(two, f"{it.root}/b").remove()
        async with trio.open_nursery() as nursery:
            for session in (one, two):
                nursery.start_soon(takes_part, DoubleBarrier(session, f"{it.root}/d", 2))
        queue, careful = Queue(one, f"{it.root}/q"), LockingQueue(one, f"{it.root}/lq")
        await queue.put(b"1")
        assert await queue.get() == b"1"
        await careful.put_all([b"2", b"3"])
        async with careful.take() as entry:
            assert entry.data == b"2"
        assert await careful.size() == 1
        assert await Counter(one, f"{it.root}/c").add(7) == 7
        async with NodeCache(two, f"{it.root}/c") as node, ChildrenCache(two, f"{it.root}/lq/entries") as children:
            assert node.value == b"7"
            assert [each.data for each in children.children.values()] == [b"3"]
            changes = node.changes()
            assert (await anext(changes)).before is None
            await Counter(one, f"{it.root}/c").add(1)
            assert (await anext(changes)).now == node.node


async def takes_part(what: Holdable) -> None:
    async with what:
        pass


@pytest.mark.parametrize("kind", [Lock, Semaphore])
async def test_lock_excludes_others_while_connections_break(via: SessionKind, kind: type[Lock | Semaphore]) -> None:
    inside: list[Held] = []
    tokens: list[int] = []
    turns = 0

    async def contend(session: zab.Session, chance: Random) -> None:
        nonlocal turns
        lock = kind(session, f"{it.root}/l")
        while turns < 60:
            with trio.move_on_after(0.5 if chance.random() < 0.2 else 20):
                async with lock as held:
                    assert inside == []
                    inside.append(held)
                    tokens.append(held.token)
                    try:
                        await trio.sleep(chance.choice([0, 0.001, 0.02]))
                    finally:
                        inside.clear()
            turns += 1

    async with (
        via.open() as it,
        behind_a_proxy(it) as (one, first),
        behind_a_proxy(it) as (two, second),
        it.session() as last,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut, [first, second], 0.1, lambda: turns)
            async with trio.open_nursery() as contenders:
                for number, session in enumerate([one, two, one, two]):
                    contenders.start_soon(contend, session, Random(number))
            nursery.cancel_scope.cancel()
        assert tokens == sorted(set(tokens))
        assert first.accepted + second.accepted > 4
        await last.sync()
        assert await last.children(f"{it.root}/l") == []
        async with kind(last, f"{it.root}/l").hold(wait=False):
            pass


async def test_queue_delivers_each_entry_while_connections_break(via: SessionKind) -> None:
    async with via.open() as it, it.session() as sure, behind_a_proxy(it) as (session, proxy):
        await LockingQueue(sure, f"{it.root}/lq").put_all([b"%d" % number for number in range(40)])
        for number in range(40):
            await Queue(sure, f"{it.root}/q").put(b"%d" % number)
        got: list[int] = []
        done: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut, [proxy], 0.05, lambda: len(got) + len(done))
            while len(got) < 40:
                try:
                    got.append(int(await Queue(session, f"{it.root}/q").get()))
                except EntryInDoubt as doubt:  # there is no other consumer, so it was this one
                    got.append(int(doubt.data or b""))
            while len(done) < 40:
                async with LockingQueue(session, f"{it.root}/lq").take() as entry:
                    await trio.sleep(0.001)
                done.append(int(entry.data))
            nursery.cancel_scope.cancel()
        assert got == done == list(range(40))


async def test_lock_excludes_others_when_a_connection_falls_silent(via: SessionKind) -> None:
    inside: list[str] = []

    async def inherit() -> None:
        async with Lock(other, f"{it.root}/l"):
            assert inside == []
            inside.append("heir")

    async with via.open() as it, it.session() as other, proxied(it.hosts or "") as (proxy, hosts):
        async with it.session(at=hosts, timeout_ms=4_000, settings=QUICK) as session, trio.open_nursery() as nursery:
            with pytest.raises(Lost, match="the connection was lost for too long"):
                async with Lock(session, f"{it.root}/l"):
                    inside.append("holder")
                    nursery.start_soon(inherit)
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    proxy.silent_up = proxy.silent_down = True
                    try:
                        await trio.sleep_forever()
                    finally:
                        assert inside == ["holder"]
                        inside.clear()
            proxy.silent_up = proxy.silent_down = False
        assert inside == ["heir"]


async def test_holder_gives_up_without_contact_to_the_store(via: SessionKind) -> None:
    """It gives up long before its session's end, as set; and removes its node as soon as possible."""
    settings = RecipeSettings(suspended_ms=50)
    async with via.open() as it, behind_a_proxy(it) as (session, proxy), it.session() as other:
        with pytest.raises(Lost, match="the connection was lost for too long"):
            async with Lock(session, f"{it.root}/l", settings=settings):
                with pytest.raises(Taken):
                    async with Lock(other, f"{it.root}/l").hold(wait=False):
                        raise AssertionError("unreachable")
                proxy.refusing = True
                proxy.cut()
                try:
                    await trio.sleep_forever()
                finally:
                    proxy.refusing = False
        async with Lock(other, f"{it.root}/l"):
            assert session.over is None


async def test_a_lock_outlives_the_server_it_was_taken_through(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        hosts = running.hosts(leader, *(sid for sid in running.ports if sid != leader))
        others = running.hosts(*(sid for sid in running.ports if sid != leader))
        async with (
            zab.connect(hosts, timeout_ms=15_000, settings=QUICK) as one,
            zab.connect(others, timeout_ms=15_000, settings=QUICK) as two,
        ):
            async with Lock(one, "/l"):
                await running.stop(leader)
                await one.sync()
                await two.sync()
                with pytest.raises(Taken):
                    async with Lock(two, "/l").hold(wait=False):
                        raise AssertionError("unreachable")
            await two.sync()
            async with Lock(two, "/l").hold(wait=False):
                pass
            await running.start(leader)
