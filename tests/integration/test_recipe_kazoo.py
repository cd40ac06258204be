"""kazoo's recipes, unmodified, and ours at the same nodes: each waits for the other, and each understands the other.

kazoo works in threads, and its blocking calls end when the other side lets them go: a test that hangs has failed.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

import pytest
import trio

from tests.integration.recipe_stores import SESSION_KINDS, RecipeStore, opened, until
from zab.core.errors import ConfigError
from zab.recipes import (
    Barrier,
    Counter,
    DoubleBarrier,
    Election,
    Lock,
    LockingQueue,
    Party,
    Queue,
    ReadLock,
    Semaphore,
    ShallowParty,
    Taken,
    WriteLock,
)
from zab.recipes.holding import Holdable
from zab.session.api import Session

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

PATIENCE_S = 240
T = TypeVar("T")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
each_session_kind = pytest.mark.parametrize("via", SESSION_KINDS)


@pytest.fixture(autouse=True)
def _sockets_that_kazoo_forgets() -> Iterator[None]:
    yield
    gc.collect()


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    return await trio.to_thread.run_sync(partial(work, *arguments), abandon_on_cancel=True)


@asynccontextmanager
async def both(path: Path, via: str = "process") -> AsyncIterator[tuple[RecipeStore, Session, Any]]:
    async with opened(path, via) as store, store.session() as session:
        zk = KazooClient(hosts=store.hosts, timeout=20.0)
        await in_thread(zk.start, PATIENCE_S)
        try:
            yield store, session, zk
        finally:
            with trio.CancelScope(shield=True):
                await in_thread(zk.stop)
                await in_thread(zk.close)


EXCLUDING: Final = [
    (Lock, "Lock", True),
    (WriteLock, "ReadLock", True),
    (ReadLock, "WriteLock", True),
    (WriteLock, "WriteLock", True),
    (ReadLock, "ReadLock", False),
    (Lock, "ReadLock", True),
    (ReadLock, "Lock", False),
]


@each_session_kind
@pytest.mark.parametrize(("ours", "theirs", "excludes"), EXCLUDING)
async def test_our_lock_keeps_theirs_out(
    tmp_path: Path, via: str, ours: type[Lock], theirs: str, excludes: bool
) -> None:
    async with both(tmp_path, via) as (_, session, zk):
        lock = getattr(zk, theirs)("/l", "theirs")
        async with ours(session, "/l", "ours") as held:
            assert await in_thread(partial(lock.acquire, blocking=False)) is not excludes
            if not excludes:
                await in_thread(lock.release)
            assert await in_thread(zk.WriteLock("/l").contenders) == ["ours"]
            assert held.path.startswith("/l/")
        await waits_for_nothing(lock)


async def waits_for_nothing(lock: Any) -> None:
    assert await in_thread(partial(lock.acquire, blocking=False))
    await in_thread(lock.release)


@each_session_kind
@pytest.mark.parametrize(("theirs", "ours", "excludes"), [
    ("Lock", Lock, True),
    ("ReadLock", WriteLock, True),
    ("WriteLock", ReadLock, True),
    ("WriteLock", WriteLock, True),
    ("ReadLock", ReadLock, False),
    ("ReadLock", Lock, False),
    ("Lock", ReadLock, True),
])  # fmt: skip
async def test_their_lock_keeps_ours_out(
    tmp_path: Path, via: str, theirs: str, ours: type[Lock], excludes: bool
) -> None:
    async with both(tmp_path, via) as (_, session, zk):
        lock, mine = getattr(zk, theirs)("/l", "theirs"), ours(session, "/l", "ours")
        assert await in_thread(lock.acquire)
        assert await WriteLock(session, "/l").contenders() == ["theirs"]
        if excludes:
            with pytest.raises(Taken):
                async with mine.hold(wait=False):
                    raise AssertionError("unreachable")
        else:
            async with mine.hold(wait=False):
                pass
        await in_thread(lock.release)
        async with mine.hold(wait=False):
            pass


async def test_one_line_for_both(tmp_path: Path) -> None:
    """Ours, theirs, ours, theirs, each in its turn."""
    order: list[int] = []

    async def ours(session: Session, number: int) -> None:
        async with Lock(session, "/l"):
            order.append(number)

    async def theirs(zk: Any, number: int) -> None:
        def take() -> None:
            with zk.Lock("/l"):
                order.append(number)

        await in_thread(take)

    async with both(tmp_path) as (store, session, zk):
        async with trio.open_nursery() as nursery, Lock(session, "/l"):
            for number in range(6):
                if number % 2:
                    nursery.start_soon(ours, session, number)
                else:
                    nursery.start_soon(theirs, zk, number)
                await until(lambda number=number: len(store.names("/l")) == number + 2)  # type: ignore[misc]
        assert order == list(range(6))


async def test_an_election_of_both(tmp_path: Path) -> None:
    async with both(tmp_path) as (store, session, zk):
        ours, theirs, led = Election(session, "/e", "ours"), zk.Election("/e", "theirs"), []
        async with trio.open_nursery() as nursery, ours.candidate():
            nursery.start_soon(in_thread, theirs.run, lambda: led.append("theirs"))
            await until(lambda: len(store.names("/e")) == 2)
            assert await ours.contenders() == await in_thread(theirs.contenders) == ["ours", "theirs"]
            assert led == []
        assert led == ["theirs"]


@each_session_kind
async def test_a_semaphore_of_both(tmp_path: Path, via: str) -> None:
    async with both(tmp_path, via) as (store, session, zk):
        ours = Semaphore(session, "/s", "ours", leases=2)
        theirs, other = (zk.Semaphore("/s", name, max_leases=2) for name in ("theirs", "other"))
        async with ours:
            assert await in_thread(theirs.acquire)
            assert sorted(await ours.holders()) == sorted(await in_thread(theirs.lease_holders)) == ["ours", "theirs"]
            assert not await in_thread(partial(other.acquire, blocking=False))
            with pytest.raises(Taken):
                async with ours.hold(wait=False):
                    raise AssertionError("unreachable")
            # One of theirs waits for a lease, one of ours in the line behind it.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(in_thread, other.acquire)
                await until(lambda: len(store.names("/s-__lock__")) == 1)
                nursery.start_soon(taken_and_given_back, ours)
                await until(lambda: len(store.names("/s-__lock__")) == 2)
                await in_thread(theirs.release)
                await until(lambda: len(store.names("/s-__lock__")) == 1)
                await in_thread(other.release)
        with pytest.raises(ValueError, match="Inconsistent max leases"):
            await in_thread(zk.Semaphore("/s", max_leases=3).acquire)
        assert await in_thread(zk.Semaphore("/t", max_leases=3).acquire)
        with pytest.raises(ConfigError, match="has 3 leases, not 2"):
            async with Semaphore(session, "/t", leases=2):
                raise AssertionError("unreachable")


async def taken_and_given_back(what: Holdable) -> None:
    async with what:
        pass


async def test_a_lock_that_they_wait_for_in_vain(tmp_path: Path) -> None:
    """kazoo's clients give up, and leave no node."""
    async with both(tmp_path) as (store, session, zk), Lock(session, "/l"):
        with pytest.raises(LockTimeout):
            await in_thread(partial(zk.Lock("/l").acquire, timeout=0.1))
        assert len(store.names("/l")) == 1


