"""Commands log in to ports that require certificates and passwords, and report missing credentials."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import trio

from replica.cli import main
from replica.cli.command_config import read_command_config
from replica.core.security.principals import Principals
from replica.runtime.authentication.sasl_authenticator import SaslSettings, sasl_security
from replica.runtime.logs import Log
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.requests import ApiKey, Handlers, Request
from tests.integration.certificates import PASSWORD, Authority
from tests.kafka_bodies import typed
from zab.cli.kit.failures import Misused

JAAS = (
    'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="hers";'
)


HINT = "closed the connection; if it requires TLS or authentication, use --tls, --cert, --login, or --command-config"


UNBELIEVED = "the broker rejected the handshake; it may require a client certificate that it trusts"


def answering(number: int) -> Handlers:
    async def metadata(request: Request[Any]) -> Any:
        unknown = [{"error_code": 3, "name": topic["name"], "partitions": []} for topic in request.body["topics"] or ()]
        return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": number}], "controller_id": 1, "topics": unknown}

    async def groups(request: Request[Any]) -> Any:
        return {"error_code": 0, "groups": [{"group_id": f"of {request.principal}", "group_state": "Empty"}]}

    return typed({ApiKey.METADATA: metadata, ApiKey.LIST_GROUPS: groups})


@contextmanager
def broker(tls: ssl.SSLContext | None, *, asks: bool = False) -> Iterator[str]:
    """One that lists a group, in a thread of its own; where it listens."""
    ready, told = Event(), list[Any]()

    async def run() -> None:
        handlers: dict[ApiKey, object] = {}
        sasl = SaslSettings(users={"ann": "hers"})

        async def unknown_user(name: str, mechanism: object) -> None:
            raise AssertionError

        security = {"security": sasl_security(sasl, unknown_user, b"s")} if asks else {}  # type: ignore[arg-type]
        port = ClientListener("IN", "127.0.0.1", 0, handlers, Log(1), tls=tls, principals=Principals(), **security)  # type: ignore[arg-type]
        number = await port.bind()
        handlers.update(answering(number))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(port.run)
            told.extend([number, trio.lowlevel.current_trio_token(), nursery.cancel_scope])
            ready.set()

    thread = Thread(target=trio.run, args=(run,))
    thread.start()
    assert ready.wait(60)
    number, token, scope = told
    try:
        yield f"127.0.0.1:{number}"
    finally:
        trio.from_thread.run_sync(scope.cancel, trio_token=token)
        thread.join()


def said(capsys: pytest.CaptureFixture[str], hosts: str, *words: object, within_s: int = 120) -> tuple[int, str]:
    code = main(["groups", "list", "--bootstrap", hosts, "--within", f"{within_s}", *map(str, words)])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def refused(capsys: pytest.CaptureFixture[str], hosts: str, why: str, *words: object) -> str:
    """It tries for as long as it may. Where a busy machine let it hear no answer in that time, it may for longer."""
    shown = ""
    for within_s in (2, 20, 120):
        code, shown = said(capsys, hosts, *words, within_s=within_s)
        assert code == 1, shown
        if why in shown:
            break
    assert why in shown
    return shown


def server_of(authority: Authority, *, wants: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue("broker", "127.0.0.1").load_key(context)
    if wants:
        authority.trust.load_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_a_listener_that_wants_a_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    ann = authority.issue("ann")
    sealed = authority.as_protected_pem(ann)
    ca = authority.trust.path
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.location={ca}\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={sealed.path}\nssl.key.password={PASSWORD}\nacks=all\n"
    )
    with broker(server_of(authority, wants=True)) as hosts:
        refused(capsys, hosts, UNBELIEVED, "--ca", ca)
        code, shown = said(capsys, hosts, "--ca", ca, "--cert", ann.path)
        assert (code, "of User:CN=ann" in shown) == (0, True), shown
        code, shown = said(capsys, hosts, "--command-config", file)
        assert (code, "of User:CN=ann" in shown) == (0, True), shown
        refused(capsys, hosts, HINT)
        code, shown = said(capsys, hosts, "--ca", ca, "--cert", sealed.path)
        assert (code, "set ssl.key.password in the file of --command-config" in shown) == (2, True), shown


def test_broker_gives_the_reason_of_a_disconnection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    context = server_of(authority, wants=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # later ones say it behind the handshake, which may be too late
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    dialled, _ = listener.accept()
                except OSError:
                    return
                with dialled, suppress(OSError):
                    context.wrap_socket(dialled, server_side=True).close()

        thread = Thread(target=accept)
        thread.start()
        try:
            hosts = f"127.0.0.1:{listener.getsockname()[1]}"
            shown = refused(capsys, hosts, UNBELIEVED, "--ca", authority.trust.path)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert "use --cert, or ssl.keystore.location in the file of --command-config" in shown


def test_a_listener_that_wants_a_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    file = tmp_path / "client.properties"
    with broker(server_of(authority, wants=False), asks=True) as hosts:
        file.write_text(
            f"bootstrap.servers={hosts}\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n{JAAS}\n"
            f"ssl.truststore.location={authority.trust.path}\n"
        )
        code = main(["groups", "list", "--command-config", str(file)])
        shown = capsys.readouterr()
        assert (code, "of User:ann" in shown.out) == (0, True), shown
        hint = (
            "requires TLS or authentication, use --cert, --login, or --command-config; or the listener does not use TLS"
        )
        refused(capsys, hosts, hint, "--ca", authority.trust.path)
        code, _ = said(capsys, hosts, "--command-config", file, "--login", "PLAIN:ann:another", within_s=2)
        assert code == 1, "what is said beside the file goes before it"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["security.protocol=TLS"], ":1: security.protocol=TLS: expected one of PLAINTEXT, SSL"),
        (["ssl.engine.factory.class=x"], "unknown key about security: ignoring it would not be safe"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI"], "sasl.mechanism=GSSAPI: expected one of PLAIN"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"], "username and password missing"),
        (["security.protocol=SSL", "ssl.keystore.location=/x"], "ssl.keystore.location=/x: /x: No such file"),
        (["bootstrap.servers=h"], "'h' is not of the form host:port"),
    ],
)
def test_configuration_file_without_a_mechanism(tmp_path: Path, lines: list[str], why: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("\n".join(lines))
    with pytest.raises(Misused) as caught:
        read_command_config(file)
    assert why in str(caught.value)
    with pytest.raises(Misused, match="cannot read the file: No such file"):
        read_command_config(tmp_path / "nothing")
