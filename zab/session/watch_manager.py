"""The watches of one session: the paths and the kinds of events that each of them waits for.

To the server a session is one watcher that receives each event once. The manager passes each event on to those watches
of the session that wait for it. It serves sessions in this process and sessions over a connection, so both receive the
same events, except `MAYBE_MISSED`: only a lost connection causes it. After a lost connection the manager lists the
watches that the client registers at the next server.

Paths are the server's; `shown` turns them into the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol, TypeAlias

from zab.session.watch import Event, WatchEvent
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.paths import ancestors_of
from zab.store.server_watches import WatchKind, WatchMode


class Listener(Protocol):
    @property
    def over(self) -> bool: ...
    def notify(self, event: WatchEvent) -> None: ...


class Table(Enum):
    """The five lists of ZooKeeper's setWatches2, in its order. The first three are those of setWatches."""

    DATA = "data"
    EXIST = "exist"
    """A data watch on a node that did not exist."""
    CHILD = "child"
    PERSISTENT = "persistent"
    RECURSIVE = "recursive"


_KIND: Final = {
    Table.DATA: WatchKind.DATA,
    Table.EXIST: WatchKind.DATA,
    Table.CHILD: WatchKind.CHILDREN,
    Table.PERSISTENT: WatchKind.PERSISTENT,
    Table.RECURSIVE: WatchKind.RECURSIVE,
}
"""The server's kind of watch for each table."""

_TABLES: Final = {
    WatchKind.CHILDREN: (Table.CHILD,),
    WatchKind.DATA: (Table.DATA, Table.EXIST),
    WatchKind.ANY: tuple(Table),
    WatchKind.PERSISTENT: (Table.PERSISTENT,),
    WatchKind.RECURSIVE: (Table.RECURSIVE,),
}

_ONCE: Final = {
    Event.CREATED: (Table.DATA, Table.EXIST),
    Event.DATA_CHANGED: (Table.DATA, Table.EXIST),
    Event.DELETED: (Table.DATA, Table.EXIST, Table.CHILD),
    Event.CHILDREN_CHANGED: (Table.CHILD,),
}
"""For each event, the tables from which it removes the one-shot watches on its path."""

_REMOVED: Final = {
    Table.DATA: Event.DATA_WATCH_REMOVED,
    Table.EXIST: Event.DATA_WATCH_REMOVED,
    Table.CHILD: Event.CHILD_WATCH_REMOVED,
    Table.PERSISTENT: Event.PERSISTENT_WATCH_REMOVED,
    Table.RECURSIVE: Event.PERSISTENT_WATCH_REMOVED,
}

Lists: TypeAlias = tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str], Sequence[str]]


def unchanged(path: str) -> str:
    return path


class WatchManager:
    def __init__(self, shown: Callable[[str], str] = unchanged) -> None:
        self._shown = shown
        self._tables: dict[Table, dict[str, dict[Listener, None]]] = {table: {} for table in Table}
        self._of: dict[Listener, dict[tuple[Table, str], None]] = {}

    # -- replies ----------------------------------------------------------------------------------

    def answered(self, op: int, fields: Fields, error: int, watch: Listener | None) -> None:
        """Add or remove the watches of a request whose reply has arrived. Call it before any later event is handled."""
        if op == Op.REMOVE_WATCHES:
            if not error:
                self._removed(fields[0], WatchKind(fields[1]))
            return
        if watch is None or watch.over:
            return
        table = _table_of(op, fields, error)
        if table is not None:
            self._tables[table].setdefault(fields[0], {})[watch] = None
            self._of.setdefault(watch, {})[table, fields[0]] = None

    def _removed(self, path: str, kind: WatchKind) -> None:
        for table in _TABLES[kind]:
            for watch in self._tables[table].pop(path, {}):
                self._forget(watch, table, path)
                watch.notify(WatchEvent(_REMOVED[table], self._shown(path)))

    # -- events -----------------------------------------------------------------------------------

    def happened(self, event: int, path: str, zxid: int) -> None:
        """Pass an event on to each watch that waits for it: once, even if several tables name the watch."""
        known = Event(event)
        receivers: dict[Listener, None] = {}
        for table in _ONCE[known]:
            watches = self._tables[table].pop(path, None)
            if watches:
                receivers.update(watches)
                for watch in watches:
                    self._forget(watch, table, path)
        receivers.update(self._tables[Table.PERSISTENT].get(path, {}))
        recursive = self._tables[Table.RECURSIVE]
        if recursive and known is not Event.CHILDREN_CHANGED:
            for each in (path, *ancestors_of(path)):
                receivers.update(recursive.get(each, {}))
        if receivers:
            seen = WatchEvent(known, self._shown(path), zxid)
            for watch in receivers:
                watch.notify(seen)

    def interrupted(self) -> None:
        """Send MAYBE_MISSED to persistent watches after a reconnection.

        The server repeats missed events only for one-shot watches.
        """
        for table in (Table.PERSISTENT, Table.RECURSIVE):
            for path, watches in self._tables[table].items():
                event = WatchEvent(Event.MAYBE_MISSED, self._shown(path))
                for watch in watches:
                    watch.notify(event)

    # -- the end -----------------------------------------------------------------------------------

    def drop(self, watch: Listener) -> list[tuple[str, WatchKind]]:
        """Remove a closed watch. Return the paths and kinds that no other watch of this session needs."""
        idle: dict[tuple[str, WatchKind], None] = {}
        for table, path in self._of.pop(watch, {}):
            watches = self._tables[table][path]
            del watches[watch]
            if not watches:
                del self._tables[table][path]
            kind = _KIND[table]
            if not any(path in self._tables[each] for each in _TABLES[kind]):
                idle[path, kind] = None
        return list(idle)

    def watches(self, path: str, kind: WatchKind) -> bool:
        return any(path in self._tables[table] for table in _TABLES[kind])

    def lists(self) -> Lists:
        """Return the watched paths of each table, for the request that restores the watches at a new server."""
        data, exist, child, persistent, recursive = (list(self._tables[table]) for table in Table)
        return data, exist, child, persistent, recursive

    def _forget(self, watch: Listener, table: Table, path: str) -> None:
        of = self._of[watch]
        del of[table, path]
        if not of:
            del self._of[watch]


def _table_of(op: int, fields: Fields, error: int) -> Table | None:
    if op == Op.EXISTS and error == ErrorCode.NO_NODE:
        return Table.EXIST
    if error:
        return None
    if op in (Op.GET_DATA, Op.EXISTS):
        return Table.DATA
    if op in (Op.GET_CHILDREN, Op.GET_CHILDREN2):
        return Table.CHILD
    assert op == Op.ADD_WATCH, f"operation {op} watches nothing"
    return Table.RECURSIVE if fields[1] == WatchMode.RECURSIVE else Table.PERSISTENT
