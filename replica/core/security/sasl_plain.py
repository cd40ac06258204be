"""SASL PLAIN (RFC 4616): name and password in the clear, for listeners with TLS or trusted networks."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from replica.core.security.sasl_exchange import Refused

PLAIN: Final = "PLAIN"

TOKEN_BYTES_MAX: Final = 8_192
"""The same limit as for a message of SCRAM."""


class PlainExchange:
    """The server's side. `users`: passwords by name."""

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self.done = False
        self.name = ""
        self._users = users

    def step(self, token: bytes) -> bytes:
        """Check a token `[authorization identity] NUL name NUL password`. The identity must be empty or the name."""
        if len(token) > TOKEN_BYTES_MAX:
            raise Refused(f"a token of {len(token)} bytes; the limit is {TOKEN_BYTES_MAX}")
        try:
            identity, name, password = token.decode().split("\0")
        except ValueError:
            raise Refused("the token is not a PLAIN message") from None
        known = self._users.get(name)
        # Unknown names are compared as well, so both cases take the same time.
        right = hmac.compare_digest(password.encode(), known if known is not None else b"\0")
        if not right or known is None or identity not in ("", name):
            raise Refused(f"wrong name or password, for {name!r}")
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
