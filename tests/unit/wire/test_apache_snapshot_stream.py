from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import zookeeper_values as values
from zab.core.errors import WireError
from zab.core.zxid import Zxid
from zab.store import transactions
from zab.store.acl import OPEN, READ_ONLY, Acl
from zab.store.operations import Op
from zab.store.store import Store
from zab.store.store_snapshot import CHUNK_BYTES
from zab.wire.apache.snapshot_stream import RECORD_BYTES_MAX, SIGNATURE, SnapshotStream, encode_state
from zab.wire.disk_snapshot import OPEN_KEY, FileNode, state_parts
from zab.wire.disk_store import NOBODY
from zab.wire.jute import text

ZXID = Zxid(0x4_0000_0007)
SESSION = 0x100000000000007
STAT = (2, 3, 1000, 1001, 1, 0, 1, 0, 2)
ROOT = FileNode("", b"", OPEN_KEY, (0,) * 9)
ACLS: dict[int, Acl] = {1: READ_ONLY, 2: ((31, "digest", "u:x"), (1, "ip", "10.0.0.0/8"))}


def state(*nodes: FileNode, sessions: dict[int, int] | None = None, acls: dict[int, Acl] = ACLS) -> bytes:
    return b"".join(state_parts(sessions or {}, acls, [ROOT, *nodes])) + SIGNATURE


def received(data: bytes, size: int = 1 << 20) -> tuple[Store, bytes]:
    stream, chunks = SnapshotStream(ZXID), list[bytes]()
    for at in range(0, len(data), size):
        chunks += stream.feed(data[at : at + size])
        if stream.rest is not None:
            break
    assert stream.rest is not None
    store = Store()
    store.restore(chunks)
    store.tree.check()
    return store, stream.rest


def filled() -> Store:
    store = Store()
    store.apply(1, transactions.create_session(SESSION, 0, 2, 4000, 1))
    for number in range(700):
        acl = (OPEN, READ_ONLY)[number % 2]
        data = (None, b"", b"x" * number)[number % 3]
        store.apply(2 + number, transactions.create(1, SESSION, 1, 5, f"/n{number}", data, acl, 0, number + 1))
    store.apply(1000, transactions.create(Op.CREATE, SESSION, 1, 5, "/n1/e", b"e", OPEN, SESSION, 1))
    return store


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_state_of_a_store_survives(size: int) -> None:
    store = filled()
    chunks = list(store.snapshot())
    again, rest = received(b"".join(encode_state(lambda: chunks)) + SIGNATURE + b"more"[: size - 1], size)
    assert again.tree.nodes == store.tree.nodes
    assert again.digest.value == store.digest.value
    assert again.sessions.table == {SESSION: (4000, 0)}
    assert again.zxid == ZXID
    assert rest in (b"", b"more")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_packets_after_the_signature_are_kept(size: int) -> None:
    data = state(FileNode("/a", None, 2, STAT))
    stream = SnapshotStream(ZXID)
    for at in range(0, len(data) - 1, size):
        stream.feed(data[at : min(at + size, len(data) - 1)])
        assert stream.rest is None
    stream.feed(data[-1:] + b"packets")
    assert stream.rest == b"packets"


def test_a_node_with_an_acl_that_was_added_later_is_closed_until_then() -> None:
    store, _ = received(state(FileNode("/a", b"", 9, STAT), FileNode("/b", b"", 2, STAT)))
    assert store.tree.nodes["/a"][1] == NOBODY
    assert store.tree.nodes["/b"][1] == ACLS[2]


def test_nodes_that_always_exist_are_added() -> None:
    store, _ = received(state())
    assert set(store.tree.nodes) == {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}


@pytest.mark.parametrize("less", range(-3, 30))
def test_a_chunk_may_be_nearly_full_when_the_nodes_end(less: int) -> None:
    data = bytes(CHUNK_BYTES - less)
    store, _ = received(state(FileNode("/a", data, OPEN_KEY, STAT)))
    assert store.tree.nodes["/a"][0] == data


@given(st.lists(values.NODES, max_size=5), st.integers(1, 60))
@settings(max_examples=100)
def test_any_state_is_read_or_refused(nodes: list[FileNode], size: int) -> None:
    stream, data = SnapshotStream(ZXID), state(*nodes)
    try:
        for at in range(0, len(data), size):
            stream.feed(data[at : at + size])
    except WireError:
        return
    assert stream.rest == b""


INT_MAX = bytes.fromhex("7fffffff")
NOTHING = bytes(8)  # no sessions, no ACLs


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes.fromhex("ffffffff"), "-1 sessions"),
        (INT_MAX, "2147483647 sessions"),
        (bytes(4) + bytes.fromhex("ffffffff"), "-1 ACLs"),
        (bytes(4) + INT_MAX, "2147483647 ACLs"),
        (bytes.fromhex("00000000 00000001 0000000000000001") + INT_MAX, "entries of an ACL"),
        (NOTHING + bytes.fromhex("fffffffe"), "-2 bytes"),
        (NOTHING + INT_MAX, "2147483647 bytes"),
        (NOTHING + bytes(4) + INT_MAX, "2147483647 bytes"),
        (NOTHING + text("/") + SIGNATURE, "no nodes"),
        (state()[: -len(SIGNATURE)] + b"BenWasNotHere!", "not with its signature"),
        (state(FileNode("/a", b"", OPEN_KEY, STAT)).replace(b"\0\0\0\2/a", bytes(4)), "wrong place"),
        (state(FileNode("a", b"", OPEN_KEY, STAT)), "invalid path"),
        (state(FileNode("/a//b", b"", OPEN_KEY, STAT)), "invalid path"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_what_is_no_state_is_refused(data: bytes, why: str, size: int) -> None:
    stream = SnapshotStream(ZXID)
    with pytest.raises(WireError, match=why):
        for at in range(0, len(data), size):
            stream.feed(data[at : at + size])


def test_memory_is_bounded_by_one_node() -> None:
    head = state(acls={})[: -len(SIGNATURE) - 5]
    stream = SnapshotStream(ZXID, 1 << 20)
    stream.feed(head)
    node = b"".join(state_parts({}, {}, [ROOT, FileNode("/a", bytes(1000), OPEN_KEY, STAT)]))[len(head) : -5]

    def many(count: int) -> Iterable[bytes]:
        return (node.replace(b"/a", b"/%c" % (97 + number % 26)) for number in range(count))

    tracemalloc.start()
    try:
        for piece in many(20_000):
            stream.feed(piece)
            assert stream.held_bytes == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_an_announced_node_takes_no_memory() -> None:
    stream = SnapshotStream(ZXID)
    tracemalloc.start()
    try:
        stream.feed(NOTHING + (RECORD_BYTES_MAX - 100).to_bytes(4, "big"))
        assert stream.rest is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
