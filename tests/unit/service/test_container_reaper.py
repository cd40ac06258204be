"""The reaper of containers and TTL nodes."""

from __future__ import annotations

from zab.service.container_reaper import PART_MS, ContainerReaper, ReaperSettings
from zab.store.tree import Tree
from zab.store.znode import EMPTY_ROOT

SETTINGS = ReaperSettings(interval_ms=1_000, per_minute_max=120)


class Reaper:
    """A reaper on a clock that the test moves."""

    def __init__(self, settings: ReaperSettings = SETTINGS) -> None:
        self.now = 0
        self.it = ContainerReaper(settings, lambda: self.now, lambda: 0)

    def due(self, tree: Tree, now: int, *, leads: bool) -> list[str]:
        self.now = now
        return self.it.due(tree, leads=leads)


def tree_of(count: int) -> Tree:
    """Return a tree with this number of emptied containers."""
    tree = Tree()
    for number in range(count):
        tree.containers[f"/c{number}"] = None
        tree.nodes[f"/c{number}"] = (*EMPTY_ROOT[:7], 1, *EMPTY_ROOT[8:])
    return tree


def test_nothing_is_due_before_the_interval_is_over() -> None:
    reaper = Reaper()
    assert reaper.due(tree_of(1), 999, leads=True) == []
    assert reaper.it.deadline == 1_000
    assert reaper.due(tree_of(1), 1_000, leads=True) == ["/c0"]
    assert reaper.it.deadline == 2_000


def test_deletions_of_one_look_are_spread_over_seconds() -> None:
    reaper, tree = Reaper(), tree_of(5)
    assert reaper.due(tree, 1_000, leads=True) == ["/c0", "/c1"]
    assert reaper.it.deadline == 1_000 + PART_MS
    assert reaper.due(tree, 2_000, leads=True) == ["/c2", "/c3"]
    assert reaper.due(tree, 3_000, leads=True) == ["/c4"]
    assert reaper.it.deadline == 4_000, "the next interval begins after the last part"


def test_a_minute_deletes_per_minute_max() -> None:
    for most, deleted in ((1, 60), (100, 100), (119, 119), (10_000, 10_000)):
        reaper, tree = Reaper(ReaperSettings(1_000, most)), tree_of(10_000)
        assert sum(len(reaper.due(tree, second * 1_000, leads=True)) for second in range(1, 61)) == deleted


def test_server_that_does_not_lead_deletes_nothing() -> None:
    reaper, tree = Reaper(), tree_of(5)
    assert reaper.due(tree, 1_000, leads=True) == ["/c0", "/c1"]
    assert reaper.due(tree, 2_000, leads=False) == []
    assert reaper.due(tree, 3_000, leads=True) == ["/c0", "/c1"], "it looks again"
