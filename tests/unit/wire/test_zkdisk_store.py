from __future__ import annotations

from collections.abc import Iterable

import pytest

from zab.core.errors import DamagedError
from zab.store import transactions
from zab.store.acl import OPEN, READ_ONLY, Acl
from zab.store.operations import Op
from zab.store.store import Store
from zab.store.znode import CONTAINER, ttl_of, ttl_owner
from zab.wire.disk_snapshot import OPEN_KEY, FileNode, SnapshotReader, node_digest, snapshot_chunks, tree_digest
from zab.wire.disk_store import NOBODY, arrival, departure, replay, store_txn
from zab.wire.disk_txn import FileTxn

NOW = 1_700_000_000_000
SESSION = 0x100000000000007
PRIVATE: Acl = ((31, "digest", "u:x"),)
STAT = (2, 3, NOW, NOW + 1, 1, 0, 1, 0, 2)
SYSTEM = [
    FileNode("", b"", OPEN_KEY, (0, 0, 0, 0, 0, 3, 0, 0, 5)),
    FileNode("/zookeeper", b"", OPEN_KEY, (0,) * 9),
    FileNode("/zookeeper/quota", b"", OPEN_KEY, (0,) * 9),
    FileNode("/zookeeper/config", b"", 1, (0,) * 9),
]
ACLS = {1: READ_ONLY, 2: PRIVATE}


def reader(nodes: Iterable[FileNode], sessions: dict[int, int] | None = None) -> SnapshotReader:
    return SnapshotReader(snapshot_chunks(sessions or {}, ACLS, nodes))


def moved_in(*nodes: FileNode) -> Store:
    store = Store()
    store.restore(arrival(reader([*SYSTEM, *nodes], {SESSION: 4000}), 5, b"secret"))
    store.tree.check()
    return store


def log(*kinds_and_fields: tuple[int, tuple[object, ...]], first: int = 6) -> list[FileTxn]:
    return [FileTxn(SESSION, 1, first + at, NOW, kind, fields) for at, (kind, fields) in enumerate(kinds_and_fields)]


def test_a_snapshot_moves_in() -> None:
    store = moved_in(FileNode("/a", b"data", 2, STAT), FileNode("/a/b", None, OPEN_KEY, (*STAT[:7], SESSION, 2)))
    assert store.zxid == 5
    assert store.sessions.table == {SESSION: (4000, 0)}
    assert store.tree.nodes["/a"] == (b"data", PRIVATE, *STAT, 1)
    assert store.tree.nodes["/a/b"][:2] == (None, OPEN)
    assert list(store.tree.ephemerals) == [SESSION]


def test_exported_store_can_be_imported() -> None:
    store = moved_in(
        FileNode("/a", b"data", 2, STAT),
        FileNode("/a/ephemeral", b"", OPEN_KEY, (*STAT[:7], SESSION, 2)),
        FileNode("/a/ttl", None, OPEN_KEY, (*STAT[:7], ttl_owner(5000), 2)),
        FileNode("/container", b"", 1, (*STAT[:7], CONTAINER, 2)),
    )
    file = SnapshotReader(departure(store))
    again = Store()
    again.restore(arrival(file, 5))
    assert again.tree.nodes == store.tree.nodes
    assert again.sessions.table == store.sessions.table
    assert again.digest.value == store.digest.value
    assert file.digest is not None
    assert (file.digest.zxid, file.digest.value, file.last_zxid) == (5, store.digest.value, 5)
    assert tree_digest(SnapshotReader(departure(store))) == store.digest.value, "two ways to compute it"


def test_a_snapshot_from_before_there_was_a_configuration() -> None:
    store = Store()
    store.restore(arrival(reader(SYSTEM[:2]), 5))
    store.tree.check()
    assert store.tree.nodes["/zookeeper/config"][1] == READ_ONLY


def test_the_log_is_replayed_behind_it() -> None:
    store = moved_in()
    came = replay(
        store,
        log(
            (Op.CREATE_SESSION, (30_000,)),
            (Op.CREATE, ("/a", b"hi", OPEN, False, 4)),
            (Op.CREATE2, ("/a/e", b"", PRIVATE, True, 1)),
            (Op.CREATE_CONTAINER, ("/c", None, OPEN, 5)),
            (Op.CREATE_TTL, ("/t", b"", OPEN, 6, 5000)),
            (Op.SET_DATA, ("/a", None, 1)),
            (Op.SET_ACL, ("/a", PRIVATE, 1)),
            (Op.ERROR, (-101,)),
            (
                Op.MULTI,
                ((Op.CREATE, ("/m", b"", OPEN, False, 7)), (Op.CHECK, ("/m", 0)), (Op.SET_DATA, ("/a", b"m", 2))),
            ),
            (Op.MULTI, ((Op.ERROR, (0,)), (Op.ERROR, (-103,)), (Op.ERROR, (-2,)))),
            (Op.DELETE, ("/m",)),
            (Op.DELETE_CONTAINER, ("/c",)),
            (Op.RECONFIG, ("/zookeeper/config", b"text", -1)),
        ),
    )
    assert (came.applied, came.skipped, store.zxid) == (13, 0, 18)
    store.tree.check()
    nodes = store.tree.nodes
    assert nodes["/a"][:2] == (b"m", PRIVATE)
    assert nodes["/a"][6] == 2
    assert ttl_of(nodes["/t"][9]) == 5000
    assert nodes["/a/e"][9] == SESSION
    assert nodes["/"][7] == 7
    assert nodes["/zookeeper/config"][0] == b"text"
    assert not {"/m", "/c"} & nodes.keys()
    replay(store, log((Op.CLOSE_SESSION, (None,)), first=19))
    assert "/a/e" not in nodes
    assert store.sessions.table == {}


