"""Wrong arguments of `connect` are reported precisely, before a server is dialled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import zab
from zab.client import dialing
from zab.core.errors import LocalProtocolError

PASSWORD = b"p" * 16


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"hosts": None}, TypeError, "hosts must be text, like .*, not NoneType"),
        ({"hosts": ["127.0.0.1:2181"]}, TypeError, "hosts must be text, like .*, not list"),
        ({"hosts": b"127.0.0.1:2181"}, TypeError, "hosts must be text, like .*, not bytes"),
        ({"timeout_ms": 1 << 40}, LocalProtocolError, "timeout_ms is 1099511627776"),
        ({"timeout_ms": 0}, LocalProtocolError, "timeout_ms is 0"),
        ({"timeout_ms": 1.5}, TypeError, "timeout_ms must be a whole number of milliseconds, not float"),
        ({"timeout_ms": "x"}, TypeError, "timeout_ms must be a whole number of milliseconds, not str"),
        ({"timeout_ms": True}, TypeError, "timeout_ms must be a whole number of milliseconds, not bool"),
        ({"wait_ms": "x"}, TypeError, "wait_ms must be a number of milliseconds"),
        ({"wait_ms": -1}, LocalProtocolError, "wait_ms is -1"),
        ({"auth": None}, TypeError, "auth must be a list of .*, not NoneType"),
        ({"auth": "digest"}, TypeError, "auth must be a list of .*, not str"),
        ({"auth": ("digest", b"u:hush")}, TypeError, "auth must be a list of .*an item of type str is not a pair"),
        ({"auth": [("digest", "u:hush")]}, TypeError, "credentials must be bytes, like .*, not str"),
        ({"auth": [(b"digest", b"u:hush")]}, TypeError, "a scheme must be text, like .*, not bytes"),
        ({"auth": [("digest", b"%d:x" % n) for n in range(65)]}, zab.Overloaded, "auths_max is 64"),
        ({"sasl": "bob"}, TypeError, "sasl must be .user, password."),
        ({"sasl": ("bob", 1)}, TypeError, "sasl must be .user, password."),
        ({"tls": True}, TypeError, "tls must be an ssl.SSLContext or a zab.ClientTls, not bool"),
        ({"reattach": 5}, TypeError, "reattach must be .id, password."),
        ({"reattach": (1 << 70, PASSWORD)}, LocalProtocolError, "is not a session id"),
        ({"reattach": (1, "p")}, TypeError, "reattach must be .id, password."),
        ({"settings": {}}, TypeError, "settings must be a zab.ClientSettings, not dict"),
    ],
)
async def test_of_connect(given: dict[str, Any], error: type[Exception], said: str) -> None:
    options = {"hosts": "127.0.0.1:1", "wait_ms": 200, **given}
    with pytest.raises(error, match=said) as caught:
        async with zab.connect(**options):
            raise AssertionError("nobody gets in")
    assert "hush" not in str(caught.value)


async def test_of_a_session_in_this_process(tmp_path: Path) -> None:
    async with zab.open_store(tmp_path) as store:
        for timeout_ms, error in ((-1, LocalProtocolError), (0, LocalProtocolError), (1 << 40, LocalProtocolError)):
            with pytest.raises(error, match=f"timeout_ms is {timeout_ms}"):
                store.session(timeout_ms=timeout_ms)
        for wrong in (None, "x", 1.5, True):
            with pytest.raises(TypeError, match="timeout_ms must be a whole number of milliseconds"):
                store.session(timeout_ms=wrong)  # type: ignore[arg-type]


async def test_credentials_that_are_text_end_no_session(tmp_path: Path) -> None:
    async with (
        zab.open_store(tmp_path, client_port=0) as store,
        zab.connect(f"127.0.0.1:{store.client_port}") as session,
    ):
        with pytest.raises(TypeError, match="credentials must be bytes"):
            await session.add_auth("digest", "me:secret")  # type: ignore[arg-type]
        await session.add_auth("digest", b"me:secret")
        await session.sync()


async def test_identity_can_be_repeated_at_the_limit(tmp_path: Path) -> None:
    async with (
        zab.open_store(tmp_path, client_port=0) as store,
        zab.connect(f"127.0.0.1:{store.client_port}", settings=zab.ClientSettings(auths_max=1)) as session,
    ):
        for _ in range(2):
            await session.add_auth("digest", b"me:secret")
        with pytest.raises(zab.Overloaded, match="auths_max is 1"):
            await session.add_auth("digest", b"you:secret")


async def test_a_dial_that_fails_closes_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the failure comes after the connection: no other code could close it."""

    streams: list[trio.SocketStream] = []

    def fails(stream: trio.SocketStream, silence_ms: int) -> None:
        streams.append(stream)
        raise OSError("this socket cannot be tuned")

    monkeypatch.setattr(dialing, "tune", fails)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        (address,) = await dialing.addresses_of("127.0.0.1", listener.socket.getsockname()[1])
        with pytest.raises(OSError, match="cannot be tuned"):
            await dialing.dial(address, None, 1_000)
    assert streams[0].socket.fileno() == -1
