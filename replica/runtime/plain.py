"""SASL PLAIN: a name and a password, in the clear. For listeners that speak TLS, or networks that are trusted."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from struct import Struct
from typing import Final

import trio

from replica.core.errors import ErrorCode
from replica.runtime.requests import ANONYMOUS, ApiKey, Reply, Request

MECHANISM: Final = "PLAIN"
REFUSED_PAUSE_S: Final = 0.1
"""Before a wrong password is answered: who tries many waits long."""
_LENGTH: Final = Struct(">i")


class PlainSecurity:
    """`users`: passwords by name."""

    keys: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = {name: password.encode() for name, password in users.items()}

    def login(self) -> PlainLogin:
        return PlainLogin(self._users)


class PlainLogin:
    def __init__(self, users: Mapping[str, bytes]) -> None:
        self.started = self.raw = self.done = False
        self.failed: str | None = None
        self.principal = ANONYMOUS
        self._users = users

    async def answer(self, request: Request) -> Reply:
        if request.api is ApiKey.SASL_HANDSHAKE:
            return self._handshake(request)
        if not self.started or self.done:
            self.failed = "SaslAuthenticate out of turn"
            return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": self.failed}
        if self._believes(request.body["auth_bytes"]):
            return {"auth_bytes": b""}
        await trio.sleep(REFUSED_PAUSE_S)
        text = "a user of that name and password is not known here"  # which of both is wrong, strangers are not told
        return {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": text}

    def _handshake(self, request: Request) -> Reply:
        if self.started or self.done:
            self.failed = "SaslHandshake out of turn"
            return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": [MECHANISM]}
        if request.body["mechanism"] != MECHANISM:
            self.failed = f"it wants to log in with {request.body['mechanism']}, and {MECHANISM} is spoken here"
            return {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": [MECHANISM]}
        self.started = True
        self.raw = request.version == 0  # what follows is no request then
        return {"mechanisms": [MECHANISM]}

    def raw_token(self, frame: bytes) -> bytes:
        self.raw = False
        return _LENGTH.pack(0) if self._believes(frame) else b""

    def _believes(self, token: bytes) -> bool:
        """`[as whom] NUL name NUL password`. Nobody may act as somebody else."""
        try:
            behalf, name, password = token.decode().split("\0")
        except ValueError:
            self.failed = "what it says of itself is no PLAIN token"
            return False
        known = self._users.get(name)
        # Compared in any case, so that a name that is not known takes as long as one that is.
        right = hmac.compare_digest(password.encode(), known if known is not None else b"\0")
        if not right or known is None or behalf not in ("", name):
            self.failed = f"wrong name or password, for {name!r}"
            return False
        self.done, self.principal = True, f"User:{name}"
        return True
