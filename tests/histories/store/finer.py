"""Linearizability, and special cases."""

from __future__ import annotations

from harness.checkers.store import LINEARIZABLE, image, watches, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, stat, violates

# -- linearizability -----------------------------------------------------------------------------------


@violates(LINEARIZABLE)
def synced_read_is_stale(t: HistoryBuilder) -> None:
    """Bob's replies have no zxid, so the state might be old. But he has synced before."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.sync(bob, zxid=0)
    call = t.invoke(bob, Request("get", "/x"))
    t.respond(call, Reply(data=b"1", stat=stat(3, 3, 0, 1)))


@legal_case
def root_exists_from_the_beginning(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.get(ann, "/", b"")
    t.children(ann, "/", "zookeeper")
    t.children(ann, "/zookeeper", "config", "quota")
    t.set(ann, "/", b"1", 1)
    t.get(ann, "/", b"1")


# -- special cases -------------------------------------------------------------------------------------


@legal_case
def expiry_is_reported_at_the_zxid_of_the_close(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("sync", "/"))
    t.respond(call, Reply("SESSION_EXPIRED", zxid=t.close(ann)))


@legal_case
def child_of_an_ephemeral_in_the_same_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/e", b"", mode="ephemeral"), Request("create", "/e/x", b"")
    t.refuse(ann, Request("multi", parts=parts), "", "NO_CHILDREN_FOR_EPHEMERALS")


@violates(image.INVARIANT)
def read_shows_a_value_that_was_set_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.set(ann, "/x", b"1", 2)
    t.set(ann, "/x", b"3", 3)
    t.get(ann, "/x", b"1")


@legal_case
def null_is_not_empty(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", None))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", None)), path="/x"))
    t.get(ann, "/x", None)


@violates(image.INVARIANT)
def null_is_read_as_empty(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", None))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", None)), path="/x"))
    t.get(ann, "/x", b"")


@legal_case
def write_is_seen_at_the_instant_of_its_invocation(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(bob, Request("sync", "/"))
    mine = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.now -= 10
    t.respond(call, Reply(zxid=zxid, path="/"))
    t.respond(mine, Reply(zxid=zxid, path="/x"))


@violates(writes.KEPT)
def acknowledged_write_has_the_zxid_of_its_session(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply(zxid=t.zxid, path="/x"))


@violates(watches.MISSED)
def second_event_of_a_multi_has_another_zxid(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.children(bob, "/", "zookeeper", watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/", t.zxid + 1)


@legal_case
def watch_on_children_gets_no_data_events(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.sync(bob)


@legal_case
def watch_on_data_gets_no_children_events(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.create(ann, "/x/y")
    t.sync(bob)
    t.delete(ann, "/x/y")
    t.delete(ann, "/x")
    t.fire(bob, "deleted", "/x")
    t.sync(bob)
