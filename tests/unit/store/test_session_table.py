"""The session table: owners, ends, and the deletion of ephemerals."""

from __future__ import annotations

import hmac
from typing import Any

import pytest

from tests.unit.store.support import ALICE, BOB, CAROL, SECRET, Leader, dump, follower_of, leader
from zab.core.errors import LocalProtocolError
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.expiry_queue import ExpiryQueue
from zab.store.operations import Op
from zab.store.request_format import INTERNAL
from zab.store.session_table import SessionIds, SessionTable
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.store.transactions import decode
from zab.store.tree import BESIDE_A_PATH_BYTES
from zab.store.znode import CONTAINER, is_session

EXPIRED, MOVED = ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED


def opened(*sessions: int) -> Leader:
    it = Leader()
    it.open_sessions(*sessions)
    return it


# -- passwords -----------------------------------------------------------------------------------------


def test_passwords_are_the_same_everywhere_and_nowhere_to_be_guessed() -> None:
    it = opened(ALICE)
    follower = follower_of(it)
    password = it.store.sessions.password(ALICE)
    assert len(password) == 16
    assert follower.sessions.password(ALICE) == password
    assert password == hmac.digest(SECRET, ALICE.to_bytes(8, "big"), "sha256")[:16]
    assert it.store.sessions.password_is(ALICE, password)
    for wrong in (None, b"", password[:15], bytes(16), it.store.sessions.password(BOB)):
        assert not it.store.sessions.password_is(ALICE, wrong)
    assert it.store.sessions.password(-ALICE) != password


def test_there_is_one_secret_and_it_comes_first() -> None:
    with pytest.raises(LocalProtocolError):
        SessionTable().password(1)
    it = Leader()
    assert it.internal(Op.SET_SECRET, b"short") == ErrorCode.BAD_ARGUMENTS
    it.prepare(Op.SET_SECRET, SECRET, flags=INTERNAL)
    it.prepare(Op.SET_SECRET, SECRET[::-1], flags=INTERNAL)  # another server, at the same time
    assert [result[1] for result in it.settle()] == [0, ErrorCode.BAD_ARGUMENTS]
    assert it.internal(Op.SET_SECRET, SECRET[::-1]) == ErrorCode.BAD_ARGUMENTS
    assert it.store.sessions.secret == SECRET


def test_the_secret_is_not_shown() -> None:
    it = opened(ALICE)
    assert all(SECRET.hex() not in repr(decode(txn)) and repr(SECRET) not in repr(decode(txn)) for _, txn in it.log)


# -- whose is it ---------------------------------------------------------------------------------------


def test_a_session_is_opened_once() -> None:
    it = opened(ALICE)
    for session in (ALICE, 0, CONTAINER):
        assert it.internal(Op.CREATE_SESSION, 1000, session=session) == ErrorCode.BAD_ARGUMENTS
    assert it.store.sessions.table == {ALICE: (30_000, 1)}


def test_a_session_is_usable_before_its_opening_is_applied() -> None:
    it = opened(ALICE)
    it.prepare(Op.CREATE_SESSION, 1000, session=BOB, flags=INTERNAL)
    it.prepare(Op.CREATE, "/b", b"", OPEN, 1, session=BOB)
    assert [result[1] for result in it.settle()] == [0, 0]


def test_a_session_that_moves_takes_its_requests_along() -> None:
    it = opened(ALICE)
    it.create("/a", server=1)
    it.prepare(Op.ATTACH_SESSION, server=3, flags=INTERNAL)
    it.prepare(Op.SET_DATA, "/a", b"", -1, server=1)
    it.prepare(Op.CLOSE_SESSION, server=1)
    it.prepare(Op.SET_DATA, "/a", b"", -1, server=3)
    assert [result[1] for result in it.settle()] == [0, MOVED, MOVED, 0]
    assert it.store.sessions.table[ALICE] == (30_000, 3)


def test_a_new_leader_knows_where_sessions_are() -> None:
    it = opened(ALICE)
    it.internal(Op.ATTACH_SESSION, server=3)
    other = Leader(store=follower_of(it))
    assert other.error(Op.CREATE, "/a", b"", OPEN, 0, server=1) == MOVED
    assert other.error(Op.CREATE, "/a", b"", OPEN, 0, server=3) == 0


def test_closing_session_cannot_be_attached() -> None:
    it = opened(ALICE)
    it.prepare(Op.CLOSE_SESSION, flags=INTERNAL)
    it.prepare(Op.ATTACH_SESSION, flags=INTERNAL)
    assert [result[1] for result in it.settle()] == [0, EXPIRED]
    assert it.internal(Op.ATTACH_SESSION) == EXPIRED


