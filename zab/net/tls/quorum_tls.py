"""TLS between servers, as `sslQuorum`, `portUnification` and `ssl.quorum.*` set it.

A running ensemble takes TLS up in three rolling restarts: first all ports accept both, then all servers dial with TLS,
then no port accepts plain text. The simpler `zab.TlsConfig` takes three files.
"""

from __future__ import annotations

import ssl
from functools import cached_property

from attrs import frozen

from zab.net.tls.tls_settings import TlsPortSettings


@frozen(slots=False)
class QuorumTls:
    """TLS between servers from `TlsPortSettings`. Each context reads the files at its first use, and not again.

    dials  whether this server dials others with TLS; if not, its ports accept both kinds
    """

    settings: TlsPortSettings
    dials: bool = True

    @property
    def plain_too(self) -> bool:
        return self.settings.unify

    @property
    def check_hostname(self) -> bool:
        return self.settings.verify_server_host

    @property
    def check_client_hostname(self) -> bool:
        asked = self.settings.verify_client_host
        return self.settings.verify_server_host if asked is None else asked

    @cached_property
    def server_context(self) -> ssl.SSLContext:
        context = self.settings.server_context()
        # No server resumes a session. A dialler that closes at once, after its id, would answer a ticket with a reset.
        context.num_tickets = 0
        return context

    @cached_property
    def client_context(self) -> ssl.SSLContext | None:
        return self.settings.client_context() if self.dials else None
