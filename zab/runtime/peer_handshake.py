"""The greeting at the beginning of every connection between servers, at both ends. Each end has a time limit."""

from __future__ import annotations

from typing import Final

import trio

from zab.core.errors import WireError
from zab.core.messages import Notification
from zab.core.zxid import ServerId
from zab.net.failed_dial import dial_reason
from zab.net.tls.handshake_errors import is_tls_error, reason_of
from zab.runtime.peer_protocol import Introduction, KnownHosts, check_claim
from zab.service.limits import Limits
from zab.wire.frames import FrameReader
from zab.wire.greeting import GREETING_BYTES_MAX, VERSION, Hello, Purpose, Unwelcome, Welcome, WrongPeer, accept, admit
from zab.wire.link_codec import FrameCodec
from zab.wire.peer import Channel, PeerMessage, decode, encode


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
    """Our own protocol on the links of this server: a `PeerProtocol`."""

    def __init__(self, me: ServerId, ensemble: str, limits: Limits, hosts: KnownHosts) -> None:
        self.me = me
        self.ensemble = ensemble
        self._host, self._port = "", 0
        """The address of this server's election port, which it sends in its hello, so that others can dial it."""
        self._limits = limits
        self._timeout_s = limits.handshake_ms / 1000
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

    async def answer(self, stream: trio.abc.Stream, purpose: Purpose) -> Introduction:
        """Greet at the listening end, and return the introduction of the other end.

        If the other end is refused, send it the reason, and raise `WrongPeer`. If the greeting fails in another way,
        raise another of `UNREACHABLE`.
        """
        with trio.fail_after(self._timeout_s):
            try:
                hello = admit(await _receive_one(stream), self.me, self.ensemble, purpose)
                introduced = Introduction(hello.server, hello.host, hello.port)
                check_claim(introduced, self._hosts(introduced), stream)
            except WrongPeer as error:
                await stream.send_all(encode(Unwelcome(str(error))))
                raise
            await stream.send_all(encode(Welcome(VERSION, self.me)))
            return introduced

    def codec(self, *, dialled: bool) -> FrameCodec:
        return FrameCodec(self._limits, dialled=dialled)

    def encode_vote(self, vote: Notification) -> bytes:
        return encode(vote)

    def decode_vote(self, payload: bytes) -> Notification:
        vote: Notification = decode(Channel.ELECTION, payload)
        return vote


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
