"""A broker's connection to the store: TLS, authentication, and the ACL of the nodes that it creates."""

from __future__ import annotations

import ssl
from contextlib import AbstractAsyncContextManager

from attrs import field, frozen

import zab
from kraft_controller.runtime.store_acls import acl_of


@frozen
class StoreLogin:
    """tls      the context if `zookeeper.ssl.client.enable` is set; None: plaintext
    sasl     user name and password for DIGEST-MD5
    closed   `zookeeper.set.acl`: only sessions with the same identity may change the nodes that this broker creates,
             or read the sensitive ones
    """

    tls: ssl.SSLContext | None = None
    sasl: tuple[str, str] | None = field(default=None, repr=False)
    closed: bool = False

    def session(self, hosts: str, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[zab.Session]:
        return zab.connect(
            hosts, timeout_ms=timeout_ms, tls=self.tls, sasl=self.sasl, acl=acl_of if self.closed else None
        )
