"""All of kazoo's recipes, before and after the restart of one server, or the stop of a leader of three."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stores import stores
from tests.integration.test_kazoo import PATIENCE_S, client, in_thread

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.exceptions import LockTimeout, NoNodeError
from kazoo.recipe.cache import TreeCache
from kazoo.recipe.partitioner import SetPartitioner

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning"),  # kazoo, from Python 3.12 on
]


def eventually(look: Callable[[], bool]) -> bool:
    patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < patience:
        if look():
            return True
        time.sleep(0.02)
    return False


def locks(one: Any, two: Any, at: str) -> None:
    reading, too = one.ReadLock(f"{at}/rw", "1"), two.ReadLock(f"{at}/rw", "2")
    writing = two.WriteLock(f"{at}/rw", "2")
    assert reading.acquire(timeout=PATIENCE_S)
    assert too.acquire(timeout=PATIENCE_S)
    with pytest.raises(LockTimeout):
        writing.acquire(timeout=0.2)
    reading.release()
    too.release()
    assert writing.acquire(timeout=PATIENCE_S)
    one.sync("/")
    assert one.WriteLock(f"{at}/rw").contenders() == ["2"]
    writing.release()

    first, second = one.Semaphore(f"{at}/semaphore", "1", 1), two.Semaphore(f"{at}/semaphore", "2", 1)
    assert first.acquire(timeout=PATIENCE_S)
    assert not second.acquire(blocking=False)
    assert second.lease_holders() == ["1"]
    first.release()
    assert second.acquire(timeout=PATIENCE_S)
    second.release()

    lease = one.NonBlockingLease(f"{at}/lease", dt.timedelta(seconds=60), "1")
    assert lease
    two.sync("/")
    assert not two.NonBlockingLease(f"{at}/lease", dt.timedelta(seconds=60), "2")
    assert two.MultiNonBlockingLease(2, f"{at}/leases", dt.timedelta(seconds=60), "2")


def barriers(one: Any, two: Any, at: str) -> None:
    barrier = one.Barrier(f"{at}/barrier")
    barrier.create()
    two.sync("/")
    assert not two.Barrier(f"{at}/barrier").wait(0.2)
    assert barrier.remove()
    assert two.Barrier(f"{at}/barrier").wait(PATIENCE_S)
    through = threading.Semaphore(0)

    def both(zk: Any) -> None:
        double = zk.DoubleBarrier(f"{at}/double", 2)
        double.enter()
        double.leave()
        through.release()

    threads = [threading.Thread(target=both, args=(zk,)) for zk in (one, two)]
    for thread in threads:
        thread.start()
    assert all(through.acquire(timeout=PATIENCE_S) for _ in threads)
    for thread in threads:
        thread.join()


def queues(one: Any, two: Any, at: str) -> None:
    queue = one.LockingQueue(f"{at}/locking")
    queue.put(b"low", priority=200)
    queue.put_all([b"a", b"b"])
    two.sync("/")  # it takes the first of those that it sees
    taker = two.LockingQueue(f"{at}/locking")
    taken = []
    for _ in range(3):
        taken.append(taker.get(PATIENCE_S))
        assert taker.holds_lock()
        assert taker.consume()
    assert taken == [b"a", b"b", b"low"]
    plain = one.Queue(f"{at}/queue")
    plain.put(b"x", priority=50)
    plain.put(b"first", priority=1)
    other = two.Queue(f"{at}/queue")
    two.sync("/")
    assert [other.get(), other.get(), other.get()] == [b"first", b"x", None]


def groups(one: Any, two: Any, at: str) -> None:
    for kind in ("Party", "ShallowParty"):
        mine, yours = getattr(one, kind)(f"{at}/{kind}", "1"), getattr(two, kind)(f"{at}/{kind}", "2")
        mine.join()
        yours.join()
        assert eventually(lambda yours=yours: sorted(yours) == ["1", "2"])  # type: ignore[misc]
        mine.leave()
        assert eventually(lambda yours=yours: list(yours) == ["2"])  # type: ignore[misc]
        yours.leave()
    counted = one.Counter(f"{at}/count", support_curator=True)
    counted += 2
    counted -= 1
    two.sync("/")
    assert two.Counter(f"{at}/count", support_curator=True).value == 1
    led: list[str] = []
    elections = [zk.Election(f"{at}/election", name) for zk, name in ((one, "1"), (two, "2"))]
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(each.run, led.append, name) for each, name in zip(elections, "12", strict=True)]
        for run in runs:
            run.result(PATIENCE_S)
    assert sorted(led) == ["1", "2"]

    def work(zk: Any) -> set[int]:
        partitioner = SetPartitioner(zk, f"{at}/partition", tuple(range(6)), identifier=str(id(zk)), time_boundary=0.5)
        patience = time.monotonic() + PATIENCE_S
        while not (partitioner.acquired and mine_is_half(partitioner)):
            assert time.monotonic() < patience, partitioner.state
            if partitioner.release:
                partitioner.release_set()
            partitioner.wait_for_acquire(0.2)
        mine = set(partitioner)
        arrived.wait(PATIENCE_S)
        partitioner.finish()
        return mine

    def mine_is_half(partitioner: Any) -> bool:
        return len(list(partitioner)) == 3

    arrived = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        parts = [pool.submit(work, zk) for zk in (one, two)]
        assert set.union(*(part.result(PATIENCE_S) for part in parts)) == set(range(6))


def watchers(one: Any, two: Any, at: str) -> None:
    two.ensure_path(f"{at}/watched")
    one.sync("/")
    seen: list[bytes | None] = []
    children: list[list[str]] = []
    one.DataWatch(f"{at}/watched/d", lambda data, stat: seen.append(data))
    one.ChildrenWatch(f"{at}/watched", lambda names: children.append(sorted(names)))
    two.create(f"{at}/watched/d", b"1")
    assert eventually(lambda: b"1" in seen)
    two.set(f"{at}/watched/d", b"2")
    assert eventually(lambda: b"2" in seen)
    assert eventually(lambda: ["d"] in children)
    cache = TreeCache(one, f"{at}/watched")
    cache.start()
    two.create(f"{at}/watched/d/e", b"3")
    assert eventually(lambda: (found := cache.get_data(f"{at}/watched/d/e")) is not None and found.data == b"3")
    two.delete(f"{at}/watched/d/e")
    assert eventually(lambda: cache.get_data(f"{at}/watched/d/e") is None)
    cache.close()


def interface(one: Any, two: Any, at: str) -> None:
    """Calls that `test_kazoo` does not cover."""
    assert one.create_async(f"{at}/i/j", b"x", makepath=True).get(timeout=PATIENCE_S) == f"{at}/i/j"
    one.ensure_path(f"{at}/i/j")
    assert one.get_async(f"{at}/i/j").get(timeout=PATIENCE_S)[0] == b"x"
    assert one.set_async(f"{at}/i/j", b"y").get(timeout=PATIENCE_S).version == 1
    assert one.exists_async(f"{at}/i/k").get(timeout=PATIENCE_S) is None
    assert one.get_children_async(f"{at}/i", include_data=True).get(timeout=PATIENCE_S)[1].numChildren == 1
    acls, stat = one.get_acls_async(f"{at}/i/j").get(timeout=PATIENCE_S)
    assert one.set_acls_async(f"{at}/i/j", acls, stat.aversion).get(timeout=PATIENCE_S).aversion == 1
    assert one.sync_async(f"{at}/i").get(timeout=PATIENCE_S) == f"{at}/i"
    assert one.delete_async(f"{at}/i/j").get(timeout=PATIENCE_S) is True
    with pytest.raises(NoNodeError):
        one.delete(f"{at}/i/j")
    assert one.retry(one.get_children, f"{at}/i") == []


RECIPES = (locks, barriers, queues, groups, watchers, interface)


@pytest.mark.parametrize("count", [1, 3])
async def test_all_recipes_before_and_after_the_leader_goes(count: int, tmp_path: Path) -> None:
    async with stores(tmp_path, count) as running:
        leader = await running.leader()

        def tour(at: str) -> None:
            with client(running.hosts(*running.servers)) as one, client(running.hosts(*running.servers)) as two:
                for recipe in RECIPES:
                    recipe(one, two, at)

        await in_thread(tour, "/before")
        await running.stop(leader)
        if count == 1:
            await running.start(leader)
        await in_thread(tour, "/after")
