"""Floods of connections that say nothing, from several addresses, on the ports for clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing
from attrs import evolve

import zab
from replica.core.network.connection_limits import ConnectionLimits
from replica.runtime.authentication.listener_security import NO_SASL, ListenerSecurity
from replica.runtime.authentication.sasl_authenticator import SaslSettings, sasl_security
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.requests import ApiKey, Request
from tests.integration.certificates import Authority
from tests.integration.stores import PORTS
from tests.kafka_bodies import ask, typed
from zab.net.tls.tls_settings import TlsPortSettings

HALF_A_HANDSHAKE: Final = b"\x16\x03\x01\x02\x00"
ADDRESSES: Final = [f"127.0.0.{last}" for last in range(2, 7)]
FLOOD: Final = 10


@asynccontextmanager
async def flood(port: int, first: bytes, count: int = FLOOD) -> AsyncIterator[list[trio.SocketStream]]:
    """Fill the port with half-open connections from five addresses in turn."""
    streams = []
    for number in range(count):
        address = ADDRESSES[number % len(ADDRESSES)]
        streams.append(await trio.open_tcp_stream("127.0.0.1", port, local_address=address))
        if first:
            await streams[-1].send_all(first)
        await trio.testing.wait_all_tasks_blocked(0.01)
    try:
        yield streams
    finally:
        for stream in streams:
            await trio.aclose_forcefully(stream)


async def ends(stream: trio.SocketStream) -> bool:
    with trio.fail_after(60):
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
    return True


async def test_half_open_tls_handshakes_keep_no_newcomer_out(tmp_path: Path) -> None:
    ca = Authority(tmp_path / "tls")
    tls = TlsPortSettings(ca.issue("server"), ca.trust, handshakes_max=FLOOD, handshake_ms=120_000)
    key = ca.issue("joe").path
    client = zab.ClientTls(ca=str(ca.path), cert=key, key=key)
    async with zab.open_store(tmp_path / "data", secure_client_port=0, client_ports=evolve(PORTS, tls=tls)) as store:
        port = store.secure_client_port or 0
        async with flood(port, HALF_A_HANDSHAKE) as held:
            with trio.fail_after(60):
                async with zab.connect(f"localhost:{port}", tls=client) as session:
                    await session.create("/served", b"")
            assert await ends(held[0]), "the oldest of an address with as many as any"
            assert store._server.clients.counts.tls_handshake_exceeded == 1


async def test_plain_and_tls_port_share_the_limit_of_connections(tmp_path: Path) -> None:
    """As in ZooKeeper, whose `maxCnxns` counts the connections at both ports."""
    ca = Authority(tmp_path / "tls")
    tls = TlsPortSettings(ca.issue("server"), ca.trust)
    key = ca.issue("joe").path
    client = zab.ClientTls(ca=str(ca.path), cert=key, key=key)
    one = evolve(PORTS, tls=tls, connections_max=1)
    async with zab.open_store(tmp_path / "data", client_port=0, secure_client_port=0, client_ports=one) as store:
        secure, counts = f"localhost:{store.secure_client_port}", store._server.clients.counts
        with trio.fail_after(60):
            async with zab.connect(f"localhost:{store.client_port}") as session:
                await session.create("/served", b"")
                with trio.move_on_after(0.5):
                    async with zab.connect(secure, tls=client):
                        raise AssertionError("a second connection was admitted")
                assert counts.connection_rejected > 0
            async with zab.connect(secure, tls=client) as session:
                assert await session.exists("/served") is not None


@pytest.mark.parametrize("half_a_frame", [b"", b"\0\0\0\x2d\0\0"])
async def test_connections_without_a_session_keep_no_newcomer_out(tmp_path: Path, half_a_frame: bytes) -> None:
    client_ports = evolve(PORTS, connections_max=FLOOD, first_frame_ms=120_000)
    async with zab.open_store(tmp_path / "data", client_port=0, client_ports=client_ports) as store:
        port = store.client_port or 0
        async with zab.connect(f"127.0.0.1:{port}") as old, flood(port, half_a_frame, FLOOD - 1) as held:
            with trio.fail_after(60):
                async with zab.connect(f"127.0.0.1:{port}") as session:
                    await session.create("/served", b"")
                    assert await ends(held[0])
                    assert (await old.get("/served"))[0] == b"", "a session is never dropped to make room"


# -- the broker's port -------------------------------------------------------------------------------------

HEARTBEAT: Final = ApiKey.HEARTBEAT
SASL: Final = sasl_security(SaslSettings(users={"ann": "secret"}), lambda mechanism, name: None, b"")


async def answer(request: Request[Any]) -> Any:
    return {"error_code": 0}


@pytest.mark.parametrize("security", [NO_SASL, SASL], ids=["open", "sasl"])
async def test_half_open_connections_keep_no_newcomer_out_of_a_broker(security: ListenerSecurity) -> None:
    port = ClientListener(
        "CLIENTS", "127.0.0.1", 0, typed({HEARTBEAT: answer}), Log(1), ConnectionLimits(connections_max=FLOOD), security
    )
    number = await port.bind()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(port.run)
        async with flood(number, b"\0\0") as held:
            stream = await trio.open_tcp_stream("127.0.0.1", number)
            with trio.fail_after(60):
                await ask(BrokerConnection(stream, ClientSettings()), ApiKey.API_VERSIONS, {}, 0)
            assert await ends(held[0])
            await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()