# -- together ------------------------------------------------------------------------------------------


@each_session_kind
async def test_a_barrier_of_both(tmp_path: Path, via: str) -> None:
    async with both(tmp_path, via) as (_, session, zk):
        ours, theirs = Barrier(session, "/b"), zk.Barrier("/b")
        await ours.create()
        assert not await in_thread(theirs.wait, 0.01)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_thread, theirs.wait)
            assert await ours.remove()
        await in_thread(theirs.create)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.wait)
            await trio.sleep(0.02)
            assert nursery.child_tasks
            assert await in_thread(theirs.remove)
        assert not await ours.remove()
        assert not await in_thread(theirs.remove)


@each_session_kind
@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_a_double_barrier_of_both(tmp_path: Path, via: str, first: str) -> None:
    """In every round all begin and end together."""
    async with both(tmp_path, via) as (store, session, zk):
        began, ended = [], []
        theirs = [zk.DoubleBarrier("/d", 3, f"{number}") for number in range(2)]

        async def our_part() -> None:
            async with DoubleBarrier(session, "/d", 3, "ours"):
                began.append("ours")
                await until(lambda: len(began) == 3)
            ended.append("ours")

        async def their_part(barrier: Any) -> None:
            await in_thread(barrier.enter)
            began.append("theirs")
            await until(lambda: len(began) == 3)
            await in_thread(barrier.leave)
            ended.append("theirs")

        for _ in range(3):
            began.clear()
            async with trio.open_nursery() as nursery:
                parts: list[Callable[[], Awaitable[None]]] = [
                    our_part,
                    partial(their_part, theirs[0]),
                    partial(their_part, theirs[1]),
                ]
                for number, part in enumerate(parts if first == "ours" else parts[::-1]):
                    assert began == []
                    nursery.start_soon(part)
                    if number < 2:
                        await until(lambda number=number: len(store.names("/d")) == number + 1)  # type: ignore[misc]
            assert len(began) == 3
            assert store.names("/d") == []
        assert len(ended) == 9


@each_session_kind
@pytest.mark.parametrize(("ours", "theirs"), [(Party, "Party"), (ShallowParty, "ShallowParty")])
async def test_a_party_of_both(tmp_path: Path, via: str, ours: type[Party | ShallowParty], theirs: str) -> None:
    async with both(tmp_path, via) as (_, session, zk):
        mine, yours = ours(session, "/p", "me"), getattr(zk, theirs)("/p", "you-too")
        await in_thread(yours.join)
        assert await mine.members() == ["you-too"]
        async with mine:
            assert sorted(await mine.members()) == sorted(await in_thread(list, yours)) == ["me", "you-too"]
            assert await in_thread(len, yours) == 2
        assert await in_thread(list, yours) == ["you-too"]
        await in_thread(yours.leave)
        assert await mine.members() == []


