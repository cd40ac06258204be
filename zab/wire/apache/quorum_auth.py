"""SASL between servers of Apache ZooKeeper: the packets, and the exchange of DIGEST-MD5 at both ends of a connection.

The dialling end proves that it knows a user's password, and the accepting end that it knows it, too. On an election
connection the exchange follows the opening, on a link to a leader it is the first thing. Nothing has a length in front:

    magic, status, token

    dialler                     acceptor
    IN_PROGRESS, empty     ->
                           <-   IN_PROGRESS, challenge
    IN_PROGRESS, response  ->
                           <-   SUCCESS, proof   (ERROR, empty, if the acceptor refuses)

No frame and no packet begins like the magic, so an acceptor that does not insist tells a dialler without SASL by these
eight bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from typing import Final

from attrs import frozen

from zab.core.errors import WireError
from zab.wire.sasl import RESPONSE_BYTES_MAX, DigestClient, DigestServer, SaslError

MAGIC: Final = 0x5F2435013501EDCC
MAGIC_BYTES: Final = MAGIC.to_bytes(8, "big")
SERVICE: Final = "zookeeper-quorum"
HOST: Final = "zk-quorum-sasl-md5"
"""The host name and the realm in every exchange between servers."""
_HEAD: Final = Struct(">qii")


class AuthStatus(IntEnum):
    IN_PROGRESS = 0
    SUCCESS = 1
    ERROR = -1


@frozen
class AuthPacket:
    status: AuthStatus
    token: bytes


def encode_auth(packet: AuthPacket) -> bytes:
    return _HEAD.pack(MAGIC, packet.status, len(packet.token)) + packet.token


class AuthReader:
    """Read one packet."""

    def __init__(self, held: bytes = b"") -> None:
        """`held`: bytes of the packet that were read before."""
        self._held = held

    @property
    def missing_bytes(self) -> int:
        """The number of bytes that may be received without reading past the packet."""
        held = self._held
        return _HEAD.size + (max(0, _HEAD.unpack_from(held)[2]) if len(held) >= _HEAD.size else 0) - len(held)

    def feed(self, data: bytes) -> AuthPacket | None:
        """Return the packet, or None if it is not complete yet. Raise `WireError` if it is malformed."""
        held = self._held = self._held + data
        if len(held) < _HEAD.size:
            return None
        magic, number, length = _HEAD.unpack_from(held)
        if magic != MAGIC:
            raise WireError("no SASL of servers in the place of an authentication")
        if not -1 <= length <= RESPONSE_BYTES_MAX:
            raise WireError(f"a token of {length} bytes: at most {RESPONSE_BYTES_MAX} are allowed")
        if len(held) < _HEAD.size + length:
            return None
        try:
            status = AuthStatus(number)
        except ValueError:
            raise WireError(f"{number} is no status of an authentication") from None
        return AuthPacket(status, held[_HEAD.size :])


class DiallerAuth:
    """The exchange at the dialling end. It sends `FIRST_PACKET` first."""

    def __init__(self, user: str, password: str, cnonce: bytes) -> None:
        self._exchange = DigestClient(user, password, cnonce, SERVICE, HOST)

    @property
    def complete(self) -> bool:
        """True once both ends have proved that they know the password."""
        return self._exchange.complete

    def step(self, packet: AuthPacket) -> AuthPacket | None:
        """Return the answer to a packet; None if the exchange is complete. Raise `SaslError` if it failed."""
        if packet.status is AuthStatus.ERROR:
            raise SaslError("the other side refused the user or the password of this server")
        response = self._exchange.step(packet.token)
        if self.complete != (packet.status is AuthStatus.SUCCESS):
            raise SaslError(f"the other side sent the status {packet.status.name} at a wrong time")
        return None if self.complete else AuthPacket(AuthStatus.IN_PROGRESS, response)


class AcceptorAuth:
    """The exchange at the accepting end. If it fails, the caller sends `REFUSAL` and closes the connection."""

    def __init__(self, users: Mapping[str, str], nonce: bytes) -> None:
        self._exchange = DigestServer(nonce, users.get, HOST, SERVICE, HOST)

    @property
    def complete(self) -> bool:
        """True once the dialling end has proved that it knows the password of a user."""
        return self._exchange.complete

    def step(self, packet: AuthPacket) -> AuthPacket:
        """Return the answer to a packet, or raise `SaslError` if the exchange failed."""
        if packet.status is not AuthStatus.IN_PROGRESS:
            raise SaslError(f"the other side sent the status {packet.status.name}")
        answer = self._exchange.step(packet.token)
        return AuthPacket(AuthStatus.SUCCESS if self.complete else AuthStatus.IN_PROGRESS, answer)


FIRST_PACKET: Final = AuthPacket(AuthStatus.IN_PROGRESS, b"")
REFUSAL: Final = AuthPacket(AuthStatus.ERROR, b"")
