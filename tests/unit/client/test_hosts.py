"""The connect string."""

from __future__ import annotations

import pytest

from zab.client.hosts import Hosts, parse_hosts
from zab.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("a", (("a", 2181),), ""),
        ("a:1, b:2 ,c", (("a", 1), ("b", 2), ("c", 2181)), ""),
        ("a:1/app/one", (("a", 1),), "/app/one"),
        ("a:1,b:2/", (("a", 1), ("b", 2)), ""),
        ("a:", (("a", 2181),), ""),
        ("a/app/", (("a", 2181),), "/app"),
        ("[::1]:7,[fe80::2]", (("::1", 7), ("fe80::2", 2181)), ""),
        ("a:1,a:1,a:2", (("a", 1), ("a", 2)), ""),
    ],
)
def test_where_the_servers_are(text: str, hosts: tuple[tuple[str, int], ...], root: str) -> None:
    assert parse_hosts(text) == Hosts(hosts, root)


@pytest.mark.parametrize(
    "text", ["", ",", "/app", "a:x", "a:0", "a:65536", ":1", "::1", "[::1", "[::1]x", "a//b", "a/./b", "a:\u0661"]
)
def test_invalid_address_is_named(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_hosts(text)
    assert repr(text) in str(caught.value)
