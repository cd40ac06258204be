"""A multi is all or nothing, including its outstanding changes."""

from __future__ import annotations

from typing import Any

from tests.unit.store.support import ALICE, BOB, Client, Leader, deliver, dump, follower_of, leader
from zab.service.forwarding.proposal_queue import txn_bytes_max_of
from zab.service.limits import Limits
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.store import Store
from zab.store.store_settings import TXN_BYTES_MAX, StoreSettings
from zab.store.transactions import decode
from zab.store.znode import stat_of

GONE: tuple[Op, tuple[Any, ...]] = (Op.CHECK, ("/gone", -1))


def create(path: str, flags: int = 0) -> tuple[Op, tuple[Any, ...]]:
    return Op.CREATE, (path, b"", OPEN, flags)


def test_one_zxid_for_all_of_it() -> None:
    it = leader()
    it.create("/p")
    _, error, _, _, results = it.ask(
        Op.MULTI,
        create("/p/a"),
        (Op.CREATE2, ("/p/b-", b"!", OPEN, 2)),
        (Op.SET_DATA, ("/p/a", b"data", 0)),
        (Op.CHECK, ("/p/a", 1)),
        (Op.DELETE, ("/p/b-0000000001", 0)),
        create("/p/c-", 2),
    )
    assert error == 0
    assert [(op, code, path) for op, code, path, _ in results] == [
        (1, 0, "/p/a"), (15, 0, "/p/b-0000000001"), (5, 0, "/p/a"), (13, 0, None), (2, 0, None),
        (1, 0, "/p/c-0000000002"),
    ]  # fmt: skip
    node = results[2][3]
    assert node is not None
    assert stat_of(node)[:2] == (it.zxid, it.zxid)
    assert it.stat("/p")[-2:] == (2, it.zxid)
    assert it.stat("/p").cversion == 4


def test_an_empty_one() -> None:
    it = leader()
    assert it.ask(Op.MULTI) == (it.zxid, 0, None, None, ())


def test_the_codes_of_one_that_failed() -> None:
    it = leader()
    it.create("/p")
    before = it.store.digest.value
    assert it.codes(create("/p/a"), create("/p/b"), GONE, create("/p/c"), create("/p")) == [0, 0, -101, -2, -2]
    assert it.store.digest.value == before
    result = it.ask(Op.MULTI, create("/p/a"), create("/p"))
    assert result[:2] == (it.zxid, 0), "the reply itself bears no error"
    assert {op for op, *_ in result[4]} == {Op.ERROR}
    assert [each.body for each in decode(it.log[-1][1]).body] == [(0,), (-110,)]
    assert it.store.describe_transaction(it.log[-1][1]).startswith("multi of session 0x"), "the log names it"


def test_operations_forbidden_in_a_multi() -> None:
    it = leader()
    for op in (Op.GET_DATA, Op.SET_ACL, Op.MULTI, Op.CLOSE_SESSION, Op.DELETE_CONTAINER, Op.CREATE_SESSION):
        assert it.error(Op.MULTI, create("/a"), (op, ("/a",))) == ErrorCode.MARSHALLING_ERROR
    assert "/a" not in it.store.tree.nodes


def test_later_operations_see_earlier_ones() -> None:
    it = leader()
    assert it.codes(create("/a"), create("/a/b"), (Op.DELETE, ("/a", -1))) == [0, 0, -111]
    assert it.codes(create("/a"), create("/a/b"), (Op.DELETE, ("/a/b", -1)), (Op.DELETE, ("/a", -1))) == [0] * 4
    assert it.codes(create("/e", 1), create("/e/x")) == [0, -108]


def test_bug_1624_a_failed_multi_gives_the_parent_back() -> None:
    """The parent's planned number of children and its planned cversion, too; and nothing was applied in between."""
    it = leader()
    it.create("/p")
    it.prepare(Op.CREATE, "/p/before-", b"", OPEN, 2)
    it.prepare(Op.MULTI, create("/p/x-", 2), create("/p/y-", 2), GONE)
    it.prepare(Op.CREATE, "/p/after-", b"", OPEN, 2)
    it.prepare(Op.DELETE, "/p/before-0000000000", -1)
    it.prepare(Op.DELETE, "/p/after-0000000001", -1)
    it.prepare(Op.MULTI, (Op.SET_DATA, ("/p", b"!", 0)), create("/p/z"), GONE)
    it.prepare(Op.SET_DATA, "/p", b"?", 0)
    it.prepare(Op.DELETE, "/p", 1)
    assert [(error, path) for _, error, path, _, _ in it.settle()] == [
        (0, "/p/before-0000000000"), (0, None), (0, "/p/after-0000000001"), (0, None), (0, None), (0, None), (0, "/p"),
        (0, None),
    ]  # fmt: skip


