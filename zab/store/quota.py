"""Quotas: below `/zookeeper/quota<path>`, `zookeeper_limits` has a subtree's limits, `zookeeper_stats` its statistics.

The statistics are in no transaction. Every server computes them while it applies transactions, and keeps them in the
data of a node that the digest leaves out. The same history gives the same statistics.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.store.paths import QUOTA, ROOT, ancestors_of
from zab.store.tree import Tree
from zab.store.znode import DATA, Znode

BELOW: Final = QUOTA + "/"
LIMITS: Final = "zookeeper_limits"
STATS: Final = "zookeeper_stats"
NAMES: Final = frozenset({LIMITS, STATS})

COUNT: Final = "count"
BYTES: Final = "bytes"
COUNT_HARD: Final = "countHardLimit"
BYTES_HARD: Final = "byteHardLimit"


PARSED_BYTES_MAX: Final = 1_024
"""The maximum length of quota data that is parsed: several times the length that ZooKeeper's clients write.

The bound limits the cost of a change below a limited path, which parses the data of the quota nodes.
"""


def parse(data: bytes | None) -> dict[str, int]:
    """Return the values by key. An empty value counts as -1. Other values that are not integers are left out.

    Return no values if the data is longer than `PARSED_BYTES_MAX`: clients may write anything.
    """
    values: dict[str, int] = {}
    if data is None or len(data) > PARSED_BYTES_MAX:
        return values
    for pair in data.decode("utf-8", "replace").replace(";", ",").split(","):
        key, _, value = pair.partition("=")
        try:
            values[key] = int(value.strip("=") or "-1")
        except ValueError:
            continue
    return values


def render(values: dict[str, int]) -> bytes:
    """Encode the two old keys, then an `=` and the new keys, if there are any: old readers stop at the `=`."""
    text = f"count={values.get(COUNT, -1)},bytes={values.get(BYTES, -1)}"
    others = sorted(key for key in values if key not in (COUNT, BYTES))
    if others:
        text += "=" + "".join(f";{key}={values[key]}" for key in others)
    return text.encode()


def limits_path(path: str) -> str:
    return f"{QUOTA}{path}/{LIMITS}"


def stats_path(path: str) -> str:
    return f"{QUOTA}{path}/{STATS}"


def starts_measuring(path: str) -> bool:
    """Return True if this is a node of statistics.

    Its creation makes every server measure the subtree of the quota, unless the node is directly below `QUOTA`.
    """
    return path.startswith(BELOW) and path.endswith("/" + STATS)


def measured_by(path: str) -> str:
    """Return the path of the subtree that a node of limits or statistics belongs to; "" directly below `QUOTA`."""
    return path[len(QUOTA) :].rpartition("/")[0]


def size_of(data: bytes | None) -> int:
    return 0 if data is None else len(data)


@frozen
class ExceededLimit:
    """A limit of the subtree at `path` that a change would exceed. `wanted` is the value with the change."""

    path: str
    key: str
    limit: int
    wanted: int

    @property
    def is_hard(self) -> bool:
        return self.key in (COUNT_HARD, BYTES_HARD)


class Quotas:
    """The quotas of one tree: limits of subtrees, and their statistics.

    A change counts only for the path that `covering` returns, not for limited paths above that one.
    """

    def __init__(self, tree: Tree) -> None:
        self.limited: dict[str, None] = {}
        """The paths that have limits. If there are none, changes need no accounting."""
        self._tree = tree
        if QUOTA in tree.nodes:
            for path, _ in tree.walk(QUOTA):
                self._add_limited(path)

    def _add_limited(self, path: str) -> None:
        limited, _, name = path[len(QUOTA) :].rpartition("/")
        if limited and name == LIMITS:
            self.limited[limited] = None

    # -- while applying ----------------------------------------------------------------------------

    def quota_node_created(self, path: str) -> None:
        self._add_limited(path)
        measured, _, name = path[len(QUOTA) :].rpartition("/")
        if measured and name == STATS:
            self._measure(measured)

    def quota_node_deleted(self, path: str) -> None:
        limited, _, name = path[len(QUOTA) :].rpartition("/")
        if name == LIMITS:
            self.limited.pop(limited, None)

    def _measure(self, path: str) -> None:
        count, size = self._tree.measure(path)
        self._write(path, {COUNT: count, BYTES: size})

    def changed(self, path: str, nodes: int, size: int) -> None:
        """Account for a change at `path`: `nodes` more nodes and `size` more bytes of data."""
        limited = self.covering(path)
        if limited is None:
            return
        stats = self._tree.nodes.get(stats_path(limited))
        if stats is None:
            return
        values = parse(stats[DATA])
        values[COUNT] = values.get(COUNT, -1) + nodes
        values[BYTES] = values.get(BYTES, -1) + size
        self._write(limited, values)

    def _write(self, path: str, values: dict[str, int]) -> None:
        """Replace the data of the statistics. The node's zxids, times and versions stay, and no watch event is sent."""
        path = stats_path(path)
        old = self._tree.nodes.get(path)
        if old is not None:
            new: Znode = (render(values), *old[1:])
            self._tree.replace(path, old, new)

    # -- checks ------------------------------------------------------------------------------------

    def covering(self, path: str) -> str | None:
        """Return the nearest path with limits from `path` up, or None. The root cannot have limits."""
        if path in self.limited:
            return path
        for ancestor in ancestors_of(path):
            if ancestor in self.limited and ancestor != ROOT:
                return ancestor
        return None

    def exceeded(self, path: str, nodes: int, size: int) -> list[ExceededLimit]:
        """Return the limits that this change would exceed. Outstanding transactions do not count.

        As in ZooKeeper, a hard limit takes the place of the soft one.
        """
        limited = self.covering(path)
        if limited is None:
            return []
        limits = self._tree.nodes.get(limits_path(limited))
        stats = self._tree.nodes.get(stats_path(limited))
        if limits is None or stats is None:
            return []
        allowed, used = parse(limits[DATA]), parse(stats[DATA])
        found = []
        for soft, hard, change in ((COUNT, COUNT_HARD, nodes), (BYTES, BYTES_HARD, size)):
            key = hard if allowed.get(hard, -1) > -1 else soft
            limit, wanted = allowed.get(key, -1), used.get(soft, -1) + change
            if change and -1 < limit < wanted:
                found.append(ExceededLimit(limited, key, limit, wanted))
        return found
