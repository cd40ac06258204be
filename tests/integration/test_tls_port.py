"""The client port over TLS: accepted and refused clients, and the log."""

from __future__ import annotations

import gc
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from tests.integration import apache
from tests.integration.certificates import PASSWORD, Authority, needs_keytool
from tests.integration.stores import PORTS
from tests.integration.test_client_port import Client
from tests.integration.test_java_clients import needs_compiler
from tests.integration.test_security import create, java, kazoo, who
from zab.core.errors import ConfigError
from zab.net.tls.key_stores import StoreFile
from zab.net.tls.tls_settings import ClientAuth, TlsPortSettings
from zab.runtime.admin.store_metrics import monitor
from zab.runtime.store_server.open_store import open_store
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.wire.certificates import subject_of
from zab.wire.client.requests import PING, encode_request

CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _sockets_that_kazoo_forgets() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@asynccontextmanager
async def store(
    path: Path, tls: TlsPortSettings, security: SecuritySettings | None = None, **more: Any
) -> AsyncIterator[ServerRuntime]:
    client_ports = evolve(PORTS, tls=tls, security=security or SecuritySettings())
    async with open_store(
        path / "data", client_port=0, secure_client_port=0, client_ports=client_ports, **more
    ) as server:
        yield server._server


def context(trust: StoreFile, key: StoreFile | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=trust.path)
    # Python before 3.11.4 sets it. Then the end of a refused connection would look like close_notify.
    made.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", ssl.Options(0))
    if key is not None:
        made.load_cert_chain(key.path)
    return made


@asynccontextmanager
async def connected(port: int | None, tls: ssl.SSLContext) -> AsyncIterator[Client]:
    assert port is not None
    stream = await trio.open_ssl_over_tcp_stream("localhost", port, https_compatible=True, ssl_context=tls)
    async with stream:
        client = Client(stream)  # type: ignore[arg-type]
        assert await client.connect() is not None
        yield client


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(event)]


async def first_said(caplog: pytest.LogCaptureFixture, event: str) -> str:
    """Wait for the server's first line: a client may see its refusal before the log has the reason."""
    while not (lines := said(caplog, event)):
        await trio.sleep(0.01)
    return lines[0]


def read(path: str) -> str:
    return Path(path).read_text()


def spoil(path: str) -> None:
    Path(path).write_text("-----BEGIN nonsense")


# -- who gets in -----------------------------------------------------------------------------------------------


async def test_a_certificate_is_an_identity(tmp_path: Path, ca: Authority) -> None:
    tls = TlsPortSettings(ca.issue("server"), ca.trust)
    key = ca.issue("joe", organization_name="Acme, Inc.", organization_unit_name="Ops")
    async with store(tmp_path, tls) as server, connected(server.ports.secure_client, context(ca.trust, key)) as client:
        subject = "CN=joe,OU=Ops,O=Acme\\, Inc."
        assert await who(client) == [("ip", "127.0.0.1"), ("x509", subject)]
        large = bytes(range(256)) * 3000
        requests = [
            encode_request(Op.CREATE, 1, ("/a", large, ((31, "auth", ""),), 0)),
            encode_request(Op.GET_DATA, 2, ("/a", False)),
            encode_request(Op.GET_ACL, 3, ("/a",)),
            encode_request(Op.AUTH, -4, (0, "x509", b"")),
            create(5, "/b", ((31, "x509", "joe"),)),
        ]
        replies = await client.ask(*requests)
        assert sorted(reply[::2][:2] for reply in replies) == [
            (-4, 0), (1, 0), (2, 0), (3, 0), (5, ErrorCode.INVALID_ACL),
        ]  # fmt: skip
        (connection,) = server.clients.connections
        assert connection.sent == 6
        assert large in replies[1][3] or large in replies[2][3]
        assert any(b"x509" in reply[3] and subject.encode() in reply[3] for reply in replies)