def test_requests_prepared_by_a_deposed_leader_are_dropped() -> None:
    it = opened(ALICE)
    it.create("/p")
    it.prepare(Op.CREATE, "/p/lost", b"", OPEN, 0)
    it.prepare(Op.CLOSE_SESSION)
    assert it.error(Op.DELETE, "/p", -1) == EXPIRED
    lost = it.log[-3:]
    again = Leader(store=follower_of(it))  # it kept all of it
    assert len(lost) == 3
    assert again.error(Op.CREATE, "/p/x", b"", OPEN, 0) == EXPIRED

    it = opened(ALICE)
    it.create("/p")
    it.prepare(Op.CREATE, "/p/lost", b"", OPEN, 0)
    it.prepare(Op.CLOSE_SESSION)
    del it.log[-2:]  # they never left it
    it.epoch, it.zxid = 2, 2 << 32
    assert it.create("/p/", flags=2) == "/p/0000000000"
    it.delete("/p/0000000000")
    it.delete("/p")


# -- the end -------------------------------------------------------------------------------------------


@pytest.mark.mechanism(122)
def test_ephemerals_are_deleted_with_their_session() -> None:
    it = opened(ALICE, BOB)
    it.create("/p")
    for name in "abc":
        it.create(f"/p/{name}", flags=1)
    it.create("/p/bob", flags=1, session=BOB)
    it.delete("/p/b")
    it.ask(Op.CLOSE_SESSION)
    closed = it.zxid
    assert it.store.tree.children_of("/p") == ["bob"]
    assert it.stat("/p")[-2:] == (1, closed)
    assert it.stat("/p").cversion == 4 + 3
    assert ALICE not in it.store.tree.ephemerals
    assert ALICE not in it.store.sessions.table
    assert it.error(Op.CREATE, "/p/late", b"", OPEN, 0) == EXPIRED
    assert dump(follower_of(it)) == dump(it.store)


def test_session_close_sees_outstanding_creates() -> None:
    it = opened(ALICE, BOB)
    it.create("/p")
    it.create("/p/applied", flags=1)
    it.create("/p/gone", flags=1)
    it.create("/p/again", flags=1)
    it.prepare(Op.CREATE, "/p/pending", b"", OPEN, 1)
    it.prepare(Op.SET_DATA, "/p/applied", b"!", -1)
    it.prepare(Op.DELETE, "/p/gone", -1, session=BOB)
    it.prepare(Op.DELETE, "/p/again", -1, session=BOB)
    it.prepare(Op.CREATE, "/p/again", b"", OPEN, 0, session=BOB)
    it.prepare(Op.CLOSE_SESSION)
    # And is seen by those that come after it.
    it.prepare(Op.CREATE, "/p/late", b"", OPEN, 1)
    it.prepare(Op.CREATE, "/p/pending", b"bob's", OPEN, 0, session=BOB)
    it.prepare(Op.DELETE, "/p/pending", -1, session=BOB)
    it.prepare(Op.DELETE, "/p/again", -1, session=BOB)
    it.prepare(Op.DELETE, "/p", -1, session=BOB)
    assert [result[1] for result in it.settle()] == [0, 0, 0, 0, 0, 0, EXPIRED, 0, 0, 0, 0]
    it.store.tree.check()


def test_a_session_ends_twice_and_nothing_happens() -> None:
    it = opened(ALICE)
    it.create("/e", flags=1)
    it.prepare(Op.CLOSE_SESSION)
    it.prepare(Op.CLOSE_SESSION, flags=INTERNAL)
    it.prepare(Op.CLOSE_SESSION)
    assert [result[1] for result in it.settle()] == [0, 0, 0]
    assert "/e" not in it.store.tree.nodes


# -- ids -----------------------------------------------------------------------------------------------


