"""The watches of one server's clients.

There are two tables, *data* and *child*. Each maps a path to its watchers and their modes. A change scans no table: it
looks up its path and the parent, and the other ancestors only if a recursive watch exists.

All watchers that a table has for an event are handed to `deliver` at once. It can encode the event once and give the
same bytes to a thousand connections.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

from zab.store.acl import DEFAULT_ACCESS, OPEN, READ, Access, Acl, Identity, allows
from zab.store.paths import ancestors_of


class Watcher(Hashable, Protocol):
    """A connection, or a session in this process. Two watchers are equal only if they are the same object."""

    @property
    def identities(self) -> Sequence[Identity]: ...


class EventType(IntEnum):
    """ZooKeeper's numbers of events."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchKind(IntEnum):
    """The kinds of watches that a client can remove."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    RECURSIVE = 5


class WatchMode(IntEnum):
    """The modes of watches that a client can add."""

    PERSISTENT = 0
    RECURSIVE = 1


Deliver: TypeAlias = Callable[[Sequence[Watcher], int, str, int], None]
"""(watchers, event, path, zxid), with the watchers in the order of delivery."""

STANDARD: Final = 1
PERSISTENT: Final = 2
RECURSIVE: Final = 4
_EVERY: Final = 7


LONG_PATH: Final = 256
"""An entry counts as one more against the limits for each full `LONG_PATH` characters of its path.

