"""Objects hidden from the cyclic collector."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from zab.host.collector import pass_by, spare, undisturbed
from zab.runtime.store_server.store_machine import StoreMachine, use_up
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.digest import CHECKPOINT_EVERY
from zab.store.store_settings import StoreSettings

pytestmark = pytest.mark.skipif(sys.implementation.name != "cpython", reason="CPython's collector")


def test_a_list_that_is_passed_by_lives_and_dies_like_any_other() -> None:
    texts = [f"/{number}" for number in range(1000)]
    assert gc.is_tracked(texts)
    pass_by(texts)
    pass_by(texts)
    iterator = iter(texts)
    gc.collect()
    assert not gc.is_tracked(texts)
    assert list(iterator) == [f"/{number}" for number in range(1000)]
    texts.clear()
    del texts, iterator
    gc.collect()


def test_a_snapshot_s_paths_are_not_walked() -> None:
    machine = StoreMachine(StoreSettings())
    snapshot = machine.snapshot()
    assert not gc.is_tracked(snapshot.paths)
    assert gc.isenabled()
    gc.collect()
    restored = StoreMachine(StoreSettings())
    restored.restore(list(snapshot))
    assert not snapshot.paths, "used up bit by bit, not dropped at once"
    assert list(restored.tree.nodes) == list(machine.tree.nodes)


@pytest.fixture
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.freeze()  # as it was: see tests/conftest.py


@pytest.mark.usefixtures("unfrozen")
def test_a_table_that_a_full_round_has_let_go_of_is_spared_as_well() -> None:
    table: dict[str, object] = {"a": 1}
    assert not gc.is_tracked(table)
    spare(table)
    table["b"] = []
    assert gc.is_tracked(table), "else it would come back as something new"
    assert not any(each is table for each in gc.get_objects())


@pytest.mark.usefixtures("unfrozen")
def test_changed_nodes_of_a_large_tree_are_hidden_from_the_collector() -> None:
    machine = StoreMachine(StoreSettings())
    machine.spare_the_collector()
    with undisturbed():
        for zxid in range(CHECKPOINT_EVERY - 8, CHECKPOINT_EVERY + 1):
            machine.apply(zxid, transactions.create(transactions.CREATE, 0, 0, 0, f"/{zxid}", b"", OPEN, 0, zxid))
        assert machine.tree.nodes
        assert not any(gc.is_tracked(node) for path, node in machine.tree.nodes.items() if path[1:].isdigit())


def test_the_state_before_a_restore_goes_without_the_collector() -> None:
    """The collector may skip that state."""
    machine = StoreMachine(StoreSettings())
    with undisturbed():
        old = weakref.ref(machine.quotas)
        machine.restore(list(machine.snapshot()))
        assert old() is None
    machine.apply(1, transactions.create(transactions.CREATE, 0, 0, 0, "/a", b"", OPEN, 0, 1))
    assert "/a" in machine.tree.nodes


def test_a_tree_is_used_up_bit_by_bit() -> None:
    machine = StoreMachine(StoreSettings())
    tree, names = machine.tree, machine.tree.children["/"]
    use_up(tree)
    assert (tree.nodes, names) == ({}, {})