async def test_the_super_users_certificate(tmp_path: Path, ca: Authority) -> None:
    key = ca.issue("root")
    (certificate, *_) = CERTIFICATE.findall(read(key.path))
    subject = subject_of(ssl.PEM_cert_to_DER_cert(certificate))
    security = SecuritySettings(x509_super=subject, required=frozenset({"x509"}))
    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust), security) as server:
        async with connected(server.ports.secure_client, context(ca.trust, key)) as client:
            assert await who(client) == [("ip", "127.0.0.1"), ("super", subject), ("x509", subject)]
        plain = Client(await trio.open_tcp_stream("127.0.0.1", server.ports.client or 0))
        async with plain.stream:
            await plain.connect()
            assert (await plain.ask(PING))[0][2] == -124


async def test_without_a_certificate_where_none_is_needed(tmp_path: Path, ca: Authority) -> None:
    for auth in (ClientAuth.NONE, ClientAuth.WANT):
        tls = TlsPortSettings(ca.issue("server"), ca.trust, client_auth=auth)
        async with store(tmp_path, tls) as server, connected(server.ports.secure_client, context(ca.trust)) as client:
            assert await who(client) == [("ip", "127.0.0.1")]


async def test_a_word_over_tls(tmp_path: Path, ca: Authority) -> None:
    tls = TlsPortSettings(ca.issue("server"), client_auth=ClientAuth.NONE)
    async with store(tmp_path, tls) as server:

        def ask() -> bytes:
            plain = socket.create_connection(("localhost", server.ports.secure_client or 0), timeout=120)
            with plain, context(ca.trust).wrap_socket(plain, server_hostname="localhost") as spoken:
                spoken.sendall(b"ruok")
                return b"".join(iter(lambda: spoken.recv(100), b""))

        # All of it, and a farewell behind it: without one Python would raise an error.
        assert await trio.to_thread.run_sync(ask) == b"imok"


async def test_one_port_for_both(tmp_path: Path, ca: Authority) -> None:
    tls = TlsPortSettings(ca.issue("server"), ca.trust, client_auth=ClientAuth.WANT, unify=True)
    async with store(tmp_path, tls) as server:
        async with connected(server.ports.client, context(ca.trust, ca.issue("joe"))) as client:
            assert [scheme for scheme, _ in await who(client)] == ["ip", "x509"]
        plain = Client(await trio.open_tcp_stream("127.0.0.1", server.ports.client or 0))
        async with plain.stream:
            await plain.connect()
            assert await who(plain) == [("ip", "127.0.0.1")]


# -- files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", pytest.param("JKS", marks=needs_keytool)])
async def test_every_format_of_stores(tmp_path: Path, ca: Authority, kind: str) -> None:
    key = ca.issue("server")
    if kind == "PEM":
        tls = TlsPortSettings(ca.as_protected_pem(key), ca.trust)
    elif kind == "PKCS12":
        tls = TlsPortSettings(ca.as_pkcs12(key), ca.trust)
    else:
        tls = TlsPortSettings(ca.as_jks(key), ca.trust_as("JKS"))
    async with store(tmp_path, tls) as server:
        await still_serves(server, ca)


@needs_keytool
async def test_a_trust_store_of_keytool(tmp_path: Path, ca: Authority) -> None:
    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust_as("PKCS12"))) as server:
        await still_serves(server, ca)


