"""The port to a protocol between servers: how a connection begins, and the bytes of its messages.

There are two protocols: our own (`zab.runtime.peer_handshake`), and that of Apache ZooKeeper
(`zab.runtime.zookeeper_handshake`). All links of a server speak the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol, TypeAlias

import trio
from attrs import frozen

from zab.core.errors import WireError
from zab.core.messages import Notification
from zab.core.zxid import ServerId
from zab.net.tls.certificate_hosts import names_host
from zab.net.tls.tls_stream import TlsStream
from zab.wire.greeting import Purpose, WrongPeer
from zab.wire.link_codec import LinkCodec

UNREACHABLE: Final = (OSError, WireError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""The errors of a dial or a greeting: a server is down, unreachable, too slow or refused, or breaks the protocol."""


@frozen
class Introduction:
    """A server that has connected, as it introduced itself."""

    server: ServerId
    host: str = ""
    port: int = 0
    """The address of its election port; empty and 0 if it gave none."""
    first: bytes = b""
    """Bytes that were read with the introduction, and that belong to the link."""


KnownHosts: TypeAlias = Callable[[Introduction], Collection[str]]
"""Returns the hosts of a server that has introduced itself, or raises `WrongPeer` if it may not connect."""


class PeerProtocol(Protocol):
    """A protocol between servers, with the settings of this server."""

    def listen_at(self, host: str, port: int) -> None:
        """Introduce this server with this address of its election port from now on."""

    async def call(self, stream: trio.abc.Stream, peer: ServerId, purpose: Purpose) -> None:
        """Introduce this server at the dialling end. Raise one of `UNREACHABLE` if the other end refuses it."""

    async def answer(self, stream: trio.abc.Stream, purpose: Purpose) -> Introduction:
        """Let the other end introduce itself. Raise one of `UNREACHABLE` if it fails to, or may not connect."""
        ...

    def codec(self, *, dialled: bool) -> LinkCodec:
        """Return the codec of a new learner link; `dialled`: this server is the learner."""
        ...

    def encode_vote(self, vote: Notification) -> bytes:
        """Return the whole frame of a message on an election link."""
        ...

    def decode_vote(self, payload: bytes) -> Notification:
        """Return the message in a frame of an election link, or raise `WireError`."""
        ...


def check_claim(introduced: Introduction, hosts: Collection[str], stream: trio.abc.Stream) -> None:
    """Raise `WrongPeer` unless the certificate of the other end, if checked, names one of the hosts of that server.

    Without TLS, any host can claim to be a member.
    """
    if not isinstance(stream, TlsStream) or not stream.checks_claim:
        return
    if not any(names_host(stream, host) for host in hosts):
        shown = ", ".join(name for _, name in stream.names) or "no host"
        raise WrongPeer(
            f"certificate error: it claims to be server {introduced.server}, at {' or '.join(hosts)}, but its "
            f"certificate names {shown}"
        )
