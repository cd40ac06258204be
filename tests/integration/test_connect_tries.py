"""Servers that accept no session: each is tried, and the error reports the outcome of each."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from attrs import evolve

import zab
from bench.ports import free_port
from tests.integration.certificates import Authority
from zab.client import remote_session
from zab.client.connector import Connector
from zab.client.dialing import Outside
from zab.net.tls.tls_settings import TlsPortSettings

QUICK = zab.ClientSettings(pause_ms_min=10, pause_ms_max=20)


class AsListed(Random):
    def sample(self, population: Sequence[Any], k: int, *, counts: object = None) -> list[Any]:
        return list(population)[:k]


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers are tried as they are listed."""
    monkeypatch.setattr(remote_session, "Connector", partial(Connector, outside=Outside(random=AsListed())))


@asynccontextmanager
async def saying(*words: bytes, hangs: bool = False) -> AsyncIterator[int]:
    """A port that sends these bytes to every client after it has received something."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            for word in words:
                await stream.send_all(word)
            if hangs:
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def unreachable(hosts: str, wait_ms: int = 400, tls: zab.ClientTls | ssl.SSLContext | None = None) -> str:
    with pytest.raises(zab.Unreachable) as caught:
        async with zab.connect(hosts, wait_ms=wait_ms, tls=tls, settings=QUICK):
            raise AssertionError("nobody gets in")
    return str(caught.value)


async def told(hosts: str, *hints: str, wait_ms: int = 400, tls: ssl.SSLContext | None = None) -> None:
    """On a busy machine the time may pass before any server is tried, but not repeatedly."""
    for _ in range(20):
        said = await unreachable(hosts, wait_ms, tls)
        if all(hint in said for hint in hints):
            return
    raise AssertionError(said)


@pytest.mark.usefixtures("in_order")
async def test_a_silent_server_does_not_use_up_the_time_of_the_others(tmp_path: Path) -> None:
    async with zab.open_store(tmp_path, client_port=0) as store, saying(hangs=True) as silent:
        hosts = f"127.0.0.1:{silent},127.0.0.1:{store.client_port}"
        for wait_ms in (3_000, 9_000, 27_000):  # the other's share is to do, on a busy machine that of a longer time
            with suppress(zab.Unreachable):
                async with zab.connect(hosts, wait_ms=wait_ms, timeout_ms=20_000) as session:
                    await session.sync()
                return
        raise AssertionError("the time of the others is used up")


@pytest.mark.usefixtures("in_order")
async def test_unreachable_names_the_failure_of_each_server() -> None:
    async with saying(hangs=True) as silent, saying(hangs=True) as other:
        nothing = "it accepts connections and sends nothing"
        await told(
            f"127.0.0.1:1,127.0.0.1:{silent},127.0.0.1:{other}",
            "127.0.0.1:1: [Errno",
            f"127.0.0.1:{silent}: {nothing}",
            f"127.0.0.1:{other}: not tried",
            wait_ms=200,
        )
        await told(
            f"127.0.0.1:{silent},127.0.0.1:{other}",
            f"127.0.0.1:{silent}: {nothing}, for 0.5 s",
            f"127.0.0.1:{other}: {nothing}",
            wait_ms=1_000,
        )


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the reply looks like HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the reply looks like SSH"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the reply looks like TLS: connect with TLS"),
        (b"220 mail.example ESMTP\r\n", "the reply begins with '220 mail.example ESMTP"),
    ],
)
async def test_a_port_of_something_else_is_named(said: bytes, hint: str) -> None:
    async with saying(said, hangs=True) as port:
        await told(f"127.0.0.1:{port}", hint)


@pytest.mark.parametrize("ignores_eof", [True, False])
async def test_tls_where_there_is_none_is_named(tmp_path: Path, ignores_eof: bool) -> None:
    tls = ssl.create_default_context()
    if ignores_eof:  # as in Python before 3.11.4
        tls.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    async with (
        zab.open_store(tmp_path, client_port=0) as store,
        saying(b"HTTP/1.1 400 Bad Request\r\n\r\n") as http,
        saying() as closes,
    ):
        for port in (store.client_port, http, closes):
            hints = f"127.0.0.1:{port}: the TLS handshake failed: ", "this port does not seem to speak TLS"
            await told(f"127.0.0.1:{port}", *hints, tls=tls)


async def test_failure_of_a_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with saying(b"220 mail.example ESMTP\r\n") as port:
        for wait_ms in (2_000, 8_000, 32_000):
            caplog.clear()
            await unreachable(f"127.0.0.1:{port},127.0.0.1:1", wait_ms)
            lines = [record.getMessage() for record in caplog.records if record.name == "zab.client"]
            said = [
                sum(event in line for line in lines) for event in ("client_cuts_connection", "client_cannot_connect")
            ]
            if all(said):  # a busy machine may let that time pass before both have been tried
                break
    assert said == [1, 1], lines


class Resolver(trio.abc.HostnameResolver):
    """Nobody has any name, or it cannot be asked at the moment."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def getaddrinfo(self, *arguments: object, **options: object) -> Any:
        raise socket.gaierror(self.number, "says the resolver")

    async def getnameinfo(self, *arguments: object) -> Any:
        raise NotImplementedError


async def ends_at_once(hosts: str, tls: ssl.SSLContext | None = None, *, refused_ends: bool = False) -> str:
    """It would wait for ever."""
    settings = evolve(QUICK, hopeless_ends=True, refused_ends=refused_ends)
    with trio.fail_after(120), pytest.raises(zab.Unreachable) as caught:
        async with zab.connect(hosts, wait_ms=None, tls=tls, settings=settings):
            raise AssertionError("nobody gets in")
    return str(caught.value)


async def test_hopeless_failure_ends_the_attempt_at_once(tmp_path: Path) -> None:
    ca, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    secure = TlsPortSettings(ca.issue("server"), ca.trust)
    client_ports = zab.ClientPortSettings(tls=secure)
    async with zab.open_store(tmp_path / "data", client_ports=client_ports, secure_client_port=0) as store:
        hosts = f"127.0.0.1:{store.secure_client_port}"
        bare = ssl.create_default_context(cafile=ca.trust.path)
        assert "certificate" in await ends_at_once(hosts, bare), "the server wants one of the client"
        assert "certificate" in await ends_at_once(hosts, ssl.create_default_context(cafile=other.trust.path))
    trio.socket.set_custom_hostname_resolver(Resolver(socket.EAI_NONAME))
    assert "its name cannot be resolved" in await ends_at_once("zk.example:2181")


async def test_refusal_by_every_server_ends_the_search_if_that_is_asked_for() -> None:
    port = free_port()
    why = await ends_at_once(f"127.0.0.1:{port},localhost:{port}", refused_ends=True)
    assert "refused" in why


async def test_transient_failures_are_retried() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(socket.EAI_AGAIN))
    settings = evolve(QUICK, hopeless_ends=True)
    for hosts in ("zk.example:2181", "127.0.0.1:1"):
        with pytest.raises(zab.Unreachable, match="in 150 ms"):
            async with zab.connect(hosts, wait_ms=150, settings=settings):
                raise AssertionError("nobody gets in")