# -- what passes from one to another ---------------------------------------------------------------------


@each_session_kind
async def test_a_queue_of_both(tmp_path: Path, via: str) -> None:
    async with both(tmp_path, via) as (_, session, zk):
        ours, theirs = Queue(session, "/q"), zk.Queue("/q")
        await ours.put(b"second")
        await in_thread(theirs.put, b"third")
        await in_thread(theirs.put, b"first", 7)
        await ours.put(b"last", 999)
        assert await ours.size() == await in_thread(len, theirs) == 4
        assert await in_thread(theirs.get) == b"first"
        assert await ours.get() == b"second"
        assert await ours.get() == b"third"
        assert await in_thread(zk.Queue("/q").get) == b"last"
        with pytest.raises(trio.WouldBlock):
            await ours.get_nowait()
        assert await in_thread(zk.Queue("/q").get) is None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_thread, theirs.put, b"at last")
            assert await ours.get() == b"at last"


@each_session_kind
async def test_a_locking_queue_of_both(tmp_path: Path, via: str) -> None:
    async with both(tmp_path, via) as (store, session, zk):
        ours, theirs = LockingQueue(session, "/q"), zk.LockingQueue("/q")
        await in_thread(theirs.put_all, [b"one", b"two"])
        await ours.put_all([b"three", b"four"], 200)
        assert await in_thread(theirs.get, PATIENCE_S) == b"one"
        async with ours.take() as entry:
            assert entry.data == b"two"
            assert await in_thread(zk.LockingQueue("/q").get, PATIENCE_S) == b"three"
        assert await in_thread(theirs.consume)
        async with ours.take() as entry:
            assert entry.data == b"four"
            entry.put_back()
        assert await ours.size() == await in_thread(len, theirs) == 2
        assert await in_thread(theirs.get, PATIENCE_S) == b"four"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(taken_once, ours, b"four")
            await trio.sleep(0.02)
            assert nursery.child_tasks
            assert await in_thread(theirs.release)
        assert store.names("/q/entries") == store.names("/q/taken")
        assert len(store.names("/q/entries")) == 1


async def taken_once(queue: LockingQueue, data: bytes) -> None:
    async with queue.take() as entry:
        assert entry.data == data


@each_session_kind
async def test_a_counter_of_both(tmp_path: Path, via: str) -> None:
    async with both(tmp_path, via) as (_, session, zk):
        whole, theirs = Counter(session, "/whole"), zk.Counter("/whole")
        assert await whole.add(2) == 2
        assert await in_thread(lambda: (theirs + 3).value) == 5
        assert await whole.add(-10) == -5

        async def ours_counts() -> None:
            for _ in range(30):
                await whole.add(1)

        def they_count() -> None:
            for _ in range(30):
                theirs.__add__(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours_counts)
            nursery.start_soon(in_thread, they_count)
        assert await whole.get() == await in_thread(lambda: theirs.value) == 55
        floats, their_floats = Counter(session, "/floats", 1.5), zk.Counter("/floats", default=1.5)
        assert await floats.add(0.1) == 1.6
        assert await in_thread(lambda: (their_floats - 1e100).value) == await floats.get() == -1e100
        four_bytes, theirs_too = Counter(session, "/c", curator=True), zk.Counter("/c", support_curator=True)
        assert await four_bytes.add(-3) == -3
        assert await in_thread(lambda: (theirs_too + 10).value) == await four_bytes.get() == 7


@pytest.mark.parametrize("kind", ["Lock", "Semaphore"])
async def test_both_contend_and_ours_are_cancelled(tmp_path: Path, kind: str) -> None:
    """Their threads and our tasks, for one and the same thing; a critical section that is no longer than its node."""
    inside, most, turns, chance = 0, 0, 0, Random(1)

    def enter(by: int) -> None:
        nonlocal inside, most, turns
        inside += by
        most = max(most, inside)
        turns += by < 0

    async def ours(session: Session) -> None:
        while turns < 60:
            with trio.move_on_after(0.01 if chance.random() < 0.5 else 10):
                async with Lock(session, "/x") if kind == "Lock" else Semaphore(session, "/x"):
                    enter(1)
                    try:
                        await trio.sleep(chance.random() * 0.005)
                    finally:
                        enter(-1)

    def theirs(zk: Any) -> None:
        while turns < 60:
            with getattr(zk, kind)("/x"):
                enter(1)
                enter(-1)

    async with both(tmp_path) as (store, session, zk):
        async with store.session() as other, trio.open_nursery() as nursery:
            for each in (session, other, session):
                nursery.start_soon(ours, each)
            for _ in range(2):
                nursery.start_soon(in_thread, theirs, zk)
        assert most == 1
        assert store.names("/x") == store.names("/x-__lock__") == []
