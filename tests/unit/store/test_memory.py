"""Memory of a node. (`python -m bench.store_micro --nodes 1000000` measures a million nodes, and the pauses.)"""

from __future__ import annotations

import gc
import tracemalloc

from tests.unit.store.support import leader
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.store import Store

NODES = 20_000


def test_a_node_of_a_hundred_bytes_takes_less_than_a_kilobyte() -> None:
    it = leader()
    for number in range(10):
        it.create(f"/parent-{number}")
    txns = []
    for number in range(NODES):
        it.prepare(Op.CREATE, f"/parent-{number % 10}/node-{number:010d}", bytes([number % 256]) * 100, OPEN, 0)
        it.settle()
    txns = it.log
    store = Store()
    gc.collect()
    tracemalloc.start()
    try:
        for zxid, txn in txns:
            store.apply(zxid, txn)
        _ = store.digest.value
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / NODES < 1024
    assert size / NODES > 100, "else it measures nothing"


def test_the_collector_lets_go_of_nodes() -> None:
    it = leader()
    it.create("/a", b"x", acl=((31, "ip", "10.0.0.1"),))
    for name in "abc":
        it.create(f"/{name}{name}")
    for _ in range(3):
        gc.collect()
    assert not any(map(gc.is_tracked, it.store.tree.nodes.values()))
    assert not any(map(gc.is_tracked, it.store.tree.children.values()))