A path may be a megabyte long.
"""


class _WatchTable:
    """Watches by path, and by watcher, so that the watches of a watcher that has ended are found."""

    __slots__ = ("by_path", "by_watcher", "count", "long", "long_of", "recursive")

    def __init__(self) -> None:
        self.by_path: dict[str, dict[Watcher, int]] = {}
        """path -> watcher -> its modes, never 0"""
        self.by_watcher: dict[Watcher, dict[str, None]] = {}
        """watcher -> its paths: the same pairs as in `by_path`"""
        self.count = 0
        """The number of (path, watcher) pairs."""
        self.long = 0
        """The extra weight of long paths beyond `count`: the sum of `long_of`."""
        self.long_of: dict[Watcher, int] = {}
        """The extra weight of each watcher's long paths, if not 0."""
        self.recursive = 0
        """The number of pairs with a recursive watch."""

    def add(self, path: str, watcher: Watcher, mode: int) -> None:
        watchers = self.by_path.get(path)
        if watchers is None:
            watchers = self.by_path[path] = {}
        modes = watchers.get(watcher, 0)
        if modes & mode:
            return
        watchers[watcher] = modes | mode
        if mode == RECURSIVE:
            self.recursive += 1
        if not modes:
            self.count += 1
            paths = self.by_watcher.get(watcher)
            if paths is None:
                paths = self.by_watcher[watcher] = {}
            paths[path] = None
            if len(path) >= LONG_PATH:
                self._lengthen(watcher, len(path) // LONG_PATH)

    def _lengthen(self, watcher: Watcher, by: int) -> None:
        self.long += by
        left = self.long_of.pop(watcher, 0) + by
        if left:
            self.long_of[watcher] = left

    def weight_of(self, watcher: Watcher) -> int:
        """Return how much the entries of this watcher count against the limits."""
        return len(self.by_watcher.get(watcher, ())) + self.long_of.get(watcher, 0)

    def has(self, path: str, watcher: Watcher, mode: int) -> bool:
        return bool(self.by_path.get(path, {}).get(watcher, 0) & mode)

    def remove(self, path: str, watcher: Watcher, mode: int) -> bool:
        watchers = self.by_path.get(path)
        if watchers is None:
            return False
        modes = watchers.get(watcher, 0)
        if not modes & mode:
            return False
        if modes & mode & RECURSIVE:
            self.recursive -= 1
        modes &= ~mode
        if modes:
            watchers[watcher] = modes
            return True
        self.count -= 1
        del watchers[watcher]
        if not watchers:
            del self.by_path[path]
        paths = self.by_watcher[watcher]
        del paths[path]
        if not paths:
            del self.by_watcher[watcher]
        if len(path) >= LONG_PATH:
            self._lengthen(watcher, -(len(path) // LONG_PATH))
        return True

    def take(self, path: str) -> dict[Watcher, None]:
        """Return all watchers of exactly this path, and remove the one-shot watches."""
        watchers = self.by_path.get(path)
        if watchers is None:
            return {}
        found: dict[Watcher, None] = dict.fromkeys(watchers)
        for watcher, modes in list(watchers.items()):
            if modes & STANDARD:
                self.remove(path, watcher, STANDARD)
        return found

    def drop(self, watcher: Watcher, most: int) -> int:
        """Remove up to `most` entries of this watcher. Return the number of removed entries."""
        paths = self.by_watcher.get(watcher, {})
        dropped = min(most, len(paths))
        for _ in range(dropped):
            path, _ = paths.popitem()
            watchers = self.by_path[path]
            if watchers.pop(watcher) & RECURSIVE:
                self.recursive -= 1
            if not watchers:
                del self.by_path[path]
            if len(path) >= LONG_PATH:
                self._lengthen(watcher, -(len(path) // LONG_PATH))
        self.count -= dropped
        if dropped and not paths:
            del self.by_watcher[watcher]
        return dropped


def weight(path: str) -> int:
    """Return how much an entry of this path counts against the limits."""
    return 1 + len(path) // LONG_PATH


def weight_of_all(paths: Sequence[str]) -> int:
    return len(paths) + sum([len(path) // LONG_PATH for path in paths if len(path) >= LONG_PATH])


class ServerWatches:
    """The watches of the clients of one server. Finds the watchers of each change, and hands their events over."""

    def __init__(
        self,
        deliver: Deliver,
        access: Access = DEFAULT_ACCESS,
        per_watcher_max: int | None = None,
        total_max: int | None = None,
    ) -> None:
        self.deliver = deliver
        """Called with an event and its watchers, at most once for each event and table."""
        self._access = access
        self._data = _WatchTable()
        """Watches for the creation, the deletion and the data of a node."""
        self._child = _WatchTable()
        """Watches for the deletion of a node and for its list of children."""
        self.per_watcher_max = per_watcher_max
        """The limit of one watcher's entries in both tables, long paths counted several times; None: no limit."""
        self.total_max = total_max
        """The limit of all watchers' entries, counted in the same way; None: no limit."""
        self.data_paths = self._data.by_path
        self.child_paths = self._child.by_path
        """The dicts of both tables. They stay the same objects, so that a change can test quickly whether any watch
        exists.
        """

    # -- registration ------------------------------------------------------------------------------

    def has_room(self, watcher: Watcher, more: int = 1) -> bool:
        """Return True if the limits have room for this many further entries of the watcher, counted by `weight`."""
        data, child = self._data, self._child
        if self.total_max is not None and data.count + data.long + child.count + child.long + more > self.total_max:
            return False
        most = self.per_watcher_max
        return most is None or data.weight_of(watcher) + child.weight_of(watcher) + more <= most

    def watch_data(self, path: str, watcher: Watcher) -> bool:
        """Add a one-shot watch. Return False, and add nothing, if the limits have no room for a new entry."""
        if not self.has_room(watcher, weight(path)) and watcher not in self.data_paths.get(path, ()):
            return False
        self._data.add(path, watcher, STANDARD)
        return True

    def watch_children(self, path: str, watcher: Watcher) -> bool:
        """Add a one-shot watch. Return False, and add nothing, if the limits have no room for a new entry."""
        if not self.has_room(watcher, weight(path)) and watcher not in self.child_paths.get(path, ()):
            return False
        self._child.add(path, watcher, STANDARD)
        return True

    def add(self, path: str, watcher: Watcher, mode: int) -> bool:
        """Add a persistent or recursive watch. Return False, and add nothing, if the limits have no room for it.

        A recursive watch receives no events about lists of children, so only the data table contains it.
        """
        tables = (self._data,) if mode == WatchMode.RECURSIVE else (self._data, self._child)
        more = sum(watcher not in table.by_path.get(path, ()) for table in tables)
        if more and not self.has_room(watcher, more * weight(path)):
            return False
        for table in tables:
            table.add(path, watcher, RECURSIVE if mode == WatchMode.RECURSIVE else PERSISTENT)
        return True

    def add_all(
        self,
        watcher: Watcher,
        data: Iterable[str],
        child: Iterable[str],
        persistent: Iterable[str],
        recursive: Iterable[str],
    ) -> None:
        """Add one-shot, persistent and recursive watches. Call it only if `has_room` allows all of them."""
        add_data, add_child = self._data.add, self._child.add
        for path in data:
            add_data(path, watcher, STANDARD)
        for path in child:
            add_child(path, watcher, STANDARD)
        for path in persistent:
            add_data(path, watcher, PERSISTENT)
            add_child(path, watcher, PERSISTENT)
        for path in recursive:
            add_data(path, watcher, RECURSIVE)

    def has(self, path: str, watcher: Watcher, kind: int) -> bool:
        return any(table.has(path, watcher, mode) for table, mode in self._entries(kind))

    def remove(self, path: str, watcher: Watcher, kind: int) -> bool:
        """Remove a watcher's watches of this kind at a path, without an event. Return whether there were any."""
        removed = [table.remove(path, watcher, mode) for table, mode in self._entries(kind)]
        return True in removed

    def drop(self, watcher: Watcher, most: int = sys.maxsize) -> bool:
        """Remove watches of a watcher that has ended, up to `most` of each table. Return True if there may be more.

        The child table has its turn once the data table has fewer than `most` entries of this watcher.
        """
        return self._data.drop(watcher, most) == most or self._child.drop(watcher, most) == most

    def _entries(self, kind: int) -> tuple[tuple[_WatchTable, int], ...]:
        data, child = self._data, self._child
        match kind:
            case WatchKind.CHILDREN:
                return ((child, STANDARD),)
            case WatchKind.DATA:
                return ((data, STANDARD),)
            case WatchKind.ANY:
                return ((data, _EVERY), (child, _EVERY))
            case WatchKind.PERSISTENT:
                return ((data, PERSISTENT), (child, PERSISTENT))
            case WatchKind.RECURSIVE:
                return ((data, RECURSIVE),)
            case _:
                return ()

    # -- changes -----------------------------------------------------------------------------------

    def created(self, path: str, parent: str, acl: Acl, parent_acl: Acl, zxid: int) -> None:
        if self.data_paths:
            self._notify(self._data_watchers(path), EventType.CREATED, path, acl, zxid)
        if self.child_paths:
            self._notify(self._child.take(parent), EventType.CHILDREN_CHANGED, parent, parent_acl, zxid)

    def deleted(self, path: str, parent: str, acl: Acl, parent_acl: Acl, zxid: int) -> None:
        watchers = self._data_watchers(path) if self.data_paths else {}
        self._notify(watchers, EventType.DELETED, path, acl, zxid)
        if self.child_paths:
            more = {watcher: None for watcher in self._child.take(path) if watcher not in watchers}
            self._notify(more, EventType.DELETED, path, acl, zxid)
            self._notify(self._child.take(parent), EventType.CHILDREN_CHANGED, parent, parent_acl, zxid)

    def data_changed(self, path: str, acl: Acl, zxid: int) -> None:
        self._notify(self._data_watchers(path), EventType.DATA_CHANGED, path, acl, zxid)

    def happened(self, event: EventType, path: str, acl: Acl, zxid: int) -> None:
        """Deliver an event of this node, but none of its parent. Used after a snapshot has replaced the state."""
        match event:
            case EventType.CHILDREN_CHANGED:
                self._notify(self._child.take(path), event, path, acl, zxid)
            case EventType.DELETED:
                watchers = self._data_watchers(path)
                watchers.update(self._child.take(path))
                self._notify(watchers, event, path, acl, zxid)
            case _:
                self._notify(self._data_watchers(path), event, path, acl, zxid)

    def _data_watchers(self, path: str) -> dict[Watcher, None]:
        data = self._data
        found = data.take(path)
        if data.recursive:
            for ancestor in ancestors_of(path):
                for watcher, modes in data.by_path.get(ancestor, {}).items():
                    if modes & RECURSIVE:
                        found[watcher] = None
        return found

    def _notify(self, watchers: Iterable[Watcher], event: EventType, path: str, acl: Acl, zxid: int) -> None:
        access = self._access
        if acl is not OPEN and not access.skip:
            # A client without permission to read a node must not learn from an event that the node exists. Its one-shot
            # watch is removed nevertheless.
            listed = [watcher for watcher in watchers if allows(acl, READ, watcher.identities, access)]
        else:
            listed = list(watchers)
        if listed:
            self.deliver(listed, event, path, zxid)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of entries, of watched paths and of watchers.

        An entry is a pair of path and watcher in one table. A persistent watch is in both tables, so it counts twice.
        """
        paths = self.data_paths.keys() | self.child_paths.keys()
        return self.count, len(paths), len(self._data.by_watcher.keys() | self._child.by_watcher.keys())

    @property
    def count(self) -> int:
        return self._data.count + self._child.count

    @property
    def recursive_roots(self) -> list[str]:
        if not self._data.recursive:
            return []
        # Iterate over copies: `restore` runs this in a thread while closed connections remove their watches.
        return [
            path
            for path, watchers in list(self.data_paths.items())
            if any(modes & RECURSIVE for modes in list(watchers.values()))
        ]

    def paths_of(self, watcher: Watcher) -> list[str]:
        return list({**self._data.by_watcher.get(watcher, {}), **self._child.by_watcher.get(watcher, {})})
