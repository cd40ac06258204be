"""What only all of it shows, and finer points."""

from __future__ import annotations

from harness.checkers.store import LINEARIZABLE, image, watches, writes
from harness.history import Change, Reply, Request
from tests.histories.stories.story import bad, good, stat
from tests.histories.tale import Tale

# -- all at once ---------------------------------------------------------------------------------------


@bad(LINEARIZABLE)
def a_synced_read_is_stale(t: Tale) -> None:
    """No zxids are told him, so for all that Bob knows the state may be old. But he had synced."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.sync(bob, zxid=0)
    call = t.ask(bob, Request("get", "/x"))
    t.tell(call, Reply(data=b"1", stat=stat(3, 3, 0, 1)))


@good
def the_root_is_there_from_the_beginning(t: Tale) -> None:
    ann = t.client(1)
    t.get(ann, "/", b"")
    t.children(ann, "/", "zookeeper")
    t.children(ann, "/zookeeper", "config", "quota")
    t.set(ann, "/", b"1", 1)
    t.get(ann, "/", b"1")


# -- finer points --------------------------------------------------------------------------------------


@good
def an_expired_session_is_told_so_at_the_very_zxid(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("sync", "/"))
    t.tell(call, Reply("SESSION_EXPIRED", zxid=t.close(ann)))


@good
def a_child_of_what_becomes_ephemeral_in_the_same_multi(t: Tale) -> None:
    ann = t.client(1)
    parts = Request("create", "/e", b"", mode="ephemeral"), Request("create", "/e/x", b"")
    t.refuse(ann, Request("multi", parts=parts), "", "NO_CHILDREN_FOR_EPHEMERALS")


@bad(image.INVARIANT)
def what_a_read_sees_was_there_twice(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.set(ann, "/x", b"1", 2)
    t.set(ann, "/x", b"3", 3)
    t.get(ann, "/x", b"1")


@good
def null_is_not_empty(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", None))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", None)), path="/x"))
    t.get(ann, "/x", None)


@bad(image.INVARIANT)
def null_is_read_as_empty(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", None))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", None)), path="/x"))
    t.get(ann, "/x", b"")


@good
def a_write_is_asked_for_in_the_instant_in_which_it_is_seen(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.ask(bob, Request("sync", "/"))
    mine = t.ask(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.now -= 10
    t.tell(call, Reply(zxid=zxid, path="/"))
    t.tell(mine, Reply(zxid=zxid, path="/x"))


@bad(writes.KEPT)
def an_acknowledged_write_has_the_zxid_of_its_session(t: Tale) -> None:
    ann = t.client(1)
    t.tell(t.ask(ann, Request("create", "/x", b"")), Reply(zxid=t.zxid, path="/x"))


@bad(watches.MISSED)
def the_second_event_of_a_multi_bears_another_zxid(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.children(bob, "/", "zookeeper", watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/", t.zxid + 1)


@good
def who_watches_children_does_not_hear_of_data(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.sync(bob)


@good
def who_watches_data_does_not_hear_of_children(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.create(ann, "/x/y")
    t.sync(bob)
    t.delete(ann, "/x/y")
    t.delete(ann, "/x")
    t.fire(bob, "deleted", "/x")
    t.sync(bob)
