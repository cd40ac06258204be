from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import trio

from zab.core.errors import StorageError
from zab.core.zxid import Epoch, ServerId, Zxid, make
from zab.runtime.errors import Stopped
from zab.runtime.host import Host
from zab.runtime.limits import Limits
from zab.runtime.logs import Log
from zab.runtime.snapshots import Snapshots
from zab.runtime.writer import Writer
from zab.storage.storage import Storage


class FakeWriter:
    async def call(self, job: Callable[[], Any]) -> Any:
        await trio.lowlevel.checkpoint()
        return job()


class FakeStorage:
    """Also its own snapshot writer."""

    def __init__(self) -> None:
        self.did: list[object] = []
        self.fail = False
        self.newest_snapshot: Zxid | None = None
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

    def purge(self, keep: int) -> Zxid:
        self.did.append(("purge", keep))
        return make(1, 3)


def policy(storage: FakeStorage, told: list[Zxid], chance: Callable[[int], int] = lambda span: 0) -> Snapshots:
    limits = Limits(snap_entries=100, snap_bytes=1000, snapshots_kept=2)
    log = Log(ServerId(1), lambda: Epoch(1))
    return Snapshots(
        cast(Storage, storage),
        cast(Writer, FakeWriter()),
        limits,
        log,
        chance,
        told.append,
        Host(wall_ms=lambda: 1_700_000_000_000),
    )


def test_it_is_due_after_so_many_entries_or_so_many_bytes() -> None:
    snapshots = policy(FakeStorage(), [])
    seen = []
    for entries, size in ((49, 10), (1, 10)):
        snapshots.count(entries, size)
        seen.append(snapshots.due)
    snapshots.restored()
    seen.append(snapshots.due)
    snapshots.count(1, 500)
    seen.append(snapshots.due)
    assert seen == [False, True, False, True]


def test_chance_puts_it_off_by_up_to_half() -> None:
    snapshots = policy(FakeStorage(), [], chance=lambda span: span)
    snapshots.count(99, 0)
    before = snapshots.due
    snapshots.count(1, 0)
    assert (before, snapshots.due) == (False, True)


async def test_it_is_written_finished_and_what_it_makes_dispensable_purged() -> None:
    storage, told = FakeStorage(), []  # type: ignore[var-annotated]
    snapshots = policy(storage, told)
    async with trio.open_nursery() as nursery:
        snapshots.start(nursery, make(1, 9), 77, iter([b"one", b"two"]))
    assert storage.did == [("begin", make(1, 9), 77), b"one", b"two", "finish", ("purge", 2)]
    assert told == [make(1, 3)]
    assert snapshots.status.taken == 1


async def test_never_two_at_once() -> None:
    snapshots = policy(FakeStorage(), [])
    hold = trio.Event()

    def chunks() -> Iterator[bytes]:
        trio.from_thread.run(hold.wait)
        yield b""

    async with trio.open_nursery() as nursery:
        snapshots.start(nursery, make(1, 9), 0, chunks())
        snapshots.count(1000, 0)
        assert not snapshots.due
        hold.set()
    assert snapshots.due


async def test_one_that_is_asked_for_begins_after_the_asking_and_is_told_of_when_it_is_durable() -> None:
    storage = FakeStorage()
    snapshots = policy(storage, [])
    hold = trio.Event()

    def chunks() -> Iterator[bytes]:
        trio.from_thread.run(hold.wait)
        yield b""

    async with trio.open_nursery() as nursery:
        snapshots.start(nursery, make(1, 8), 0, chunks())
        asked = snapshots.ask()
        due = [snapshots.due]
        hold.set()
    due.append(snapshots.due)
    async with trio.open_nursery() as nursery:
        snapshots.start(nursery, make(1, 9), 0, [b""])
        due.append(snapshots.due)
        assert await asked.wait() is snapshots.status
        assert storage.did[-1] == ("purge", 2)
    assert due == [False, True, False]
    assert (snapshots.status.zxid, snapshots.status.taken) == (make(1, 9), 2)


async def test_who_waits_for_the_one_under_way_or_for_the_next_hears_that_there_is_none() -> None:
    snapshots = policy(FakeStorage(), [])

    def chunks() -> Iterator[bytes]:
        yield b""
        trio.from_thread.run(trio.sleep_forever)

    first = snapshots.ask()
    async with trio.open_nursery() as nursery:
        snapshots.start(nursery, make(1, 8), 0, chunks())
        second = snapshots.ask()
        nursery.cancel_scope.cancel()
    stopped = Stopped("over")
    snapshots.stop(stopped)
    for waiter in (first, second):
        with pytest.raises(Stopped) as caught, trio.fail_after(120):
            await waiter.wait()
        assert caught.value is stopped


async def test_one_that_fails_is_given_up_and_stops_the_member() -> None:
    storage, told = FakeStorage(), []  # type: ignore[var-annotated]
    snapshots = policy(storage, told)
    storage.fail = True

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            snapshots.start(nursery, make(1, 9), 0, [b"one"])

    with pytest.RaisesGroup(StorageError):
        await run()
    assert storage.did == [("begin", make(1, 9), 0), "abort"]
    assert told == []
