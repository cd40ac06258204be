"""Ids of each scheme. The expected results are those of ZooKeeper 3.9.5 on Java 17."""

from __future__ import annotations

import pytest

from zab.store import acl as acls
from zab.store.acl import ID_CHARS_MAX, Access, fix_up
from zab.store.acl_schemes import (
    digest_is_valid,
    host_id,
    ip_is_valid,
    ip_matches,
    sasl_is_valid,
    sasl_matches,
    x509_is_valid,
)


def words(text: str) -> list[str]:
    return text.split("|")


def test_digests() -> None:
    assert [digest_is_valid(name) for name in words("a:b|:b|a:b:|a:b::| : ")] == [True] * 5
    assert [digest_is_valid(name) for name in words("|a|a:|a::|::b|a:b:c|:")] == [False] * 7


def test_principals() -> None:
    assert [sasl_is_valid(name) for name in words("|bob|bob@R|bob/h@R|a/b/c|@|/@|x@|a\nb@c")] == [True] * 9
    assert [sasl_is_valid(name) for name in words("a@b@c|a/b/c@R|a@b/c")] == [False] * 3
    assert [sasl_matches("bob", who, None) for who in ("bob", "super", "Bob", "")] == [True, True, False, False]
    assert [sasl_matches(name, "bob", "any") for name in ("any", "all")] == [True, False]


@pytest.mark.parametrize("name", words(
    "1.2.3.4|1.2.3.4/8|+1.2.3.4|1.2.3.4/+8|1.2.3.4/-0|01.2.3.4|::1|::|1::|::1/128|1:2:3:4:5:6:7:8|1:2:3:4:5:6:7::|"
    "1.2.3.-0|\u0661.2.3.4|::/0|1.2.3.4/00000000000000008|+1::"
))  # fmt: skip
def test_addresses_that_may_stand_in_a_list(name: str) -> None:
    assert ip_is_valid(name)


@pytest.mark.parametrize("name", words(
    "|a|1.2.3|1.2.3.256|1.2.3.4/|1.2.3.4/8/8|1.2.3.4/33|1.2.3.4 |::1/129|::2:3:4:5:6:7:8:9|1::2::3|:::|1:2|"
    "::ffff:1.2.3.4|12345::|fe80::1%eth0|1:2:3:4:5:6:7:|1.2.3.4/x|1.2.3.4/-1"
))  # fmt: skip
def test_addresses_that_may_not(name: str) -> None:
    assert not ip_is_valid(name)


@pytest.mark.parametrize(("name", "who", "means"), [
    ("10.0.0.0/8", "10.1.2.3", True), ("10.1.2.3/31", "10.1.2.2", True), ("10.1.2.3", "10.1.2.2", False),
    ("0.0.0.0/0", "1.2.3.4", True), ("::/0", "1.2.3.4", False), ("0.0.0.0/0", "0:0:0:0:0:0:0:1", False),
    ("fe80::/10", "fe80:0:0:0:0:0:0:1", True), ("::1", "0:0:0:0:0:0:0:1", True), ("::1/127", "::", True),
    ("2001:db8::/33", "2001:db8:8000:0:0:0:0:1", False), ("nonsense", "1.2.3.4", False), ("1.2.3.4", "nonsense", False),
])  # fmt: skip
def test_matching_of_ip_ids(name: str, who: str, means: bool) -> None:
    assert ip_matches(name, who) is means


@pytest.mark.parametrize(("host", "name"), [
    ("127.0.0.1", "127.0.0.1"), ("::1", "0:0:0:0:0:0:0:1"), ("::ffff:10.0.0.1", "10.0.0.1"),
    ("fe80::abCD%eth0", "fe80:0:0:0:0:0:0:abcd"), ("unknown", "unknown"),
])  # fmt: skip
def test_an_address_as_java_writes_it(host: str, name: str) -> None:
    assert host_id(host) == name


@pytest.mark.parametrize("name", words(
    "|CN=joe|cn=joe,O=us|CN=joe, O=us , C=DE|1.2.3=4|OID.1.2.3=4|CN=|CN=\"a,b\"|CN=a\\,b|CN=a\\41|CN=a+O=b|CN=a;O=b|"
    "CN=a=b|CN=a#b|CN=é名|EMAILADDRESS=a@b|CN=#04024869|CN=\"a\" ,O=b|2.100=x|CN=a |T=x|CN=\"\""
))  # fmt: skip
def test_names_of_x500(name: str) -> None:
    assert x509_is_valid(name)


@pytest.mark.parametrize("name", words(
    "joe|FOO=1|1.2.=3|=x|CN=#0c030|CN=#|CN=#xyz|CN=#0c03|CN=\"a|CN=\"a\"b|CN=a\\|CN=a\\zb|CN=a+|CN=a,|,CN=a|CN=a,,O=b|"
    "CN=a<b|CN=a\"b|E=a|  |3.1=x|1.40=x|SN=x|GENERATIONQUALIFIER=x|CN=#04 024869"
))  # fmt: skip
def test_invalid_x500_names(name: str) -> None:
    assert not x509_is_valid(name)


def test_a_long_one_is_not_looked_at_for_long() -> None:
    for name in (" " * 500_000, "CN=" * 200_000, 'CN="' + "a" * 500_000, "CN=a," * 100_000, ":" * 500_000):
        x509_is_valid(name)
        sasl_is_valid(name)
        ip_is_valid(name)
        digest_is_valid(name)


@pytest.mark.parametrize(("scheme", "ending"), [("x509", ""), ("digest", ":x"), ("sasl", "@x")])
def test_an_id_beyond_the_bound_is_refused_before_it_is_parsed(
    scheme: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def is_valid(name: str) -> bool:
        parsed.append(name)
        return True

    monkeypatch.setitem(acls._IS_VALID, scheme, is_valid)
    access = Access(schemes=frozenset({scheme}))
    longest = "CN=" + "a" * (ID_CHARS_MAX - 3 - len(ending)) + ending
    assert fix_up(((31, scheme, longest),), (), access) is not None
    assert fix_up(((31, scheme, longest + "a"),), (), access) is None
    assert fix_up(((31, scheme, longest),), (), access, id_chars_max=ID_CHARS_MAX - 1) is None
    assert parsed == [longest]


def test_a_proved_identity_may_be_longer_than_an_id_that_a_client_writes() -> None:
    me = ("digest", "a" * ID_CHARS_MAX + ":x")
    assert fix_up(((31, "auth", ""),), (me,)) == ((31, *me),)
