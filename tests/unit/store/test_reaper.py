from __future__ import annotations

from tests.unit.store.support import Leader, leader
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.reaper import candidates
from zab.store.request_format import INTERNAL
from zab.store.store_settings import StoreSettings
from zab.store.znode import ttl_owner


def nodes() -> Leader:
    it = leader(StoreSettings(extended_types=True))
    for path in ("/left", "/used", "/new"):
        assert it.error(Op.CREATE_CONTAINER, path, b"", OPEN, 4) == 0
    for path in ("/left/x", "/used/x"):
        it.create(path)
    it.delete("/left/x")
    assert it.error(Op.CREATE_TTL, "/ttl", b"", OPEN, 5, 1000) == 0
    assert it.error(Op.CREATE_TTL, "/held", b"", OPEN, 5, 1000) == 0
    it.create("/held/x")
    return it


def test_reaper_finds_empty_containers_and_expired_ttl_nodes() -> None:
    it = nodes()
    now = it.now_ms
    assert candidates(it.store.tree, now) == ["/left"]
    assert candidates(it.store.tree, now + 1000) == ["/left"]
    assert candidates(it.store.tree, now + 1001) == ["/left", "/ttl"]
    assert candidates(it.store.tree, now + 1001, count_max=1) == ["/left"]
    assert candidates(it.store.tree, now + 300_001, never_used_ms=300_000) == ["/left", "/new", "/ttl"]
    assert it.store.tree.nodes["/ttl"][9] == ttl_owner(1000)


def test_a_ttl_starts_anew_with_new_data_and_not_with_children() -> None:
    it = nodes()
    start = it.now_ms
    it.now_ms += 900
    it.set("/ttl", b"!")
    it.create("/ttl/x")
    it.delete("/ttl/x")
    assert candidates(it.store.tree, start + 1500) == ["/left"]
    it.now_ms += 500
    it.create("/ttl/y")
    it.delete("/ttl/y")
    assert candidates(it.store.tree, start + 1901) == ["/left", "/ttl"]


def test_it_is_looked_at_again_when_it_is_prepared() -> None:
    it = nodes()
    it.now_ms += 2000
    assert it.internal(Op.DELETE_CONTAINER, "/used") == ErrorCode.NOT_EMPTY
    it.prepare(Op.CREATE, "/left/late", b"", OPEN, 0)
    it.prepare(Op.DELETE_CONTAINER, "/left", flags=INTERNAL)
    it.prepare(Op.SET_DATA, "/ttl", b"", -1)
    it.prepare(Op.DELETE_CONTAINER, "/ttl", flags=INTERNAL)
    it.prepare(Op.DELETE_CONTAINER, "/gone", flags=INTERNAL)
    it.prepare(Op.DELETE_CONTAINER, "/zookeeper", flags=INTERNAL)
    assert [result[1] for result in it.settle()] == [0, ErrorCode.NOT_EMPTY, 0, ErrorCode.BAD_VERSION, -101, -8]


def test_neither_ephemerals_nor_plain_nodes_are_reaped() -> None:
    it = nodes()
    it.create("/plain")
    it.create("/ephemeral", flags=1)
    for path in ("/plain", "/ephemeral"):
        assert it.internal(Op.DELETE_CONTAINER, path) == ErrorCode.BAD_VERSION


def test_reaper_deletes_regardless_of_acls() -> None:
    it = nodes()
    it.ask(Op.SET_ACL, "/", ((1, "world", "anyone"),), -1)
    it.now_ms += 2000
    for path in candidates(it.store.tree, it.now_ms):
        assert it.internal(Op.DELETE_CONTAINER, path) == 0
    assert candidates(it.store.tree, it.now_ms) == []
    it.store.tree.check()
