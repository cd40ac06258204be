from __future__ import annotations

import pytest

from zab.core.addresses import with_port


@pytest.mark.parametrize(
    ("host", "text"),
    [("::1", "[::1]:2181"), ("127.0.0.1", "127.0.0.1:2181"), ("db1", "db1:2181"), ("", ":2181"), ("*", "*:2181")],
)
def test_only_ipv6_addresses_get_brackets(host: str, text: str) -> None:
    assert with_port(host, 2181) == text
