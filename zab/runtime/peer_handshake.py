"""The greeting at the beginning of every connection between servers, at both ends. Each end has a time limit."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import trio

from zab.core.errors import WireError
from zab.core.zxid import ServerId
from zab.net.failed_dial import dial_reason
from zab.net.tls.certificate_hosts import names_host
from zab.net.tls.handshake_errors import is_tls_error, reason_of
from zab.net.tls.tls_stream import TlsStream
from zab.wire.frames import FrameReader
from zab.wire.greeting import GREETING_BYTES_MAX, VERSION, Hello, Purpose, Unwelcome, Welcome, WrongPeer, accept, admit
from zab.wire.peer import Channel, PeerMessage, decode, encode

UNREACHABLE: Final = (OSError, WireError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""The errors of a dial or a greeting: a server is down, unreachable, too slow or refused, or breaks the protocol."""


def described(error: BaseException) -> str:
    """Return the reason for a failed dial or greeting, or a broken link, as text for the log.

    If the error has a cause, like most errors of Trio, the text is that of the cause.
    """
    if isinstance(error, trio.TooSlowError):
        return "no answer in time"
    if is_tls_error(error):
        return reason_of(error)
    cause = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):  # one for each address of the host
        cause = cause.exceptions[0]
    return dial_reason(cause) or type(cause).__name__


_TLS: Final = (b"\x15", b"\x16")
"""The first byte of a TLS alert and of a TLS handshake. The next byte of both is 0x03, the first of TLS's version.

No greeting begins with these two bytes: they would be the upper half of its length, which would be over 350 megabytes.
"""


class PeerHandshake:
    """The greeting of this server: the messages that it sends to other servers, and the checks of theirs."""

    def __init__(
        self,
        me: ServerId,
        ensemble: str,
        timeout_ms: int,
        hosts: Callable[[Hello], Collection[str]],
    ) -> None:
        """`hosts` returns the hosts of a server that has sent a hello, or raises `WrongPeer` if it may not connect."""
        self.me = me
        self.ensemble = ensemble
        self._host, self._port = "", 0
        """The address of this server's election port, which it sends in its hello, so that others can dial it."""
        self._timeout_s = timeout_ms / 1000
        self._hosts = hosts

    def listen_at(self, host: str, port: int) -> None:
        """Send this address of the election port from now on."""
        self._host, self._port = host, port

    async def call(self, stream: trio.abc.Stream, peer: ServerId, purpose: Purpose) -> None:
        """Greet at the dialling end. Return when the other end has accepted this server and answered as `peer`.

        Otherwise raise one of `UNREACHABLE`.
        """
        with trio.fail_after(self._timeout_s):
            hello = Hello(VERSION, self.ensemble, self.me, purpose.value, self._host, self._port)
            await stream.send_all(encode(hello))
            accept(await _receive_one(stream), peer)

    async def answer(self, stream: trio.abc.Stream, purpose: Purpose) -> Hello:
        """Greet at the listening end, and return the hello of the other end.

        If the other end is refused, send it the reason, and raise `WrongPeer`. If the greeting fails in another way,
        raise another of `UNREACHABLE`.
        """
        with trio.fail_after(self._timeout_s):
            try:
                hello = admit(await _receive_one(stream), self.me, self.ensemble, purpose)
                self._check_claim(hello, stream)
            except WrongPeer as error:
                await stream.send_all(encode(Unwelcome(str(error))))
                raise
            await stream.send_all(encode(Welcome(VERSION, self.me)))
            return hello

    def _check_claim(self, hello: Hello, stream: trio.abc.Stream) -> None:
        """Raise `WrongPeer` unless the server may connect and its certificate, if checked, names one of its hosts.

        Without TLS, any host can claim to be a member.
        """
        hosts = self._hosts(hello)
        if not isinstance(stream, TlsStream) or not stream.checks_claim:
            return
        if not any(names_host(stream, host) for host in hosts):
            shown = ", ".join(name for _, name in stream.names) or "no host"
            raise WrongPeer(
                f"certificate error: it claims to be server {hello.server}, at {' or '.join(hosts)}, but its "
                f"certificate names {shown}"
            )


async def _receive_one(stream: trio.abc.Stream) -> PeerMessage:
    """Receive exactly the greeting: the bytes after it belong to the link."""
    reader = FrameReader(GREETING_BYTES_MAX)
    while True:
        data = await stream.receive_some(reader.missing_bytes)
        if not data:
            raise WireError("the connection was closed during the greeting")
        if not reader.held_bytes and data[:1] in _TLS and data[1:2] == b"\x03":
            raise WireError(
                "the other side speaks TLS, and this one does not: `sslQuorum` (`tls` of a member) differs between them"
            )
        for payload in reader.feed(data):
            message: PeerMessage = decode(Channel.GREETING, payload)
            return message
