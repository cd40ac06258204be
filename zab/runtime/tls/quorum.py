"""TLS between servers by the settings of a port, where `zab.TlsConfig` takes three files."""

from __future__ import annotations

import ssl
from functools import cached_property

from attrs import frozen

from zab.runtime.tls.hosts import is_for
from zab.runtime.tls.settings import TlsPortSettings
from zab.runtime.tls.stream import TlsStream


@frozen(slots=False)
class QuorumTls:
    """The files are read when a context is first looked at, and not again."""

    settings: TlsPortSettings

    @property
    def check_hostname(self) -> bool:
        return self.settings.verify_server_host

    async def vet(self, stream: TlsStream) -> bool:
        """Whether whoever dialled us shows a certificate for where it comes from."""
        if not self.settings.verify_client_host:
            return True
        host = stream.transport_stream.socket.getpeername()[0]
        return await is_for(stream, host, reverse_lookup=self.settings.reverse_lookup)

    @cached_property
    def server_context(self) -> ssl.SSLContext:
        return self.settings.server_context()

    @cached_property
    def client_context(self) -> ssl.SSLContext:
        return self.settings.client_context()