def test_failed_multi_restores_the_outstanding_changes() -> None:
    it = leader()
    it.create("/p")
    it.prepare(Op.SET_DATA, "/p", b"1", 0)
    it.prepare(Op.DELETE, "/p", 1)
    it.prepare(Op.MULTI, create("/p"), (Op.SET_DATA, ("/p", b"", 0)), GONE)
    it.prepare(Op.SET_DATA, "/p", b"", -1)
    it.prepare(Op.CREATE, "/p", b"new", OPEN, 0)
    assert [result[1] for result in it.settle()] == [0, 0, 0, -101, 0]


def test_bug_3127_the_zxid_moves_after_the_whole_multi() -> None:
    it = leader()
    it.create("/p")
    seen = []
    it.store.watches.deliver = lambda watchers, event, path, zxid: seen.append((path, it.store.zxid, zxid))
    it.store.reads.add_watch(Client(), "/p", 1)
    before = it.zxid
    it.ask(Op.MULTI, create("/p/a"), create("/p/b"))
    assert seen == [("/p/a", before, before + 1), ("/p/b", before, before + 1)]


def test_ephemerals_of_a_multi_end_with_their_session() -> None:
    it = leader()
    it.prepare(Op.MULTI, create("/a", 1), create("/b", 1), (Op.DELETE, ("/a", -1)), session=BOB)
    it.prepare(Op.MULTI, create("/c", 1), GONE, session=BOB)
    it.prepare(Op.CLOSE_SESSION, session=BOB)
    it.settle()
    assert decode(it.log[-1][1]).body == (("/b",),)
    assert it.store.tree.ephemerals == {}


def test_all_servers_apply_a_multi_identically() -> None:
    it = leader()
    it.ask(Op.MULTI, create("/a"), create("/a/b-", 2), (Op.SET_DATA, ("/a", b"x", -1)))
    it.ask(Op.MULTI, create("/c"), GONE)
    assert dump(follower_of(it)) == dump(it.store)
    assert it.log[-1][1][0] == transactions.FAILED_MULTI
    assert decode(it.log[-2][1]).session == ALICE


def test_more_operations_than_allowed_are_refused_as_a_whole() -> None:
    it = leader(StoreSettings(multi_ops_max=3))
    assert it.codes(*[create(f"/n{number}") for number in range(3)]) == [0, 0, 0]
    parts = [create(f"/m{number}") for number in range(4)]
    _, error, _, _, results = it.ask(Op.MULTI, *parts)
    assert (error, results) == (ErrorCode.BAD_ARGUMENTS, ())
    assert "/m0" not in it.store.tree.nodes


CREATOR_ACL = ((31, "auth", ""),)
"""The store replaces it by the identities of the client, so a transaction may be much larger than its request."""
LONG = (("digest", "u" * 12_000 + ":hash"),)


def leader_with_room(txn_bytes_max: int) -> Leader:
    it = Leader(store=Store(deliver=deliver, txn_bytes_max=txn_bytes_max))
    it.open_sessions(ALICE, BOB)
    return it


def test_multi_that_would_not_fit_into_a_frame_leaves_nothing_outstanding() -> None:
    it = leader_with_room(100_000)
    creates = [(Op.CREATE, (f"/n{number}", b"", CREATOR_ACL, 0)) for number in range(20)]
    large = it.prepare(Op.MULTI, *creates, identities=LONG)
    assert len(it.log[-1][1]) < 1_000
    builds_on_it = it.prepare(Op.MULTI, create("/n5/x"), create("/ok"), session=BOB)
    replies = dict(zip((large, builds_on_it), it.settle()[-2:], strict=True))
    codes = [code for _, code, _, _ in replies[large][4]]
    failed = codes.index(ErrorCode.BAD_ARGUMENTS)
    assert 5 < failed < 19
    assert codes[:failed] == [0] * failed
    assert [code for _, code, _, _ in replies[builds_on_it][4]] == [ErrorCode.NO_NODE, ErrorCode.RUNTIME_INCONSISTENCY]
    assert sorted(it.store.tree.nodes) == sorted(leader().store.tree.nodes)


def test_acl_that_would_not_fit_into_a_frame_is_invalid() -> None:
    it = leader_with_room(40_000)
    it.create("/small", acl=CREATOR_ACL, identities=(("digest", "u" * 7_000),))
    assert it.error(Op.CREATE, "/large", b"", CREATOR_ACL, 0, identities=LONG) == ErrorCode.INVALID_ACL
    assert it.error(Op.CREATE, "/large/child", b"", OPEN, 0) == ErrorCode.NO_NODE
    assert it.error(Op.SET_ACL, "/", CREATOR_ACL, -1, identities=LONG) == ErrorCode.INVALID_ACL


def test_default_size_of_a_transaction_fits_into_a_frame_of_the_default_size() -> None:
    assert txn_bytes_max_of(Limits()) >= TXN_BYTES_MAX
