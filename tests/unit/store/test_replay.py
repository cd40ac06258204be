"""A history replayed over a state that contains parts of it already, as an imported snapshot of ZooKeeper's does.

Our own snapshots are exact, so the store itself never does this; the bugs that lie here are others'.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.store.support import ALICE, BOB, Leader, dump, leader
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.store import Store


def history() -> Leader:
    it = leader()
    joe = ((31, "digest", "joe:x"), (31, "world", "anyone"))
    for number in range(60):
        it.create(f"/p{number % 4}") if number < 4 else it.create(f"/p{number % 4}/s-", flags=2)
        match number % 6:
            case 0 if number:
                it.create(f"/p0/e{number}", flags=1, session=BOB if number < 30 else ALICE)
            case 1:
                it.set(f"/p{number % 4}", b"%d" % number)
            case 2 if number > 8:
                it.ask(Op.MULTI, (Op.CREATE, (f"/p1/m{number}", b"", joe, 0)), (Op.SET_DATA, ("/p1", b"m", -1)))
            case 3 if number > 8:
                it.delete(f"/p1/m{number - 1}") if f"/p1/m{number - 1}" in it.store.tree.nodes else None
            case 4:
                it.ask(Op.SET_ACL, f"/p{number % 4}", joe if number % 8 else OPEN, -1)
            case _:
                pass
        if number == 35:
            it.ask(Op.CLOSE_SESSION, session=BOB)
        if number == 40:
            for name in it.store.tree.children_of("/p3"):
                it.delete(f"/p3/{name}")
            it.delete("/p3")
            it.create("/p3")
    return it


def at(it: Leader, zxid: int) -> Store:
    store = Store()
    for each, txn in it.log:
        if each <= zxid:
            store.apply(each, txn)
    return store


@pytest.mark.parametrize("start", range(5, 100, 7))
def test_bug_1046_replay_of_applied_transactions_changes_nothing(start: int) -> None:
    """Replay an earlier history on a later state: same tree, same stats, same digest."""
    it = history()
    zxids = [zxid for zxid, _ in it.log]
    for length in (1, 5, 30):
        store = at(it, zxids[min(start + length, len(zxids) - 1)])
        store.zxid = zxids[start]
        for zxid, txn in it.log:
            if zxid > zxids[start]:
                store.apply(zxid, txn)
        got, expected = dump(store), dump(it.store)
        for of in (got, expected):
            del of["order"]  # a node that was created again stands behind others
        assert got == expected


def test_bug_1573_replay_skips_a_create_without_parent() -> None:
    it = leader()
    it.create("/p")
    it.create("/p/a")
    it.set("/p/a", b"!")
    it.delete("/p/a")
    it.delete("/p")
    store = at(it, it.zxid)
    store.zxid = it.log[2][0]
    errors = [store.apply(zxid, txn)[1] for zxid, txn in it.log[4:]]
    assert errors == [-101, -101, -101, -101]
    assert dump(store) == dump(it.store)


def test_bug_1046_the_parent_catches_up_when_its_child_is_there_already() -> None:
    """Otherwise the next sequential name would exist already."""
    it = leader()
    it.create("/p")
    it.create("/p/s-", flags=2)
    torn = at(it, it.zxid)
    parent = torn.tree.nodes["/p"]
    torn.tree.replace("/p", parent, (*parent[:7], 0, *parent[8:10], parent[2], parent[11]))  # from before its child
    torn.zxid = it.log[-2][0]
    assert torn.apply(*it.log[-1])[1] == -110
    assert dump(torn) == dump(it.store)
    again = Leader(store=torn)
    assert again.create("/p/s-", flags=2) == "/p/s-0000000001"


def test_bug_3306_a_list_of_a_node_that_is_there_already_is_the_one_of_the_transaction() -> None:
    it = leader()
    acl: Any = ((31, "world", "anyone"), (1, "ip", "10.0.0.1"))
    it.create("/a", acl=acl)
    torn = at(it, it.zxid)
    node = torn.tree.nodes["/a"]
    torn.tree.replace("/a", node, (node[0], OPEN, *node[2:]))
    torn.zxid = it.log[-2][0]
    torn.apply(*it.log[-1])
    assert torn.tree.nodes["/a"][1] == acl


def test_bug_3145_session_close_deletes_listed_and_remaining_ephemerals() -> None:
    it = leader()
    it.create("/listed", flags=1, session=BOB)
    it.ask(Op.CLOSE_SESSION, session=BOB)
    closing = it.log[-1]
    torn = at(it, it.log[-3][0])  # /listed is not there
    other = Leader(store=torn)
    other.create("/unlisted", flags=1, session=BOB)
    torn.zxid = it.log[-2][0]
    assert torn.apply(*closing)[1] == 0
    assert BOB not in torn.tree.ephemerals
    assert "/unlisted" not in torn.tree.nodes
    torn.tree.check()


def test_a_deletion_that_meets_the_next_life_of_its_node() -> None:
    it = leader()
    it.create("/p")
    before = it.zxid
    it.delete("/p")
    it.create("/p")
    it.create("/p/child")
    torn = at(it, it.zxid)
    torn.zxid = before
    for zxid, txn in it.log:
        if zxid > before:
            torn.apply(zxid, txn)
    torn.tree.check()
    assert dump(torn) == dump(it.store)
