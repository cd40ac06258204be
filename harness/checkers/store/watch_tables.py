"""A small model of a server's watch tables: the watches of a connection, and the events that a change must send to it.

    data, exist        one-shot, on an existing or missing node; its creation, its data, its deletion
    child              one-shot, on a list of children; its changes, the node's deletion
    persistent         the events of all three, permanently
    recursive          creations, data and deletions of a node and of all nodes below it, permanently

A connection receives one event for a change, even if several of its watches match. A matching one-shot watch is used
up, also if the client gets no event because the node's ACL does not let it read the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from harness.checkers.store.model import ROOT, Moment, Node, granted, of_the_system, parent_of
from harness.checkers.store.replay import Replay
from harness.history import Change

KINDS: Final = ("data", "exist", "child", "persistent", "recursive")
Table: TypeAlias = frozenset[tuple[str, str]]
"""A set of watches, each as (kind, path)."""
Step: TypeAlias = tuple[str, str, str]
"""An event of a change, as (event, path, ACL); the ACL decides which clients may receive the event."""
Due: TypeAlias = tuple[str, str, int]
"""An event that a client must receive, as (event, path, zxid)."""
NO_ZXID: Final = -1
"""The zxid of an event without one."""


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
                yield "children", above, _acl(moment, above)
            case "set":
                yield "data", change.path, _acl(moment, change.path)
            case "delete":
                yield from _deletion(change.path, moment)
                moment.apply(change)
            case "close":
                for path in change.gone:
                    yield from _deletion(path, moment)
            case _:
                moment.apply(change)


def _deletion(path: str, moment: Moment) -> Iterator[Step]:
    yield "deleted", path, _acl(moment, path)
    yield "children", parent_of(path), _acl(moment, parent_of(path))


def _acl(moment: Moment, path: str) -> str:
    node = moment.get(path)
    return "" if node is None else node.acl


def events_for(table: Table, steps: Iterable[Step], zxid: int, user: str) -> tuple[tuple[Due, ...], Table]:
    """Return the events that these watches send to this user, and the watches that remain."""
    due = []
    for event, path, acl in steps:
        if _matches(table, event, path):
            if granted(acl, "r", user):
                due.append((event, path, zxid))
            table = without_fired(table, event, path)
    return tuple(due), table


def _matches(table: Table, event: str, path: str) -> bool:
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


def without_fired(table: Table, event: str, path: str) -> Table:
    """Return the table without the one-shot watches that this event uses up."""
    done = {("child", path)} if event in ("children", "deleted") else set()
    if event != "children":
        done |= {("data", path), ("exist", path)}
    return table - done if not table.isdisjoint(done) else table


def reconnected(table: Table, seen: int, replay: Replay, zxid: int, user: str) -> tuple[tuple[Due, ...], Table]:
    """Return the events that a server at `zxid` sends to a reconnected client, and the watches that remain.

    The client sends its watches and the last zxid that it has seen. A one-shot watch fires if its node has changed
    since then and the ACL allows it; any user receives a deletion. A persistent watch begins again, without events for
    the changes in between.
    """
    due: list[Due] = []
    left = set()
    for kind, path in sorted(table):
        node = replay.node(path, zxid)
        missed = _missed(kind, node, seen)
        if missed:
            if node is None or granted(node.acl, "r", user):
                due.append((missed, path, NO_ZXID))
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


def after_jump(table: Table, replay: Replay, old: int, new: int, user: str) -> tuple[tuple[Due, ...], Table]:
    """Return the events of a server that jumps from `old` to `new`, for the differences of the two states."""
    paths = {path for _, path in table}
    for kind, root in table:
        if kind == "recursive":
            below = root if root == ROOT else root + "/"
            paths.update(path for path in replay.zxids if path.startswith(below))
    steps: list[Step] = []
    for path in sorted(paths):  # the server may send these events in any order
        before, after = replay.node(path, old), replay.node(path, new)
        steps.extend((event, path, acl) for event, acl in _differences(before, after))
    return events_for(table, steps, new, user)


def _differences(old: Node | None, new: Node | None) -> Iterator[tuple[str, str]]:
    """Yield each event with the ACL that decides which clients may receive it."""
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
