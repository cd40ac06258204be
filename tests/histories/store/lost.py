"""What was acknowledged, what was lost, and what is nobody's to judge."""

from __future__ import annotations

from harness.checkers.store import watches, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import BOTH, both, legal_case, violates

# -- what was acknowledged, and what was lost ----------------------------------------------------------


@violates(writes.KEPT)
def an_acknowledged_write_was_never_committed(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.respond(call, Reply(zxid=t.zxid + 1, path="/x"))
    t.commit(None)
    t.commit(None, Change(0, 0, "other"))


@violates(writes.KEPT)
def an_acknowledged_write_is_anothers(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    mine = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.create(bob, "/x")
    t.respond(mine, Reply(zxid=zxid, path="/x"))


@violates(writes.KEPT)
def two_writes_share_one_transaction(t: HistoryBuilder) -> None:
    ann = t.client(1)
    one = t.invoke(ann, Request("create", "/x", b""))
    two = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(one, Reply(zxid=zxid, path="/x"))
    t.respond(two, Reply(zxid=zxid, path="/x"))


@violates(writes.KEPT)
def a_refusal_has_the_zxid_of_another(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    call = t.invoke(bob, Request("create", "/x", b""))
    t.respond(call, Reply("NODE_EXISTS", zxid=t.zxid))


@legal_case
def a_lost_write_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.back(ann)
    t.exists(ann, "/x", there=True)


@legal_case
def a_lost_write_was_not_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.back(ann)
    t.exists(ann, "/x", there=False)
    t.create(ann, "/x")


@legal_case
def the_second_of_two_lost_writes_was_carried_out(t: HistoryBuilder) -> None:
    """Both asked for the same but for the version, and only one of them was right."""
    ann = t.client(1)
    t.create(ann, "/x")
    one = t.invoke(ann, Request("delete", "/x", version=3))
    two = t.invoke(ann, Request("delete", "/x"))
    t.lose(one)
    t.lose(two)
    t.commit(ann, Change(0, 0, "delete", "/x"))
    t.back(ann)
    t.exists(ann, "/x", there=False)


@legal_case
def a_lost_sequential_write_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.lose(t.invoke(ann, Request("create", "/q/n-", b"", mode="ephemeral sequential")))
    t.commit(ann, Change(0, 0, "create", "/q/n-0000000000", b"", owner=ann.session))
    t.back(ann)
    t.children(ann, "/q", "n-0000000000")


@violates(writes.ONCE)
def a_lost_write_was_carried_out_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("set", "/x", b"1")))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 2))


@violates(writes.ONCE)
def a_refused_write_was_carried_out_after_all(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x/y", b""), "NO_NODE")
    t.create(ann, "/x")
    t.commit(ann, Change(0, 0, "create", "/x/y", b""))


@violates(writes.ONCE)
def a_write_was_carried_out_that_nobody_asked_for(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@violates(writes.ONCE)
def a_lost_sequential_write_got_a_strange_name(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/n-0", b""))


@violates(writes.ONCE)
def a_lost_ephemeral_write_became_persistent(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"", mode="ephemeral")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@violates(writes.ONCE)
def a_lost_write_left_another_version(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("set", "/x", b"1", version=4)))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))


@legal_case
def a_container_is_removed_by_servers(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/c", mode="container")
    t.create(ann, "/c/x")
    t.delete(ann, "/c/x")
    t.commit(None, Change(0, 0, "delete", "/c"))
    t.exists(ann, "/c", there=False)


# -- which lost call it was ----------------------------------------------------------------------------


@legal_case
def the_lost_write_behind_another_was_carried_out(t: HistoryBuilder) -> None:
    """Two lost writes ask for the same. What took effect behind the one between them was the second."""
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("set", "/x", b"1")))
    t.create(ann, "/y")
    t.lose(t.invoke(ann, Request("set", "/x", b"1")))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))
    t.back(ann)
    t.get(ann, "/x", b"1")


@legal_case
def an_acknowledged_write_whose_zxid_is_not_known(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(call, Reply(path="/x"))
    t.get(ann, "/x", b"")


@violates(writes.ONCE)
def a_refused_write_whose_zxid_is_not_known_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(call, Reply("NODE_EXISTS"))


@violates(writes.ONCE)
def a_lost_delete_became_a_set(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("delete", "/x")))
    t.commit(ann, Change(0, 0, "set", "/x", None, 1))


