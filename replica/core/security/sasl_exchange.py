"""The interface of all SASL mechanisms: an exchange of tokens, one after the other, until `done`."""

from __future__ import annotations

from typing import Protocol


class Refused(Exception):
    """The peer failed to authenticate. The text is for this side's log; the peer receives less."""


class Exchange(Protocol):
    """The server's side.

    done   the client has proved that it is `name`
    name   the name that the client gave, "" before
    """

    @property
    def done(self) -> bool: ...
    @property
    def name(self) -> str: ...

    def step(self, token: bytes) -> bytes:
        """Return the response to a token. `Refused` ends the exchange."""


class Proof(Protocol):
    """The client's side."""

    @property
    def done(self) -> bool: ...

    def first(self) -> bytes: ...

    def step(self, token: bytes) -> bytes | None:
        """Return the next token, or None after the last one. Raises `Refused` if the server is not authentic."""
