"""The interface of SASL mechanisms: client and server exchange tokens until `done`."""

from __future__ import annotations

from typing import Protocol


class Refused(Exception):
    """A failed authentication, on either side. The text is for this side only: it is not sent to the peer."""


class Exchange(Protocol):
    """The server's side of an authentication.

    done   True if the client has proved to be `name`
    name   the user name, once it is known; "" before
    """

    @property
    def done(self) -> bool: ...
    @property
    def name(self) -> str: ...

    def step(self, token: bytes) -> bytes:
        """Return the response to a token. Raises `Refused` if authentication fails."""


class Proof(Protocol):
    """The client's side of an authentication."""

    @property
    def done(self) -> bool: ...

    def first(self) -> bytes: ...

    def step(self, token: bytes) -> bytes | None:
        """Return the next token; None after the last one. Raises `Refused` if the server reports an error, sends an
        invalid token, or gives a wrong proof."""
