"""Committed changes, and the order in which clients see them."""

from __future__ import annotations

from harness.checkers.store import log, order
from harness.history import Change, Info, Reply, Request, Response
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, violates

# -- each transaction follows from the state before it ----------------------------------------------------------------


@violates(log.FOLLOWS)
def node_is_created_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x")


@violates(log.FOLLOWS)
def child_without_a_parent(t: HistoryBuilder) -> None:
    t.create(t.client(1), "/x/y")


@violates(log.FOLLOWS)
def child_of_an_ephemeral(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", mode="ephemeral")
    t.create(ann, "/x/y")


@violates(log.FOLLOWS)
def deleted_node_is_set(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x")
    t.set(ann, "/x", b"1", 1)


@violates(log.FOLLOWS)
def parent_is_deleted_before_its_children(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.delete(ann, "/x")


@violates(log.FOLLOWS)
def version_is_given_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 1)


@violates(log.FOLLOWS)
def missing_node_is_deleted(t: HistoryBuilder) -> None:
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
def second_is_answered_first(t: HistoryBuilder) -> None:
    ann = t.client(1)
    one = t.invoke(ann, Request("exists", "/x"))
    two = t.invoke(ann, Request("exists", "/y"))
    t.respond(two, Reply("NO_NODE", zxid=t.zxid))
    t.respond(one, Reply("NO_NODE", zxid=t.zxid))


@violates(order.REPLIES)
def call_is_answered_twice(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))


@violates(order.REPLIES)
def lost_call_gets_a_reply(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("exists", "/x"))
    t.lose(call)
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))


@violates(order.REPLIES)
def call_is_lost_after_its_reply(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply("NO_NODE", zxid=t.zxid))
    t.lose(call)


@violates(order.REPLIES)
def reply_without_an_invocation(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Response(t.tick(), 1, ann.session, 77, Reply(zxid=t.zxid)))


@violates(order.REPLIES)
def loss_without_an_invocation(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Info(t.tick(), 1, ann.session, 77))


@violates(order.WRITES)
def writes_take_effect_in_reverse_order(t: HistoryBuilder) -> None:
    """Both requests were in flight, and the second took effect first."""
    ann = t.client(1)
    one = t.invoke(ann, Request("create", "/x", b""))
    two = t.invoke(ann, Request("create", "/y", b""))
    late = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.respond(one, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/x"))
    t.respond(two, Reply(zxid=late, path="/y"))


@violates(order.WRITES)
def lost_write_takes_effect_after_a_later_one(t: HistoryBuilder) -> None:
    """The reply to the first was lost, and it took effect after the second."""
    ann = t.client(1)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.back(ann)
    t.create(ann, "/y")
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.sync(ann)


@legal_case
def another_server_lags(t: HistoryBuilder) -> None:
    """Bob's server may lag."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)
    t.exists(bob, "/x", there=True)


@violates(order.NEVER_BACK)
def another_server_lags_behind_the_seen_state(t: HistoryBuilder) -> None:
    """Bob's server lags behind what Bob has seen at another server."""
    ann, bob = t.client(1), t.client(2, server=1)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=True)
    t.session_event(bob, "disconnected")
    t.session_event(bob, "connected", server=2)
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@violates(order.NEVER_BACK)
def event_shows_more_than_the_next_read(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@violates(order.AFTER)
def write_is_seen_before_its_invocation(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.zxid += 1
    t.sync(bob)
    t.zxid -= 1
    t.create(ann, "/x")


@violates(order.SYNCED)
def sync_does_not_reach_the_seen_state(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.sync(bob, zxid=t.zxid - 1)


@violates(order.SYNCED)
def sync_misses_the_reported_end_of_a_session(t: HistoryBuilder) -> None:
    """Ann receives the end of her session; the later sync of Bob does not include that end."""
    ann, bob = t.client(1), t.client(2)
    t.session_event(ann, "expired")
    t.sync(bob)
    t.close(ann)


@legal_case
def sync_reaches_more_than_the_seen_state(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    call = t.invoke(bob, Request("sync", "/"))
    t.create(ann, "/y")
    t.respond(call, Reply(zxid=t.zxid - 1, path="/"))
    t.exists(ann, "/y", there=True)
    t.sync(bob)


@legal_case
def write_is_seen_before_its_reply(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.exists(bob, "/x", there=True)
    t.respond(call, Reply(zxid=zxid, path="/x"))
