from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio

from zab.core.errors import Stopped, StorageError
from zab.core.messages import SnapHeld
from zab.core.node import Node
from zab.core.ready import FoundSnapshot
from zab.core.zxid import Epoch, ServerId, Zxid, make
from zab.host.logs import Log
from zab.net.wakeup import Wakeup
from zab.runtime.environment import Environment
from zab.runtime.inbox import Inbox
from zab.runtime.snapshot_finder import SnapshotFinder
from zab.runtime.snapshot_taker import SnapshotTaker
from zab.runtime.waiter import Waiter
from zab.runtime.writer import Writer
from zab.service.limits import Limits
from zab.storage.storage import Storage


class FakeWriter:
    async def call(self, job: Callable[[], Any]) -> Any:
        await trio.lowlevel.checkpoint()
        return job()


class FakeStorage:
    """A fake storage that is also its own snapshot writer."""

    def __init__(self) -> None:
        self.did: list[object] = []
        self.fail = False
        self.newest_snapshot: Zxid | None = None
        self.newest_snapshot_bytes = 0
        self.found: FoundSnapshot | StorageError | None = None
        self.last = make(1, 1_000)

    def snapshot_writer(self, zxid: Zxid, digest: int) -> FakeStorage:
        self.did.append(("begin", zxid, digest))
        return self

    def write(self, chunk: bytes) -> None:
        if self.fail:
            raise StorageError("no space left")
        self.did.append(chunk)

    def finish(self) -> None:
        self.did.append("finish")

    def abort(self) -> None:
        self.did.append("abort")

    def purge(self, keep: int, spare: Zxid | None) -> Zxid:
        self.did.append(("purge", keep) if spare is None else ("purge", keep, spare))
        return make(1, 3)

    def find_snapshot(self, held: SnapHeld) -> FoundSnapshot | None:
        self.did.append(("find", held.zxid))
        if isinstance(self.found, StorageError):
            raise self.found
        return self.found


def taker(storage: FakeStorage, told: list[Zxid]) -> SnapshotTaker:
    limits = Limits(snap_entries=100, snap_bytes=1000, snapshots_kept=2, resume_bytes_min=400)
    log = Log(ServerId(1), lambda: Epoch(1))
    return SnapshotTaker(
        cast(Storage, storage),
        cast(Writer, FakeWriter()),
        limits,
        log,
        lambda span: 0,
        told.append,
        Environment(wall_ms=lambda: 1_700_000_000_000),
    )


def ask(snapshots: SnapshotTaker) -> Waiter:
    waiter = Waiter()
    snapshots.schedule.ask(waiter.done)
    return waiter


def finder(storage: FakeStorage, snapshots: SnapshotTaker) -> SnapshotFinder:
    log = Log(ServerId(1), lambda: Epoch(1))
    return SnapshotFinder(cast(Node, None), Inbox(Wakeup(), 1, int), cast(Storage, storage), snapshots, log)


