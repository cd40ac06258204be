"""What was committed, and in which order it was seen."""

from __future__ import annotations

from harness.checkers.store import log, order
from harness.history import Change, Info, Reply, Request, Response
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, violates

# -- each transaction follows from the state before it ----------------------------------------------------------------


@violates(log.FOLLOWS)
def a_node_is_created_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x")


@violates(log.FOLLOWS)
def a_child_without_a_parent(t: HistoryBuilder) -> None:
    t.create(t.client(1), "/x/y")


@violates(log.FOLLOWS)
def a_child_of_an_ephemeral(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", mode="ephemeral")
    t.create(ann, "/x/y")


@violates(log.FOLLOWS)
def what_is_gone_is_set(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x")
    t.set(ann, "/x", b"1", 1)


@violates(log.FOLLOWS)
def a_parent_goes_before_its_children(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.delete(ann, "/x")


@violates(log.FOLLOWS)
def a_version_is_given_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 1)


@violates(log.FOLLOWS)
def what_is_not_there_is_deleted(t: HistoryBuilder) -> None:
    t.delete(t.client(1), "/x")


@violates(log.FOLLOWS)
def zxids_go_back_in_the_log(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.commit(None, Change(0, 0, "other"))
    t.zxid = 0
    t.create(ann, "/x")


# -- order ---------------------------------------------------------------------------------------------


@legal_case
def two_requests_in_flight(t: HistoryBuilder) -> None:
    ann = t.client(1)
    one = t.invoke(ann, Request("create", "/x", b""))
    two = t.invoke(ann, Request("get", "/x"))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(one, Reply(zxid=zxid, path="/x"))
    t.respond(two, Reply(zxid=zxid, data=b""))


@violates(order.REPLIES)
def the_second_is_answered_first(t: HistoryBuilder) -> None:
    ann = t.client(1)
    one = t.invoke(ann, Request("exists", "/x"))
    two = t.invoke(ann, Request("exists", "/y"))
    t.respond(two, Reply("NO_NODE", zxid=t.zxid))
    t.respond(one, Reply("NO_NODE", zxid=t.zxid))


@violates(order.REPLIES)
def a_call_is_answered_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))


@violates(order.REPLIES)
def a_lost_call_is_answered(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("exists", "/x"))
    t.lose(call)
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))


@violates(order.REPLIES)
def a_call_is_lost_after_its_answer(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))
    t.lose(call)


@violates(order.REPLIES)
def a_call_is_answered_that_nobody_asked(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Response(t.tick(), 1, ann.session, 77, Reply(zxid=t.zxid)))


@violates(order.REPLIES)
def a_call_is_lost_that_nobody_asked(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Info(t.tick(), 1, ann.session, 77))


@violates(order.WRITES)
def writes_change_places(t: HistoryBuilder) -> None:
    """Both were in flight. The second took effect first."""
    ann = t.client(1)
    one = t.invoke(ann, Request("create", "/x", b""))
    two = t.invoke(ann, Request("create", "/y", b""))
    late = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.respond(one, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/x"))
    t.respond(two, Reply(zxid=late, path="/y"))


@violates(order.WRITES)
def a_lost_write_overtakes(t: HistoryBuilder) -> None:
    """The reply to the first was lost, and it took effect behind the second."""
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.back(ann)
    t.create(ann, "/y")
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.sync(ann)


@legal_case
def another_server_lags(t: HistoryBuilder) -> None:
    """Bob's server has not heard of it yet. It may."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)
    t.exists(bob, "/x", there=True)


@violates(order.NEVER_BACK)
def another_server_lags_behind_what_was_seen(t: HistoryBuilder) -> None:
    """The same, but Bob has seen it on another server before."""
    ann, bob = t.client(1), t.client(2, server=1)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=True)
    t.session_event(bob, "disconnected")
    t.session_event(bob, "connected", server=2)
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@violates(order.NEVER_BACK)
def an_event_shows_more_than_the_next_read(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@violates(order.AFTER)
def a_write_is_seen_before_it_is_asked_for(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.zxid += 1
    t.sync(bob)
    t.zxid -= 1
    t.create(ann, "/x")


@violates(order.SYNCED)
def a_sync_falls_short(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.sync(bob, zxid=t.zxid - 1)


@violates(order.SYNCED)
def a_session_is_over_before_it_was_ended(t: HistoryBuilder) -> None:
    """Ann is told of its end, and Bob, who syncs afterwards, still is before it."""
    ann, bob = t.client(1), t.client(2)
    t.session_event(ann, "expired")
    t.sync(bob)
    t.close(ann)


@legal_case
def a_sync_goes_further_than_was_seen(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    call = t.invoke(bob, Request("sync", "/"))
    t.create(ann, "/y")
    t.respond(call, Reply(zxid=t.zxid - 1, path="/"))
    t.exists(ann, "/y", there=True)
    t.sync(bob)


@legal_case
def a_write_is_seen_before_it_is_answered(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.exists(bob, "/x", there=True)
    t.respond(call, Reply(zxid=zxid, path="/x"))
