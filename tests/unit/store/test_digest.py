"""Equal histories give equal numbers, in any process; and a server that went astray is found out."""

from __future__ import annotations

import pytest

from tests.unit.store.support import ALICE, BOB, Leader, dump, follower_of, leader
from zab.core.errors import LocalProtocolError
from zab.store.acl import OPEN
from zab.store.digest import CHANGED_MAX, CHECKPOINT_EVERY, KNOWN_MAX, Digest, digest_of
from zab.store.operations import Op
from zab.store.paths import ROOT
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.store.tree import Tree
from zab.store.znode import Znode


def busy(count: int = 2 * CHECKPOINT_EVERY + 44) -> Leader:
    it = leader(StoreSettings(extended_types=True))
    it.create("/p")
    for number in range(count):
        match number % 5:
            case 0:
                it.prepare(Op.CREATE, "/p/é-", b"x" * (number % 3), ((31, "ip", f"10.0.0.{number % 7}"), *OPEN), 2)
            case 1:
                it.prepare(Op.CREATE, f"/p/e{number}", None, OPEN, 1, session=BOB)
            case 2:
                it.prepare(Op.SET_DATA, "/p", b"%d" % number, -1)
            case 3:
                it.prepare(Op.MULTI, (Op.CREATE, (f"/m{number}", b"", OPEN, 0)), (Op.CHECK, ("/p", -1)))
            case _:
                it.prepare(Op.DELETE, f"/p/e{number - 3}", -1)
        if number % 37 == 0:
            it.settle()
    it.prepare(Op.CLOSE_SESSION, session=BOB)
    it.settle()
    return it


def test_digest_cache_drops_deleted_nodes_and_is_bounded() -> None:
    tree, zxid = Tree(), 0
    digest = Digest(tree)
    for begin in (0, KNOWN_MAX // 2, KNOWN_MAX, 0):
        for number in range(begin, begin + KNOWN_MAX // 2 + 7):
            zxid += 1
            tree.create(f"/{number}", ROOT, str(number), b"x", OPEN, 0, zxid, zxid, 1)
        for _ in range(3):
            for number in range(begin, begin + KNOWN_MAX // 2, 3):
                zxid += 1
                node = tree.nodes[f"/{number}"]
                tree.replace(f"/{number}", node, (b"%d" % zxid, *node[1:3], zxid, *node[4:]))
            assert digest.value == summed(tree)
        for number in range(begin, begin + KNOWN_MAX // 2, 5):
            zxid += 1
            tree.delete(f"/{number}", ROOT, str(number), zxid)
            assert number % 1000 or digest.value == summed(tree)
        assert digest.value == summed(tree)


def test_it_is_the_sum_whenever_it_is_asked_for() -> None:
    for often in (False, True):
        it = leader()
        for number in range(40):
            it.create(f"/n{number % 20}") if number < 20 else it.set(f"/n{number % 20}", b"!")
            if number % 3 == 0:
                it.delete(f"/n{number % 20}")
                it.create(f"/n{number % 20}")
            if often:
                assert it.store.digest.value == summed(it.store.tree)
        assert it.store.digest.value == summed(it.store.tree)
        assert it.store.digest.data_bytes == sum(
            len(path) + len(n[0] or b"") for path, n in it.store.tree.nodes.items()
        )


def summed(tree: Tree) -> int:
    return sum(digest_of(path, node) for path, node in tree.nodes.items()) % 2**64


def test_everything_but_lists_and_the_system_s_own_counts() -> None:
    node: Znode = (b"x", OPEN, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    changed = [digest_of("/b", node), digest_of("/a", (None, *node[1:]))]
    changed += [digest_of("/a", (*node[:at], 99, *node[at + 1 :])) for at in range(2, 11)]  # type: ignore[arg-type]
    assert len({digest_of("/a", node), *changed}) == 12
    assert digest_of("/a", (b"x", (), *node[2:])) == digest_of("/a", node)


def test_servers_compare_the_leaders_digest() -> None:
    it = busy()
    follower = Store()
    compared = 0
    for zxid, txn in it.log:
        follower.apply(zxid, txn)
        compared += txn[0] == 0x71
    assert compared == len(it.store.digest.history) == 2
    assert follower.mismatches == 0
    assert dump(follower) == dump(it.store)


def test_diverged_tree_is_detected() -> None:
    it = busy()
    astray = Store()
    for zxid, txn in it.log:
        if zxid & 0xFFFF == 50:
            node = astray.tree.nodes["/p"]
            astray.tree.replace("/p", node, (*node[:11], node[11]))
            astray.tree.replace("/zookeeper", astray.tree.nodes["/zookeeper"], node)
        astray.apply(zxid, txn)
    assert astray.mismatches == 2
    assert astray.mismatch is not None
    assert astray.mismatch.leaders == it.store.digest.at(astray.mismatch.zxid) != astray.mismatch.ours


def test_server_restored_after_a_checkpoint_compares_no_digest() -> None:
    it = leader()
    for number in range(CHECKPOINT_EVERY + 72):
        it.create(f"/n{number}")
    store = Store()
    store.restore(it.store.snapshot())
    for number in range(2 * CHECKPOINT_EVERY + 44):
        it.create(f"/m{number}")
    for zxid, txn in it.log:
        if zxid > store.zxid:
            store.apply(zxid, txn)
    assert store.mismatches == 0
    assert len(store.digest.history) == 2
    assert store.digest.value == it.store.digest.value


def test_without_checkpoints() -> None:
    it = leader(StoreSettings(checkpoints=False))
    for number in range(CHECKPOINT_EVERY + 1):
        it.create(f"/n{number}")
    assert not it.store.digest.history
    assert all(txn[0] != 0x71 for _, txn in it.log)


def test_the_history_of_checkpoints_is_bounded() -> None:
    digest = Digest(Tree())
    for number in range(3000):
        digest.checkpoint(number)
    assert len(digest.history) == len(digest._at) == 1024
    assert digest.at(2999) == digest.value
    assert digest.at(0) is None


def test_zxids_only_rise() -> None:
    it = leader()
    with pytest.raises(LocalProtocolError):
        it.store.apply(it.zxid, it.log[-1][1])
    assert ALICE in follower_of(it).sessions.table


def test_many_nodes_are_never_computed_at_one_go() -> None:
    """A thousand multis of a thousand creates came to a second and more, at every checkpoint."""
    it = leader()
    for number in range(8):
        it.codes(*((Op.CREATE, (f"/m{number}-{each}", b"", OPEN, 0)) for each in range(300)))
        assert len(it.store.digest.changed) <= CHANGED_MAX
    assert it.store.digest.value == Digest(it.store.tree).value
