"""Acknowledged and lost calls, and operations that are not checked."""

from __future__ import annotations

from harness.checkers.store import watches, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import BOTH, both, legal_case, violates

# -- acknowledged and lost calls -----------------------------------------------------------------------


@violates(writes.KEPT)
def acknowledged_write_was_never_committed(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.respond(call, Reply(zxid=t.zxid + 1, path="/x"))
    t.commit(None)
    t.commit(None, Change(0, 0, "other"))


@violates(writes.KEPT)
def acknowledged_write_has_the_zxid_of_another_session(t: HistoryBuilder) -> None:
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
def refusal_has_the_zxid_of_another(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    call = t.invoke(bob, Request("create", "/x", b""))
    t.respond(call, Reply("NODE_EXISTS", zxid=t.zxid))


@legal_case
def lost_write_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.back(ann)
    t.exists(ann, "/x", there=True)


@legal_case
def lost_write_was_not_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.back(ann)
    t.exists(ann, "/x", there=False)
    t.create(ann, "/x")


@legal_case
def second_of_two_lost_writes_was_carried_out(t: HistoryBuilder) -> None:
    """Both calls differ only in the version, and only one had the right version."""
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
def lost_sequential_write_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.lose(t.invoke(ann, Request("create", "/q/n-", b"", mode="ephemeral sequential")))
    t.commit(ann, Change(0, 0, "create", "/q/n-0000000000", b"", owner=ann.session))
    t.back(ann)
    t.children(ann, "/q", "n-0000000000")


@violates(writes.ONCE)
def lost_write_was_carried_out_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("set", "/x", b"1")))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 2))


@violates(writes.ONCE)
def refused_write_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x/y", b""), "NO_NODE")
    t.create(ann, "/x")
    t.commit(ann, Change(0, 0, "create", "/x/y", b""))


@violates(writes.ONCE)
def write_without_a_request_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@violates(writes.ONCE)
def lost_sequential_write_got_a_wrong_name(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/n-0", b""))


@violates(writes.ONCE)
def lost_ephemeral_write_became_persistent(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"", mode="ephemeral")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@violates(writes.ONCE)
def lost_write_left_another_version(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("set", "/x", b"1", version=4)))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))


@legal_case
def container_is_removed_by_servers(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/c", mode="container")
    t.create(ann, "/c/x")
    t.delete(ann, "/c/x")
    t.commit(None, Change(0, 0, "delete", "/c"))
    t.exists(ann, "/c", there=False)


# -- matching of lost calls ----------------------------------------------------------------------------


@legal_case
def lost_write_after_another_was_carried_out(t: HistoryBuilder) -> None:
    """Two lost writes request the same change. The change after another one belongs to the second."""
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("set", "/x", b"1")))
    t.create(ann, "/y")
    t.lose(t.invoke(ann, Request("set", "/x", b"1")))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))
    t.back(ann)
    t.get(ann, "/x", b"1")


@legal_case
def acknowledged_write_without_zxid(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(call, Reply(path="/x"))
    t.get(ann, "/x", b"")


@violates(writes.ONCE)
def refused_write_without_zxid_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(call, Reply("NODE_EXISTS"))


@violates(writes.ONCE)
def lost_delete_became_a_set(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.invoke(ann, Request("delete", "/x")))
    t.commit(ann, Change(0, 0, "set", "/x", None, 1))


@violates(writes.ONCE)
def lost_sequential_write_got_another_name(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/m-0000000000", b""))


@violates(writes.ONCE)
def lost_sequential_write_got_no_number(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/n-000000000x", b""))


@violates(writes.ONCE)
def half_of_a_lost_multi_was_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, BOTH))
    t.commit(ann, Change(0, 0, "create", "/x", b"1"))


@legal_case
def lost_multi_was_carried_out(t: HistoryBuilder) -> None:
    call, _ = both(t)
    t.lose(call)
    t.get(t.client(2), "/x", b"2")


# -- operations that are not checked -------------------------------------------------------------------


@legal_case
def nodes_below_zookeeper_are_not_checked(t: HistoryBuilder) -> None:
    """The servers manage quotas and the configuration by other rules."""
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
def request_with_an_invalid_path_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "x", b""), "BAD_ARGUMENTS")
    t.refuse(ann, Request("create", "/x//y", b""), "BAD_ARGUMENTS")
    t.refuse(ann, Request("delete", "/"), "BAD_ARGUMENTS")


@legal_case
def check_alone_is_refused(t: HistoryBuilder) -> None:
    t.refuse(t.client(1), Request("check", "/"), "UNIMPLEMENTED")


@legal_case
def multi_of_reads_and_writes_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("multi", parts=(Request("get", "/"), Request("create", "/x", b""))))
    t.respond(call, Reply("MARSHALLING_ERROR", zxid=t.commit(ann, Change(0, 0, "error"))))


@legal_case
def multi_reports_only_the_first_error(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.REFUSED)
def possible_multi_is_refused_with_one_error(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "error"))))


@legal_case
def empty_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.respond(t.invoke(ann, Request("multi")), Reply(zxid=t.zxid))


@legal_case
def reads_that_failed_for_another_reason(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.respond(t.invoke(ann, Request("get", "/x")), Reply("MARSHALLING_ERROR", zxid=t.zxid))
    t.respond(t.invoke(ann, Request("multi", parts=(Request("get", "/x"),))), Reply("THROTTLED_OP", zxid=t.zxid))


@legal_case
def moved_session_gets_the_error(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("multi", parts=(Request("set", "/x", b""), Request("delete", "/x"))))
    t.respond(call, Reply("SESSION_MOVED", zxid=t.commit(ann, Change(0, 0, "error"))))
    t.get(ann, "/x", b"")


@legal_case
def three_clients_write_the_same_node(t: HistoryBuilder) -> None:
    """The expected version is refused, but right."""
    ann, bob, cyd = t.client(1), t.client(2), t.client(3)
    t.create(ann, "/x", b"0")
    t.set(ann, "/x", b"1", 1, expected=0)
    t.refuse(bob, Request("set", "/x", b"2", version=0), "BAD_VERSION")
    t.set(cyd, "/x", b"3", 2, expected=1)
    t.delete(bob, "/x", expected=2)
    t.refuse(ann, Request("set", "/x", b"4", version=2), "NO_NODE")


@legal_case
def one_shot_watch_is_removed(t: HistoryBuilder) -> None:
    """The request does not say which table it means, so both are possible."""
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
def watch_on_children_is_removed(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "once", op="unwatch")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")


@legal_case
def watch_request_is_refused(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent", error="NO_AUTH")
    t.watch(bob, "/x", "persistent", op="unwatch", error="NO_AUTH")
    t.create(ann, "/x")
    t.sync(bob)


@legal_case
def end_of_a_session_deletes_watched_nodes(t: HistoryBuilder) -> None:
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
def events_without_zxid(t: HistoryBuilder) -> None:
    """Old servers do not send the zxid."""
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "created", "/x", -1)
    t.fire(bob, "data", "/x", 0)
    t.sync(bob)


@violates(watches.MISSED)
def events_without_zxid_in_another_order(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x", -1)


@violates(writes.KEPT)
def acknowledged_write_has_the_zxid_of_an_earlier_call(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    zxid = t.create(bob, "/x")
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply(zxid=zxid, path="/x"))


@violates(writes.ONCE)
def two_sessions_have_unrequested_changes(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    for client, path in ((ann, "/a"), (bob, "/b"), (ann, "/c")):
        t.commit(client, Change(0, 0, "create", path, b""))
    t.sync(ann)
    t.sync(bob)
