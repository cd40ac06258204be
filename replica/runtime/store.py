"""A broker's sessions with its store: as whom, and for whose eyes what it writes there is."""

from __future__ import annotations

import ssl
from contextlib import AbstractAsyncContextManager
from typing import Final

from attrs import field, frozen

import zab
from zab.store.acl import Acl

SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token", "/cluster/sasl_secret")
"""Nobody else is even to read them."""
ITS_OWN: Final = zab.CREATOR_ACL
TO_BE_READ: Final = (*zab.CREATOR_ACL, *zab.READ_ONLY_ACL)


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


def acl_of(path: str) -> Acl:
    return ITS_OWN if any(path == one or path.startswith(f"{one}/") for one in SENSITIVE) else TO_BE_READ
