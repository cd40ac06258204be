"""What the cyclic collector need not look at."""

from __future__ import annotations

import gc
import sys

import pytest

from zab.runtime.collector import pass_by
from zab.runtime.coordination.machine import StoreMachine
from zab.store.store import StoreSettings

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
