"""SASL at the beginning of connections between servers of Apache ZooKeeper, at both ends: see `zab.wire.apache`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Final

import trio

from zab.core.errors import WireError
from zab.service.zookeeper_peers import QuorumSasl
from zab.wire.apache.quorum_auth import (
    FIRST_PACKET,
    MAGIC_BYTES,
    REFUSAL,
    AcceptorAuth,
    AuthPacket,
    AuthReader,
    DiallerAuth,
    encode_auth,
)
from zab.wire.greeting import WrongPeer
from zab.wire.sasl import SaslError

NONCE_BYTES: Final = 24


class QuorumAuth:
    """Proves the identity of this server to servers that it dials, and checks that of servers that dial it."""

    def __init__(self, sasl: QuorumSasl, random_bytes: Callable[[int], bytes]) -> None:
        self._sasl = sasl
        self._random_bytes = random_bytes

    def _nonce(self) -> bytes:
        return b64encode(self._random_bytes(NONCE_BYTES))

    async def prove(self, stream: trio.abc.Stream) -> None:
        """Log in at the dialling end, if this server has a login. Raise `SaslError` if the other end refuses it."""
        if self._sasl.login is None:
            return
        exchange = DiallerAuth(*self._sasl.login, self._nonce())
        answer: AuthPacket | None = FIRST_PACKET
        while answer is not None:
            await stream.send_all(encode_auth(answer))
            answer = exchange.step(await _receive(stream))

    async def check(self, stream: trio.abc.Stream) -> bytes:
        """Let the dialling end log in. Return bytes that were read and belong to the link.

        Raise `WrongPeer` if it does not, although it must, or if it fails. A dialler that only knocks at an election
        port closes the connection at once.
        """
        head = b""
        while len(head) < len(MAGIC_BYTES) and (data := await stream.receive_some(len(MAGIC_BYTES) - len(head))):
            head += data
        if head != MAGIC_BYTES:
            if self._sasl.required:
                raise WrongPeer("the other side does not log in, and quorum.auth.serverRequireSasl is on")
            return head
        exchange, packet = AcceptorAuth(self._sasl.users, self._nonce()), await _receive(stream, head)
        try:
            while True:
                await stream.send_all(encode_auth(exchange.step(packet)))
                if exchange.complete:
                    return b""
                packet = await _receive(stream)
        except SaslError as error:
            await stream.send_all(encode_auth(REFUSAL))
            raise WrongPeer(f"SASL: {error}") from None


async def _receive(stream: trio.abc.Stream, held: bytes = b"") -> AuthPacket:
    """Receive exactly one packet: the bytes after it belong to the link."""
    reader = AuthReader(held)
    while True:
        data = await stream.receive_some(reader.missing_bytes)
        if not data:
            raise WireError("the connection was closed during the authentication")
        packet = reader.feed(bytes(data))
        if packet is not None:
            return packet
