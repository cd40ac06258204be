"""Watches: of connected clients, of reconnected clients, and at servers that jumped."""

from __future__ import annotations

from attrs import evolve

from harness.checkers.store import (
    watches,
)
from harness.history import Change, Jump, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, violates

# -- watches -------------------------------------------------------------------------------------------


@legal_case
def every_one_shot_watch_fires_once(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.children(bob, "/", "zookeeper", watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/")
    t.get(bob, "/x", b"", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.exists(bob, "/x", there=True, watch="once")
    t.children(bob, "/x", watch="once")
    t.delete(ann, "/x")
    t.fire(bob, "deleted", "/x")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@legal_case
def persistent_watch_fires_for_every_change(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x/y", b"1", 1)
    t.delete(ann, "/x/y")
    t.delete(ann, "/x")
    for event, back in (("created", 5), ("children", 4), ("data", 3), ("children", 1), ("deleted", 0)):
        t.fire(bob, event, "/x", t.zxid - back)
    t.sync(bob)


@legal_case
def recursive_watch_fires_for_all_nodes_below(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/", "recursive")
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.fire(bob, "created", "/x", t.zxid - 1)
    t.fire(bob, "created", "/x/y")
    t.watch(bob, "/", "recursive", op="unwatch")
    t.delete(ann, "/x/y")
    t.sync(bob)


@legal_case
def event_may_still_be_on_its_way(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    call = t.invoke(bob, Request("sync", "/"))
    before = t.create(ann, "/x") - 1
    t.respond(call, Reply(zxid=before, path="/"))


@violates(watches.UNEXPECTED)
def watch_fires_twice(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")


@violates(watches.UNEXPECTED)
def event_comes_twice(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def event_without_a_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False)
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def failed_read_sets_no_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(bob, Request("get", "/x", watch="once"))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def recursive_watch_gets_no_children_events(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/", "recursive")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/")


@violates(watches.UNEXPECTED)
def removed_watch_fires(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/x", "", op="unwatch")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def watch_fires_without_a_connection(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.session_event(bob, "disconnected")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.MISSED)
def event_is_missed(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.sync(bob)


@violates(watches.MISSED)
def data_comes_before_the_event(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.exists(bob, "/x", there=True)
    t.fire(bob, "created", "/x")


@violates(watches.MISSED)
def one_of_many_events_is_missed(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 2)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@violates(watches.MISSED)
def events_change_places(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.fire(bob, "created", "/x", t.zxid - 1)


@violates(watches.MISSED)
def existing_watch_is_reported_as_missing(t: HistoryBuilder) -> None:
    bob = t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/x", "persistent", op="unwatch", error="NO_WATCHER")


@legal_case
def there_is_no_such_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/x", "recursive", op="unwatch", error="NO_WATCHER")
    t.watch(bob, "/y", "", op="unwatch", error="NO_WATCHER")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.sync(bob)


# -- watches of reconnected clients --------------------------------------------------------------------


@legal_case
def reconnected_client_gets_one_event_for_a_difference(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/y", watch="once")
    t.exists(bob, "/z", there=False, watch="once")
    t.session_event(bob, "disconnected")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 2)
    t.delete(ann, "/y")
    t.create(ann, "/z")
    t.session_event(bob, "connected", server=2)
    for event, path in (("data", "/x"), ("created", "/z"), ("deleted", "/y")):
        t.fire(bob, event, path, -1)
    t.sync(bob)


@legal_case
def reconnected_client_keeps_watches_of_unchanged_nodes(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.exists(bob, "/z", there=False, watch="once")
    t.back(bob)
    t.sync(bob)
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.create(ann, "/z")
    t.fire(bob, "created", "/z")
    t.sync(bob)


@legal_case
def persistent_watch_misses_changes_while_disconnected(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/y", "recursive")
    t.session_event(bob, "disconnected")
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.session_event(bob, "connected")
    t.sync(bob)
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@violates(watches.MISSED)
def reconnected_client_misses_an_event(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.session_event(bob, "disconnected")
    t.set(ann, "/x", b"1", 1)
    t.session_event(bob, "connected")
    t.get(bob, "/x", b"1")


@violates(watches.MISSED)
def reconnected_client_gets_an_event_with_a_later_zxid(t: HistoryBuilder) -> None:
    """Missed events have no zxid; an event with a zxid belongs to another change."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.session_event(bob, "disconnected")
    t.create(ann, "/x/y")
    t.session_event(bob, "connected")
    t.create(ann, "/x/z")
    t.fire(bob, "children", "/x")


@violates(watches.MISSED)
def reconnected_client_misses_a_later_event(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.back(bob)
    t.sync(bob)
    t.create(ann, "/x")
    t.sync(bob)


@violates(watches.UNEXPECTED)
def reconnected_client_gets_an_event_without_a_change(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.back(bob)
    t.fire(bob, "data", "/x", -1)


@violates(watches.UNEXPECTED)
def reconnected_client_gets_an_event_twice(t: HistoryBuilder) -> None:
    """Another event is due, but the received one is wrong."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.get(bob, "/x", b"", watch="once")
    t.get(bob, "/y", b"", watch="once")
    t.session_event(bob, "disconnected")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/y", b"1", 1)
    t.session_event(bob, "connected")
    t.fire(bob, "data", "/x", -1)
    t.fire(bob, "data", "/x", -1)


@legal_case
def fired_watch_is_not_sent_again(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.back(bob)
    t.set(ann, "/x", b"2", 2)
    t.sync(bob)


# -- watches at jumped servers -------------------------------------------------------------------------


def _jump(t: HistoryBuilder, server: int) -> None:
    ann, bob = t.client(1), t.client(2, server=server)
    t.create(ann, "/x")
    t.create(ann, "/gone")
    t.watch(bob, "/", "recursive")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 2)
    t.create(ann, "/y")
    t.create(ann, "/never")
    t.delete(ann, "/never")
    t.delete(ann, "/gone")
    t.jumps = [Jump(2, t.zxid)]


@legal_case
def jumped_server_sends_the_difference(t: HistoryBuilder) -> None:
    _jump(t, server=2)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y"), ("data", "/x")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@violates(watches.MISSED)
def jumped_server_omits_a_difference(t: HistoryBuilder) -> None:
    _jump(t, server=2)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@violates(watches.MISSED)
def server_without_a_jump_sends_only_the_difference(t: HistoryBuilder) -> None:
    _jump(t, server=1)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y"), ("data", "/x")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@legal_case
def unknown_jumps_may_explain_a_difference(t: HistoryBuilder) -> None:
    jumped_server_sends_the_difference(t)
    t.jumps = None


@violates(watches.MISSED)
def no_jump_explains_a_missing_event(t: HistoryBuilder) -> None:
    event_is_missed(t)
    t.jumps = None


# -- events without zxid, and removed watches ------------------------------------------------------------


@legal_case
def event_may_have_no_zxid(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x", 0)
    t.set(ann, "/x", b"1", 1)
    t.get(bob, "/x", b"1", watch="once")
    t.set(ann, "/x", b"2", 2)
    t.fire(bob, "data", "/x", -1)
    t.sync(bob)


@violates(watches.UNEXPECTED)
def event_without_zxid_has_no_change(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/y")
    t.fire(bob, "created", "/x", 0)


@legal_case
def events_after_a_jump_have_no_zxid(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2, server=2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.create(ann, "/y")
    assert t.jumps is not None
    t.jumps.append(Jump(2, t.zxid))
    t.fire(bob, "created", "/x", 0)
    t.sync(bob)


@violates(watches.MISSED)
def two_events_of_one_multi_change_places(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.exists(bob, "/y", there=False, watch="once")
    call = t.invoke(ann, Request("multi", parts=(Request("create", "/x", b""), Request("create", "/y", b""))))
    zxid = t.commit(ann, *(Change(0, 0, "create", path, b"") for path in ("/x", "/y")))
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(path="/y"))))
    t.fire(bob, "created", "/y")
    t.fire(bob, "created", "/x")


@legal_case
def unwatch_may_mean_either_of_two_watches(t: HistoryBuilder) -> None:
    """The watch on the children did not exist; that on the data remains."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.watch(bob, "/x", "once", op="unwatch", error="NO_WATCHER")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@legal_case
def failed_unwatch_keeps_the_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.watch(bob, "/x", "once", op="unwatch", error="BAD_ARGUMENTS")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@violates(watches.MISSED)
def watch_after_a_failed_unwatch_does_not_fire(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.watch(bob, "/x", "once", op="unwatch", error="BAD_ARGUMENTS")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@legal_case
def unwatch_removes_only_the_children_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "children", op="unwatch")
    t.watch(bob, "/x", "children", op="unwatch", error="NO_WATCHER")
    t.create(ann, "/x/y")
    t.sync(bob)
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@legal_case
def unwatch_removes_only_the_data_watch(t: HistoryBuilder) -> None:
    """Also if the node did not exist yet."""
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/y", there=False, watch="once")
    t.watch(bob, "/y", "data", op="unwatch")
    t.create(ann, "/y")
    t.get(bob, "/y", b"", watch="once")
    t.children(bob, "/y", watch="once")
    t.watch(bob, "/y", "data", op="unwatch")
    t.set(ann, "/y", b"1", 1)
    t.sync(bob)
    t.create(ann, "/y/z")
    t.fire(bob, "children", "/y")
    t.sync(bob)


@violates(watches.MISSED)
def data_watch_is_lost_with_the_children_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "children", op="unwatch")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@violates(watches.MISSED)
def children_watch_is_lost_with_the_data_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "data", op="unwatch")
    t.create(ann, "/x/y")
    t.sync(bob)


@violates(watches.UNEXPECTED)
def removed_children_watch_fires(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "children", op="unwatch")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")


@violates(watches.UNEXPECTED)
def removed_data_watch_fires(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "data", op="unwatch")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")


@violates(watches.MISSED)
def existing_children_watch_is_reported_as_missing(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "children", op="unwatch", error="NO_WATCHER")
    t.sync(bob)
