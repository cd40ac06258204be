"""Authentication at a listener: the interface between connections and SASL, and the case without SASL."""

from __future__ import annotations

from typing import Any, Final, Protocol

from replica.core.network.client_connection import AuthenticationState
from replica.runtime.requests import ApiKey, Request


class Authenticator(AuthenticationState, Protocol):
    """The authentication of one connection."""

    @property
    def started(self) -> bool:
        """True after the client has chosen a mechanism."""

    @property
    def expects_raw_token(self) -> bool:
        """True if the next frame is a raw token instead of a request, after a SaslHandshake of version 0."""

    @property
    def failure(self) -> str | None:
        """The reason why authentication failed, or else None. A failure closes the connection, after the response if
        there is one."""

    @property
    def pause_ms(self) -> float:
        """The pause in ms after a failed login, before the response, or before the connection is closed without one."""

    def answer(self, request: Request[Any], now: int) -> object | None:
        """Return the body of the response; None to close the connection without a response."""

    def answer_raw_token(self, token: bytes, now: int) -> bytes:
        """Return the response as bytes, with its length prefix; empty to close the connection without a response."""


class ListenerSecurity(Protocol):
    """The authentication that one listener requires."""

    @property
    def keys(self) -> frozenset[ApiKey]:
        """The API keys of authentication requests, which ApiVersions reports."""

    def authenticator(self, host: str) -> Authenticator | None:
        """Return the authenticator of a new connection from `host`, or None if the listener does not use SASL."""


class _NoSasl:
    keys: frozenset[ApiKey] = frozenset()

    def authenticator(self, host: str) -> None:
        return None


NO_SASL: Final = _NoSasl()
