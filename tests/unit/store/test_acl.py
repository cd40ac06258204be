from __future__ import annotations

from typing import Any

import pytest

from tests.unit.store.support import Client, leader
from zab.store.acl import (
    ADMIN,
    ALL,
    CREATE,
    DEFAULT_SCHEMES,
    DELETE,
    OPEN,
    READ,
    WRITE,
    Access,
    Acl,
    Identity,
    allows,
    decode_acl,
    decode_identities,
    encode_acl,
    encode_identities,
    fix_up,
    intern,
    masked,
)
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op

JOE: Identity = ("digest", "joe:secret")
ANN: Identity = ("digest", "ann:secret")
HOST: Identity = ("ip", "10.1.2.3")
EVERY = Access(schemes=DEFAULT_SCHEMES | {"sasl", "x509"})


@pytest.mark.parametrize("wanted", [READ, WRITE, CREATE, DELETE, ADMIN])
def test_bits(wanted: int) -> None:
    assert allows(OPEN, wanted, ())
    assert allows((), wanted, ())
    for granted in (READ, WRITE, CREATE, DELETE, ADMIN):
        acl: Acl = ((granted, *JOE),)
        assert allows(acl, wanted, (HOST, JOE)) == (granted == wanted)
        assert allows(acl, wanted, (ANN,)) is False
        assert allows(((granted, "world", "anyone"),), wanted, ()) == (granted == wanted)


@pytest.mark.parametrize(
    ("supers", "identities", "granted"),
    [
        ((), [("super", ""), JOE], False),
        (("digest",), [("super", ""), JOE], True),
        (("digest",), [("super", "CN=root"), ("x509", "CN=root")], False),
        (("digest", "x509"), [("super", "CN=root"), ("x509", "CN=root")], True),
        (("digest",), [("super", "")], False),
        (("digest",), [JOE], False),
        (("super",), [("super", "")], True),
        (("super",), [JOE], False),
    ],
)
def test_super_counts_only_with_a_scheme_that_has_a_super_user_here(
    supers: tuple[str, ...], identities: list[Identity], granted: bool
) -> None:
    """Another server's claim alone makes no client a super user here."""
    access = Access(supers=frozenset(supers))
    assert allows(((ALL, *ANN),), READ, [HOST, *identities], access) is granted


@pytest.mark.parametrize(
    ("network", "address", "inside"),
    [
        ("10.1.2.3", "10.1.2.3", True), ("10.1.2.3", "10.1.2.4", False), ("10.1.0.0/16", "10.1.2.3", True),
        ("10.1.9.9/16", "10.1.2.3", True), ("10.1.0.0/24", "10.1.2.3", False), ("0.0.0.0/0", "10.1.2.3", True),
        ("fe80::/10", "fe80::1", True), ("::/0", "10.1.2.3", False), ("2001:db8::1", "2001:db8:0::1", True),
        ("nonsense", "10.1.2.3", False),
    ],
)  # fmt: skip
def test_networks(network: str, address: str, inside: bool) -> None:
    assert allows(((ALL, "ip", network),), READ, (("ip", address),)) is inside


def test_other_schemes_match_by_letter() -> None:
    for scheme, name in (("x509", "CN=joe,O=us"), ("sasl", "joe@REALM")):
        acl: Acl = ((ALL, scheme, name),)
        assert allows(acl, READ, ((scheme, name),), EVERY)
        assert not allows(acl, READ, ((scheme, name.upper()),), EVERY)
        assert not allows(acl, READ, (("digest", name),), EVERY)
        assert not allows(acl, READ, ((scheme, name),)), "the scheme is not switched on"


FIXED: list[tuple[Any, Any]] = [
    (((ALL, "world", "anyone"),), OPEN),
    (((READ, "world", "anyone"), (READ, "world", "anyone")), ((READ, "world", "anyone"),)),
    (((READ, *JOE), (WRITE, *JOE), (READ, *JOE)), ((READ, *JOE), (WRITE, *JOE))),
    (((READ, "auth", "whatever"),), ((READ, *JOE), (READ, *ANN))),
    (((ALL, "ip", "10.0.0.0/8"),), ((ALL, "ip", "10.0.0.0/8"),)),
    (((ALL, "ip", "2001:db8::/32"),), ((ALL, "ip", "2001:db8::/32"),)),
    (((ALL, "x509", "CN=joe"),), ((ALL, "x509", "CN=joe"),)),
    (((ALL, "sasl", "joe/host@REALM"),), ((ALL, "sasl", "joe/host@REALM"),)),
    (((0, *JOE),), ((0, *JOE),)),
    (((99, *JOE),), ((99, *JOE),)),
    ((), None),
    (None, None),
    (((ALL, "world", "somebody"),), None),
    (((ALL, "nonsense", "x"),), None),
    (((ALL, "super", "x"),), None),
    (((ALL, "digest", "joe"),), None),
    (((ALL, "digest", "a:b:c"),), None),
    (((ALL, "digest", None),), None),
    (((ALL, None, "x"),), None),
    (((ALL, "ip", "10.0.0.0/33"),), None),
    (((ALL, "ip", "10.0.0/8"),), None),
    (((ALL, "ip", "10.0.0.0/"),), None),
    (((ALL, "ip", "10.0.0.0/x"),), None),
    (((ALL, "x509", "joe"),), None),
    (((ALL, "sasl", "a@b@c"),), None),
    (((ALL, "world", "anyone"), (ALL, "nonsense", "x")), None),
]


@pytest.mark.parametrize(("acl", "expected"), FIXED, ids=lambda value: str(value)[:40])
def test_normalization_of_an_acl(acl: Any, expected: Any) -> None:
    assert fix_up(acl, (HOST, JOE, ANN, ("super", "")), EVERY) == expected


