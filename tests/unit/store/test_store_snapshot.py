"""Exact at one zxid, whatever happens while it is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgpack
import pytest

from tests.unit.store.support import ALICE, BOB, Leader, dump, leader
from zab.core.errors import DamagedError
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.store.store_snapshot import CHUNK_BYTES, CHUNK_NODES

HOSTS = tuple(("ip", f"10.0.0.{number}") for number in range(3))


def lively() -> Leader:
    it = leader(StoreSettings(extended_types=True))
    for number in range(CHUNK_NODES * 2):
        it.create(f"/n{number}", bytes(number % 7) if number % 5 else None, acl=((31, "ip", f"10.0.0.{number % 3}"),)
                  if number % 9 == 0 else OPEN)  # fmt: skip
        if number % 4 == 0:
            it.create(f"/n{number}/child", b"", flags=0 if number % 8 else 1, identities=HOSTS)
        it.now_ms += 1
    it.ask(Op.CREATE_CONTAINER, "/container", b"", OPEN, 4)
    it.ask(Op.CREATE_TTL, "/ttl", b"", OPEN, 5, 60_000)
    for number in range(0, 100, 3):
        it.ask(Op.SET_DATA, f"/n{number}", b"!", -1, identities=HOSTS)
    it.delete("/n8/child", identities=HOSTS)
    return it


def restored(chunks: Any) -> Store:
    store = Store()
    store.restore(chunks)
    return store


def test_there_and_back() -> None:
    it = lively()
    store = restored(it.store.snapshot())
    assert dump(store) == dump(it.store)
    assert [node[1] is OPEN for node in store.tree.nodes.values()] == [
        node[1] is OPEN for node in it.store.tree.nodes.values()
    ]
    assert list(restored(store.snapshot()).snapshot()) == list(it.store.snapshot()), "and the very same bytes again"


def test_of_nothing() -> None:
    assert dump(restored(Store().snapshot())) == dump(Store())


def test_snapshot_excludes_later_changes() -> None:
    it = lively()
    expected = deepcopy(dump(it.store))
    chunks = iter(it.store.snapshot())
    kept = [next(chunks)]
    steps = iter(range(10_000))

    def everything_changes() -> None:
        step = next(steps)
        it.create(f"/late{step}")
        it.ask(Op.SET_DATA, f"/n{step}", b"late", -1, identities=HOSTS)
        it.ask(Op.SET_ACL, f"/n{step + 1}", ((31, "world", "anyone"), (1, "ip", "10.0.0.9")), -1)
        it.error(Op.DELETE, f"/n{500 + step}", -1)
        it.error(Op.CREATE, f"/n{500 + step}", b"another", OPEN, 0)
        if step == 1:
            it.ask(Op.CLOSE_SESSION)
            it.internal(Op.CREATE_SESSION, 1, session=ALICE)

    everything_changes()
    for chunk in chunks:
        kept.append(chunk)
        everything_changes()
    assert len(kept) > 3
    assert dump(restored(kept)) == expected


def test_peeking_leaves_a_snapshot_whole() -> None:
    it = lively()
    snapshot = it.store.snapshot()
    first = list(snapshot.peek())
    it.create("/later")
    assert not snapshot.done
    assert list(snapshot) == first
    assert snapshot.done


def test_in_another_thread() -> None:
    it = lively()
    expected = deepcopy(dump(it.store))
    snapshot = it.store.snapshot()
    kept: list[bytes] = []
    thread = threading.Thread(target=lambda: kept.extend(snapshot))
    thread.start()
    number = 0
    while thread.is_alive():
        it.set(f"/n{number % 900}", b"late", identities=HOSTS)
        number += 1
    thread.join()
    assert dump(restored(kept)) == expected


def test_concurrent_snapshots_and_an_abandoned_one() -> None:
    it = lively()
    first, expected = it.store.snapshot(), deepcopy(dump(it.store))
    it.set("/n1", b"between", identities=HOSTS)
    second, later = it.store.snapshot(), deepcopy(dump(it.store))
    forgotten: Iterator[bytes] | None = iter(it.store.snapshot())
    assert forgotten is not None
    next(forgotten)
    it.set("/n1", b"after", identities=HOSTS)
    assert len(it.store.tree.marks) == 4
    forgotten = None
    assert dump(restored(second)) == later
    assert dump(restored(first)) == expected
    it.store.snapshot()
    it.store.open_snapshots.sweep(it.store.tree)
    assert len(it.store.tree.marks) == 1, "what is over costs nothing"
    digest = it.store.digest.value
    assert restored(it.store.snapshot()).digest.value == digest


def test_chunks_are_small() -> None:
    it = leader()
    for number in range(40):
        it.create(f"/big{number}", bytes(CHUNK_BYTES // 8))
    assert max(map(len, it.store.snapshot())) < CHUNK_BYTES * 5 // 4
    it.create("/huge", bytes(1_000_000))
    assert max(map(len, it.store.snapshot())) < CHUNK_BYTES + 1_100_000


def test_numbers_that_are_one_stay_one() -> None:
    it = leader()
    it.create("/a")
    node = restored(it.store.snapshot()).tree.nodes["/a"]
    assert node[2] is node[3] is node[10]
    assert node[4] is node[5]


# -- damage ----------------------------------------------------------------------------------------------


def chunks_of(it: Leader) -> list[bytes]:
    return list(it.store.snapshot())


@pytest.mark.parametrize("keep", [0, 1, 2, -1])
def test_one_that_stops_short(keep: int) -> None:
    it = lively()
    store = restored(it.store.snapshot())
    before = dump(store)
    with pytest.raises(DamagedError):
        store.restore(chunks_of(it)[:keep])
    assert dump(store) == before, "all or nothing"


def test_one_with_something_behind_it_missing_or_twice() -> None:
    chunks = chunks_of(lively())
    for wrong in ([*chunks, chunks[1]], [chunks[0], *chunks[2:]], [chunks[0], chunks[1], *chunks[1:]], [b"", *chunks]):
        with pytest.raises(DamagedError):
            Store().restore(wrong)
    with pytest.raises(DamagedError, match="further chunks after its last one"):
        Store().restore([*chunks, chunks[1]])


def test_snapshot_with_tampered_nodes() -> None:
    chunks = chunks_of(lively())
    lists, nodes = msgpack.unpackb(chunks[1])
    nodes[7][1] = b"tampered"
    chunks[1] = msgpack.packb((lists, nodes))
    with pytest.raises(DamagedError, match="digest"):
        Store().restore(chunks)


def test_one_of_another_time() -> None:
    chunks = chunks_of(lively())
    first = msgpack.unpackb(chunks[0])
    with pytest.raises(DamagedError, match="version 2"):
        Store().restore([msgpack.packb((2, *first[1:])), *chunks[1:]])


def test_the_table_of_sessions_is_the_one_of_the_moment() -> None:
    """Bug 3144: it was taken later than the zxid it stood under."""
    it = leader()
    snapshot = it.store.snapshot()
    it.ask(Op.CLOSE_SESSION, session=BOB)
    it.internal(Op.ATTACH_SESSION, session=ALICE, server=9)
    assert restored(snapshot).sessions.table == {ALICE: (30_000, 1), BOB: (30_000, 2)}
