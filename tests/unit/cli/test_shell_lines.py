"""Parsing of shell lines, and formatting of results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab.cli.shell.formatting import acl, base64, client_addresses, from_base64, hexadecimal, parse_acl
from zab.cli.shell.parsing import BadLine, parse_words, split


def test_options_stand_anywhere() -> None:
    for line in ("-s -v 3 /a data", "/a -s data -v 3", "/a data -v 3 -s"):
        found = parse_words(split(line), "sb", ("-v",), 2, 2)
        assert (found.words, found.flags, found.number("-v")) == (("/a", "data"), frozenset("s"), 3)


def test_letters_may_stand_together() -> None:
    assert parse_words(["-es", "/a"], "sec", (), 1, 3).flags == {"e", "s"}


def test_negative_number_and_words_after_two_dashes_are_data() -> None:
    assert parse_words(["/a", "-5"], "s", (), 2, 2).words == ("/a", "-5")
    assert parse_words(["/a", "--", "-s"], "s", (), 2, 2).words == ("/a", "-s")


def test_quotes_hold_blanks() -> None:
    assert split("""set /a 'one two' "three" """) == ["set", "/a", "one two", "three"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "too few arguments"),
        ("/a /b", "unexpected argument '/b'"),
        ("-x /a", "no option -x"),
        ("/a -v", "-v takes a value"),
    ],
)
def test_configuration_errors_name_their_key(line: str, says: str) -> None:
    with pytest.raises(BadLine, match=says):
        parse_words(split(line), "s", ("-v",), 1, 1)


def test_a_value_that_is_no_number_is_named() -> None:
    with pytest.raises(BadLine, match="-v takes a number, not 'x'"):
        parse_words(["-v", "x"], "", ("-v",), 0, 0).number("-v")


def test_a_quote_without_its_end_is_named() -> None:
    with pytest.raises(BadLine, match="no closing quotation"):
        split("set /a 'x")


# -- permissions ---------------------------------------------------------------------------------------


def test_permissions_of_ids_with_colons_and_commas() -> None:
    text = "world:anyone:r,digest:bob:ha/sh=:cdrwa,x509:CN=a,O=b:rw,ip:::1:c"
    assert parse_acl(text) == (
        (1, "world", "anyone"),
        (31, "digest", "bob:ha/sh="),
        (3, "x509", "CN=a,O=b"),
        (4, "ip", "::1"),
    )


@pytest.mark.parametrize("text", ["", "world", "world:anyone", "world:anyone:", "world:anyone:xyz", "a:b:r,c"])
def test_permissions_that_are_none(text: str) -> None:
    with pytest.raises(BadLine, match="is not an ACL entry"):
        parse_acl(text)


def test_permissions_as_shown() -> None:
    assert acl(((31, "world", "anyone"), (1, "ip", "::1"))) == ["'world,'anyone", ": cdrwa", "'ip,'::1", ": r"]


# -- data ----------------------------------------------------------------------------------------------


@settings(derandomize=True)
@given(st.binary(max_size=100))
def test_a_dump_holds_every_byte(data: bytes) -> None:
    lines = hexadecimal(data)
    shown = "".join(line[10:58] for line in lines[3:-1])
    assert bytes.fromhex(shown) == data
    assert len({len(line) for line in lines[2:]}) == 1


def test_base64_there_and_back() -> None:
    assert from_base64(base64(b"\0\xff")) == b"\0\xff"
    with pytest.raises(BadLine, match="not base64"):
        from_base64("?")


def test_where_clients_connect_to() -> None:
    config = "server.1=a:1:2:participant;2181\nserver.2=b:1:2:observer;10.0.0.2:2182\nserver.3=c:1:2\nversion=100000000"
    assert client_addresses(config) == "100000000 a:2181,10.0.0.2:2182"
