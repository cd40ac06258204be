"""What was committed, and in which order it was seen."""

from __future__ import annotations

from harness.checkers.store import log, order
from harness.history import Change, Info, Reply, Request, Response
from tests.histories.stories.story import bad, good
from tests.histories.tale import Tale

# -- each transaction follows from the state before it ----------------------------------------------------------------


@bad(log.FOLLOWS)
def a_node_is_created_twice(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x")


@bad(log.FOLLOWS)
def a_child_without_a_parent(t: Tale) -> None:
    t.create(t.client(1), "/x/y")


@bad(log.FOLLOWS)
def a_child_of_an_ephemeral(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", mode="ephemeral")
    t.create(ann, "/x/y")


@bad(log.FOLLOWS)
def what_is_gone_is_set(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x")
    t.set(ann, "/x", b"1", 1)


@bad(log.FOLLOWS)
def a_parent_goes_before_its_children(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.delete(ann, "/x")


@bad(log.FOLLOWS)
def a_version_is_given_twice(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 1)


@bad(log.FOLLOWS)
def what_is_not_there_is_deleted(t: Tale) -> None:
    t.delete(t.client(1), "/x")


@bad(log.FOLLOWS)
def zxids_go_back_in_the_log(t: Tale) -> None:
    ann = t.client(1)
    t.commit(None, Change(0, 0, "other"))
    t.zxid = 0
    t.create(ann, "/x")


# -- order ---------------------------------------------------------------------------------------------


@good
def two_requests_in_flight(t: Tale) -> None:
    ann = t.client(1)
    one = t.ask(ann, Request("create", "/x", b""))
    two = t.ask(ann, Request("get", "/x"))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.tell(one, Reply(zxid=zxid, path="/x"))
    t.tell(two, Reply(zxid=zxid, data=b""))


@bad(order.REPLIES)
def the_second_is_answered_first(t: Tale) -> None:
    ann = t.client(1)
    one = t.ask(ann, Request("exists", "/x"))
    two = t.ask(ann, Request("exists", "/y"))
    t.tell(two, Reply("NO_NODE", zxid=t.zxid))
    t.tell(one, Reply("NO_NODE", zxid=t.zxid))


@bad(order.REPLIES)
def a_call_is_answered_twice(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))


@bad(order.REPLIES)
def a_lost_call_is_answered(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("exists", "/x"))
    t.lose(call)
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))


@bad(order.REPLIES)
def a_call_is_lost_after_its_answer(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))
    t.lose(call)


@bad(order.REPLIES)
def a_call_is_answered_that_nobody_asked(t: Tale) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Response(t.later(), 1, ann.session, 77, Reply(zxid=t.zxid)))


@bad(order.REPLIES)
def a_call_is_lost_that_nobody_asked(t: Tale) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Info(t.later(), 1, ann.session, 77))


@bad(order.WRITES)
def writes_change_places(t: Tale) -> None:
    """Both were in flight. The second took effect first."""
    ann = t.client(1)
    one = t.ask(ann, Request("create", "/x", b""))
    two = t.ask(ann, Request("create", "/y", b""))
    late = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.tell(one, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/x"))
    t.tell(two, Reply(zxid=late, path="/y"))


@bad(order.WRITES)
def a_lost_write_overtakes(t: Tale) -> None:
    """The reply to the first was lost, and it took effect behind the second."""
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/x", b"")))
    t.back(ann)
    t.create(ann, "/y")
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.sync(ann)


@good
def another_server_lags(t: Tale) -> None:
    """Bob's server has not heard of it yet. It may."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)
    t.exists(bob, "/x", there=True)


@bad(order.NEVER_BACK)
def another_server_lags_behind_what_was_seen(t: Tale) -> None:
    """The same, but Bob has seen it on another server before."""
    ann, bob = t.client(1), t.client(2, server=1)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=True)
    t.became(bob, "disconnected")
    t.became(bob, "connected", server=2)
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@bad(order.NEVER_BACK)
def an_event_shows_more_than_the_next_read(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@bad(order.AFTER)
def a_write_is_seen_before_it_is_asked_for(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.zxid += 1
    t.sync(bob)
    t.zxid -= 1
    t.create(ann, "/x")


@bad(order.SYNCED)
def a_sync_falls_short(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.sync(bob, zxid=t.zxid - 1)


@bad(order.SYNCED)
def a_session_is_over_before_it_was_ended(t: Tale) -> None:
    """Ann is told of its end, and Bob, who syncs afterwards, still is before it."""
    ann, bob = t.client(1), t.client(2)
    t.became(ann, "expired")
    t.sync(bob)
    t.close(ann)


@good
def a_sync_goes_further_than_was_seen(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    call = t.ask(bob, Request("sync", "/"))
    t.create(ann, "/y")
    t.tell(call, Reply(zxid=t.zxid - 1, path="/"))
    t.exists(ann, "/y", there=True)
    t.sync(bob)


@good
def a_write_is_seen_before_it_is_answered(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.ask(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.exists(bob, "/x", there=True)
    t.tell(call, Reply(zxid=zxid, path="/x"))