class Numbers:
    """A user-defined scheme that raises on an invalid number."""

    scheme = "number"
    proves = True

    def id_is_valid(self, name: str) -> bool:
        return int(name) > 0

    def matches(self, name: str, identity: str) -> bool:
        return int(name) <= int(identity)


def test_a_rule_that_fails_grants_nothing() -> None:
    access = Access(schemes=frozenset({"number"}), rules={"number": Numbers()})
    who = (("number", "7"),)
    assert [allows(((ALL, "number", name),), READ, who, access) for name in ("5", "9", "x")] == [True, False, False]
    assert [fix_up(((ALL, "number", name),), (), access) is None for name in ("5", "0", "x")] == [False, True, True]
    assert fix_up(((ALL, "auth", ""),), who, access) == ((ALL, "number", "7"),)


def test_auth_needs_an_identity() -> None:
    acl: Acl = ((ALL, "auth", ""),)
    assert fix_up(acl, (HOST,), EVERY) is None
    assert fix_up(acl, (("world", "anyone"),), EVERY) is None
    assert fix_up(acl, (("sasl", "joe"),)) is None


def test_a_scheme_must_be_switched_on() -> None:
    assert fix_up(((ALL, "sasl", "joe"),), ()) is None


def test_equal_lists_are_one() -> None:
    acl: Acl = ((READ, *JOE), (ALL, "ip", "10.0.0.0/8"))
    assert intern(acl) is intern((acl[0], *acl[1:]))
    assert encode_acl(OPEN) == encode_acl(((ALL, "world", "anyone"),)) == b""
    assert decode_acl(b"") is OPEN
    assert decode_acl(encode_acl(acl)) == acl
    strange: Acl = ((ALL, "digest", "\ud800:x"),)
    assert decode_acl(encode_acl(strange)) == strange


def test_identities_survive_the_way_to_the_leader() -> None:
    for identities in ((), (HOST,), (HOST, JOE, ("sasl", "\ud800"))):
        assert decode_identities(encode_identities(identities)) == identities


# -- on nodes --------------------------------------------------------------------------------------------


def test_acl_reader_without_admin_sees_no_digests() -> None:
    it = leader()
    acl: Acl = ((READ, "world", "anyone"), (ALL, *JOE), (READ, "ip", "10.0.0.0/8"))
    it.create("/a", acl=acl)
    read = it.store.reads.get_acl
    assert read(Client(identities=(JOE,)), "/a")[1][0] == acl
    expected = ((READ, "world", "anyone"), (ALL, "digest", "joe:x"), (READ, "ip", "10.0.0.0/8"))
    assert read(Client(), "/a")[1][0] == masked(acl) == expected
    it.create("/b", acl=((ADMIN, "world", "anyone"), (READ, *JOE)))
    assert read(Client(), "/b")[1][0] == ((ADMIN, "world", "anyone"), (READ, *JOE)), "who may change it sees all"
    it.create("/c", acl=((WRITE, "world", "anyone"),))
    assert read(Client(), "/c")[0] == ErrorCode.NO_AUTH


def test_a_list_is_in_force_as_soon_as_it_is_prepared() -> None:
    it = leader()
    it.create("/a")
    it.prepare(Op.SET_ACL, "/a", ((ALL, *JOE),), -1)
    it.prepare(Op.SET_DATA, "/a", b"", -1)
    it.prepare(Op.SET_DATA, "/a", b"", -1, identities=(JOE,))
    it.prepare(Op.CREATE, "/a/b", b"", OPEN, 0)
    it.prepare(Op.SET_ACL, "/a", OPEN, 1, identities=(JOE,))
    it.prepare(Op.SET_DATA, "/a", b"", -1)
    no = ErrorCode.NO_AUTH
    assert [result[1] for result in it.settle()] == [0, no, 0, no, 0, 0]
    assert it.store.tree.nodes["/a"][1] is OPEN


def test_auth_expands_to_the_clients_identities() -> None:
    it = leader()
    it.create("/a", acl=((ALL, "auth", ""),), identities=(HOST, JOE))
    assert it.store.tree.nodes["/a"][1] == ((ALL, *JOE),)


def test_lists_are_not_inherited() -> None:
    it = leader()
    it.create("/a", acl=((ALL & ~CREATE, "world", "anyone"), (CREATE, *JOE)))
    it.create("/a/b", identities=(JOE,))
    it.set("/a/b", b"!")
    assert it.error(Op.CREATE, "/a/c", b"", OPEN, 0) == ErrorCode.NO_AUTH
    it.delete("/a/b")


@pytest.mark.parametrize(
    ("op", "fields"),
    [(Op.GET_DATA, (True,)), (Op.EXISTS, (True,)), (Op.GET_CHILDREN, (True,)), (Op.GET_CHILDREN2, (True,)),
     (Op.GET_ALL_CHILDREN_NUMBER, ())],
)  # fmt: skip
def test_reads_need_read(op: Op, fields: tuple[Any, ...]) -> None:
    it = leader()
    it.create("/a", acl=((ALL & ~READ, "world", "anyone"), (READ, *JOE)))
    client = Client()
    assert it.store.reads.read(op, ("/a", *fields), client) == (ErrorCode.NO_AUTH, None)
    assert it.store.watches.counts == (0, 0, 0), "and leave no watch"
    assert it.store.reads.read(op, ("/gone", *fields[:0], *(False for _ in fields)), client)[0] == ErrorCode.NO_NODE
    assert it.store.reads.read(op, ("/a", *fields), Client(identities=(JOE,)))[0] == 0
