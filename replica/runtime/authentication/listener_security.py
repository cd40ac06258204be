"""Saying who one is before anything else may be said: what a connection asks of it; and where nobody must."""

from __future__ import annotations

from typing import Any, Final, Protocol

from replica.runtime.requests import ApiKey, Request


class Authenticator(Protocol):
    """Of one connection.

    started    a mechanism was chosen
    raw        the next frame is a token of the mechanism and no request, as the oldest clients have it
    done       `principal` is proved
    over       it was, and has to be proved anew before anything else is asked
    failed     why it will never be; the connection ends when this has been answered
    """

    @property
    def started(self) -> bool: ...
    @property
    def raw(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    @property
    def over(self) -> bool: ...
    @property
    def failed(self) -> str | None: ...
    @property
    def principal(self) -> str: ...

    async def answer(self, request: Request[Any]) -> object | None:
        """Return the body of the response; None ends the connection without one."""

    async def raw_token(self, frame: bytes) -> bytes:
        """The answer, with its length."""


class ListenerSecurity(Protocol):
    """Of one listener."""

    @property
    def keys(self) -> frozenset[ApiKey]:
        """What is offered for logging in."""

    def login(self, host: str) -> Authenticator | None:
        """For a new connection from `host`; None where nobody is asked who he is."""


class _Open:
    keys: frozenset[ApiKey] = frozenset()

    def login(self, host: str) -> None:
        return None


NO_SASL: Final = _Open()
