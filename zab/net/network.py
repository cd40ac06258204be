"""Streams between servers: TCP, with or without TLS. A simulation has another `Network`."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from os import PathLike
from typing import Protocol

import trio
from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.net.tls.key_stores import StoreFile, load_pair
from zab.net.tls.tls_stream import TlsStream

NOTSENT_BYTES: int = 256 << 10
"""The unsent bytes above which a sender waits for the kernel. With Trio's 16 KiB, a larger batch goes out in pieces."""


class Network(Protocol):
    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Connect, without the handshake of TLS. The name is resolved again at every call, because servers move."""
        ...

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]: ...


@checks_arguments
@frozen(slots=False)
class TlsConfig:
    """TLS between servers, with certificates at both ends, each signed by `ca`. The files are in PEM format.

    cert  the certificate of this server, and the chain to its authority
    key   the key of this server
    ca    the authorities that may sign the certificates of servers

    With `check_hostname` a certificate must also name the host of its server. A dialling server checks for the host
    that it dialled, and an accepting server for the host of the member that the other end claims to be. Without this
    check, every holder of a certificate signed by `ca` may pose as any server: `ca` must sign for servers only.
    """

    cert: str | PathLike[str]
    key: str | PathLike[str]
    ca: str | PathLike[str]
    check_hostname: bool = True

    @property
    def check_client_hostname(self) -> bool:
        """True if a dialling server's certificate must name the host of the member that the server claims to be."""
        return self.check_hostname

    @property
    def plain_too(self) -> bool:
        """False: every link has TLS."""
        return False

    @cached_property
    def server_context(self) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_SERVER)

    @cached_property
    def client_context(self) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        return context

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if protocol == ssl.PROTOCOL_TLS_CLIENT:
            context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        load_pair(context, str(self.cert), str(self.key))
        StoreFile(str(self.ca)).load_trust(context)
        return context


class LinkTls(Protocol):
    """TLS between servers. Each context is made once, at its first use; `ConfigError` names a file that is wrong."""

    @property
    def check_hostname(self) -> bool: ...
    @property
    def check_client_hostname(self) -> bool:
        """True if a dialling server's certificate must name the host of the member that the server claims to be."""

    @property
    def plain_too(self) -> bool:
        """True if ports accept servers without TLS as well."""

    @property
    def server_context(self) -> ssl.SSLContext: ...
    @property
    def client_context(self) -> ssl.SSLContext | None:
        """The context for dialling; None: this server dials without TLS."""


class TcpNetwork:
    """Real sockets. The kernel ends a connection if the peer does not acknowledge sent data for `silence_ms`.

    Learner links clear this limit, because their protocol has one: see `leave_silence_to_protocol`.
    """

    def __init__(self, tls: LinkTls | None = None, silence_ms: int = 10_000) -> None:
        self._silence_ms = silence_ms
        self._check_hostname = tls is not None and tls.check_hostname
        self._check_client_hostname = tls is not None and tls.check_client_hostname
        self._plain_too = tls is not None and tls.plain_too
        # The contexts are made here, so that a bad file is reported at the start and not at the first peer.
        self._client_context = None if tls is None else tls.client_context
        self._server_context = None if tls is None else tls.server_context

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(host, port)
        tune(stream, self._silence_ms)
        if self._client_context is None:
            return stream
        name = host if self._check_hostname else None
        return TlsStream(stream, self._client_context, server_side=False, server_hostname=name)

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        plain = await trio.open_tcp_listeners(port, host=host)
        tuned = [TunedListener(listener, self._silence_ms) for listener in plain]
        if self._server_context is None:
            return tuned
        context, checks_claim, plain_too = self._server_context, self._check_client_hostname, self._plain_too
        return [TlsListener(listener, context, checks_claim, plain_too) for listener in tuned]


class TunedListener(trio.abc.Listener[trio.SocketStream]):
    def __init__(self, listener: trio.SocketListener, silence_ms: int) -> None:
        self._listener = listener
        self._silence_ms = silence_ms

    async def accept(self) -> trio.SocketStream:
        stream = await self._listener.accept()
        tune(stream, self._silence_ms)
        return stream

    async def aclose(self) -> None:
        await self._listener.aclose()


class TlsListener(trio.abc.Listener[TlsStream]):
    """A listener for TLS. The task that takes the stream does the handshake, within the time limit of the greeting.

    `checks_claim` and `plain_too` are those of its streams.
    """

    def __init__(self, listener: TunedListener, context: ssl.SSLContext, checks_claim: bool, plain_too: bool) -> None:
        self._listener = listener
        self._checks_claim = checks_claim
        self._plain_too = plain_too
        self._context = context

    async def accept(self) -> TlsStream:
        stream = await self._listener.accept()
        return TlsStream(stream, self._context, checks_claim=self._checks_claim, plain_too=self._plain_too)

    async def aclose(self) -> None:
        await self._listener.aclose()


def leave_silence_to_protocol(stream: trio.abc.Stream) -> None:
    """Clear the `TCP_USER_TIMEOUT` that `tune` has set, on a stream whose protocol detects a dead peer itself.

    The timeout also counts the time in which the peer has no room for more data, even if the peer answers every probe.
    So the kernel could end a transfer to a peer that reads slowly, although the transfer makes progress.
    """
    raw = stream.transport_stream if isinstance(stream, TlsStream) else stream
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None and isinstance(raw, trio.SocketStream):
        with suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, option, 0)


def tune(stream: trio.SocketStream, silence_ms: int) -> None:
    """Set the socket options for low delay, and those that end a connection whose peer is silent for `silence_ms`.

    Not every system has all of them, and correctness needs none.
    """
    options = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.IPPROTO_TCP, "TCP_NOTSENT_LOWAT", NOTSENT_BYTES),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", silence_ms),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", max(1, silence_ms // 2000)),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", max(1, silence_ms // 4000)),
    ]
    for level, name, value in options:
        option = getattr(socket, name, None)
        if option is not None:
            with suppress(OSError):
                stream.setsockopt(level, option, value)
