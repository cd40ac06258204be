"""Authentication at the client port: byte by byte, with kazoo and with the Java client."""

from __future__ import annotations

import gc
import logging
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from tests.integration import apache
from tests.integration.stores import PORTS, Stores, stores
from tests.integration.test_client_port import Client
from tests.integration.test_java_clients import needs_compiler
from zab.core.failed_logins import FailedLoginSettings
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.store.acl import Acl, Identity, digest_id
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.wire.client.client_frames import Reply
from zab.wire.client.replies import decode_body
from zab.wire.client.requests import AUTH_XID, PING, encode_request
from zab.wire.sasl import DigestClient

USERS = {"bob": "bobs secret", "root": "r", "zk/host@REALM": "z"}
SASL = SecuritySettings(sasl_users=USERS, sasl_super=frozenset({"root"}))
NULL = b"\xff\xff\xff\xff"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _sockets_that_kazoo_forgets() -> Iterator[None]:
    yield
    gc.collect()


@asynccontextmanager
async def secured(path: Path, security: SecuritySettings, **more: Any) -> AsyncIterator[Stores]:
    async with stores(path, client_ports=evolve(PORTS, security=security, **more)) as running:
        yield running


@asynccontextmanager
async def connected(running: Stores) -> AsyncIterator[Client]:
    stream = await trio.open_tcp_stream("127.0.0.1", running.ports[1])
    async with stream:
        client = Client(stream)
        await client.connect()
        yield client


async def ended(client: Client) -> bool:
    with trio.fail_after(120):
        return await client.stream.receive_some() == b""


def sasl(xid: int, token: bytes) -> bytes:
    return encode_request(Op.SASL, xid, (token,))


def answered(reply: Reply) -> bytes:
    token = decode_body(Op.SASL, reply[3])
    assert (reply[1:3], type(token)) == ((0, 0), bytes)
    return bytes(token)


async def log_in(client: Client, user: str, password: str) -> Reply:
    """Log in, up to the reply to the proof."""
    digest = DigestClient(user, password, b"a number used once")
    ((challenge),) = await client.ask(sasl(1, b""))
    ((last),) = await client.ask(sasl(2, digest.step(answered(challenge))))
    if last[3] != NULL:
        assert digest.step(answered(last)) == b""
        assert digest.complete
    return last


async def who(client: Client) -> list[Identity]:
    (reply,) = await client.ask(encode_request(Op.WHO_AM_I, 9))
    return [tuple(each) for each in decode_body(Op.WHO_AM_I, reply[3])]


# -- SASL, byte by byte -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("security", "user", "expected"), [
    (SASL, "bob", [("sasl", "bob")]),
    (SASL, "root", [("sasl", "root"), ("super", "")]),
    (SASL, "zk/host@REALM", [("sasl", "zk/host@REALM")]),
    (evolve(SASL, strip_host=True), "zk/host@REALM", [("sasl", "zk@REALM")]),
    (evolve(SASL, strip_host=True, strip_realm=True, sasl_super=frozenset({"zk"})), "zk/host@REALM",
     [("sasl", "zk"), ("super", "")]),
])  # fmt: skip
async def test_right_password_gives_an_identity(
    tmp_path: Path, security: SecuritySettings, user: str, expected: list[Identity]
) -> None:
    async with secured(tmp_path, security) as running, connected(running) as client:
        await log_in(client, user, USERS[user])
        assert await who(client) == [("ip", "127.0.0.1"), *expected]


@pytest.mark.parametrize(("user", "password"), [("bob", "a guess"), ("eve", "bobs secret")])
async def test_wrong_password_is_reported_and_ends_the_connection(tmp_path: Path, user: str, password: str) -> None:
    async with secured(tmp_path, SASL) as running, connected(running) as other, connected(running) as client:
        assert await log_in(client, user, password) == (2, 0, ErrorCode.AUTH_FAILED, NULL)
        assert await ended(client)
        assert await who(other) == [("ip", "127.0.0.1")]