def test_transactions_in_the_snapshot_are_skipped() -> None:
    store = moved_in()
    txns_ = log((Op.CREATE, ("/a", b"", OPEN, False, 4)), (Op.CREATE, ("/b", b"", OPEN, False, 5)), first=5)
    came = replay(store, txns_)
    assert (came.applied, came.skipped) == (1, 1)
    assert "/a" not in store.tree.nodes
    assert "/b" in store.tree.nodes


def test_a_log_so_old_that_it_does_not_count_children() -> None:
    store = moved_in()
    replay(store, log((Op.CREATE, ("/a", b"", OPEN, False, -1)), (Op.CREATE, ("/b", b"", OPEN, False, -1))))
    assert store.tree.nodes["/"][7] == 3 + 2


def test_a_list_that_the_log_brings() -> None:
    """The snapshot was begun before the list was known, and ended after the node was there."""
    store = Store()
    store.restore(arrival(reader([*SYSTEM, FileNode("/late", b"", 77, STAT)]), 1))
    assert store.tree.nodes["/late"][1] == NOBODY
    replay(store, log((Op.CREATE, ("/late", b"", PRIVATE, False, 4)), first=2))
    assert store.tree.nodes["/late"][1] == PRIVATE


@pytest.mark.parametrize("wrong", [0, 1])
def test_import_compares_the_digest_of_the_tree(wrong: int) -> None:
    stat = (6, 6, NOW, NOW, 0, 0, 0, 0, 6)
    expected = node_digest("/a", b"hi", stat) + tree_digest(
        [FileNode("", b"", 0, (0, 0, 0, 0, 0, 4, 0, 0, 6)), *SYSTEM[1:]]
    )
    txn, failed, last = log((Op.CREATE, ("/a", b"hi", OPEN, False, 4)), (Op.ERROR, (-1,)), (Op.DELETE, ("/a",)))
    txn = FileTxn(txn.session, txn.cxid, txn.zxid, txn.time_ms, txn.kind, txn.fields, (2, expected + wrong))
    came = replay(moved_in(), [txn])
    assert (came.digest_zxid, came.digest_agrees) == (6, not wrong)
    # What comes behind does not say what it made of the tree, and is not held against it.
    assert replay(moved_in(), [txn, failed, last]).digest_agrees == (not wrong)


@pytest.mark.parametrize("path", ["a", "/none/a", "/zookeeper", "//"])
def test_a_node_that_is_nowhere(path: str) -> None:
    with pytest.raises(DamagedError, match="has no parent, has an invalid name, or occurs twice"):
        arrival(reader([*SYSTEM, FileNode(path, b"", OPEN_KEY, STAT)]), 5)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Op.CREATE, ("a", b"", OPEN, False, 1)),
        (Op.CREATE, ("", b"", OPEN, False, 1)),
        (Op.CREATE_TTL, ("/a", b"", OPEN, 1, 0)),
        (Op.CREATE_TTL, ("/a", b"", OPEN, 1, 1 << 62)),
        (Op.DELETE, ("/",)),
        (Op.DELETE, ("/zookeeper/config",)),
        (Op.CLOSE_SESSION, (("/a", "/"),)),
        (Op.MULTI, ((Op.DELETE, ("/zookeeper",)),)),
    ],
)
def test_a_transaction_that_no_server_would_have_written(kind: int, fields: tuple[object, ...]) -> None:
    store = moved_in()
    with pytest.raises(DamagedError, match="transaction 0x6"):
        replay(store, log((kind, fields)))
    assert store.zxid == 5


def test_translated_transactions_are_ones_that_the_store_would_write() -> None:
    """Otherwise our log could not contain them."""
    store = moved_in()
    for txn in log((Op.CREATE, ("/a", b"hi", OPEN, True, 4)), (Op.SET_DATA, ("/a", b"x", 1)), (Op.DELETE, ("/a",))):
        decoded = transactions.decode(store_txn(txn, store.tree))
        assert (decoded.op, decoded.session, decoded.time) == (txn.kind, SESSION, NOW)


STALE = (Op.ERROR, (2, b"/b\0\0\0\2"))


@pytest.mark.parametrize(
    "parts",
    [
        ((Op.CHECK, ("/b", 0)), (Op.CREATE, ("/m", b"", OPEN, False, 7)), (Op.ERROR, (-101,)), (Op.ERROR, (-2,))),
        (STALE, STALE, (Op.ERROR, (-101,)), (Op.ERROR, (-2,))),
        ((Op.ERROR, (0,)), (Op.ERROR, (0,)), (Op.ERROR, (-101,)), (Op.ERROR, (-2,))),
    ],
)
def test_a_failed_multi_names_the_operation_that_failed(parts: tuple[object, ...]) -> None:
    txn = FileTxn(SESSION, 1, 9, 2, Op.MULTI, parts)
    codes = [part.body[0] for part in transactions.decode(store_txn(txn, moved_in().tree)).body]
    assert codes == [0, 0, -101, -2]
