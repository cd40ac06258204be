"""What one connection watches, and what it must be told of a change. A model of the server's tables, in small.

    data, exist        once, on a node that is there, or is not; either hears of its creation, its data and its end
    child              once, on a list of children; hears of its changes and of the node's end
    persistent         both of these, for ever
    recursive          creations, data and ends of a node and of all below it, for ever

Of one change a connection is told once, however many of its watches it concerns. Whoever watches once is done with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from harness.checkers.store.model import ROOT, Node, of_the_system, parent_of
from harness.checkers.store.replay import Replay
from harness.history import Change

KINDS: Final = ("data", "exist", "child", "persistent", "recursive")
Table: TypeAlias = frozenset[tuple[str, str]]
"""(kind, path)"""
Step: TypeAlias = tuple[str, str]
"""(event, path): what happened, whoever watches."""
Due: TypeAlias = tuple[str, str, int]
"""(event, path, zxid)"""
UNSAID: Final = -1
"""The zxid of an event that does not bear one."""


def steps_of(changes: Iterable[Change]) -> Iterator[Step]:
    """In the order in which watchers hear of it."""
    for change in changes:
        if of_the_system(change.path):
            continue
        match change.kind:
            case "create":
                yield "created", change.path
                yield "children", parent_of(change.path)
            case "set":
                yield "data", change.path
            case "delete":
                yield from _gone(change.path)
            case "close":
                for path in change.gone:
                    yield from _gone(path)
            case _:
                pass


def _gone(path: str) -> Iterator[Step]:
    yield "deleted", path
    yield "children", parent_of(path)


def told(table: Table, steps: Iterable[Step], zxid: int) -> tuple[tuple[Due, ...], Table]:
    """The events that these watches make of it, and the watches that are left."""
    due = []
    for event, path in steps:
        if _concerns(table, event, path):
            due.append((event, path, zxid))
            table = used_up(table, event, path)
    return tuple(due), table


def _concerns(table: Table, event: str, path: str) -> bool:
    if ("persistent", path) in table:
        return True
    if event in ("children", "deleted") and ("child", path) in table:
        return True
    if event == "children":
        return False
    if ("data", path) in table or ("exist", path) in table:
        return True
    while True:
        if ("recursive", path) in table:
            return True
        if path == ROOT:
            return False
        path = parent_of(path)


def used_up(table: Table, event: str, path: str) -> Table:
    """Without those that were for once and have heard of this."""
    done = {("child", path)} if event in ("children", "deleted") else set()
    if event != "children":
        done |= {("data", path), ("exist", path)}
    return table - done if not table.isdisjoint(done) else table


def again(table: Table, seen: int, replay: Replay, zxid: int) -> tuple[tuple[Due, ...], Table]:
    """A client that is back names what it watches and what it has seen; this is what it is told at `zxid`.

    What it watches once and what has changed since is told now. What it watches for ever begins again: of changes in
    between nothing is told.
    """
    due: list[Due] = []
    left = set()
    for kind, path in sorted(table):
        node = replay.node(path, zxid)
        missed = _missed(kind, node, seen)
        if missed:
            due.append((missed, path, UNSAID))
        else:
            left.add((kind, path))
    return tuple(due), frozenset(left)


def _missed(kind: str, node: Node | None, seen: int) -> str:
    if kind == "exist":
        return "" if node is None else "created"
    if kind not in ("data", "child"):
        return ""
    if node is None:
        return "deleted"
    if kind == "data":
        return "data" if node.mzxid > seen else ""
    return "children" if node.pzxid > seen else ""


def jumped(table: Table, replay: Replay, old: int, new: int) -> tuple[tuple[Due, ...], Table]:
    """Its server went from `old` to `new` at once: what the two states show of what happened in between."""
    paths = {path for _, path in table}
    for kind, root in table:
        if kind == "recursive":
            below = root if root == ROOT else root + "/"
            paths.update(path for path in replay.paths if path.startswith(below))
    gone: list[Step] = []
    rest: list[Step] = []
    for path in sorted(paths):
        before, after = replay.node(path, old), replay.node(path, new)
        (gone if after is None else rest).extend((event, path) for event in _differences(before, after))
    return told(table, gone[::-1] + rest, new)


def _differences(old: Node | None, new: Node | None) -> Iterator[str]:
    if new is None:
        if old is not None:
            yield "deleted"
    elif old is None:
        yield "created"
    elif old.czxid != new.czxid:
        yield "deleted"
        yield "created"
    else:
        if old.mzxid != new.mzxid:
            yield "data"
        if old.pzxid != new.pzxid:
            yield "children"