async def test_a_new_certificate_needs_no_restart(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    old, other = ca.issue("server"), Authority(tmp_path / "other")
    tls = TlsPortSettings(old, client_auth=ClientAuth.NONE, reload=True, reload_ms=1)
    async with store(tmp_path, tls) as server, connected(server.ports.secure_client, context(ca.trust)) as before:
        await trio.sleep(0.01)
        os.replace(other.issue("server").path, old.path)
        async with connected(server.ports.secure_client, context(other.trust)):
            assert (await before.ask(PING))[0][2] == 0
        await trio.sleep(0.01)
        spoil(old.path)
        async with connected(server.ports.secure_client, context(other.trust)):
            assert old.path in said(caplog, "certificates_not_reloaded")[0]


async def test_without_a_key_there_is_no_secure_port(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a key"):
        async with open_store(tmp_path, secure_client_port=0):
            pass
    with pytest.raises(ConfigError, match="nowhere.pem: No such file"):
        tls = TlsPortSettings(StoreFile("nowhere.pem"), client_auth=ClientAuth.NONE)
        async with open_store(tmp_path, secure_client_port=0, client_ports=evolve(PORTS, tls=tls)):
            pass


# -- who does not ----------------------------------------------------------------------------------------------


async def refused(server: ServerRuntime, tls: ssl.SSLContext) -> str:
    """Return the error of a refused client."""
    stream = await trio.open_ssl_over_tcp_stream("localhost", server.ports.secure_client or 0, ssl_context=tls)
    try:
        await stream.do_handshake()
        await stream.receive_some()
    except (trio.BrokenResourceError, ssl.SSLError) as error:
        return str(getattr(error.__cause__, "reason", None) or error.__cause__)
    finally:
        await trio.aclose_forcefully(stream)
    raise AssertionError("it was let in")


async def still_serves(server: ServerRuntime, ca: Authority) -> None:
    async with connected(server.ports.secure_client, context(ca.trust, ca.issue("friend"))) as client:
        assert (await client.ask(PING))[0][2] == 0


async def test_log_has_the_reason(tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture) -> None:
    stranger = Authority(tmp_path / "stranger")
    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust)) as server:
        assert "CERTIFICATE_REQUIRED" in await refused(server, context(ca.trust))
        assert "sent no certificate" in await first_said(caplog, "handshake_failed")
        # Once for a host, for a while: whoever tries and tries does not fill the log.
        await refused(server, context(ca.trust, stranger.issue("eve")))
        while server.clients.counts.auth_failed < 2:
            await trio.sleep(0.01)
        assert (len(said(caplog, "handshake_failed")), server.clients.counts.auth_failed) == (1, 2)
        await still_serves(server, ca)


async def test_certificate_of_another_server(tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture) -> None:
    stranger = Authority(tmp_path / "stranger")
    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust)) as server:
        assert "UNKNOWN_CA" in await refused(server, context(ca.trust, stranger.issue("eve")))
        assert "certificate error: " in await first_said(caplog, "handshake_failed")


async def test_a_client_that_does_not_trust_us(tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture) -> None:
    stranger = Authority(tmp_path / "stranger")
    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust)) as server:
        tls = context(stranger.trust, ca.issue("joe"))

        def call() -> None:  # Trio's own stream does not tell the other end what it does not like
            plain = socket.create_connection(("localhost", server.ports.secure_client or 0), timeout=120)
            with (
                plain,
                pytest.raises(ssl.SSLCertVerificationError),
                tls.wrap_socket(plain, server_hostname="localhost"),
            ):
                pass

        await trio.to_thread.run_sync(call)
        assert "does not trust the signer of this side's certificate" in await first_said(caplog, "handshake_failed")


async def test_a_certificate_for_another_address(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    tls = TlsPortSettings(ca.issue("server"), ca.trust, verify_client_host=True)
    async with store(tmp_path, tls) as server:
        await refused(server, context(ca.trust, ca.issue("joe", "10.0.0.1")))
        assert "does not name the address" in await first_said(caplog, "handshake_failed")
        await still_serves(server, ca)


@pytest.mark.parametrize(("first", "why"), [
    (b"ruok", "plain text on the TLS port"),
    (b"\0\0\0\x2d" + bytes(45), "plain text on the TLS port"),
    (b"GET / HTTP/1.1\r\n\r\n", "plain text on the TLS port"),
    (b"\x16\3\1\0\x05hello", ""),
    (b"\x16" * 100, ""),
    (b"\x16\3\1\xff\xff" + b"x" * 70_000, ""),
])  # fmt: skip
async def test_plain_text_on_the_tls_port(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture, first: bytes, why: str
) -> None:
    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust)) as server:
        async with await trio.open_tcp_stream("127.0.0.1", server.ports.secure_client or 0) as stream:
            with trio.fail_after(120):
                try:
                    await stream.send_all(first)
                    while await stream.receive_some():
                        pass
                except trio.BrokenResourceError:
                    pass
        assert why in await first_said(caplog, "handshake_failed")
        await still_serves(server, ca)


HALF_A_HANDSHAKE = b"\x16\3\1\2\0"


