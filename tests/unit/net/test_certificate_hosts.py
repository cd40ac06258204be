"""Comparison of a certificate with its holder's address."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from zab.net.tls.certificate_hosts import covers, is_for, names_host
from zab.net.tls.tls_stream import TlsStream


class Shown:
    def __init__(self, *names: tuple[str, str]) -> None:
        self.names = list(names)


@pytest.mark.parametrize(("host", "expected"), [
    ("10.0.0.1", True), ("::ffff:10.0.0.1", True), ("10.0.0.2", False), ("fe80::1%eth0", True), ("::1", False),
])  # fmt: skip
def test_by_the_address(host: str, expected: bool) -> None:
    shown = cast(TlsStream, Shown(("IP Address", "10.0.0.1"), ("IP Address", "FE80:0:0:0:0:0:0:1"), ("DNS", "*")))

    async def look() -> bool:
        return await is_for(shown, host, reverse_lookup=False)

    assert trio.run(look) is expected


class Names(trio.abc.HostnameResolver):
    async def getaddrinfo(self, *arguments: Any) -> Any:
        raise NotImplementedError

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        if sockaddr[0] != "10.0.0.1":
            raise OSError("nobody knows")
        return "One.Example", "0"


@pytest.mark.parametrize(("host", "name", "expected"), [
    ("10.0.0.1", "one.example", True), ("10.0.0.1", "*.EXAMPLE", True), ("10.0.0.1", "two.example", False),
    ("10.0.0.2", "one.example", False),
])  # fmt: skip
def test_by_the_name_that_the_name_service_has(host: str, name: str, expected: bool) -> None:
    shown = cast(TlsStream, Shown(("DNS", name)))

    async def look() -> bool:
        trio.socket.set_custom_hostname_resolver(Names())
        return await is_for(shown, host, reverse_lookup=True)

    assert trio.run(look) is expected


@pytest.mark.parametrize(("host", "expected"), [
    ("one.example", True), ("ONE.example", True), ("a.wild.example", True), ("wild.example", False),
    ("two.example", False), ("10.0.0.1", True), ("10.0.0.2", False), ("10.0.0.3", False), ("", False),
])  # fmt: skip
def test_a_configured_host(host: str, expected: bool) -> None:
    names = [("DNS", "one.example"), ("DNS", "*.wild.example"), ("IP Address", "10.0.0.1"), ("DNS", "10.0.0.3")]
    assert names_host(cast(TlsStream, Shown(*names)), host) is expected


def test_a_star_stands_for_one_part() -> None:
    assert covers("*.example", "a.example")
    assert not covers("*.example", "a.b.example")
    assert not covers("*.example", "example")
    assert not covers("a*.example", "ab.example")
