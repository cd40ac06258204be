"""What only all of it shows, and finer points."""

from __future__ import annotations

from harness.checkers.store import LINEARIZABLE, image, watches, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, stat, violates

# -- all at once ---------------------------------------------------------------------------------------


@violates(LINEARIZABLE)
def a_synced_read_is_stale(t: HistoryBuilder) -> None:
    """No zxids are told him, so for all that Bob knows the state may be old. But he had synced."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.sync(bob, zxid=0)
    call = t.invoke(bob, Request("get", "/x"))
    t.respond(call, Reply(data=b"1", stat=stat(3, 3, 0, 1)))


@legal_case
def the_root_is_there_from_the_beginning(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.get(ann, "/", b"")
    t.children(ann, "/", "zookeeper")
    t.children(ann, "/zookeeper", "config", "quota")
    t.set(ann, "/", b"1", 1)
    t.get(ann, "/", b"1")


# -- finer points --------------------------------------------------------------------------------------


@legal_case
def an_expired_session_is_told_so_at_the_very_zxid(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("sync", "/"))
    t.respond(call, Reply("SESSION_EXPIRED", zxid=t.close(ann)))


@legal_case
def a_child_of_what_becomes_ephemeral_in_the_same_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/e", b"", mode="ephemeral"), Request("create", "/e/x", b"")
    t.refuse(ann, Request("multi", parts=parts), "", "NO_CHILDREN_FOR_EPHEMERALS")


@violates(image.INVARIANT)
def what_a_read_sees_was_there_twice(t: HistoryBuilder) -> None:
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
def a_write_is_asked_for_in_the_instant_in_which_it_is_seen(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(bob, Request("sync", "/"))
    mine = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.now -= 10
    t.respond(call, Reply(zxid=zxid, path="/"))
    t.respond(mine, Reply(zxid=zxid, path="/x"))


@violates(writes.KEPT)
def an_acknowledged_write_has_the_zxid_of_its_session(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply(zxid=t.zxid, path="/x"))


@violates(watches.MISSED)
def the_second_event_of_a_multi_bears_another_zxid(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.children(bob, "/", "zookeeper", watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/", t.zxid + 1)


@legal_case
def who_watches_children_does_not_hear_of_data(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.sync(bob)


@legal_case
def who_watches_data_does_not_hear_of_children(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.create(ann, "/x/y")
    t.sync(bob)
    t.delete(ann, "/x/y")
    t.delete(ann, "/x")
    t.fire(bob, "deleted", "/x")
    t.sync(bob)
