"""How a client gets in: TLS, SASL, credentials from the start, and servers that can only be read from."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme
from attrs import evolve

import zab
from tests.integration import apache
from tests.integration.stores import PORTS, Stores, stores
from zab import SessionState
from zab.client.remote_session import RemoteSession
from zab.runtime.store_server.security_settings import SecuritySettings

QUICK = zab.ClientSettings(pause_ms_min=10, pause_ms_max=50, search_ms_min=20, search_ms_max=100)
USERS = {"bob": "bobs secret"}
MINE = ((31, "auth", ""),)


async def fails(hosts: str, error: type[Exception], match: str = "", **options: object) -> None:
    """A busy machine may let the first second pass before there is anything to say."""
    said: object = None
    for seconds in (1, 2, 4, 8, 16, 32):
        try:
            async with zab.connect(hosts, wait_ms=1_000 * seconds, settings=QUICK, **options):  # type: ignore[arg-type]
                raise AssertionError("nobody gets in")
        except (error, zab.Unreachable) as caught:
            said = caught
        if isinstance(said, error) and re.search(match, str(said)):
            return
    raise AssertionError(said)


# -- TLS -----------------------------------------------------------------------------------------------


class Certificates:
    def __init__(self, path: Path) -> None:
        self.authority = trustme.CA()
        self.path = path
        self.ca = path / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)

    def files(self, name: str) -> tuple[Path, Path]:
        issued = self.authority.issue_cert(name)
        cert, key = self.path / f"{name}.pem", self.path / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(cert)
        return cert, key

    def server_context(self, *, ask: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.files("localhost"))
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


@asynccontextmanager
async def behind_tls(port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """A port that speaks TLS, in front of one that does not."""

    async def pump(source: trio.abc.ReceiveStream, target: trio.abc.SendStream, scope: trio.CancelScope) -> None:
        while data := await source.receive_some(65536):
            await target.send_all(data)
        scope.cancel()

    async def serve(client: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", port) as server, trio.open_nursery() as both:
                both.start_soon(pump, client, server, both.cancel_scope)
                both.start_soon(pump, server, client, both.cancel_scope)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        tcp = listeners[0].transport_listener
        assert isinstance(tcp, trio.SocketListener)
        yield tcp.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_over_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    cert, key = certificates.files("client.example")
    async with (
        stores(tmp_path / "store") as running,
        behind_tls(running.ports[1], certificates.server_context(ask=True)) as port,
    ):
        tls = zab.ClientTls(ca=certificates.ca, cert=cert, key=key)
        async with zab.connect(f"localhost:{port}", tls=tls) as session:
            await session.create("/a", bytes(500_000))
            assert (await session.get("/a"))[0] == bytes(500_000)
        async with zab.connect(f"localhost:{port}", tls=tls.context) as session:
            assert "a" in await session.children("/")
        async with zab.connect(f"127.0.0.1:{port}", tls=evolve(tls, check_hostname=False)) as session:
            assert await session.exists("/a") is not None
        await fails(f"127.0.0.1:{port}", zab.Unreachable, "(?i)certificate", tls=tls)
        await fails(f"localhost:{port}", zab.Unreachable, "(?i)certificate", tls=zab.ClientTls())
        await fails(f"localhost:{port}", zab.Unreachable, tls=zab.ClientTls(ca=certificates.ca))
        await fails(f"localhost:{port}", zab.Unreachable)
        await fails(f"localhost:{running.ports[1]}", zab.Unreachable, tls=tls)
    await fails("localhost", zab.ConfigError, "nowhere.pem: .*No such file", tls=zab.ClientTls(ca="nowhere.pem"))
    await fails("localhost", zab.ConfigError, "key=None", tls=zab.ClientTls(cert=certificates.ca))


# -- who it is -----------------------------------------------------------------------------------------


async def test_credentials_from_the_start(tmp_path: Path) -> None:
    async with stores(tmp_path) as running:
        async with zab.connect(running.hosts(), auth=[("digest", b"me:secret")]) as session:
            assert ("digest", "me") in await session.who_am_i()
            await session.create("/mine", acl=MINE)
        await fails(running.hosts(), zab.AuthFailed, auth=[("digest", b"me:secret"), ("trust-me", b"")])


async def test_sasl(tmp_path: Path) -> None:
    security = SecuritySettings(sasl_users=USERS, required=frozenset({"sasl"}))
    async with stores(tmp_path, client_ports=evolve(PORTS, security=security)) as running:
        await _sasl(running.hosts())


@apache.needs_apache
async def test_sasl_at_apache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text('Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="bobs secret"; };')
    flags = f"-Djava.security.auth.login.config={file} -Dzookeeper.fips-mode=false"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", flags)
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    with apache.running(tmp_path, **{"authProvider.1": provider, "sessionRequireClientSASLAuth": "true"}) as server:
        await _sasl(f"127.0.0.1:{server.port}")


async def _sasl(hosts: str) -> None:
    async with zab.connect(hosts, sasl=("bob", "bobs secret"), settings=QUICK) as session:
        assert isinstance(session, RemoteSession)
        assert ("sasl", "bob") in await session.who_am_i()
        await session.create("/bobs", b"x", acl=MINE)
        states = session.states()
        assert await anext(states) is SessionState.CONNECTED
        session.connector.cut()
        assert await anext(states) is SessionState.SUSPENDED
        assert (await session.get("/bobs"))[0] == b"x", "it has proved itself to the next connection, too"
    await fails(hosts, zab.AuthFailed, "SASL", sasl=("bob", "a guess"))
    async with zab.connect(hosts, settings=QUICK) as session:
        with pytest.raises(zab.AuthFailed):
            await session.get("/")


# -- read only -----------------------------------------------------------------------------------------


async def alone(running: Stores) -> int:
    leader = await running.leader()
    left = next(sid for sid in running.servers if sid != leader)
    for sid in [sid for sid in running.servers if sid != left]:
        await running.stop(sid)
    return left


async def test_reading_from_a_server_that_is_cut_off(tmp_path: Path) -> None:
    client_ports = evolve(PORTS, read_only_mode_enabled=True, read_only_after_ms=200)
    async with stores(tmp_path, 3, client_ports=client_ports) as running:
        hosts = running.hosts()
        async with zab.connect(hosts) as session:
            await session.create("/a", b"x")
            for server in running.servers.values():
                await server.member.barrier()
        left = await alone(running)
        async with zab.connect(hosts, read_only=True, settings=QUICK) as session:
            states = session.states()
            assert await anext(states) is SessionState.READ_ONLY
            assert (await session.get("/a"))[0] == b"x"
            for refused in (session.set("/a", b""), session.create("/b"), session.sync()):
                with pytest.raises(zab.NotReadOnly):
                    await refused
            async with session.watcher() as events, session.watch("/a") as stays:
                await session.get("/a", events)
                local = session.id
                for sid in running.ports:
                    if sid != left:
                        await running.start(sid)
                while (state := await anext(states)) is not SessionState.CONNECTED:
                    assert state in (SessionState.SUSPENDED, SessionState.READ_ONLY)
                assert session.id != local, "the other was known to one server only"
                await session.set("/a", b"y")
                assert (await anext(events)).event is zab.Event.DATA_CHANGED
                assert (await anext(stays)).event is zab.Event.MAYBE_MISSED


async def test_a_session_that_was_known_to_all_reads_and_comes_back(tmp_path: Path) -> None:
    client_ports = evolve(PORTS, read_only_mode_enabled=True, read_only_after_ms=200)
    async with stores(tmp_path, 3, client_ports=client_ports) as running:
        hosts = running.hosts()
        async with zab.connect(hosts, timeout_ms=20_000, read_only=True, settings=QUICK) as session:
            await session.create("/e", b"x", ephemeral=True)
            session_id = session.id
            for server in running.servers.values():
                await server.member.barrier()
            left = await alone(running)
            async for state in session.states():
                if state is SessionState.READ_ONLY:
                    break
            assert session.id == session_id
            assert (await session.get("/e"))[0] == b"x"
            for sid in running.ports:
                if sid != left:
                    await running.start(sid)
            async for state in session.states():
                if state is SessionState.CONNECTED:
                    break
            assert session.id == session_id
            assert await session.ephemerals() == ["/e"]


async def test_session_is_read_only_only_on_request(tmp_path: Path) -> None:
    client_ports = evolve(PORTS, read_only_mode_enabled=True, read_only_after_ms=200)
    async with stores(tmp_path, 3, client_ports=client_ports) as running:
        hosts = running.hosts()
        await alone(running)
        await fails(hosts, zab.Unreachable)


# -- what is said of it --------------------------------------------------------------------------------


async def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with stores(tmp_path) as running:
        async with zab.connect(running.hosts(), auth=[("digest", b"me:hush-hush")]) as session:
            assert isinstance(session, RemoteSession)
            password = session.password
        await fails(running.hosts(), zab.AuthFailed, sasl=("bob", "hush-hush"))
    assert "client_connected" in caplog.text
    assert "hush-hush" not in caplog.text
    assert password.hex() not in caplog.text
    assert repr(password) not in caplog.text


async def test_session_representation_names_id_and_server(tmp_path: Path) -> None:
    async with stores(tmp_path) as running:
        hosts = running.hosts()
        async with zab.connect(f"{hosts}/app", settings=QUICK) as session:
            assert isinstance(session, RemoteSession)
            assert repr(session) == f"<RemoteSession {session.id:#x} connected at {hosts} of '{hosts}/app'>"
            assert repr(session.password) not in repr(session)
        assert repr(session) == f"<RemoteSession {session.id:#x} closed of '{hosts}/app'>"
