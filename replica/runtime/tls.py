"""TLS on a stream, and whom the certificate at its other end is about."""

from __future__ import annotations

import ssl

import trio

from replica.core.principals import NoPrincipal, Principals
from replica.runtime.requests import ANONYMOUS
from zab.core.errors import WireError
from zab.wire.x509 import subject_of


async def secured(
    stream: trio.SocketStream, tls: ssl.SSLContext, principals: Principals
) -> tuple[trio.abc.Stream, str]:
    """At the side that was dialled. Without a certificate one is anonymous: who must have one, the handshake says."""
    secure = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
    await secure.do_handshake()
    certificate: bytes | None = secure.getpeercert(binary_form=True)
    if certificate is None:
        return secure, ANONYMOUS
    try:
        return secure, principals.of_subject(subject_of(certificate))
    except WireError as error:
        raise NoPrincipal(f"its certificate cannot be read: {error}") from error


async def dialled(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    stream = await trio.open_tcp_stream(host, port)
    if tls is None:
        return stream
    secure = trio.SSLStream(stream, tls, server_hostname=host)
    try:
        await secure.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(secure)
        raise
    return secure