@pytest.mark.parametrize("token", [b"no challenge was asked for", b"x" * 900_000], ids=["early", "giant"])
async def test_a_token_that_is_none_ends_the_connection(tmp_path: Path, token: bytes) -> None:
    async with secured(tmp_path, SASL) as running, connected(running) as client:
        assert await client.ask(sasl(5, token)) == [(5, 0, ErrorCode.AUTH_FAILED, NULL)]
        assert await ended(client)


async def test_sasl_exchange_is_bound_to_its_connection(tmp_path: Path) -> None:
    async with secured(tmp_path, SASL) as running, connected(running) as one, connected(running) as two:
        digest = DigestClient("bob", USERS["bob"], b"once")
        (challenge,) = await one.ask(sasl(1, b""))
        response = digest.step(answered(challenge))
        await two.ask(sasl(1, b""))
        assert await two.ask(sasl(2, response)) == [(2, 0, ErrorCode.AUTH_FAILED, NULL)]
        assert await ended(two)
        assert (await one.ask(sasl(2, response)))[0][2] == 0
        # ... nor on the same one for a second time
        assert await one.ask(sasl(3, response)) == [(3, 0, ErrorCode.AUTH_FAILED, NULL)]


async def test_half_a_token_blocks_no_other_client(tmp_path: Path) -> None:
    async with secured(tmp_path, SASL) as running, connected(running) as slow, connected(running) as client:
        await slow.stream.send_all(sasl(1, b"")[:-2])
        await log_in(client, "bob", USERS["bob"])
        await slow.stream.send_all(sasl(1, b"")[-2:])
        assert (await slow.hear(1))[0][2] == 0


async def test_sasl_login_fails_without_users(tmp_path: Path) -> None:
    async with secured(tmp_path, SecuritySettings()) as running, connected(running) as client:
        assert await client.ask(sasl(1, b"")) == [(1, 0, ErrorCode.AUTH_FAILED, NULL)]
        assert await ended(client)


async def test_failed_login_may_stay_unauthenticated_if_tolerated(tmp_path: Path) -> None:
    async with secured(tmp_path, evolve(SASL, sasl_tolerant=True)) as running, connected(running) as client:
        assert await log_in(client, "bob", "a guess") == (2, 0, 0, NULL)
        assert await who(client) == [("ip", "127.0.0.1")]
        await log_in(client, "bob", USERS["bob"])
        assert ("sasl", "bob") in await who(client)


async def test_no_password_is_in_a_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with secured(tmp_path, SASL) as running, connected(running) as client:
        await log_in(client, "bob", "a guess")
    said = [record.getMessage() for record in caplog.records if "client_not_authenticated" in record.getMessage()]
    assert len(said) == 1
    assert "a wrong password for 'bob'" in said[0]
    assert not [record for record in caplog.records if "bobs secret" in record.getMessage()]
    assert "bobs secret" not in repr(SASL)


# -- nobody comes in unproved --------------------------------------------------------------------------------

REQUIRED = evolve(SASL, required=frozenset({"sasl"}))


@pytest.mark.parametrize(
    "request_", [PING, encode_request(Op.EXISTS, 4, ("/", False)), encode_request(Op.CLOSE_SESSION, 4)]
)
async def test_unauthenticated_requests_are_refused(tmp_path: Path, request_: bytes) -> None:
    async with secured(tmp_path, REQUIRED) as running, connected(running) as client:
        (reply,) = await client.ask(request_ + PING)
        assert reply == (int.from_bytes(request_[4:8], "big", signed=True), 0, -124, b"")
        assert await ended(client)


async def test_authenticated_client_is_served(tmp_path: Path) -> None:
    async with secured(tmp_path, REQUIRED) as running, connected(running) as client:
        await client.ask(
            encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"bob:x"))
        )  # a proof, if not the one asked for
        await log_in(client, "bob", USERS["bob"])
        assert await who(client) == [("ip", "127.0.0.1"), ("digest", "bob"), ("sasl", "bob")]


