"""The nodes, and the tables that follow from them: children, ephemerals, containers, TTLs.

One dict holds all nodes, and a change replaces a node in it. A snapshot needs no other table. To find the changes since
some moment, add a *mark*: a dict that receives the old node of each path at the first change after that moment (None if
there was no node).

The other tables are changed in place. Their sets of paths and names are dicts without values for two reasons. Dicts
keep the order of insertion, which is the same on every server. And the cyclic collector of CPython up to 3.13 does not
walk a dict of text, however large it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from zab.store.acl import READ_ONLY, Acl
from zab.store.error_codes import ErrorCode
from zab.store.paths import CONFIG, QUOTA, ROOT, SYSTEM, child_of, parent_of
from zab.store.znode import CONTAINER, EMPTY_ROOT, INT_MAX, Znode, is_session

Paths: TypeAlias = dict[str, None]
Mark: TypeAlias = dict[str, Znode | None]
"""path -> its node when the mark was added or last cleared (None: it had none), for each path that has changed since"""

BESIDE_A_PATH_BYTES: Final = 64
"""The amount that an ephemeral node adds to `Tree.ephemeral_bytes` beside the characters of its path."""

_NO_NODE: Final = ErrorCode.NO_NODE
_NODE_EXISTS: Final = ErrorCode.NODE_EXISTS


class Tree:
    """All znodes, with the tables that follow from them. `check` asserts that nodes and tables agree."""

    __slots__ = ("children", "containers", "ephemeral_bytes", "ephemerals", "marks", "nodes", "ttls")

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}
        """The znodes by path: each znode but the root has its parent here, whose `children` field counts it."""
        self.children: dict[str, Paths] = {}
        """The children's names (not paths) by path of the parent; no entry for a node without children."""
        self.ephemerals: dict[int, Paths] = {}
        """The paths of ephemeral nodes by session; no entry for a session without any."""
        self.ephemeral_bytes: dict[int, int] = {}
        """session -> the number of characters of its ephemeral paths, plus `BESIDE_A_PATH_BYTES` for each path"""
        self.containers: Paths = {}
        """The paths of all containers."""
        self.ttls: Paths = {}
        """The paths of all TTL nodes."""
        self.marks: list[Mark] = []
        """The marks that every change writes to, such as those of the digest and of running snapshots."""
        self._insert(ROOT, (*EMPTY_ROOT[:11], 1))
        self._insert(SYSTEM, (*EMPTY_ROOT[:11], 2))
        self._insert(QUOTA, EMPTY_ROOT)
        self._insert(CONFIG, (EMPTY_ROOT[0], READ_ONLY, *EMPTY_ROOT[2:8], -1, *EMPTY_ROOT[9:]))

    def __len__(self) -> int:
        return len(self.nodes)

    # -- changes -----------------------------------------------------------------------------------

    def replace(self, path: str, old: Znode, new: Znode) -> None:
        """Put `new` at `path`, in place of the present node `old`."""
        # Write to the marks first: a snapshot in another thread must find the old node in its mark or in the tree.
        for mark in self.marks:
            mark.setdefault(path, old)
        self.nodes[path] = new

    def create(
        self, path: str, parent_path: str, name: str, data: bytes | None, acl: Acl, owner: int, parent_cversion: int,
        zxid: int, time: int,
    ) -> Znode | ErrorCode:  # fmt: skip
        """Create a node and return it; return `NODE_EXISTS` if it exists, `NO_NODE` if its parent does not.

        `parent_cversion` counts this child already. In a replay over a newer state, the parent gets a new `cversion`
        and `pzxid` only if its `cversion` grows or wraps around, but also if the node exists already. An existing node
        gets the ACL, and keeps its data.
        """
        nodes = self.nodes
        parent = nodes.get(parent_path)
        if parent is None:
            return _NO_NODE
        (p_data, p_acl, p_czxid, p_mzxid, p_ctime, p_mtime, p_version, cversion, p_aversion, p_owner, pzxid, count) = (
            parent
        )
        # In a replay over a state that contains parts of the history, the parent may be newer: then it keeps its
        # `cversion`. If the node exists already, the parent may still be older: then it must catch up, because its
        # `cversion` is the next sequence number.
        if parent_cversion > cversion or (parent_cversion < 0 and cversion == INT_MAX):
            cversion, pzxid = parent_cversion, zxid
        existing = nodes.get(path)
        if existing is not None:
            self.replace(path, existing, (existing[0], acl, *existing[2:]))
            self.replace(
                parent_path,
                parent,
                (p_data, p_acl, p_czxid, p_mzxid, p_ctime, p_mtime, p_version, cversion, p_aversion, p_owner, pzxid,
                 count),
            )  # fmt: skip
            return _NODE_EXISTS
        node: Znode = (data, acl, zxid, zxid, time, time, 0, 0, 0, owner, zxid, 0)
        for mark in self.marks:
            mark.setdefault(parent_path, parent)
            mark.setdefault(path, None)
        nodes[parent_path] = (
            p_data, p_acl, p_czxid, p_mzxid, p_ctime, p_mtime, p_version, cversion, p_aversion, p_owner, pzxid,
            count + 1,
        )  # fmt: skip
        nodes[path] = node
        siblings = self.children.get(parent_path)
        if siblings is None:
            self.children[parent_path] = {name: None}
        else:
            siblings[name] = None
        if owner:
            self._own(owner, path)
        return node

    def delete(self, path: str, parent_path: str, name: str, zxid: int) -> Znode | None:
        """Delete a node and all its descendants, and return the node; return None if it does not exist.

        In both cases the parent, if it exists, gets `zxid` as its `pzxid`, unless its present `pzxid` is greater.
        """
        nodes = self.nodes
        node = nodes.get(path)
        parent = nodes.get(parent_path)
        if parent is not None:
            (data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, p_owner, pzxid, count) = parent
            if node is not None:
                count -= 1
            if zxid > pzxid:
                pzxid = zxid
            for mark in self.marks:
                mark.setdefault(parent_path, parent)
            nodes[parent_path] = (
                data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, p_owner, pzxid, count,
            )  # fmt: skip
        if node is None:
            return None
        if node[11]:
            # Only in a replay, as in `create`: the state has a later node at this path. Later transactions create its
            # children again.
            for child in self.children_of(path):
                self.delete(child_of(path, child), path, child, zxid)
            node = nodes[path]
        for mark in self.marks:
            mark.setdefault(path, node)
        del nodes[path]
        siblings = self.children[parent_path]
        del siblings[name]
        if not siblings:
            del self.children[parent_path]
        owner = node[9]
        if owner:
            self._disown(owner, path)
        return node

    def _insert(self, path: str, node: Znode) -> None:
        """Insert a node, but do not change its parent's count of children."""
        self.nodes[path] = node
        if path != ROOT:
            slash = path.rfind("/")
            self.children.setdefault(path[:slash] or ROOT, {})[path[slash + 1 :]] = None
        if node[9]:
            self._own(node[9], path)

    # -- owners ------------------------------------------------------------------------------------

    def _own(self, owner: int, path: str) -> None:
        if is_session(owner):
            owned = self.ephemerals.get(owner)
            if owned is None:
                owned = self.ephemerals[owner] = {}
            owned[path] = None
            self.ephemeral_bytes[owner] = self.ephemeral_bytes.get(owner, 0) + len(path) + BESIDE_A_PATH_BYTES
        elif owner == CONTAINER:
            self.containers[path] = None
        else:
            self.ttls[path] = None

    def _disown(self, owner: int, path: str) -> None:
        if is_session(owner):
            owned = self.ephemerals[owner]
            del owned[path]
            if owned:
                self.ephemeral_bytes[owner] -= len(path) + BESIDE_A_PATH_BYTES
            else:
                del self.ephemerals[owner], self.ephemeral_bytes[owner]
        elif owner == CONTAINER:
            del self.containers[path]
        else:
            del self.ttls[path]

    # -- reading -----------------------------------------------------------------------------------

    def children_of(self, path: str) -> list[str]:
        return list(self.children.get(path, ()))

    def count_below(self, path: str) -> int:
        """Count all descendants. The time grows with the number of nodes in the whole tree that have children."""
        if path == ROOT:
            return len(self.nodes) - 1
        if path not in self.children:
            return 0
        below = path + "/"
        return len(self.children[path]) + sum(
            len(names) for parent, names in self.children.items() if parent.startswith(below)
        )

    def measure(self, path: str) -> tuple[int, int]:
        """Return the number of nodes in the subtree at `path` and the bytes of their data; (0, 0) if there is no node.

        This is twice as fast as `walk` if most nodes are leaves.
        """
        nodes, children = self.nodes, self.children
        top = nodes.get(path)
        if top is None:
            return 0, 0
        count, size, pending = 1, len(top[0] or b""), [path]
        while pending:
            parent = pending.pop()
            names = children.get(parent)
            if names is not None:
                below = "/" if parent == ROOT else parent + "/"
                paths = [below + name for name in names]
                count += len(paths)
                size += sum([len(nodes[each][0] or b"") for each in paths])
                pending += [each for each in paths if each in children]
        return count, size

    def walk(self, path: str) -> Iterator[tuple[str, Znode]]:
        """Yield a node, which must exist, and all its descendants, parents first."""
        pending = [path]
        while pending:
            path = pending.pop()
            yield path, self.nodes[path]
            pending += [child_of(path, name) for name in reversed(self.children.get(path, {}))]

    @classmethod
    def blank(cls) -> Tree:
        """Make a tree without any node, to be filled by `load`."""
        tree = cls()
        tree.nodes.clear()
        tree.children.clear()
        return tree

    def load(self, path: str, node: Znode) -> None:
        self._insert(path, node)

    def check(self) -> None:
        """Assert that all tables agree with the nodes. It visits all nodes, so it is for tests and debugging."""
        children: dict[str, Paths] = {}
        ephemerals: dict[int, set[str]] = {}
        containers: set[str] = set()
        ttls: set[str] = set()
        for path, node in self.nodes.items():
            if path != ROOT:
                parent = parent_of(path)
                assert parent in self.nodes, f"{path} has no parent"
                assert not is_session(self.nodes[parent][9]), f"{path} is the child of an ephemeral node"
                children.setdefault(parent, {})[path[path.rindex("/") + 1 :]] = None
            owner = node[9]
            if is_session(owner):
                ephemerals.setdefault(owner, set()).add(path)
            elif owner:
                (containers if owner == CONTAINER else ttls).add(path)
        assert children == self.children
        assert ephemerals == {owner: set(paths) for owner, paths in self.ephemerals.items()}
        assert self.ephemeral_bytes == {
            owner: sum(len(path) + BESIDE_A_PATH_BYTES for path in paths) for owner, paths in ephemerals.items()
        }
        assert containers == set(self.containers)
        assert ttls == set(self.ttls)
        for path, node in self.nodes.items():
            assert node[11] == len(children.get(path, ())), f"{path} miscounts its children"
