"""Sessions, ephemeral nodes, and sequence numbers."""

from __future__ import annotations

from attrs import evolve

from harness.checkers.store import log, refusals, sessions
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, violates

# -- sessions and ephemeral nodes ----------------------------------------------------------------------


@legal_case
def ephemeral_is_deleted_with_its_session(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.exists(bob, "/e", there=True)
    t.close(ann, "/e")
    t.session_event(ann, "expired")
    t.exists(bob, "/e", there=False)


@legal_case
def ephemeral_is_deleted_before_the_close(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.delete(ann, "/e")
    t.close(ann)
    t.session_event(ann, "closed")


@violates(sessions.EPHEMERAL)
def ephemeral_outlives_its_session(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.close(ann)


@violates(sessions.EPHEMERAL)
def close_deletes_a_node_of_another_session(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.close(bob, "/e")


@violates(sessions.EPHEMERAL)
def ephemeral_is_created_after_the_close(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/e", b"", mode="ephemeral"))
    t.close(ann)
    t.commit(ann, Change(0, 0, "create", "/e", b"", owner=ann.session))
    t.lose(call)


@violates(sessions.EPHEMERAL)
def ephemeral_of_another_session(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(ann, Request("create", "/e", b"", mode="ephemeral"))
    zxid = t.commit(ann, Change(0, 0, "create", "/e", b"", owner=bob.session))
    t.respond(call, Reply(zxid=zxid, path="/e"))


@violates(sessions.LIVES)
def closed_session_writes(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.lose(t.invoke(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@violates(sessions.LIVES)
def closed_session_comes_back(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.commit(ann, Change(0, 0, "attach"))


@violates(sessions.LIVES)
def closed_session_reads(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann)


@legal_case
def closed_session_reads_at_a_lagging_server(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann, zxid=t.zxid - 1)


@violates(sessions.LIVES)
def expired_session_reads(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.session_event(ann, "expired")
    t.sync(ann, zxid=t.zxid - 1)


@violates(sessions.LIVES)
def expired_session_is_connected_again(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.session_event(ann, "expired")
    t.session_event(ann, "connected")


@violates(sessions.LIVES)
def session_expires_without_a_close(t: HistoryBuilder) -> None:
    t.session_event(t.client(1), "expired")


@violates(sessions.LIVES)
def session_ends_without_a_close(t: HistoryBuilder) -> None:
    t.session_event(t.client(1), "closed")


@violates(sessions.LIVES)
def end_of_a_session_is_reported_before_the_close(t: HistoryBuilder) -> None:
    """Bob's later request takes effect before the end; his sync then adds nothing."""
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
def write_requested_before_the_reported_end_may_precede_the_close(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.invoke(bob, Request("create", "/x", b""))
    zxid = t.commit(bob, Change(0, 0, "create", "/x", b""))
    t.close(ann)
    t.session_event(ann, "expired")
    t.respond(call, Reply(zxid=zxid, path="/x"))
    t.create(bob, "/y")
    t.sync(bob)


@legal_case
def write_is_requested_at_the_instant_of_the_reported_end(t: HistoryBuilder) -> None:
    """The order of the two events is unknown."""
    ann, bob = t.client(1), t.client(2)
    t.session_event(ann, "expired")
    t.now -= 10
    t.create(bob, "/x")
    t.close(ann)


@violates(sessions.LIVES)
def session_without_an_opening(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.session_event(evolve(ann, session=0x999), "connected")


@violates(sessions.LIVES)
def session_is_opened_twice(t: HistoryBuilder) -> None:
    t.commit(t.client(1), Change(0, 0, "open"))


# -- local sessions and read-only servers --------------------------------------------------------------


@legal_case
def local_session_writes_and_is_closed(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.create(ann, "/x")
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", served="local")
    t.session_event(ann, "closed")


@legal_case
def local_session_is_upgraded_and_moves(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.commit(ann, Change(0, 0, "open"))
    t.create(ann, "/e", mode="ephemeral")
    t.session_event(ann, "disconnected")
    t.commit(ann, Change(0, 0, "attach"))
    t.session_event(ann, "connected", 2, "local")
    t.close(ann, "/e")
    t.session_event(ann, "expired")


@legal_case
def another_server_does_not_know_a_local_session(t: HistoryBuilder) -> None:
    ann, bob = t.at_one_server(1, "local"), t.client(2)
    t.session_event(ann, "expired", 2)
    t.create(bob, "/x")


@legal_case
def another_server_has_not_applied_an_upgrade(t: HistoryBuilder) -> None:
    ann, bob = t.at_one_server(1, "local"), t.client(2)
    t.session_event(ann, "expired", 2)
    t.create(bob, "/x")
    t.commit(ann, Change(0, 0, "open"))
    t.close(ann)


@violates(sessions.LOCAL)
def local_session_is_accepted_by_another_server(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", 2, "local")


@violates(sessions.EPHEMERAL)
def local_session_owns_a_node(t: HistoryBuilder) -> None:
    t.create(t.at_one_server(1, "local"), "/e", mode="ephemeral")


@violates(sessions.LIVES)
def local_session_is_attached_by_a_transaction(t: HistoryBuilder) -> None:
    t.commit(t.at_one_server(1, "local"), Change(0, 0, "attach"))


@violates(sessions.LIVES)
def upgraded_session_ends_without_a_close(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "local")
    t.commit(ann, Change(0, 0, "open"))
    t.session_event(ann, "closed")


@legal_case
def read_only_server_reads_and_refuses_the_rest(t: HistoryBuilder) -> None:
    bob, ann = t.client(2), t.at_one_server(1, "read-only")
    t.exists(ann, "/x", there=False)
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply("NOT_READ_ONLY", zxid=t.zxid))
    t.respond(t.invoke(ann, Request("sync", "/")), Reply("NOT_READ_ONLY", zxid=t.zxid))
    t.create(bob, "/x")
    t.exists(ann, "/x", there=False, zxid=t.zxid - 1)


@legal_case
def refusal_of_a_read_only_server_has_the_zxid_of_a_lost_write(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.lose(call)
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", 2, "read-only")
    t.respond(t.invoke(ann, Request("create", "/y", b"")), Reply("NOT_READ_ONLY", zxid=zxid))


@legal_case
def read_only_server_throttles_a_write(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "read-only")
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply("THROTTLED_OP", zxid=t.zxid))


@legal_case
def read_only_server_has_not_applied_the_close_of_an_expired_session(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.session_event(ann, "expired")
    t.session_event(ann, "connected", 2, "read-only")
    t.exists(ann, "/x", there=False, zxid=t.zxid - 1)
    t.session_event(ann, "disconnected")
    t.session_event(ann, "expired", 1)


@violates(sessions.LIVES)
def read_only_server_answers_an_expired_session_after_the_close(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.session_event(ann, "expired")
    t.session_event(ann, "connected", 2, "read-only")
    t.exists(ann, "/x", there=False)


@violates(sessions.LIVES)
def server_with_a_leader_accepts_an_expired_session_after_a_read_only_one(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.session_event(ann, "expired")
    t.session_event(ann, "connected", 2, "read-only")
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", 1)


@violates(sessions.LIVES)
def read_only_server_accepts_its_own_session_after_its_end(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "read-only")
    t.session_event(ann, "expired")
    t.session_event(ann, "connected", served="read-only")


@violates(refusals.READ_ONLY)
def read_only_server_writes(t: HistoryBuilder) -> None:
    t.create(t.at_one_server(1, "read-only"), "/x")


@violates(refusals.READ_ONLY)
def read_only_server_syncs(t: HistoryBuilder) -> None:
    t.sync(t.at_one_server(1, "read-only"))


@violates(refusals.READ_ONLY)
def read_only_server_refuses_a_write_that_is_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.session_event(ann, "disconnected")
    t.session_event(ann, "connected", served="read-only")
    call = t.invoke(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.lose(call)


@violates(refusals.READ_ONLY)
def read_only_server_refuses_a_read(t: HistoryBuilder) -> None:
    ann = t.at_one_server(1, "read-only")
    t.respond(t.invoke(ann, Request("exists", "/x")), Reply("NOT_READ_ONLY", zxid=t.zxid))


@violates(refusals.READ_ONLY)
def server_with_a_leader_refuses_a_write_as_a_reader(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.respond(t.invoke(ann, Request("create", "/x", b"")), Reply("NOT_READ_ONLY", zxid=t.zxid))


# -- reported ends of sessions -------------------------------------------------------------------------


@legal_case
def expired_session_gets_the_error(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.close(ann)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.session_event(ann, "expired")


@violates(sessions.LIVES)
def open_session_is_reported_as_expired(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")


@violates(sessions.LIVES)
def session_is_reported_as_expired_too_early(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.close(ann)


@violates(sessions.LIVES)
def unopened_session_writes(t: HistoryBuilder) -> None:
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
def number_is_given_again(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.delete(ann, "/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")


@violates(log.NUMBERED)
def number_is_left_out(t: HistoryBuilder) -> None:
    t.create(t.client(1), "/n-", mode="sequential", named="/n-0000000001")


@violates(log.NUMBERED)
def second_part_of_a_multi_gets_a_wrong_number(t: HistoryBuilder) -> None:
    ann = t.client(1)
    one = Request("create", "/n-", b"", mode="sequential")
    call = t.invoke(ann, Request("multi", parts=(one, one)))
    names = "/n-0000000000", "/n-0000000002"
    zxid = t.commit(ann, *(Change(0, 0, "create", name, b"") for name in names))
    t.respond(call, Reply(zxid=zxid, parts=tuple(Reply(path=name) for name in names)))


@violates(log.NUMBERED)
def last_number_is_given_again(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")
    t.delete(ann, "/n-0000000001")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")


@violates(log.NUMBERED)
def sequence_number_is_no_number(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-something")


@violates(log.NUMBERED)
def number_is_left_out_under_a_new_parent(t: HistoryBuilder) -> None:
    """Numbers under the former parent do not count."""
    ann = t.client(1)
    t.create(ann, "/q")
    for number in (0, 1):
        t.create(ann, "/q/n-", mode="sequential", named=f"/q/n-000000000{number}")
    for number in (0, 1):
        t.delete(ann, f"/q/n-000000000{number}")
    t.delete(ann, "/q")
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000001")
