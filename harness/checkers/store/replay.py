"""The committed changes, replayed in order, and the tree at every zxid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby

from attrs import frozen

from harness.checkers.store.model import EMPTY, Moment, Node
from harness.history import Change


@frozen
class Group:
    """The changes that were committed under one zxid."""

    zxid: int
    session: int
    changes: tuple[Change, ...]

    @property
    def writes(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.kind in ("create", "set", "delete", "setacl"))


class Replay:
    def __init__(self, changes: tuple[Change, ...]) -> None:
        self.problems: list[tuple[Change, str]] = []
        """The changes that are impossible after those before them, each with the reason."""
        self.groups: dict[int, Group] = {}
        self.after: dict[tuple[int, int], Node | None] = {}
        """The node that each change created or set, as it was right afterwards, by zxid and index in a multi."""
        self.within: dict[int, list[tuple[str, Node | None]]] = {}
        """The nodes that a read in the middle of a multi would show, by zxid of the multi."""
        self.zxids: dict[str, list[int]] = {path: [0] for path in EMPTY}
        """The zxids of the changes of each path that has ever existed."""
        self._nodes: dict[str, list[Node | None]] = {path: [node] for path, node in EMPTY.items()}
        self._latest: dict[str, Node | None] = dict(EMPTY)
        last = 0
        for zxid, made in groupby(changes, key=lambda change: change.zxid):
            together = tuple(made)
            group = Group(zxid, together[0].session, together)
            if zxid <= last:
                self.problems.append((group.changes[0], f"it follows zxid {last:#x}"))
            last = max(last, zxid)
            self.groups[zxid] = group
            self._apply(group)
        self.last = last
        self.order = sorted(self.groups)

    def _apply(self, group: Group) -> None:
        moment = Moment(self._latest.get)
        for change in group.changes:
            wrong = moment.apply(change)
            if wrong:
                self.problems.append((change, wrong))
            node = moment.get(change.path) if change.path else None
            self.after[group.zxid, change.part] = node
            if len(group.changes) > 1:
                self.within.setdefault(group.zxid, []).extend(moment.changed.items())
        for path, node in moment.changed.items():
            self._latest[path] = node
            self.zxids.setdefault(path, [0]).append(group.zxid)
            self._nodes.setdefault(path, [None]).append(node)

    # -- lookups -----------------------------------------------------------------------------------

    def node(self, path: str, zxid: int) -> Node | None:
        """Return the node after `zxid`, or None."""
        zxids = self.zxids.get(path)
        return None if zxids is None else self._nodes[path][bisect_right(zxids, zxid) - 1]

    def since(self, path: str, zxid: int) -> int:
        """Return the zxid of the newest change of the node up to `zxid`."""
        zxids = self.zxids.get(path, [0])
        return zxids[bisect_right(zxids, zxid) - 1]

    def lives(self, path: str) -> Iterator[tuple[int, Node | None]]:
        """Yield every state that the node has had, with the zxid that made it."""
        yield from zip(self.zxids.get(path, [0]), self._nodes.get(path, [None]), strict=True)

    def before(self, zxid: int) -> Moment:
        """Return the tree right before this transaction."""
        return Moment(lambda path: self.node(path, zxid - 1))

    def between(self, low: int, high: int) -> list[int]:
        """Return the zxids above `low` up to `high`."""
        return self.order[bisect_right(self.order, low) : bisect_right(self.order, high)]
