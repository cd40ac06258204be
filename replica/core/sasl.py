"""What all SASL mechanisms are to whoever carries their tokens: one exchange, token by token, until it is done."""

from __future__ import annotations

from typing import Protocol


class Refused(Exception):
    """Whoever is at the other end has not proved who he is. The text is for our log: strangers are told less."""


class Exchange(Protocol):
    """Of the side that is asked.

    done   the other side has proved that it is `name`
    name   who it says it is, as far as it has said
    """

    @property
    def done(self) -> bool: ...
    @property
    def name(self) -> str: ...

    def step(self, token: bytes) -> bytes:
        """What to answer. `Refused` ends the exchange."""


class Proof(Protocol):
    """Of the side that has to say who it is."""

    @property
    def done(self) -> bool: ...

    def first(self) -> bytes: ...

    def step(self, token: bytes) -> bytes | None:
        """What to say to that; None when everything has been said. `Refused`: it is not who it should be."""