async def test_a_wrong_password_where_one_is_required(tmp_path: Path) -> None:
    async with secured(tmp_path, evolve(REQUIRED, sasl_tolerant=True)) as running, connected(running) as client:
        assert await log_in(client, "bob", "a guess") == (2, 0, -124, NULL)
        assert await ended(client)


async def test_a_proof_and_a_request_in_one_breath(tmp_path: Path) -> None:
    security = SecuritySettings(required=frozenset({"digest"}))
    async with secured(tmp_path, security) as running, connected(running) as client:
        auth = encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"bob:x"))
        replies = await client.ask(auth, encode_request(Op.EXISTS, 4, ("/", False)))
        assert [reply[0:1] + reply[2:3] for reply in replies] == [(AUTH_XID, 0), (4, 0)]


# -- other schemes -------------------------------------------------------------------------------------------


class Tickets:
    """A scheme of one's own."""

    scheme = "ticket"
    proves = True

    def authenticate(self, credentials: bytes, host: str) -> Iterable[Identity] | None:
        if credentials == b"fail":
            raise ValueError("no ticket")
        return [("ticket", credentials.decode()[1:])] if credentials.startswith(b"#") else None

    def id_is_valid(self, name: str) -> bool:
        return name.isdigit()

    def matches(self, name: str, identity: str) -> bool:
        return int(identity) >= int(name)


def create(xid: int, path: str, acl: Acl) -> bytes:
    return encode_request(Op.CREATE, xid, (path, b"", acl, 0))


def auth(scheme: str, credentials: bytes) -> bytes:
    return encode_request(Op.AUTH, AUTH_XID, (0, scheme, credentials))


@pytest.mark.parametrize(("security", "scheme", "credentials", "outcome"), [
    (SASL, "sasl", b"bob", ErrorCode.AUTH_FAILED),
    (SASL, "x509", b"CN=root", ErrorCode.AUTH_FAILED),
    (SASL, "ensemble", b"", ErrorCode.AUTH_FAILED),
    (SASL, "nonsense", b"", ErrorCode.AUTH_FAILED),
    (SASL, "super", b"", ErrorCode.AUTH_FAILED),
    (SASL, "ip", b"10.0.0.1", 0),
    (evolve(SASL, digest=False), "digest", b"bob:x", ErrorCode.AUTH_FAILED),
    (evolve(SASL, ensemble_names=frozenset()), "ensemble", b"any", 0),
    (evolve(SASL, ensemble_names=frozenset({"ours"})), "ensemble", b"ours", 0),
    (evolve(SASL, ensemble_names=frozenset({"ours"})), "ensemble", b"", 0),
    (evolve(SASL, providers={"ticket": Tickets()}), "ticket", b"7", ErrorCode.AUTH_FAILED),
    (evolve(SASL, providers={"ticket": Tickets()}), "ticket", b"fail", ErrorCode.AUTH_FAILED),
    (evolve(SASL, providers={"ticket": Tickets()}), "ticket", b"#7", 0),
])  # fmt: skip
async def test_scheme_authenticates_credentials(
    tmp_path: Path, security: SecuritySettings, scheme: str, credentials: bytes, outcome: int
) -> None:
    async with secured(tmp_path, security) as running, connected(running) as client:
        assert await client.ask(auth(scheme, credentials)) == [(AUTH_XID, 0, outcome, b"")]
        if outcome:
            assert await ended(client)
        else:
            assert (await who(client))[0] == ("ip", "127.0.0.1")


# -- guesses -------------------------------------------------------------------------------------------------

CHIEF = digest_id(b"super:right")


async def guess_sasl(client: Client) -> None:
    await log_in(client, "bob", "a guess")


async def guess_super(client: Client) -> None:
    await client.ask(auth("digest", b"super:a guess"))


async def guess_ticket(client: Client) -> None:
    await client.ask(auth("ticket", b"fail"))


