"""Which check comes first. Each row fails the check it is named after *and* as many later ones as can be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.store.support import ALICE, BOB, Leader, leader
from zab.store.acl import OPEN, Access
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.request_format import FOREIGN, INTERNAL, LOCAL, pack_request
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.store.znode import INT_MAX, TTL_MAX

NOBODY: Any = ((31, "digest", "nobody:x"),)
"""A list that grants nothing to anybody here."""
NONSENSE: Any = ((31, "nonsense", "x"),)


@pytest.fixture
def it() -> Leader:
    """
    /open            children: a (with child), b
    /closed          NOBODY; children: a
    /full            at its hard limits
    /ephemeral       ALICE's
    """
    it = leader(StoreSettings(enforce_quota=True, extended_types=True))
    for path in ("/open", "/open/a", "/open/a/child", "/open/b", "/closed", "/closed/a", "/full", "/full/a"):
        it.create(path)
    it.create("/ephemeral", flags=1)
    for path in ("/zookeeper/quota/full", "/zookeeper/quota/closed"):
        it.create(path)
        it.create(f"{path}/zookeeper_limits", b"count=2,bytes=1=;byteHardLimit=1;countHardLimit=2")
        it.create(f"{path}/zookeeper_stats", b"count=0,bytes=0")
    it.ask(Op.SET_ACL, "/closed", NOBODY, -1)
    it.ask(Op.SET_ACL, "/closed/a", NOBODY, -1)
    return it


BAD, NO_NODE, NO_AUTH = ErrorCode.BAD_ARGUMENTS, ErrorCode.NO_NODE, ErrorCode.NO_AUTH
EXISTS, ACL, QUOTA = ErrorCode.NODE_EXISTS, ErrorCode.INVALID_ACL, ErrorCode.QUOTA_EXCEEDED
VERSION, NOT_EMPTY = ErrorCode.BAD_VERSION, ErrorCode.NOT_EMPTY

ROWS: list[tuple[str, Op, tuple[Any, ...], int]] = [
    ("flag is none", Op.CREATE, ("no slash", b"", NONSENSE, 7), BAD),
    ("flag is negative", Op.CREATE, ("/x", b"", OPEN, -1), BAD),
    ("flag of a container", Op.CREATE, ("/x", b"", OPEN, 4), 0),
    ("flag not of a container", Op.CREATE_CONTAINER, ("/x", b"", OPEN, 0), 0),
    ("flag of a ttl for a container", Op.CREATE_CONTAINER, ("/x", b"", OPEN, 5), BAD),
    ("two slashes in front", Op.CREATE, ("//x", b"", OPEN, 0), BAD),
    ("flag with a ttl, and none given", Op.CREATE, ("/x", b"", OPEN, 5), BAD),
    ("ttl of nothing", Op.CREATE_TTL, ("/x", b"", OPEN, 5, 0), BAD),
    ("ttl too long", Op.CREATE_TTL, ("/x", b"", OPEN, 5, TTL_MAX + 1), BAD),
    ("ttl where none belongs", Op.CREATE_TTL, ("/x", b"", OPEN, 0, 5), BAD),
    ("path without a slash before acl", Op.CREATE, ("x", b"", NONSENSE, 0), BAD),
    ("path with NUL before acl", Op.CREATE, ("/gone/\0", b"", NONSENSE, 0), BAD),
    ("acl before parent", Op.CREATE, ("/gone/x", b"", NONSENSE, 0), ACL),
    ("acl empty", Op.CREATE, ("/gone/x", b"", (), 0), ACL),
    ("acl null", Op.CREATE, ("/gone/x", b"", None, 0), ACL),
    ("parent before syntax", Op.CREATE, ("/gone/..", b"", OPEN, 0), NO_NODE),
    ("parent that cannot be", Op.CREATE, ("/open//x", b"", OPEN, 0), NO_NODE),
    ("auth of the parent before syntax", Op.CREATE, ("/closed/..", b"", OPEN, 0), NO_AUTH),
    ("auth of the parent before existence", Op.CREATE, ("/closed/a", b"", OPEN, 0), NO_AUTH),
    ("syntax: dots", Op.CREATE, ("/open/..", b"", OPEN, 0), BAD),
    ("syntax: a dot", Op.CREATE, ("/open/.", b"", OPEN, 0), BAD),
    ("syntax: an empty name", Op.CREATE, ("/open/", b"", OPEN, 0), BAD),
    ("syntax: a control character", Op.CREATE, ("/open/\x1f", b"", OPEN, 0), BAD),
    ("syntax: beyond the basic plane", Op.CREATE, ("/open/\U0001f600", b"", OPEN, 0), BAD),
    ("existence", Op.CREATE, ("/open/a", b"", OPEN, 0), EXISTS),
    ("existence of the root", Op.CREATE, ("/", b"", OPEN, 0), EXISTS),
    ("existence before quota", Op.CREATE, ("/full/a", b"xx", OPEN, 0), EXISTS),
    ("ephemeral parent", Op.CREATE, ("/ephemeral/x", b"", OPEN, 0), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
    ("quota of nodes", Op.CREATE, ("/full/b", b"", OPEN, 0), QUOTA),
    ("delete: the root", Op.DELETE, ("/", 9), BAD),
    ("delete: the system's", Op.DELETE, ("/zookeeper", 9), BAD),
    ("delete: the quotas", Op.DELETE, ("/zookeeper/quota", 9), BAD),
    ("delete: the configuration", Op.DELETE, ("/zookeeper/config", 9), BAD),
    ("delete: no slash", Op.DELETE, ("x", 9), BAD),
    ("delete: NUL", Op.DELETE, ("/gone\0/x", 9), BAD),
    ("delete: parent", Op.DELETE, ("/gone/x", 9), NO_NODE),
    ("delete: auth of the parent before the node", Op.DELETE, ("/closed/gone", 9), NO_AUTH),
    ("delete: auth before version", Op.DELETE, ("/closed/a", 9), NO_AUTH),
    ("delete: node", Op.DELETE, ("/open/gone", 9), NO_NODE),
    ("delete: version before children", Op.DELETE, ("/open/a", 9), VERSION),
    ("delete: children", Op.DELETE, ("/open/a", 0), NOT_EMPTY),
    ("set: syntax", Op.SET_DATA, ("/gone/", b"", 9), BAD),
    ("set: node", Op.SET_DATA, ("/gone", b"", 9), NO_NODE),
    ("set: auth before quota", Op.SET_DATA, ("/closed", b"xxxx", 9), NO_AUTH),
    ("set: quota before version", Op.SET_DATA, ("/full/a", b"xx", 9), QUOTA),
    ("set: version", Op.SET_DATA, ("/open/a", b"", 9), VERSION),
    ("set acl: syntax before acl", Op.SET_ACL, ("/gone/", NONSENSE, 9), BAD),
    ("set acl: acl before node", Op.SET_ACL, ("/gone", NONSENSE, 9), ACL),
    ("set acl: node", Op.SET_ACL, ("/gone", OPEN, 9), NO_NODE),
    ("set acl: auth before version", Op.SET_ACL, ("/closed", OPEN, 9), NO_AUTH),
    ("set acl: version", Op.SET_ACL, ("/open", OPEN, 9), VERSION),
]  # fmt: skip


@pytest.mark.parametrize(("op", "fields", "code"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_first_check_that_fails_decides(it: Leader, op: Op, fields: tuple[Any, ...], code: int) -> None:
    before = it.store.digest.value
    assert it.error(op, *fields) == code
    if not code:
        return
    assert it.store.digest.value == before, "and nothing has changed"
    assert len(it.log) == it.zxid & 0xFFFF, "but it has had its zxid"


CHECKS = [
    ("syntax", ("/gone/", 9), BAD),
    ("node", ("/gone", 9), NO_NODE),
    ("auth", ("/closed", 9), NO_AUTH),
    ("version", ("/open", 9), VERSION),
]


@pytest.mark.parametrize(("fields", "code"), [row[1:] for row in CHECKS], ids=[row[0] for row in CHECKS])
def test_check_in_a_multi(it: Leader, fields: tuple[Any, ...], code: int) -> None:
    assert it.codes((Op.CHECK, fields)) == [code]


@pytest.mark.parametrize("op", [Op.CREATE, Op.SET_DATA, Op.DELETE, Op.SET_ACL, Op.MULTI])
def test_the_session_comes_first_of_all(it: Leader, op: Op) -> None:
    """Even before the body is read."""
    assert it.error(op, "garbage", session=99) == ErrorCode.SESSION_EXPIRED
    assert it.error(op, "garbage", session=ALICE, server=2) == ErrorCode.SESSION_MOVED
    assert it.error(op, "garbage", session=ALICE) == ErrorCode.MARSHALLING_ERROR


def test_ttl_nodes_are_off_unless_switched_on() -> None:
    it = leader()
    for op, ttl in ((Op.CREATE_TTL, (0,)), (Op.CREATE, ())):
        assert it.error(op, "no slash", b"", OPEN, 5, *ttl) == ErrorCode.UNIMPLEMENTED


@pytest.mark.parametrize("op", [Op.CREATE_SESSION, Op.ATTACH_SESSION, Op.SET_SECRET, Op.DELETE_CONTAINER, Op.CHECK])
def test_clients_cannot_send_server_operations(it: Leader, op: Op) -> None:
    assert it.error(op, 1) == ErrorCode.UNIMPLEMENTED


@pytest.mark.parametrize("op", [Op.CREATE, Op.SET_DATA, Op.GET_DATA, 77])
def test_servers_on_their_own_account_do_not_write(it: Leader, op: Op) -> None:
    assert it.internal(op, "/x", b"", OPEN, 0) == ErrorCode.UNIMPLEMENTED


@pytest.mark.parametrize("op", [Op.GET_DATA, Op.SYNC, 77, -99])
def test_unknown_write_becomes_no_transaction(it: Leader, op: Op) -> None:
    assert it.error(op, "/open") == ErrorCode.UNIMPLEMENTED


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x05", bytes(40)])
def test_a_body_that_cannot_be_read_is_an_answer(it: Leader, body: bytes) -> None:
    it.prepare_raw(pack_request(Op.SET_DATA, body, ALICE, 1, 1))
    assert it.settle()[-1][1] == ErrorCode.MARSHALLING_ERROR


def test_fields_of_the_wrong_kind_change_nothing(it: Leader) -> None:
    before = it.store.digest.value
    for fields in ((7, b"", 0), ("/open", "text", -1), (None, b"", -1), ("/open", b"", "x", 1)):
        it.prepare(Op.SET_DATA, *fields)
    it.prepare(Op.MULTI, (Op.CREATE, ("/open/new", b"", OPEN, 0)), (Op.SET_DATA, ("/open", 5, -1)))
    assert [result[1] for result in it.settle()] == [ErrorCode.MARSHALLING_ERROR] * 5
    assert it.store.digest.value == before
    it.create("/open/new")


def test_a_foreign_body_goes_through_the_decoder_that_was_given() -> None:
    def decode(op: int, request: bytes, start: int) -> tuple[Any, ...]:
        assert op == Op.CREATE
        return "/" + request[start:].decode(), b"data", OPEN, 0

    it = Leader(store=Store(decode=decode))
    it.open_sessions(ALICE)
    it.prepare_raw(pack_request(Op.CREATE, b"foreign", ALICE, 1, 1, flags=FOREIGN))
    assert it.settle()[-1][2] == "/foreign"
    it.prepare_raw(pack_request(Op.CREATE, b"\xff", ALICE, 1, 1, flags=FOREIGN))
    assert it.settle()[-1][1] == ErrorCode.MARSHALLING_ERROR


def test_soft_limits_and_limits_that_are_not_enforced_let_everything_pass(it: Leader) -> None:
    lenient = leader()
    for each in (it, lenient):
        each.create("/soft")
        each.create("/zookeeper/quota/soft")
        limits = b"count=1,bytes=1" if each is it else b"count=1,bytes=1=;byteHardLimit=1;countHardLimit=1"
        each.create("/zookeeper/quota/soft/zookeeper_limits", limits)
        each.create("/zookeeper/quota/soft/zookeeper_stats", b"")
        each.create("/soft/a", b"many bytes")


def test_skipped_access_control() -> None:
    it = leader(StoreSettings(access=Access(skip=True)))
    it.create("/closed", acl=((0, "world", "anyone"),))
    it.set("/closed", b"x")


def test_a_version_that_has_gone_round(it: Leader) -> None:
    old = it.store.tree.nodes["/open"]
    it.store.tree.nodes["/open"] = (*old[:6], INT_MAX, *old[7:])
    it.set("/open", b"x")
    assert it.stat("/open").version == -INT_MAX - 1


def test_local_sessions_write_but_own_nothing(it: Leader) -> None:
    local = 0x100_0000_0000_0099
    assert it.error(Op.SET_DATA, "/open", b"", -1, session=local) == ErrorCode.SESSION_EXPIRED
    assert it.error(Op.SET_DATA, "/open", b"", -1, session=local, flags=LOCAL) == 0
    ephemeral = ("/open/e", b"", OPEN, 1)
    assert it.error(Op.CREATE, *ephemeral, session=local, flags=LOCAL) == ErrorCode.EPHEMERAL_ON_LOCAL_SESSION
    # Upgraded: its server has not heard of it yet when it forwards the next request.
    it.prepare(Op.CREATE_SESSION, 10_000, session=local, flags=INTERNAL)
    it.prepare(Op.CREATE, *ephemeral, session=local, flags=LOCAL)
    assert [result[1] for result in it.settle()] == [0, 0]
    assert it.stat("/open/e").ephemeral_owner == local
    assert it.error(Op.SET_DATA, "/open", b"", -1, session=BOB, server=1, flags=LOCAL) == ErrorCode.SESSION_MOVED


def test_depth_of_a_new_path_is_bounded() -> None:
    """Quotas and recursive watches visit each ancestor of a changed node."""
    it = leader(StoreSettings(path_depth_max=3))
    it.create("/a")
    it.create("/a/b")
    it.create("/a/b/c")
    assert it.error(Op.CREATE, "/a/b/c/d", b"", OPEN, 0) == ErrorCode.BAD_ARGUMENTS
    assert it.error(Op.CREATE, "/a/b/c/d-", b"", OPEN, 2) == ErrorCode.BAD_ARGUMENTS
    it.create("/a/b/e")