async def test_handshakes_are_bounded_in_time(tmp_path: Path, ca: Authority) -> None:
    tls = TlsPortSettings(ca.issue("server"), ca.trust, detection_ms=100, handshake_ms=100)
    async with store(tmp_path, tls) as server:
        for first in (b"", HALF_A_HANDSHAKE):
            async with await trio.open_tcp_stream("127.0.0.1", server.ports.secure_client or 0) as slow:
                await slow.send_all(first)
                with trio.fail_after(120):
                    assert await closed(slow)


async def test_handshakes_are_bounded_in_number(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    tls = TlsPortSettings(ca.issue("server"), ca.trust, handshakes_max=2, handshake_ms=60_000)
    async with store(tmp_path, tls) as server, trio.open_nursery() as nursery:
        hung_up = trio.Event()
        streams = [await trio.open_tcp_stream("127.0.0.1", server.ports.secure_client or 0) for _ in range(3)]

        async def watch(stream: trio.SocketStream) -> None:
            assert await closed(stream)
            hung_up.set()

        for stream in streams:
            await stream.send_all(HALF_A_HANDSHAKE)
            nursery.start_soon(watch, stream)
        with trio.fail_after(120):
            await hung_up.wait()  # one of the three
        assert "2 handshakes are under way" in await first_said(caplog, "handshake_failed")
        found = monitor(server)
        assert (found["tls_handshake_exceeded"], found["unsuccessful_handshake"]) == (1, 1)
        assert (found["outstanding_tls_handshake"], found["auth_failed_count"]) == (2, 1)
        nursery.cancel_scope.cancel()
        for stream in streams:
            await trio.aclose_forcefully(stream)


async def closed(stream: trio.SocketStream) -> bool:
    try:
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:
        return True


async def test_older_versions_and_weak_suites_are_not_spoken(tmp_path: Path, ca: Authority) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    tls = TlsPortSettings(ca.issue("server"), ca.trust, cipher_suites=suites)
    async with store(tmp_path, tls) as server:
        newest = context(ca.trust, ca.issue("joe"))
        newest.minimum_version = ssl.TLSVersion.TLSv1_3  # of which no suite is allowed
        assert "PROTOCOL_VERSION" in await refused(server, newest)
        await still_serves(server, ca)


# -- other people's clients ------------------------------------------------------------------------------------


async def test_kazoo_over_tls(tmp_path: Path, ca: Authority) -> None:
    key = ca.issue("joe")

    def work(port: int) -> None:
        zk = kazoo(f"localhost:{port}", use_ssl=True, ca=ca.path, certfile=key.path, keyfile=key.path)
        zk.start(240)
        try:
            zk.create("/kazoo", b"x" * 900_000)
            assert len(zk.get("/kazoo")[0]) == 900_000
            assert [zk.get_async("/kazoo").get()[1].dataLength for _ in range(20)] == [900_000] * 20
        finally:
            zk.stop()
            zk.close()

    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust)) as server:
        await trio.to_thread.run_sync(partial(work, server.ports.secure_client or 0))


@apache.needs_apache
@needs_compiler
@needs_keytool
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
async def test_the_java_client_over_tls(tmp_path: Path, ca: Authority, kind: str) -> None:
    key = ca.issue("joe")
    own = ca.as_jks(key) if kind == "JKS" else ca.as_pkcs12(key)
    trust = ca.trust_as(kind)
    options = (
        "zookeeper.client.secure=true",
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
        f"zookeeper.ssl.keyStore.location={own.path}",
        f"zookeeper.ssl.keyStore.password={PASSWORD}",
        f"zookeeper.ssl.keyStore.type={kind}",
        f"zookeeper.ssl.trustStore.location={trust.path}",
        f"zookeeper.ssl.trustStore.password={PASSWORD}",
        f"zookeeper.ssl.trustStore.type={kind}",
    )
    async with store(tmp_path, TlsPortSettings(ca.issue("server"), ca.trust)) as server:
        lines = await java("Secure", f"localhost:{server.ports.secure_client}", properties=options)
    assert lines[0] == "SyncConnected"
    assert lines[1].startswith("1000000 [31,s{'x509,'CN=joe%2COU=")
    assert lines[3] == "ip 127.0.0.1"
    assert lines[4].startswith("x509 CN=joe,")