@pytest.mark.parametrize("guess", [guess_sasl, guess_super, guess_ticket])
async def test_few_guesses_of_one_address_are_checked_at_one_time(
    tmp_path: Path, guess: Callable[[Client], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of logged-in clients go on meanwhile; requests behind a guess wait for the end of its pause."""
    slow = FailedLoginSettings(pause_ms=600_000, waiting_max=3)
    security = evolve(SASL, providers={"ticket": Tickets()})
    async with (
        secured(tmp_path, security, super_digest=CHIEF, failed_logins=slow) as running,
        connected(running) as honest,
        trio.open_nursery() as nursery,
    ):
        logins, failures = running.servers[1].clients.throttles.logins, []
        count = logins.failed

        def failed(host: str, now: float) -> float:
            failures.append(host)
            return count(host, now)

        monkeypatch.setattr(logins, "failed", failed)
        for _ in range(6):

            async def guesses() -> None:
                async with connected(running) as client:
                    with pytest.raises((AssertionError, trio.BrokenResourceError)):
                        await guess(client)

            nursery.start_soon(guesses)
        while len(failures) < 3 or len(running.servers[1].clients.connections) > 4:
            await trio.sleep(0.01)
        assert await client_adds(honest, b"ann:anything") == ("digest", "ann")
        async with connected(running) as other:
            with pytest.raises((AssertionError, trio.BrokenResourceError)):
                await other.ask(auth("digest", b"super:right"))
        assert failures == ["127.0.0.1"] * 3
        nursery.cancel_scope.cancel()


async def client_adds(client: Client, credentials: bytes) -> Identity:
    await client.ask(auth("digest", credentials))
    return (await who(client))[-1]


async def test_a_wrong_super_password_is_an_identity_like_any_other_after_a_pause(tmp_path: Path) -> None:
    async with (
        secured(tmp_path, SASL, super_digest=CHIEF) as running,
        connected(running) as client,
    ):
        begun = trio.current_time()
        for number in range(3):
            assert await client_adds(client, b"super:%d" % number) == ("digest", "super")
        assert trio.current_time() - begun > 0.6  # 100, 200 and 400 ms
        assert ("super", "") not in await who(client)
        await client.ask(auth("digest", b"super:right"))
        assert ("super", "") in await who(client)


async def test_client_of_another_ensemble_gets_no_reply(tmp_path: Path) -> None:
    security = SecuritySettings(ensemble_names=frozenset({"ours"}))
    async with secured(tmp_path, security) as running, connected(running) as client:
        await client.stream.send_all(auth("ensemble", b"theirs") + PING)
        assert await client.stream.receive_some() == b""


async def test_a_scheme_of_ones_own_in_lists(tmp_path: Path) -> None:
    security = SecuritySettings(providers={"ticket": Tickets()})
    async with secured(tmp_path, security) as running, connected(running) as client:
        await client.ask(auth("ticket", b"#7"))
        creates = [
            create(1, "/a", ((31, "ticket", "5"),)),
            create(2, "/b", ((31, "ticket", "9"), (4, "auth", ""))),
            create(3, "/c", ((31, "ticket", "none"),)),
        ]
        assert [reply[2] for reply in await client.ask(*creates)] == [0, 0, ErrorCode.INVALID_ACL]
        looks = [encode_request(Op.GET_DATA, 4, (path, False)) for path in ("/a", "/b")]
        assert [reply[2] for reply in await client.ask(*looks)] == [0, ErrorCode.NO_AUTH]
        writes = encode_request(Op.SET_DATA, 5, ("/b", b"", -1)), create(6, "/b/c", ((1, "world", "anyone"),))
        assert [reply[2] for reply in await client.ask(*writes)] == [ErrorCode.NO_AUTH, 0]


# -- kazoo ---------------------------------------------------------------------------------------------------

PATIENCE_S = 240


def kazoo(hosts: str, **options: Any) -> Any:
    client = pytest.importorskip("kazoo.client", reason="kazoo is not installed")
    pytest.importorskip("puresasl", reason="pure-sasl is not installed")
    return client.KazooClient(hosts=hosts, timeout=20, **options)


def with_sasl(hosts: str) -> None:
    from kazoo.security import make_acl

    options = {"mechanism": "DIGEST-MD5", "username": "bob", "password": USERS["bob"]}
    zk = kazoo(hosts, sasl_options=options)
    zk.start(PATIENCE_S)
    try:
        zk.create("/bobs", b"x", acl=[make_acl("sasl", "bob", all=True)])
        assert zk.get("/bobs")[0] == b"x"
    finally:
        zk.stop()
        zk.close()


def with_a_wrong_password(hosts: str) -> None:
    from kazoo.exceptions import AuthFailedError

    zk = kazoo(hosts, sasl_options={"mechanism": "DIGEST-MD5", "username": "bob", "password": "a guess"})
    zk.start(PATIENCE_S)
    with pytest.raises(AuthFailedError):
        zk.get("/")
    zk.stop()
    zk.close()


async def test_kazoo_logs_in_by_sasl(tmp_path: Path) -> None:
    async with secured(tmp_path, REQUIRED) as running:
        await trio.to_thread.run_sync(partial(with_sasl, running.hosts()))


async def test_kazoo_with_a_wrong_password(tmp_path: Path) -> None:
    async with secured(tmp_path, SASL) as running:
        await trio.to_thread.run_sync(partial(with_a_wrong_password, running.hosts()))


# -- the Java client -----------------------------------------------------------------------------------------


async def java(name: str, *arguments: str, properties: tuple[str, ...]) -> list[str]:
    command = apache.client(name, *arguments, properties=properties)
    with trio.fail_after(PATIENCE_S):
        done = await trio.run_process(command, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
    return str(done.stdout.decode()).splitlines()


def login(path: Path, user: str, password: str) -> tuple[str, ...]:
    """Return the Java client's login configuration. Since 3.9 it supports DIGEST-MD5 only without `fips-mode`."""
    file = path / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    file.write_text(f'Client {{ {module} username="{user}" password="{password}"; }};')
    return f"java.security.auth.login.config={file}", "zookeeper.fips-mode=false"


@apache.needs_apache
@needs_compiler
@pytest.mark.slow
async def test_the_java_client_logs_in_by_sasl(tmp_path: Path) -> None:
    async with secured(tmp_path / "ours", REQUIRED) as running:
        options = login(tmp_path, "bob", USERS["bob"])
        assert await java("Secure", running.hosts(), properties=options) == [
            "SaslAuthenticated",
            "1000000 [31,s{'sasl,'bob}",
            "]",
            "ip 127.0.0.1",
            "sasl bob",
        ]
        options = login(tmp_path, "bob", "a guess")
        assert await java("Secure", running.hosts(), properties=options) == ["AuthFailed"]


@apache.needs_apache
@pytest.mark.slow
async def test_our_side_of_sasl_against_apache_zookeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jaas.conf"
    users = "".join(f'user_{user}="{password}" ' for user, password in USERS.items() if "@" not in user)
    file.write_text(f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required {users}; }};")
    flags = f"-Djava.security.auth.login.config={file} -Dzookeeper.fips-mode=false -Dzookeeper.superUser=root"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", flags)
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    with apache.running(tmp_path, **{"authProvider.1": provider, "sessionRequireClientSASLAuth": "true"}) as server:
        for user, expected in (("bob", [("sasl", "bob")]), ("root", [("sasl", "root"), ("super", "")])):
            async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
                client = Client(stream)
                await client.connect()
                assert (await log_in(client, user, USERS[user]))[2] == 0
                assert sorted(await who(client)) == [("ip", "127.0.0.1"), *expected]
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            client = Client(stream)
            await client.connect()
            assert await log_in(client, "bob", "a guess") == (2, 0, -124, NULL)
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            client = Client(stream)
            await client.connect()
            assert await client.ask(encode_request(Op.EXISTS, 4, ("/", False))) == [(4, 0, -124, b"")]
