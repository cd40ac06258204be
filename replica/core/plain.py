"""SASL PLAIN (RFC 4616): name and password in the clear. For listeners that speak TLS, or networks that are trusted."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from replica.core.sasl import Refused

PLAIN: Final = "PLAIN"

TOKEN_BYTES_MAX: Final = 8_192
"""As long as a message of SCRAM may be."""


class PlainExchange:
    """`users`: passwords by name."""

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self.done = False
        self.name = ""
        self._users = users

    def step(self, token: bytes) -> bytes:
        """`[as whom] NUL name NUL password`. Nobody may act as somebody else."""
        if len(token) > TOKEN_BYTES_MAX:
            raise Refused(f"a token of {len(token)} bytes: {TOKEN_BYTES_MAX} are allowed")
        try:
            behalf, name, password = token.decode().split("\0")
        except ValueError:
            raise Refused("what it says of itself is no PLAIN token") from None
        known = self._users.get(name)
        # Compared in any case, so that a name that is not known takes as long as one that is.
        right = hmac.compare_digest(password.encode(), known if known is not None else b"\0")
        if not right or known is None or behalf not in ("", name):
            raise Refused(f"wrong name or password, for {name!r}")
        self.done, self.name = True, name
        return b""


class PlainProof:
    def __init__(self, name: str, password: str) -> None:
        self.done = False
        self._token = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def step(self, token: bytes) -> bytes | None:
        self.done = True
        return None
