"""A broker's sessions with its store: as whom, and for whose eyes what it writes there is."""

from __future__ import annotations

import ssl
from contextlib import AbstractAsyncContextManager

from attrs import field, frozen

import zab
from kraft_controller.runtime.store_acls import acl_of


@frozen
class StoreLogin:
    """tls      `zookeeper.ssl.client.enable`; None: in the clear
    sasl     name and password, for DIGEST-MD5
    closed   `zookeeper.set.acl`: what this broker makes there can be changed by none but who comes as it does
    """

    tls: ssl.SSLContext | None = None
    sasl: tuple[str, str] | None = field(default=None, repr=False)
    closed: bool = False

    def session(self, hosts: str, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[zab.Session]:
        return zab.connect(
            hosts, timeout_ms=timeout_ms, tls=self.tls, sasl=self.sasl, acl=acl_of if self.closed else None
        )
