"""Find abandoned containers and expired TTL nodes, which the leader should delete."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from zab.store.tree import Tree
from zab.store.znode import CHILDREN, CVERSION, MTIME, OWNER, ttl_of

PER_MINUTE_MAX: Final = 10_000


def candidates(tree: Tree, now_ms: int, never_used_ms: int = 0, count_max: int = PER_MINUTE_MAX) -> list[str]:
    """Return up to `count_max` paths to delete by DELETE_CONTAINER.

    The preparation of that request checks again that the node has no child and that its TTL has passed.

    A container that never had a child remains for `never_used_ms` after its creation or last change of data; 0: for
    ever.
    """
    return list(islice(_candidates(tree, now_ms, never_used_ms), count_max))


def _candidates(tree: Tree, now_ms: int, never_used_ms: int) -> Iterator[str]:
    for path in tree.containers:
        node = tree.nodes[path]
        if node[CHILDREN]:
            continue
        if node[CVERSION] or (never_used_ms and now_ms - node[MTIME] > never_used_ms):
            yield path
    for path in tree.ttls:
        node = tree.nodes[path]
        ttl = ttl_of(node[OWNER])
        assert ttl is not None, f"{path} is not a TTL node"
        if not node[CHILDREN] and now_ms - node[MTIME] > ttl:
            yield path