@asynccontextmanager
async def running(snapshots: SnapshotTaker) -> AsyncIterator[trio.Nursery]:
    """Run the task, and at the end wait for the snapshot that is being written."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(snapshots.run)
        yield nursery
        while snapshots._job:
            await trio.sleep(0.001)
        nursery.cancel_scope.cancel()


async def test_finished_snapshot_purges_superfluous_files() -> None:
    storage, told = FakeStorage(), []  # type: ignore[var-annotated]
    snapshots = taker(storage, told)
    async with running(snapshots):
        snapshots.start(make(1, 9), 77, lambda: [b"one", b"two"])
    assert storage.did == [("begin", make(1, 9), 77), b"one", b"two", "finish", ("purge", 2)]
    assert told == [make(1, 3)]
    assert snapshots.status.taken == 1


async def test_never_two_at_once() -> None:
    snapshots = taker(FakeStorage(), [])
    hold = trio.Event()

    def chunks() -> Iterator[bytes]:
        trio.from_thread.run(hold.wait)
        yield b""

    async with running(snapshots):
        snapshots.start(make(1, 9), 0, chunks)
        snapshots.schedule.count(1000, 0)
        assert not snapshots.schedule.due
        hold.set()
    assert snapshots.schedule.due


async def test_requested_snapshot_begins_after_the_request_and_returns_when_durable() -> None:
    storage = FakeStorage()
    snapshots = taker(storage, [])
    hold = trio.Event()

    def chunks() -> Iterator[bytes]:
        trio.from_thread.run(hold.wait)
        yield b""

    async with running(snapshots):
        snapshots.start(make(1, 8), 0, chunks)
        asked = ask(snapshots)
        due = [snapshots.schedule.due]
        hold.set()
    due.append(snapshots.schedule.due)
    async with running(snapshots):
        snapshots.start(make(1, 9), 0, lambda: [b""])
        due.append(snapshots.schedule.due)
        assert await asked.wait() is snapshots.status
        assert storage.did[-1] == ("purge", 2)
    assert due == [False, True, False]
    assert (snapshots.status.zxid, snapshots.status.taken) == (make(1, 9), 2)


async def test_waiters_for_snapshots_fail_when_none_is_taken() -> None:
    snapshots = taker(FakeStorage(), [])

    def chunks() -> Iterator[bytes]:
        yield b""
        trio.from_thread.run(trio.sleep_forever)

    first = ask(snapshots)
    async with running(snapshots) as nursery:
        snapshots.start(make(1, 8), 0, chunks)
        second = ask(snapshots)
        nursery.cancel_scope.cancel()
    stopped = Stopped("over")
    snapshots.schedule.stop(stopped)
    for waiter in (first, second):
        with pytest.raises(Stopped) as caught, trio.fail_after(120):
            await waiter.wait()
        assert caught.value is stopped


async def test_one_that_fails_is_given_up_and_stops_the_member() -> None:
    storage, told = FakeStorage(), []  # type: ignore[var-annotated]
    snapshots = taker(storage, told)
    storage.fail = True

    async def run() -> None:
        async with running(snapshots):
            snapshots.start(make(1, 9), 0, lambda: [b"one"])

    with pytest.RaisesGroup(StorageError):
        await run()
    assert storage.did == [("begin", make(1, 9), 0), "abort"]
    assert told == []


# -- for a learner -------------------------------------------------------------------------------------------

HELD = SnapHeld(make(1, 9), 500, b"sum of 16 bytes.")
FOUND = FoundSnapshot(77, 900)


async def test_one_for_a_learner_is_not_counted_and_does_not_delay_the_next() -> None:
    storage = FakeStorage()
    snapshots = taker(storage, [])
    snapshots.schedule.count(50, 500)
    async with running(snapshots):
        snapshots.start_spare(make(1, 9), 77, lambda: [b"one"])
        assert not snapshots.schedule.due
    assert storage.did == [("begin", make(1, 9), 77), b"one", "finish", ("purge", 2, make(1, 9))]
    assert snapshots.schedule.due


async def test_one_for_a_learner_that_fails_does_not_stop_the_member() -> None:
    storage = FakeStorage()
    storage.fail = True
    snapshots = taker(storage, [])
    snapshots.schedule.count(1, 400)
    async with running(snapshots):
        snapshots.start_spare(make(1, 9), 77, lambda: [b"one"])
    assert storage.did == [("begin", make(1, 9), 77), "abort"]
    async with running(snapshots):
        storage.fail = False
        snapshots.start(make(1, 10), 78, lambda: [b"two"])
    assert snapshots.status.taken == 1


async def test_looking_for_the_one_that_is_being_written_waits_for_it() -> None:
    storage = FakeStorage()
    storage.found = FOUND
    snapshots = taker(storage, [])
    found: list[FoundSnapshot | None] = []

    async def find() -> None:
        found.append(await finder(storage, snapshots).find(HELD))

    async with running(snapshots), trio.open_nursery() as nursery:
        snapshots.start(make(1, 9), 77, lambda: [b"one"])
        nursery.start_soon(find)
    assert found == [FOUND]
    assert storage.did[-1] == ("find", make(1, 9))
    assert storage.did.index(("purge", 2)) < storage.did.index(("find", make(1, 9)))


async def test_looking_for_one_that_cannot_be_read_finds_none() -> None:
    storage = FakeStorage()
    storage.found = StorageError("cannot open it")
    assert await finder(storage, taker(storage, [])).find(HELD) is None
