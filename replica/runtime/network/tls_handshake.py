"""TLS on a stream, and whom the certificate at its other end is about."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

import trio

from replica.core.principals import NoPrincipal, Principals
from replica.runtime.requests import ANONYMOUS
from zab.core.errors import WireError
from zab.net.tls.tls_stream import TlsStream
from zab.wire.certificates import subject_of

PARTING_S: Final = 1.0
"""For who was turned away to hang up."""


async def accept_tls(
    stream: trio.SocketStream, tls: ssl.SSLContext, principals: Principals
) -> tuple[trio.abc.Stream, str]:
    """At the side that was dialled. Without a certificate one is anonymous: who must have one, the handshake says."""
    secure = TlsStream(stream, tls)
    try:
        await secure.handshake()
    except ssl.SSLError:
        await _part(stream)
        raise
    certificate = secure.certificate
    if certificate is None:
        return secure, ANONYMOUS
    try:
        return secure, principals.of_subject(subject_of(certificate))
    except WireError as error:
        raise NoPrincipal(f"its certificate cannot be read: {error}") from error


async def _part(stream: trio.SocketStream) -> None:
    """It was told why by an alert. If it has asked something meanwhile that nobody reads, the connection would end in a
    reset, which takes what was told with it."""
    with suppress(trio.BrokenResourceError), trio.move_on_after(PARTING_S):
        await stream.send_eof()
        while await stream.receive_some(64 << 10):
            pass


async def dial(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Who is not believed there is told why, by an alert, and so is the caller, by an `ssl.SSLError`."""
    stream = await trio.open_tcp_stream(host, port)
    if tls is None:
        return stream
    secure = TlsStream(stream, tls, server_side=False, server_hostname=host)
    try:
        try:
            await secure.handshake()
        except ssl.SSLError:
            await _part(stream)
            raise
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secure
