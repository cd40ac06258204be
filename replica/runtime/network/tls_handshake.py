"""TLS handshakes of clients and servers, and the principal of a client's certificate."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

import trio

from replica.core.security.principals import NoPrincipal, Principals
from replica.runtime.network.transport import Connect, connect_tcp
from replica.runtime.requests import ANONYMOUS
from zab.core.errors import WireError
from zab.net.tls.tls_stream import TlsStream
from zab.wire.certificates import subject_of

LINGER_S: Final = 1.0
"""The time that a refused peer has for closing the connection."""


async def accept_tls(
    stream: trio.SocketStream, tls: ssl.SSLContext, principals: Principals
) -> tuple[trio.abc.Stream, str]:
    """Return the encrypted stream of an accepted connection, and the client's principal.

    A client without a certificate is anonymous, unless certificates are required; then the handshake fails.
    """
    secure = TlsStream(stream, tls)
    try:
        await secure.handshake()
    except ssl.SSLError:
        await _linger(stream)
        raise
    certificate = secure.certificate
    if certificate is None:
        return secure, ANONYMOUS
    try:
        return secure, principals.of_subject(subject_of(certificate))
    except WireError as error:
        raise NoPrincipal(f"the client's certificate cannot be read: {error}") from error


async def _linger(stream: trio.abc.HalfCloseableStream) -> None:
    """End the sending side, and read until the peer closes the connection, for at most `LINGER_S`.

    Closing a socket with unread data would reset the connection and discard the TLS alert that tells the peer the
    reason.
    """
    with suppress(trio.BrokenResourceError), trio.move_on_after(LINGER_S):
        await stream.send_eof()
        while await stream.receive_some(64 << 10):
            pass


async def dial(host: str, port: int, tls: ssl.SSLContext | None, connect: Connect = connect_tcp) -> trio.abc.Stream:
    """Connect to a broker. Raise `ssl.SSLError` if the TLS handshake fails, after the broker had time to read
    the alert."""
    stream = await connect(host, port)
    if tls is None:
        return stream
    secure = TlsStream(stream, tls, server_side=False, server_hostname=host)
    try:
        try:
            await secure.handshake()
        except ssl.SSLError:
            await _linger(stream)
            raise
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secure
