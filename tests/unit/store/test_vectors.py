"""Numbers that others have computed."""

from __future__ import annotations

import pytest

from tests.unit.store.support import NOW, leader
from zab.store.acl import OPEN, digest_id
from zab.store.digest import digest_of
from zab.store.operations import Op
from zab.store.znode import CONTAINER, Znode, int32, is_session, stat_of, ttl_of, ttl_owner


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (b"user1:12345", "user1:+owfoSBn/am19roBPzR1/MfCblE="),
        (b"super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
        (b"zookeeper:admin", "zookeeper:qW/HnTfCSoQpB5G8LgkwT3IbiFc="),
    ],
)
def test_digest_ids(credentials: bytes, expected: str) -> None:
    assert digest_id(credentials) == expected


def test_a_node_s_digest() -> None:
    zxid = 0x1_0000_0002
    node: Znode = (b"hi", OPEN, zxid, zxid, NOW, NOW, 0, 0, 0, 0, zxid, 0)
    assert digest_of("/a", node) == 0xD0E4BF0F
    assert digest_of("/zookeeper/config", node) == 0
    assert digest_of("/zookeeper", node) != 0
    assert digest_of("/", (None, *node[1:])) != digest_of("/a", (None, *node[1:]))


def test_owners() -> None:
    assert ttl_owner(5000) & (1 << 64) - 1 == 0xFF00_0000_0000_1388
    assert CONTAINER & (1 << 64) - 1 == 0x8000_0000_0000_0000
    assert ttl_of(ttl_owner(5000)) == 5000
    assert ttl_of(CONTAINER) is ttl_of(0) is ttl_of(5) is None
    assert is_session(1)
    assert is_session(-(2**63) + 1), "a server number above 127 makes its sessions negative"
    assert not any(map(is_session, (0, CONTAINER, ttl_owner(1), ttl_owner(2**40 - 1))))
    shown = [
        stat_of((None, OPEN, 1, 1, 1, 1, 0, 0, 0, owner, 1, 0)).ephemeral_owner
        for owner in (7, CONTAINER, ttl_owner(9))
    ]
    assert shown == [7, 0, 0]


def test_the_children_that_were() -> None:
    it = leader()
    it.create("/p")
    for name in "abc":
        it.create(f"/p/{name}")
    it.delete("/p/b")
    stat = it.stat("/p")
    assert (stat.cversion, stat.num_children) == (4, 2)
    assert it.create("/p/s-", flags=2) == "/p/s-0000000003"
    assert it.create("/p/", flags=2) == "/p/0000000004"


def test_numbers_beyond_the_greatest() -> None:
    it = leader()
    it.create("/p")
    tree = it.store.tree
    node = tree.nodes["/p"]
    tree.nodes["/p"] = (*node[:7], 2**31 - 2, *node[8:])
    names = [it.create("/p/", flags=2) for _ in range(4)]
    assert names == ["/p/2147483646", "/p/2147483647", "/p/-2147483648", "/p/-2147483647"]
    assert -(2**31) <= it.stat("/p").cversion < 2**31
    assert [int32(value) for value in (2**31 - 1, 2**31, -(2**31) - 1, 2**32)] == [2**31 - 1, -(2**31), 2**31 - 1, 0]


def test_null_is_not_empty() -> None:
    it = leader()
    for path, data in (("/null", None), ("/empty", b"")):
        it.create(path, data)
        assert it.store.tree.nodes[path][0] == data
        assert it.stat(path).data_length == 0
    it.set("/empty", None)
    it.set("/null", b"")
    assert (it.store.tree.nodes["/null"][0], it.store.tree.nodes["/empty"][0]) == (b"", None)


def test_stats_of_a_life() -> None:
    it = leader()
    _, _, _, node, _ = it.ask(Op.CREATE2, "/a", b"data", OPEN, 0)
    created = it.zxid
    assert node is not None
    assert stat_of(node) == (created, created, NOW, NOW, 0, 0, 0, 0, 4, 0, created)
    it.now_ms += 10
    it.set("/a", b"!")
    changed = it.zxid
    it.ask(Op.SET_ACL, "/a", OPEN, 0)
    it.create("/a/child")
    child = it.zxid
    it.delete("/a/child")
    assert it.stat("/a") == (created, changed, NOW, NOW + 10, 1, 2, 1, 0, 1, 0, child + 1)
