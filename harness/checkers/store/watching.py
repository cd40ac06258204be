"""The watches of one connection, and the events that a change must send to it: a small model of the server's tables.

    data, exist        once, on a node that is there, or is not; either hears of its creation, its data and its end
    child              once, on a list of children; hears of its changes and of the node's end
    persistent         both of these, for ever
    recursive          creations, data and ends of a node and of all below it, for ever

Of one change a connection is told once, however many of its watches it concerns. Whoever watches once is done with it,
also if he is not told because the node's list does not let him read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from harness.checkers.store.model import ROOT, Moment, Node, granted, of_the_system, parent_of
from harness.checkers.store.replay import Replay
from harness.history import Change

KINDS: Final = ("data", "exist", "child", "persistent", "recursive")
Table: TypeAlias = frozenset[tuple[str, str]]
"""(kind, path)"""
Step: TypeAlias = tuple[str, str, str]
"""(event, path, ACL of the node, by which a watcher may receive the event)"""
Due: TypeAlias = tuple[str, str, int]
"""(event, path, zxid)"""
UNSAID: Final = -1
"""The zxid of an event that bears none."""


def steps_of(changes: Iterable[Change], moment: Moment) -> Iterator[Step]:
    """Yield the events of these changes in their order, with the ACLs of the tree at each step."""
    for change in changes:
        if of_the_system(change.path):
            continue
        match change.kind:
            case "create":
                above = parent_of(change.path)
                moment.apply(change)
                yield "created", change.path, change.acl
                yield "children", above, _list(moment, above)
            case "set":
                yield "data", change.path, _list(moment, change.path)
            case "delete":
                yield from _gone(change.path, moment)
                moment.apply(change)
            case "close":
                for path in change.gone:
                    yield from _gone(path, moment)
            case _:
                moment.apply(change)


def _gone(path: str, moment: Moment) -> Iterator[Step]:
    yield "deleted", path, _list(moment, path)
    yield "children", parent_of(path), _list(moment, parent_of(path))


def _list(moment: Moment, path: str) -> str:
    node = moment.get(path)
    return "" if node is None else node.acl


def told(table: Table, steps: Iterable[Step], zxid: int, user: str) -> tuple[tuple[Due, ...], Table]:
    """Return the events that these watches of this user send, and the watches that are left."""
    due = []
    for event, path, acl in steps:
        if _concerns(table, event, path):
            if granted(acl, "r", user):
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
    """Return the table without the one-shot watches that this event uses up."""
    done = {("child", path)} if event in ("children", "deleted") else set()
    if event != "children":
        done |= {("data", path), ("exist", path)}
    return table - done if not table.isdisjoint(done) else table


def again(table: Table, seen: int, replay: Replay, zxid: int, user: str) -> tuple[tuple[Due, ...], Table]:
    """Return the events that a reconnected client receives at `zxid`, and the watches that are left.

    The client sends its watches and the zxid that it has seen. A one-shot watch of a node that changed since fires now,
    if the ACL allows it; a deletion is reported to any user. A persistent watch begins anew: changes in between are not
    reported.
    """
    due: list[Due] = []
    left = set()
    for kind, path in sorted(table):
        node = replay.node(path, zxid)
        missed = _missed(kind, node, seen)
        if missed:
            if node is None or granted(node.acl, "r", user):
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


def jumped(table: Table, replay: Replay, old: int, new: int, user: str) -> tuple[tuple[Due, ...], Table]:
    """Return the events of a server that went from `old` to `new` at once: the differences between the two states."""
    paths = {path for _, path in table}
    for kind, root in table:
        if kind == "recursive":
            below = root if root == ROOT else root + "/"
            paths.update(path for path in replay.paths if path.startswith(below))
    steps: list[Step] = []
    for path in sorted(paths):  # in no particular order: what is due at once may come as it likes
        before, after = replay.node(path, old), replay.node(path, new)
        steps.extend((event, path, acl) for event, acl in _differences(before, after))
    return told(table, steps, new, user)


def _differences(old: Node | None, new: Node | None) -> Iterator[tuple[str, str]]:
    """Yield each event with the ACL by which a watcher may receive it."""
    if new is None:
        if old is not None:
            yield "deleted", old.acl
    elif old is None:
        yield "created", new.acl
    elif old.czxid != new.czxid:
        yield "deleted", old.acl
        yield "created", new.acl
    else:
        if old.mzxid != new.mzxid:
            yield "data", new.acl
        if old.pzxid != new.pzxid:
            yield "children", new.acl
