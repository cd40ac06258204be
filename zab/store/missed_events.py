"""Find the events that watchers missed because a snapshot replaced their server's state.

Clients may stay connected during the replacement. The old and the new state are compared at each watched path, and at
each path below a recursive watch. Each watcher receives the events that the difference of the two states implies.
"""

from __future__ import annotations

from attrs import frozen

from zab.store.acl import Acl
from zab.store.server_watches import EventType, ServerWatches
from zab.store.tree import Tree
from zab.store.znode import ACL, CZXID, MZXID, PZXID, Znode


@frozen
class MissedEvent:
    """An event, with the ACL that decides which watchers receive it."""

    event: EventType
    path: str
    acl: Acl


def compare(old: Tree, new: Tree, watches: ServerWatches) -> list[MissedEvent]:
    """Compare two states at every path that `watches` cover, and return the events in the order of delivery."""
    paths = dict.fromkeys([*watches.data_paths, *watches.child_paths])
    for root in watches.recursive_roots:
        for tree in (old, new):
            if root in tree.nodes:
                paths.update((path, None) for path, _ in tree.walk(root))
    gone: list[MissedEvent] = []
    missed: list[MissedEvent] = []
    for path in paths:
        before, after = old.nodes.get(path), new.nodes.get(path)
        (gone if after is None else missed).extend(_compare(path, before, after))
    gone.sort(key=lambda each: each.path, reverse=True)  # children are deleted before their parents
    return gone + missed


def _compare(path: str, old: Znode | None, new: Znode | None) -> list[MissedEvent]:
    if old is new:
        return []
    if new is None:
        assert old is not None
        return [MissedEvent(EventType.DELETED, path, old[ACL])]
    missed = []
    if old is None:
        missed.append(MissedEvent(EventType.CREATED, path, new[ACL]))
    elif old[CZXID] != new[CZXID]:
        # The node was deleted and created again. A one-shot watch ends with the deletion; a persistent one receives
        # both events.
        return [MissedEvent(EventType.DELETED, path, old[ACL]), MissedEvent(EventType.CREATED, path, new[ACL])]
    elif old[MZXID] != new[MZXID]:
        missed.append(MissedEvent(EventType.DATA_CHANGED, path, new[ACL]))
    if old is not None and old[PZXID] != new[PZXID]:
        missed.append(MissedEvent(EventType.CHILDREN_CHANGED, path, new[ACL]))
    return missed


def deliver(missed: list[MissedEvent], watches: ServerWatches, zxid: int) -> None:
    for each in missed:
        watches.happened(each.event, each.path, each.acl, zxid)
