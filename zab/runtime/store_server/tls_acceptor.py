"""The TLS handshake of a client connection, and the identity in the client's certificate.

A handshake costs a server more than a client. So the duration of a handshake and the number of those under way are
bounded, and plain text is recognized by its first byte. The log gives the reasons of failures, at a limited rate.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, TypeAlias

import trio

from zab.core.errors import WireError
from zab.net.half_open import HalfOpen
from zab.net.tls.certificate_hosts import is_for
from zab.net.tls.handshake_errors import reason_of
from zab.net.tls.reloading_context import ServerContexts
from zab.net.tls.tls_settings import ClientAuth, TlsPortSettings
from zab.net.tls.tls_stream import HANDSHAKE, TlsStream
from zab.service.authentication import subject_identities
from zab.store.acl import Identity
from zab.wire.certificates import require_library, subject_of

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

Admitted: TypeAlias = tuple[trio.abc.Stream, list[Identity]]
"""The stream of an accepted connection, and the identities that the client's certificate proves."""


class TlsAcceptor:
    """Accepts TLS connections, and with `plain_too` plain ones as well."""

    def __init__(self, server: ServerRuntime, settings: TlsPortSettings, *, plain_too: bool = False) -> None:
        if settings.client_auth is not ClientAuth.NONE:
            require_library()
        self._server = server
        self._settings = settings
        self._plain_too = plain_too
        self._contexts = ServerContexts(settings, server.log)
        self._under_way = HalfOpen()

    async def admit(self, stream: trio.SocketStream, host: str, peer: str) -> Admitted | None:
        """Return the stream, and the identities that the certificate proves; None: the caller must close the stream."""
        with trio.move_on_after(self._settings.detection_ms / 1000) as patience:
            try:
                first = await stream.socket.recv(1, trio.socket.MSG_PEEK)
            except OSError:
                return None
        if patience.cancelled_caught:
            return self._refused(host, peer, f"the client sent nothing for {self._settings.detection_ms} ms")
        if not first:
            return None  # a probe that only tests the port
        if first[0] == HANDSHAKE:
            return await self._shake(stream, host, peer)
        return (stream, []) if self._plain_too else self._refused(host, peer, "plain text on the TLS port")

    def _refused(self, host: str, peer: str, why: str) -> Admitted | None:
        self._server.clients.counts.auth_failed += 1
        self._server.clients.counts.unsuccessful_handshake += 1
        self._server.log.warn_rate_limited("handshake_failed", host, peer=peer, why=why)
        return None

    async def _shake(self, transport: trio.SocketStream, host: str, peer: str) -> Admitted | None:
        settings = self._settings
        counts = self._server.clients.counts
        if len(self._under_way) >= settings.handshakes_max:
            counts.tls_handshake_exceeded += 1
            self._under_way.make_room()
        counts.outstanding_tls_handshake += 1
        try:
            with self._under_way.entered(host):
                return await self._shaken(transport, host, peer)
            why = f"{settings.handshakes_max} handshakes are under way, and no address has more of them than this one"
            return self._refused(host, peer, why)
        finally:
            counts.outstanding_tls_handshake -= 1

    async def _shaken(self, transport: trio.SocketStream, host: str, peer: str) -> Admitted | None:
        settings = self._settings
        try:
            context = await self._contexts.current()
            stream = TlsStream(transport, context)
            with trio.move_on_after(settings.handshake_ms / 1000) as patience:
                await stream.handshake()
            if patience.cancelled_caught:
                return self._refused(host, peer, f"the handshake took longer than {settings.handshake_ms} ms")
            if settings.client_auth is ClientAuth.NONE or stream.certificate is None:
                return stream, []
            if settings.verify_client_host and not await is_for(stream, host, reverse_lookup=settings.reverse_lookup):
                return self._refused(host, peer, "certificate error: it does not name the address of the client")
            subject = subject_of(stream.certificate)
            return stream, subject_identities(subject, self._server.settings.security.x509_super)
        except ssl.SSLError as error:
            return self._refused(host, peer, reason_of(error))
        except (trio.BrokenResourceError, OSError):
            return self._refused(host, peer, "the connection broke during the handshake")
        except WireError as error:
            return self._refused(host, peer, f"certificate error: {error}")