def test_ids_are_one_server_s_own() -> None:
    ids = SessionIds(1, 1_700_000_000_000)
    made = [ids.next() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert {session >> 56 for session in made} == {1}
    later = SessionIds(1, 1_700_000_000_001)
    assert later.next() == made[0] + (1 << 16)


def test_session_ids_are_valid_ephemeral_owners() -> None:
    for server in (1, 127, 128, 254, 255):
        ids = SessionIds(server, 0)
        for _ in range(3):
            session = ids.next()
            assert is_session(session)
            assert -(2**63) < session < 2**63
    ids = SessionIds(128, (1 << 40) - 1)
    ids._next |= 0xFFFF
    assert [ids.next() for _ in range(2)] == [CONTAINER + 1, CONTAINER + 2], "0x80 and zeros is a container's mark"


# -- expiry --------------------------------------------------------------------------------------------


def test_sessions_end_on_the_grid_and_never_early() -> None:
    assert ExpiryQueue(2000).deadline is None
    expiry = ExpiryQueue(2000)
    for timeout in range(4000, 8000, 100):
        for now in range(0, 4000, 700):
            expiry.touch(1, timeout, now)
            deadline = expiry.deadline
            assert deadline is not None
            assert deadline % 2000 == 0
            assert now + timeout < deadline <= now + timeout + 2000
            expiry.forget(1)


def test_a_touch_moves_the_end_only_forward() -> None:
    expiry = ExpiryQueue(1000)
    expiry.touch(ALICE, 4000, 0)
    expiry.touch(BOB, 4000, 0)
    expiry.touch(ALICE, 4000, 3000)
    expiry.touch(ALICE, 1000, 3000)
    assert expiry.buckets() == [(5000, [BOB]), (8000, [ALICE])]
    assert expiry.due(4999) == []
    assert expiry.due(5000) == [BOB]
    assert expiry.buckets() == [(8000, [ALICE])]
    assert not expiry.due(5000), "once"
    assert BOB not in expiry
    assert expiry.deadline == 8000
    expiry.touch(CAROL, 1, 0)
    assert len(expiry) == 2
    assert expiry.due(100_000) == [CAROL, ALICE]
    expiry.forget(ALICE)


def test_no_ephemeral_without_its_session_whatever_the_order() -> None:
    it = leader()
    it.create("/p")
    for number in range(50):
        it.prepare(Op.CREATE, f"/p/{number}", b"", OPEN, 1, session=(ALICE, BOB)[number % 2])
        if number == 20:
            it.prepare(Op.CLOSE_SESSION, session=BOB)
        if number % 7 == 0:
            it.settle()
            assert it.store.tree.ephemerals.keys() <= it.store.sessions.table.keys()
    it.settle()
    assert it.store.tree.ephemerals.keys() == {ALICE}
    fresh = Store()
    fresh.restore(it.store.snapshot())
    assert fresh.tree.ephemerals.keys() == {ALICE}


def test_expiry_by_a_former_leader_is_refused_by_the_next() -> None:
    it = opened(ALICE)
    epoch = it.store.zxid >> 32
    assert it.internal(Op.CLOSE_SESSION, epoch - 1) == MOVED
    assert ALICE in it.store.sessions.table
    assert it.create("/a", server=1)
    assert it.internal(Op.CLOSE_SESSION, epoch) == 0
    assert ALICE not in it.store.sessions.table


# -- the ephemeral nodes of one session ----------------------------------------------------------------

EPHEMERAL = 1
ONE = len("/e0") + BESIDE_A_PATH_BYTES


def test_paths_of_ephemeral_nodes_are_bounded_because_the_end_of_the_session_deletes_all() -> None:
    it = leader(StoreSettings(ephemeral_bytes_max=3 * ONE))
    for number in range(3):
        it.prepare(Op.CREATE, f"/e{number}", b"", OPEN, EPHEMERAL)
    it.prepare(Op.CREATE, "/e3", b"", OPEN, EPHEMERAL)
    assert [error for _, error, *_ in it.settle()] == [0, 0, 0, ErrorCode.QUOTA_EXCEEDED]
    it.create("/p0")
    it.create("/b0", flags=EPHEMERAL, session=BOB)
    assert it.error(Op.CREATE, "/e3", b"", OPEN, EPHEMERAL) == ErrorCode.QUOTA_EXCEEDED
    it.delete("/e0", session=BOB)
    it.create("/e3", flags=EPHEMERAL)
    assert it.error(Op.CREATE, "/e4", b"", OPEN, EPHEMERAL) == ErrorCode.QUOTA_EXCEEDED
    it.epoch += 1
    assert it.error(Op.CREATE, "/e4", b"", OPEN, EPHEMERAL) == ErrorCode.QUOTA_EXCEEDED
    it.store.tree.check()


def test_a_multi_that_fails_leaves_the_paths_of_ephemeral_nodes_as_they_were() -> None:
    it = leader(StoreSettings(ephemeral_bytes_max=2 * ONE))
    it.create("/e0", flags=EPHEMERAL)
    failing: list[tuple[Op, tuple[Any, ...]]] = [
        (Op.DELETE, ("/e0", -1)), (Op.CREATE, ("/e1", b"", OPEN, EPHEMERAL)), (Op.CHECK, ("/gone", -1)),
    ]  # fmt: skip
    for _ in range(3):
        assert it.codes(*failing)[-1] == ErrorCode.NO_NODE
    assert it.codes(failing[0], failing[1], (Op.CREATE, ("/e2", b"", OPEN, EPHEMERAL))) == [0, 0, 0]
    assert it.error(Op.CREATE, "/e3", b"", OPEN, EPHEMERAL) == ErrorCode.QUOTA_EXCEEDED
    assert it.codes(failing[1]) == [ErrorCode.NODE_EXISTS]
    it.store.tree.check()


def test_a_session_that_ended_counts_no_paths() -> None:
    it = leader(StoreSettings(ephemeral_bytes_max=ONE))
    it.create("/e0", flags=EPHEMERAL)
    assert it.error(Op.CLOSE_SESSION) == 0
    it.open_sessions(ALICE)
    it.create("/e1", flags=EPHEMERAL)