@violates(writes.ONCE)
def a_lost_sequential_write_got_anothers_name(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/m-0000000000", b""))


@violates(writes.ONCE)
def a_lost_sequential_write_got_no_number(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/n-000000000x", b""))


@violates(writes.ONCE)
def a_lost_multi_was_carried_out_by_half(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, BOTH))
    t.commit(ann, Change(0, 0, "create", "/x", b"1"))


@legal_case
def a_lost_multi_was_carried_out(t: HistoryBuilder) -> None:
    call, _ = both(t)
    t.lose(call)
    t.get(t.client(2), "/x", b"2")


# -- what is not judged --------------------------------------------------------------------------------


@legal_case
def what_is_below_zookeeper_is_no_clients_data(t: HistoryBuilder) -> None:
    """Quotas and the configuration are the servers' own, and follow rules of their own."""
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/", "recursive")
    t.create(ann, "/zookeeper/quota/x", b"1")
    t.get(ann, "/zookeeper/config", b"server.1=...")
    t.refuse(ann, Request("delete", "/zookeeper/quota"), "BAD_ARGUMENTS")
    t.refuse(ann, Request("set", "/zookeeper/config", b""), "NO_NODE")
    t.set(ann, "/zookeeper", b"1", 3)
    t.fire(bob, "data", "/zookeeper/config")
    t.lose(t.invoke(ann, Request("delete", "/zookeeper/quota/x")))
    t.commit(ann, Change(0, 0, "delete", "/zookeeper/quota/x"))
    t.lose(
        t.invoke(ann, Request("multi", parts=(Request("delete", "/zookeeper/quota/x"), Request("create", "/y", b""))))
    )
    t.commit(ann, Change(0, 0, "delete", "/zookeeper/quota/x"), Change(0, 0, "create", "/y", b""))
    t.fire(bob, "created", "/y")
    t.sync(bob)


@legal_case
def a_path_that_is_none_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "x", b""), "BAD_ARGUMENTS")
    t.refuse(ann, Request("create", "/x//y", b""), "BAD_ARGUMENTS")
    t.refuse(ann, Request("delete", "/"), "BAD_ARGUMENTS")


@legal_case
def a_check_alone_is_refused(t: HistoryBuilder) -> None:
    t.refuse(t.client(1), Request("check", "/"), "UNIMPLEMENTED")


@legal_case
def a_multi_of_reads_and_writes_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("multi", parts=(Request("get", "/"), Request("create", "/x", b""))))
    t.respond(call, Reply("MARSHALLING_ERROR", zxid=t.commit(ann, Change(0, 0, "error"))))


@legal_case
def a_multi_of_which_only_the_first_error_is_add(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.REFUSED)
def a_multi_is_refused_in_one_word_and_was_right(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "error"))))


@legal_case
def a_multi_of_nothing(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.respond(t.invoke(ann, Request("multi")), Reply(zxid=t.zxid))


@legal_case
def reads_that_failed_for_another_reason(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.respond(t.invoke(ann, Request("get", "/x")), Reply("MARSHALLING_ERROR", zxid=t.zxid))
    t.respond(t.invoke(ann, Request("multi", parts=(Request("get", "/x"),))), Reply("THROTTLED_OP", zxid=t.zxid))


@legal_case
def a_session_that_was_moved_is_told_so(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("multi", parts=(Request("set", "/x", b""), Request("delete", "/x"))))
    t.respond(call, Reply("SESSION_MOVED", zxid=t.commit(ann, Change(0, 0, "error"))))
    t.get(ann, "/x", b"")


@legal_case
def three_clients_write_the_same_node(t: HistoryBuilder) -> None:
    """Versions are expected, refused, and right."""
    ann, bob, cyd = t.client(1), t.client(2), t.client(3)
    t.create(ann, "/x", b"0")
    t.set(ann, "/x", b"1", 1, expected=0)
    t.refuse(bob, Request("set", "/x", b"2", version=0), "BAD_VERSION")
    t.set(cyd, "/x", b"3", 2, expected=1)
    t.delete(bob, "/x", expected=2)
    t.refuse(ann, Request("set", "/x", b"4", version=2), "NO_NODE")


@legal_case
def who_takes_back_a_watch_that_is_for_once(t: HistoryBuilder) -> None:
    """Which of the two tables was meant is not said, so that both are believed."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "once", op="unwatch")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.sync(bob)
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@violates(watches.UNEXPECTED)
def nobody_watches_the_children_any_more(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "once", op="unwatch")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")


@legal_case
def a_watch_is_answered_with_an_error(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent", error="NO_AUTH")
    t.watch(bob, "/x", "persistent", op="unwatch", error="NO_AUTH")
    t.create(ann, "/x")
    t.sync(bob)


@legal_case
def an_end_takes_watched_nodes_along(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.create(ann, "/f", mode="ephemeral")
    t.exists(bob, "/e", there=True, watch="once")
    t.children(bob, "/", "e", "f", "zookeeper", watch="once")
    t.watch(bob, "/f", "persistent")
    t.close(ann, "/e", "/f")
    t.fire(bob, "deleted", "/e")
    t.fire(bob, "children", "/")
    t.fire(bob, "deleted", "/f")
    t.sync(bob)


@legal_case
def events_that_bear_no_zxid(t: HistoryBuilder) -> None:
    """Old servers do not say it."""
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "created", "/x", -1)
    t.fire(bob, "data", "/x", 0)
    t.sync(bob)


@violates(watches.MISSED)
def events_that_bear_no_zxid_change_places(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x", -1)


@violates(writes.KEPT)
def an_acknowledged_write_is_that_of_an_earlier_call(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    zxid = t.create(bob, "/x")
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply(zxid=zxid, path="/x"))


@violates(writes.ONCE)
def two_sessions_change_what_they_never_asked_for(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    for client, path in ((ann, "/a"), (bob, "/b"), (ann, "/c")):
        t.commit(client, Change(0, 0, "create", path, b""))
    t.sync(ann)
    t.sync(bob)
