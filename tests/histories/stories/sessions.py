"""Sessions, what goes with them, and numbers."""

from __future__ import annotations

from attrs import evolve

from harness.checkers.store import log, refusals, sessions
from harness.history import Change, Reply, Request
from tests.histories.stories.story import bad, good
from tests.histories.tale import Tale

# -- sessions and ephemeral nodes ----------------------------------------------------------------------


@good
def an_ephemeral_goes_with_its_session(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.exists(bob, "/e", there=True)
    t.close(ann, "/e")
    t.became(ann, "expired")
    t.exists(bob, "/e", there=False)


@good
def an_ephemeral_is_deleted_before(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.delete(ann, "/e")
    t.close(ann)
    t.became(ann, "closed")


@bad(sessions.EPHEMERAL)
def an_ephemeral_stays(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.close(ann)


@bad(sessions.EPHEMERAL)
def a_session_takes_what_is_not_its_own(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.close(bob, "/e")


@bad(sessions.EPHEMERAL)
def an_ephemeral_comes_after_its_session(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/e", b"", mode="ephemeral"))
    t.close(ann)
    t.commit(ann, Change(0, 0, "create", "/e", b"", owner=ann.session))
    t.lose(call)


@bad(sessions.EPHEMERAL)
def an_ephemeral_of_another_session(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.ask(ann, Request("create", "/e", b"", mode="ephemeral"))
    zxid = t.commit(ann, Change(0, 0, "create", "/e", b"", owner=bob.session))
    t.tell(call, Reply(zxid=zxid, path="/e"))


@bad(sessions.LIVES)
def a_closed_session_writes(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.lose(t.ask(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@bad(sessions.LIVES)
def a_closed_session_comes_back(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.commit(ann, Change(0, 0, "attach"))


@bad(sessions.LIVES)
def a_closed_session_reads(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann)


@good
def a_closed_session_reads_where_nobody_knows_it_yet(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann, zxid=t.zxid - 1)


@bad(sessions.LIVES)
def an_expired_session_reads(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.became(ann, "expired")
    t.sync(ann, zxid=t.zxid - 1)


@bad(sessions.LIVES)
def an_expired_session_is_connected_again(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.became(ann, "expired")
    t.became(ann, "connected")


@bad(sessions.LIVES)
def a_session_expires_and_nobody_closed_it(t: Tale) -> None:
    t.became(t.client(1), "expired")


@bad(sessions.LIVES)
def a_session_is_over_and_nobody_closed_it(t: Tale) -> None:
    t.became(t.client(1), "closed")


@bad(sessions.LIVES)
def a_session_is_told_of_its_end_before_anybody_ended_it(t: Tale) -> None:
    """What Bob asks for afterwards takes effect before that; that he syncs then is no more than that."""
    ann, bob, cyd = t.client(1), t.client(2), t.client(3)
    t.create(bob, "/early")
    t.became(ann, "expired")
    t.create(bob, "/x")
    t.sync(bob)
    t.create(bob, "/y")
    t.close(cyd)
    t.became(cyd, "closed")
    t.create(bob, "/z")
    t.close(ann)
    t.create(bob, "/late")


@good
def what_was_asked_for_before_a_session_was_told_of_its_end_may_come_before_it(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.ask(bob, Request("create", "/x", b""))
    zxid = t.commit(bob, Change(0, 0, "create", "/x", b""))
    t.close(ann)
    t.became(ann, "expired")
    t.tell(call, Reply(zxid=zxid, path="/x"))
    t.create(bob, "/y")
    t.sync(bob)


@good
def a_write_is_asked_for_in_the_moment_in_which_a_session_is_told_of_its_end(t: Tale) -> None:
    """Nobody can say which was first."""
    ann, bob = t.client(1), t.client(2)
    t.became(ann, "expired")
    t.now -= 10
    t.create(bob, "/x")
    t.close(ann)


@bad(sessions.LIVES)
def a_session_that_nobody_opened(t: Tale) -> None:
    ann = t.client(1)
    t.became(evolve(ann, session=0x999), "connected")


@bad(sessions.LIVES)
def a_session_is_opened_twice(t: Tale) -> None:
    t.commit(t.client(1), Change(0, 0, "open"))


# -- sessions of one server, and servers that only read ------------------------------------------------


@good
def a_local_session_writes_and_is_closed(t: Tale) -> None:
    ann = t.at_one_server(1, "local")
    t.create(ann, "/x")
    t.became(ann, "disconnected")
    t.became(ann, "connected", served="local")
    t.became(ann, "closed")


@good
def a_local_session_is_upgraded_and_moves(t: Tale) -> None:
    ann = t.at_one_server(1, "local")
    t.commit(ann, Change(0, 0, "open"))
    t.create(ann, "/e", mode="ephemeral")
    t.became(ann, "disconnected")
    t.commit(ann, Change(0, 0, "attach"))
    t.became(ann, "connected", 2, "local")
    t.close(ann, "/e")
    t.became(ann, "expired")


@good
def another_server_knows_nothing_of_a_local_session(t: Tale) -> None:
    ann, bob = t.at_one_server(1, "local"), t.client(2)
    t.became(ann, "expired", 2)
    t.create(bob, "/x")


@good
def another_server_has_not_heard_of_an_upgrade(t: Tale) -> None:
    ann, bob = t.at_one_server(1, "local"), t.client(2)
    t.became(ann, "expired", 2)
    t.create(bob, "/x")
    t.commit(ann, Change(0, 0, "open"))
    t.close(ann)


@bad(sessions.LOCAL)
def a_local_session_is_welcome_at_another_server(t: Tale) -> None:
    ann = t.at_one_server(1, "local")
    t.became(ann, "disconnected")
    t.became(ann, "connected", 2, "local")


@bad(sessions.EPHEMERAL)
def a_local_session_owns_a_node(t: Tale) -> None:
    t.create(t.at_one_server(1, "local"), "/e", mode="ephemeral")


@bad(sessions.LIVES)
def a_local_session_is_attached_by_a_transaction(t: Tale) -> None:
    t.commit(t.at_one_server(1, "local"), Change(0, 0, "attach"))


@bad(sessions.LIVES)
def an_upgraded_session_is_over_and_nobody_closed_it(t: Tale) -> None:
    ann = t.at_one_server(1, "local")
    t.commit(ann, Change(0, 0, "open"))
    t.became(ann, "closed")


@good
def a_read_only_server_reads_and_refuses_the_rest(t: Tale) -> None:
    bob, ann = t.client(2), t.at_one_server(1, "read-only")
    t.exists(ann, "/x", there=False)
    t.tell(t.ask(ann, Request("create", "/x", b"")), Reply("NOT_READ_ONLY", zxid=t.zxid))
    t.tell(t.ask(ann, Request("sync", "/")), Reply("NOT_READ_ONLY", zxid=t.zxid))
    t.create(bob, "/x")
    t.exists(ann, "/x", there=False, zxid=t.zxid - 1)


@good
def a_refusal_of_a_read_only_server_bears_the_zxid_of_a_lost_write(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.lose(call)
    t.became(ann, "disconnected")
    t.became(ann, "connected", 2, "read-only")
    t.tell(t.ask(ann, Request("create", "/y", b"")), Reply("NOT_READ_ONLY", zxid=zxid))


@bad(refusals.READ_ONLY)
def a_read_only_server_writes(t: Tale) -> None:
    t.create(t.at_one_server(1, "read-only"), "/x")


@bad(refusals.READ_ONLY)
def a_read_only_server_syncs(t: Tale) -> None:
    t.sync(t.at_one_server(1, "read-only"))


@bad(refusals.READ_ONLY)
def a_read_only_server_does_what_it_has_refused(t: Tale) -> None:
    ann = t.client(1)
    t.became(ann, "disconnected")
    t.became(ann, "connected", served="read-only")
    call = t.ask(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.lose(call)


@bad(refusals.READ_ONLY)
def a_read_only_server_refuses_a_read(t: Tale) -> None:
    ann = t.at_one_server(1, "read-only")
    t.tell(t.ask(ann, Request("exists", "/x")), Reply("NOT_READ_ONLY", zxid=t.zxid))


@bad(refusals.READ_ONLY)
def a_server_with_a_leader_refuses_a_write_as_a_reader(t: Tale) -> None:
    ann = t.client(1)
    t.tell(t.ask(ann, Request("create", "/x", b"")), Reply("NOT_READ_ONLY", zxid=t.zxid))


# -- what is told of an end ----------------------------------------------------------------------------


@good
def an_expired_session_is_told_so(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.became(ann, "expired")


@bad(sessions.LIVES)
def a_living_session_is_told_that_it_has_expired(t: Tale) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")


@bad(sessions.LIVES)
def a_session_is_told_too_early_that_it_has_expired(t: Tale) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.close(ann)


@bad(sessions.LIVES)
def a_session_writes_that_was_never_opened(t: Tale) -> None:
    t.commit(evolve(t.client(1), session=0x999), Change(0, 0, "create", "/x", b""))


# -- sequence numbers ----------------------------------------------------------------------------------


@good
def numbers_count_all_children(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")
    t.create(ann, "/q/other")
    t.delete(ann, "/q/n-0000000000")
    t.create(ann, "/q/n-", mode="ephemeral sequential", named="/q/n-0000000002")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")


@good
def numbers_begin_again_with_their_parent(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")
    t.delete(ann, "/q/n-0000000000")
    t.delete(ann, "/q")
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")


@bad(log.NUMBERED)
def a_number_is_given_again(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.delete(ann, "/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")


@bad(log.NUMBERED)
def a_number_is_left_out(t: Tale) -> None:
    t.create(t.client(1), "/n-", mode="sequential", named="/n-0000000001")


@bad(log.NUMBERED)
def the_second_part_of_a_multi_gets_a_wrong_number(t: Tale) -> None:
    ann = t.client(1)
    one = Request("create", "/n-", b"", mode="sequential")
    call = t.ask(ann, Request("multi", parts=(one, one)))
    names = "/n-0000000000", "/n-0000000002"
    zxid = t.commit(ann, *(Change(0, 0, "create", name, b"") for name in names))
    t.tell(call, Reply(zxid=zxid, parts=tuple(Reply(path=name) for name in names)))


@bad(log.NUMBERED)
def the_last_number_is_given_again(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")
    t.delete(ann, "/n-0000000001")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")


@bad(log.NUMBERED)
def a_number_is_none(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-something")


@bad(log.NUMBERED)
def a_number_is_left_out_under_a_new_parent(t: Tale) -> None:
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
