"""Watches: of who stays, of who was away, and on a server that jumped."""

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
def a_watch_for_ever_fires_for_everything(t: HistoryBuilder) -> None:
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
def a_watch_of_a_whole_tree(t: HistoryBuilder) -> None:
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
def an_event_may_still_be_on_its_way(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    call = t.invoke(bob, Request("sync", "/"))
    before = t.create(ann, "/x") - 1
    t.respond(call, Reply(zxid=before, path="/"))


@violates(watches.UNEXPECTED)
def a_watch_fires_twice(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")


@violates(watches.UNEXPECTED)
def an_event_comes_twice(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def nobody_watched(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False)
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def a_read_that_failed_leaves_no_watch(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(bob, Request("get", "/x", watch="once"))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def a_watch_of_a_tree_hears_of_no_children(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/", "recursive")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/")


@violates(watches.UNEXPECTED)
def a_watch_fires_after_it_was_taken_back(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/x", "", op="unwatch")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.UNEXPECTED)
def a_watch_fires_without_a_connection(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.session_event(bob, "disconnected")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@violates(watches.MISSED)
def an_event_is_missed(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.sync(bob)


@violates(watches.MISSED)
def the_data_comes_before_the_event(t: HistoryBuilder) -> None:
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
def there_is_no_such_watch_they_say(t: HistoryBuilder) -> None:
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


# -- watches of who was away ---------------------------------------------------------------------------


@legal_case
def who_was_away_is_told_once_of_what_is_different(t: HistoryBuilder) -> None:
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
def who_was_away_goes_on_watching_what_is_the_same(t: HistoryBuilder) -> None:
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
def who_was_away_and_watches_for_ever_misses_what_happened_meanwhile(t: HistoryBuilder) -> None:
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
def who_was_away_is_not_add(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.session_event(bob, "disconnected")
    t.set(ann, "/x", b"1", 1)
    t.session_event(bob, "connected")
    t.get(bob, "/x", b"1")


@violates(watches.MISSED)
def who_was_away_is_told_of_the_second_change_only(t: HistoryBuilder) -> None:
    """What was missed is told without a zxid: an event with one is of something else."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.session_event(bob, "disconnected")
    t.create(ann, "/x/y")
    t.session_event(bob, "connected")
    t.create(ann, "/x/z")
    t.fire(bob, "children", "/x")


@violates(watches.MISSED)
def who_is_back_for_long_misses_an_event(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.back(bob)
    t.sync(bob)
    t.create(ann, "/x")
    t.sync(bob)


@violates(watches.UNEXPECTED)
def who_was_away_is_told_of_nothing(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.back(bob)
    t.fire(bob, "data", "/x", -1)


@violates(watches.UNEXPECTED)
def who_was_away_is_told_twice_of_the_same(t: HistoryBuilder) -> None:
    """There is more to be told, but that is not what is wrong."""
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
def a_watch_that_fired_is_not_named_again(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.back(bob)
    t.set(ann, "/x", b"2", 2)
    t.sync(bob)


# -- watches on a server that jumped -------------------------------------------------------------------


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
def a_server_that_jumped_tells_the_difference(t: HistoryBuilder) -> None:
    _jump(t, server=2)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y"), ("data", "/x")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@violates(watches.MISSED)
def a_server_that_jumped_forgets_a_difference(t: HistoryBuilder) -> None:
    _jump(t, server=2)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@violates(watches.MISSED)
def a_server_that_did_not_jump_tells_the_difference_only(t: HistoryBuilder) -> None:
    _jump(t, server=1)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y"), ("data", "/x")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@legal_case
def nobody_knows_whether_the_server_jumped(t: HistoryBuilder) -> None:
    a_server_that_jumped_tells_the_difference(t)
    t.jumps = None


@violates(watches.MISSED)
def no_jump_explains_what_was_missed(t: HistoryBuilder) -> None:
    an_event_is_missed(t)
    t.jumps = None


# -- events that do not say their zxid, and watches that are taken back ----------------------------------


@legal_case
def an_event_need_not_say_its_zxid(t: HistoryBuilder) -> None:
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
def an_event_that_does_not_say_its_zxid_tells_of_nothing(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/y")
    t.fire(bob, "created", "/x", 0)


@legal_case
def what_a_jump_has_changed_is_told_without_a_zxid(t: HistoryBuilder) -> None:
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
def one_of_two_watches_may_have_been_meant(t: HistoryBuilder) -> None:
    """That of the children was not there; that of the data stays."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.watch(bob, "/x", "once", op="unwatch", error="NO_WATCHER")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@legal_case
def what_cannot_be_taken_back_stays(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.watch(bob, "/x", "once", op="unwatch", error="BAD_ARGUMENTS")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@violates(watches.MISSED)
def what_cannot_be_taken_back_does_not_fire(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.watch(bob, "/x", "once", op="unwatch", error="BAD_ARGUMENTS")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@legal_case
def of_two_watches_the_one_on_the_children_is_taken_back(t: HistoryBuilder) -> None:
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
def of_two_watches_the_one_on_the_data_is_taken_back(t: HistoryBuilder) -> None:
    """Also where there was nothing yet to watch."""
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
def the_watch_on_the_data_goes_with_that_on_the_children(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "children", op="unwatch")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@violates(watches.MISSED)
def the_watch_on_the_children_goes_with_that_on_the_data(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "data", op="unwatch")
    t.create(ann, "/x/y")
    t.sync(bob)


@violates(watches.UNEXPECTED)
def a_watch_on_children_that_was_taken_back_fires(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "children", op="unwatch")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")


@violates(watches.UNEXPECTED)
def a_watch_on_data_that_was_taken_back_fires(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "data", op="unwatch")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")


@violates(watches.MISSED)
def there_is_said_to_be_no_watch_on_children_and_it_stands(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "children", op="unwatch", error="NO_WATCHER")
    t.sync(bob)
