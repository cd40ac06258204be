"""Sessions, what goes with them, and numbers."""

from __future__ import annotations

from attrs import evolve

from harness.checkers.store import log, refusals, sessions
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, violates

# -- sessions and ephemeral nodes ----------------------------------------------------------------------


@legal_case
def an_ephemeral_goes_with_its_session(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.exists(bob, "/e", there=True)
    t.close(ann, "/e")
    t.session_event(ann, "expired")
    t.exists(bob, "/e", there=False)


@legal_case
def an_ephemeral_is_deleted_before(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.delete(ann, "/e")
    t.close(ann)
    t.session_event(ann, "closed")


@violates(sessions.EPHEMERAL)
def an_ephemeral_stays(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.close(ann)


@violates(sessions.EPHEMERAL)
def a_session_takes_what_is_not_its_own(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.close(bob, "/e")


@violates(sessions.EPHEMERAL)
def an_ephemeral_comes_after_its_session(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/e", b"", mode="ephemeral"))
    t.close(ann)
    t.commit(ann, Change(0, 0, "create", "/e", b"", owner=ann.session))
    t.lose(call)


@violates(sessions.EPHEMERAL)
def an_ephemeral_of_another_session(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(ann, Request("create", "/e", b"", mode="ephemeral"))
    zxid = t.commit(ann, Change(0, 0, "create", "/e", b"", owner=bob.session))
    t.respond(call, Reply(zxid=zxid, path="/e"))


@violates(sessions.LIVES)
def a_closed_session_writes(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@violates(sessions.LIVES)
def a_closed_session_comes_back(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.commit(ann, Change(0, 0, "attach"))


@violates(sessions.LIVES)
def a_closed_session_reads(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann)


@legal_case
def a_closed_session_reads_where_nobody_knows_it_yet(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann, zxid=t.zxid - 1)


@violates(sessions.LIVES)
def an_expired_session_reads(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.session_event(ann, "expired")
    t.sync(ann, zxid=t.zxid - 1)


@violates(sessions.LIVES)
def an_expired_session_is_connected_again(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.session_event(ann, "expired")
    t.session_event(ann, "connected")


@violates(sessions.LIVES)
def a_session_expires_and_nobody_closed_it(t: HistoryBuilder) -> None:
    t.session_event(t.client(1), "expired")


@violates(sessions.LIVES)
def a_session_is_over_and_nobody_closed_it(t: HistoryBuilder) -> None:
    t.session_event(t.client(1), "closed")


@violates(sessions.LIVES)
def a_session_is_told_of_its_end_before_anybody_ended_it(t: HistoryBuilder) -> None:
    """What Bob asks for afterwards takes effect before that; that he syncs then is no more than that."""
    ann, bob, cyd = t.client(1), t.client(2), t.client(3)
    t.create(bob, "/early")
    t.session_event(ann, "expired")
    t.create(bob, "/x")
    t.sync(bob)
    t.create(bob, "/y")
    t.close(cyd)
    t.session_event(cyd, "closed")
    t.create(bob, "/z")
    t.close(ann)
    t.create(bob, "/late")


@legal_case
def what_was_asked_for_before_a_session_was_told_of_its_end_may_come_before_it(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(bob, Request("create", "/x", b""))
    zxid = t.commit(bob, Change(0, 0, "create", "/x", b""))
    t.close(ann)
    t.session_event(ann, "expired")
    t.respond(call, Reply(zxid=zxid, path="/x"))
    t.create(bob, "/y")
    t.sync(bob)


@legal_case
def a_write_is_asked_for_in_the_moment_in_which_a_session_is_told_of_its_end(t: HistoryBuilder) -> None:
    """Nobody can say which was first."""
    ann, bob = t.client(1), t.client(2)
    t.session_event(ann, "expired")
    t.now -= 10
    t.create(bob, "/x")
    t.close(ann)


@violates(sessions.LIVES)
def a_session_that_nobody_opened(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.session_event(evolve(ann, session=0x999), "connected")


@violates(sessions.LIVES)
def a_session_is_opened_twice(t: HistoryBuilder) -> None:
    t.commit(t.client(1), Change(0, 0, "open"))


# -- sessions of one server, and servers that only read ------------------------------------------------


@legal_case
def a_local_session_writes_and_is_closed(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.create(ann, "/x")
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", served="local")
    t.session_event(ann, "closed")


@legal_case
def a_local_session_is_upgraded_and_moves(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.commit(ann, Change(0, 0, "open"))
    t.create(ann, "/e", mode="ephemeral")
    t.session_event(ann, "disconnected")
    t.commit(ann, Change(0, 0, "attach"))
    t.session_event(ann, "connected", 2, "local")
    t.close(ann, "/e")
    t.session_event(ann, "expired")


@legal_case
def another_server_knows_nothing_of_a_local_session(t: HistoryBuilder) -> None:
    ann, bob = t.at_one_server(1, "local"), t.client(2)
    t.session_event(ann, "expired", 2)
    t.create(bob, "/x")


@legal_case
def another_server_has_not_heard_of_an_upgrade(t: HistoryBuilder) -> None:
    ann, bob = t.at_one_server(1, "local"), t.client(2)
    t.session_event(ann, "expired", 2)
    t.create(bob, "/x")
    t.commit(ann, Change(0, 0, "open"))
    t.close(ann)


@violates(sessions.LOCAL)
def a_local_session_is_welcome_at_another_server(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", 2, "local")


@violates(sessions.EPHEMERAL)
def a_local_session_owns_a_node(t: HistoryBuilder) -> None:
    t.create(t.at_one_server(1, "local"), "/e", mode="ephemeral")


@violates(sessions.LIVES)
def a_local_session_is_attached_by_a_transaction(t: HistoryBuilder) -> None:
    t.commit(t.at_one_server(1, "local"), Change(0, 0, "attach"))


@violates(sessions.LIVES)
def an_upgraded_session_is_over_and_nobody_closed_it(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.commit(ann, Change(0, 0, "open"))
    t.session_event(ann, "closed")


@legal_case
def a_read_only_server_reads_and_refuses_the_rest(t: HistoryBuilder) -> None:
    bob, ann = t.client(2), t.at_one_server(1, "read-only")
    t.exists(ann, "/x", there=False)
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply("NOT_READ_ONLY", zxid=t.zxid))
    t.respond(t.invoke(ann, Request("sync", "/")), Reply("NOT_READ_ONLY", zxid=t.zxid))
    t.create(bob, "/x")
    t.exists(ann, "/x", there=False, zxid=t.zxid - 1)


@legal_case
def a_refusal_of_a_read_only_server_bears_the_zxid_of_a_lost_write(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.lose(call)
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", 2, "read-only")
    t.respond(t.invoke(ann, Request("create", "/y", b"")), Reply("NOT_READ_ONLY", zxid=zxid))


@violates(refusals.READ_ONLY)
def a_read_only_server_writes(t: HistoryBuilder) -> None:
    t.create(t.at_one_server(1, "read-only"), "/x")


@violates(refusals.READ_ONLY)
def a_read_only_server_syncs(t: HistoryBuilder) -> None:
    t.sync(t.at_one_server(1, "read-only"))


@violates(refusals.READ_ONLY)
def a_read_only_server_does_what_it_has_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", served="read-only")
    call = t.invoke(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.lose(call)


@violates(refusals.READ_ONLY)
def a_read_only_server_refuses_a_read(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "read-only")
    t.respond(t.invoke(ann, Request("exists", "/x")), Reply("NOT_READ_ONLY", zxid=t.zxid))


@violates(refusals.READ_ONLY)
def a_server_with_a_leader_refuses_a_write_as_a_reader(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply("NOT_READ_ONLY", zxid=t.zxid))


# -- what is told of an end ----------------------------------------------------------------------------


@legal_case
def an_expired_session_is_told_so(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.session_event(ann, "expired")


@violates(sessions.LIVES)
def a_living_session_is_told_that_it_has_expired(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")


@violates(sessions.LIVES)
def a_session_is_told_too_early_that_it_has_expired(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.close(ann)


@violates(sessions.LIVES)
def a_session_writes_that_was_never_opened(t: HistoryBuilder) -> None:
    t.commit(evolve(t.client(1), session=0x999), Change(0, 0, "create", "/x", b""))


# -- sequence numbers ----------------------------------------------------------------------------------


@legal_case
def numbers_count_all_children(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")
    t.create(ann, "/q/other")
    t.delete(ann, "/q/n-0000000000")
    t.create(ann, "/q/n-", mode="ephemeral sequential", named="/q/n-0000000002")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")


@legal_case
def numbers_begin_again_with_their_parent(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")
    t.delete(ann, "/q/n-0000000000")
    t.delete(ann, "/q")
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")


@violates(log.NUMBERED)
def a_number_is_given_again(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.delete(ann, "/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")


@violates(log.NUMBERED)
def a_number_is_left_out(t: HistoryBuilder) -> None:
    t.create(t.client(1), "/n-", mode="sequential", named="/n-0000000001")


@violates(log.NUMBERED)
def the_second_part_of_a_multi_gets_a_wrong_number(t: HistoryBuilder) -> None:
    ann = t.client(1)
    one = Request("create", "/n-", b"", mode="sequential")
    call = t.invoke(ann, Request("multi", parts=(one, one)))
    names = "/n-0000000000", "/n-0000000002"
    zxid = t.commit(ann, *(Change(0, 0, "create", name, b"") for name in names))
    t.respond(call, Reply(zxid=zxid, parts=tuple(Reply(path=name) for name in names)))


@violates(log.NUMBERED)
def the_last_number_is_given_again(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")
    t.delete(ann, "/n-0000000001")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")


@violates(log.NUMBERED)
def a_number_is_none(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-something")


@violates(log.NUMBERED)
def a_number_is_left_out_under_a_new_parent(t: HistoryBuilder) -> None:
    """What was given under the one before says nothing."""
    ann = t.client(1)
    t.create(ann, "/q")
    for number in (0, 1):
        t.create(ann, "/q/n-", mode="sequential", named=f"/q/n-000000000{number}")
    for number in (0, 1):
        t.delete(ann, f"/q/n-000000000{number}")
    t.delete(ann, "/q")
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000001")
