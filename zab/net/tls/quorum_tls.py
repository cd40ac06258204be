"""TLS between servers, as `ssl.quorum.*` sets it. The simpler `zab.TlsConfig` takes three files."""

from __future__ import annotations

import ssl
from functools import cached_property

from attrs import frozen

from zab.net.tls.tls_settings import TlsPortSettings


@frozen(slots=False)
class QuorumTls:
    """TLS between servers from `TlsPortSettings`. Each context reads the files at its first use, and not again."""

    settings: TlsPortSettings

    @property
    def check_hostname(self) -> bool:
        return self.settings.verify_server_host

    @property
    def check_client_hostname(self) -> bool:
        asked = self.settings.verify_client_host
        return self.settings.verify_server_host if asked is None else asked

    @cached_property
    def server_context(self) -> ssl.SSLContext:
        return self.settings.server_context()

    @cached_property
    def client_context(self) -> ssl.SSLContext:
        return self.settings.client_context()
