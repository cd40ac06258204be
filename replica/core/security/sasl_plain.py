"""SASL PLAIN (RFC 4616): user name and password in clear text. Use it with TLS, or in a trusted network."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from replica.core.security.sasl_exchange import Refused

PLAIN: Final = "PLAIN"

TOKEN_BYTES_MAX: Final = 8_192
"""The limit for a token, the same as for a SCRAM message."""


class PlainExchange:
    """The server's side. `users`: passwords by user name."""

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self.done = False
        self.name = ""
        self._users = users

    def step(self, token: bytes) -> bytes:
        """Check a token `[authorization identity] NUL name NUL password`. The authorization identity must be empty or
        equal the name."""
        if len(token) > TOKEN_BYTES_MAX:
            raise Refused(f"the token has {len(token)} bytes; the limit is {TOKEN_BYTES_MAX}")
        try:
            identity, name, password = token.decode().split("\0")
        except ValueError:
            raise Refused("the token is not a PLAIN message") from None
        known = self._users.get(name)
        # Compare a password for unknown names, too, so that both cases take the same time.
        right = hmac.compare_digest(password.encode(), known if known is not None else b"\0")
        if not right or known is None or identity not in ("", name):
            raise Refused(f"wrong name, password or authorization identity for user {name!r}")
        self.done, self.name = True, name
        return b""


class PlainProof:
    """The client's side."""

    def __init__(self, name: str, password: str) -> None:
        self.done = False
        self._token = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def step(self, token: bytes) -> bytes | None:
        self.done = True
        return None
