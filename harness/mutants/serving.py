"""The store: what a client is told, in which order, and what it is told of without having asked."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

WATCHES: Final = "zab.store.server_watches:ServerWatches"
TABLE: Final = "zab.store.server_watches:_WatchTable"
READS: Final = "zab.store.read_handler:ReadHandler"
CONNECTION: Final = "zab.service.connection.client_connection:ClientConnection"
PIPELINE: Final = "zab.service.connection.request_pipeline:RequestPipeline"
MISSED: Final = "zab.store.missed_events"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- watches ---------------------------------------------------------------------------------------
    mutant(
        "watch-fires-twice",
        "a one-shot watch stays after it has fired",
        (f"{TABLE}.take", "self.remove(path, watcher, STANDARD)", "pass"),
        machine="store",
    ),
    mutant(
        "watch-takes-the-others-along",
        "a one-shot watch that fires removes the persistent watch at the same node",
        (f"{TABLE}.take", "self.remove(path, watcher, STANDARD)", "self.remove(path, watcher, _EVERY)"),
        machine="store",
    ),
    mutant(
        "taken-back-with-the-other-kind",
        "the removal of a one-shot watch on children also removes the one on data, and vice versa",
        (f"{WATCHES}._entries", "return ((child, STANDARD),)", "return ((child, STANDARD), (data, STANDARD))"),
        (f"{WATCHES}._entries", "return ((data, STANDARD),)", "return ((data, STANDARD), (child, STANDARD))"),
        machine="store",
    ),
    mutant(
        "taken-back-with-those-that-stay",
        "the removal of a one-shot watch also removes the persistent watch at the same node",
        (f"{WATCHES}._entries", "return ((child, STANDARD),)", "return ((child, _EVERY),)"),
        (f"{WATCHES}._entries", "return ((data, STANDARD),)", "return ((data, _EVERY),)"),
        machine="store",
    ),
    mutant(
        "taken-back-below",
        "the removal of a watch at a node also removes the client's watches below it",
        (
            f"{WATCHES}.remove",
            "removed = [table.remove(path, watcher, mode) for table, mode in self._entries(kind)]",
            """
            below = [each for each in self.paths_of(watcher) if each == path or each.startswith(f"{path}/")]
            removed = [table.remove(each, watcher, mode) for each in below for table, mode in self._entries(kind)]
            """,
        ),
        machine="store",
    ),
    mutant(
        "taken-back-from-all",
        "the removal of a client's watches at a node removes those of all other clients of the server",
        (
            f"{WATCHES}.remove",
            "removed = [table.remove(path, watcher, mode) for table, mode in self._entries(kind)]",
            """
            removed = [
                table.remove(path, each, mode) and each is watcher
                for table, mode in self._entries(kind)
                for each in list(table.by_path.get(path, ()))
            ]
            """,
        ),
        machine="store",
    ),
    mutant(
        "no-watch-on-nothing",
        "exists sets no watch if the node does not exist",
        (
            f"{READS}.exists",
            """
            if watch and not self._watches.watch_data(path, client):  # a missing node can be watched
                return NO_ROOM
            """,
            """
            if watch and node is not None:
                self._watches.watch_data(path, client)
            """,
        ),
        machine="store",
    ),
    mutant(
        "children-watch-misses-deletes",
        "a watch on children does not fire when a child is deleted",
        (
            f"{WATCHES}.deleted",
            "self._notify(self._child.take(parent), EventType.CHILDREN_CHANGED, parent, parent_acl, zxid)",
            "pass",
        ),
        machine="store",
    ),
    mutant(
        "children-watch-misses-the-end",
        "a watch on children does not fire when the node itself is deleted",
        (
            f"{WATCHES}.deleted",
            "more = {watcher: None for watcher in self._child.take(path) if watcher not in watchers}",
            "more = {}",
        ),
        machine="store",
    ),
    mutant(
        "recursive-watch-is-flat",
        "a recursive watch fires only for its own node",
        (f"{WATCHES}._data_watchers", "if data.recursive:", "if False:"),
        machine="store",
    ),
    mutant(
        "data-watch-misses-creates",
        "a watch on a missing node does not fire when the node is created",
        (f"{WATCHES}.created", "self._notify(self._data_watchers(path), EventType.CREATED, path, acl, zxid)", "pass"),
        machine="store",
    ),
    mutant(
        "missed-is-not-told",
        "a client that returns at another server receives no events for changes that it missed",
        (f"{READS}.set_watches", "elif node[MZXID] > seen:", "elif False:"),
        (f"{READS}.set_watches", "elif node[PZXID] > seen:", "elif False:"),
        machine="store",
    ),
    mutant(
        "missed-by-one",
        "a returning client receives no event for a change of children at the zxid after its newest one",
        (f"{READS}.set_watches", "elif node[PZXID] > seen:", "elif node[PZXID] > seen + 1:"),
        machine="store",
    ),
    mutant(
        "old-is-told-again",
        "etcd 15271: a returning client receives events for changes that it has seen",
        (f"{READS}.set_watches", "elif node[MZXID] > seen:", "elif True:"),
        machine="store",
    ),
    mutant(
        "watches-lost-on-the-way",
        "a client that returns at another server loses its watches on children",
        (f"{READS}.set_watches", "child_paths.append(path)", "pass"),
        machine="store",
    ),
    mutant(
        "events-lost-in-a-snapshot",
        "etcd 18089, 17529: a client whose server restores a snapshot receives no events for the changes in it",
        ("zab.store.store:Store.deliver_missed", "missed_events.deliver(missed, self.watches, self.zxid)", "pass"),
        machine="store",
    ),
    mutant(
        "snapshot-not-compared",
        "a server that restores a snapshot does not compare the watched nodes",
        (
            "zab.store.store:Store.restore",
            "self._missed += missed_events.compare(self.tree, tree, self.watches)",
            "pass",
        ),
        machine="store",
    ),
    mutant(
        "events-before-their-snapshot",
        "a recursive watch over a restored snapshot fires only for nodes that existed before",
        (f"{MISSED}:compare", "for tree in (old, new):", "for tree in (old,):"),
        machine="store",
    ),
    mutant(
        "reply-overtakes-event",
        "a client sees new data before the event of the change",
        (
            f"{CONNECTION}.notify",
            "self.send(change.frame)",
            "vars(self).setdefault('late', []).append(change.frame); self._shell.output_ready()",
        ),
        (
            f"{CONNECTION}.settle",
            "self.pipeline.settle()",
            "[self.send_buffer.put(each) for each in vars(self).pop('late', [])]; self.pipeline.settle()",
        ),
        machine="store",
    ),
    # -- replies ---------------------------------------------------------------------------------------
    mutant(
        "read-overtakes-write",
        "a read is answered before an earlier write of the same client",
        (f"{PIPELINE}._take_all", "if replies:", "if False:"),
        machine="store",
    ),
    mutant(
        "sync-answered-locally",
        "ZOOKEEPER-1675, etcd 20418: a server replies to a sync without its leader",
        (
            f"{PIPELINE}._sync",
            "self._shell.sync(self._client.session, partial(self._client.contain, self._synced, reply))",
            "self._synced(reply, None, None)",
        ),
        machine="store",
    ),
    mutant(
        "multi-seen-in-its-midst",
        "ZOOKEEPER-3127: the zxid advances before all of a multi is applied",
        (
            "zab.store.apply:Applier._multi",
            "while position < end:",
            "while position < end and not (results and zxid % 3 == 0):",
        ),
        machine="store",
    ),
    # -- snapshots of the store ------------------------------------------------------------------------
    mutant(
        "secret-not-in-the-snapshot",
        "sessions from a snapshot cannot be resumed",
        (
            "zab.store.store_snapshot:StoreSnapshot.__init__",
            "self._first = (VERSION, zxid, sessions.secret, table)",
            'self._first = (VERSION, zxid, b"", table)',
        ),
        machine="store",
    ),
    mutant(
        "M32c",
        "ZOOKEEPER-1046: the number of all former children is not in the snapshot",
        (
            "zab.store.store_snapshot:StoreSnapshot.__iter__",
            """
         version, cversion, aversion, owner,
         """,
            """
         version, 0, aversion, owner,
         """,
        ),
        ("zab.store.store:Store.restore", "if found.value != digest:", "if False:"),
        machine="store",
    ),
    mutant(
        "first-list-for-all",
        "all nodes of a restored snapshot have the first ACL of the snapshot",
        ("zab.store.store_snapshot:_read", "data, lists[number], czxid", "data, lists[0], czxid"),
        machine="store",
    ),
    mutant(
        "told-without-leave",
        "a watch fires even if the node's ACL does not permit its client to read the node",
        ("zab.store.server_watches:ServerWatches._notify", "if acl is not OPEN and not access.skip:", "if False:"),
        machine="store",
    ),
)
