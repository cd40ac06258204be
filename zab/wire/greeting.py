"""The handshake on every link between servers: version, server id, ensemble and purpose.

A link carries no other message before the answering server has checked all four. Otherwise two ensembles with mixed-up
addresses could merge their histories. A refused server receives the reason.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from attrs import frozen

from zab.core.errors import WireError
from zab.core.zxid import ServerId

VERSION: Final = 2
"""The version of the frames. It grows if an old server could misread a new frame; a new tag alone needs no new version.

The version is the first field of `Hello` and `Welcome` in every version, so every version can read it.
"""

GREETING_BYTES_MAX: Final = 4096


class Purpose(Enum):
    ELECTION = "election"
    LEARNER = "learner"


@frozen
class Hello:
    """The first message of the dialling server, whose election address is `host` and `port`."""

    version: int
    ensemble: str
    server: ServerId
    purpose: str
    host: str
    port: int


@frozen
class Welcome:
    version: int
    server: ServerId


@frozen
class Unwelcome:
    reason: str


Greeting = Hello | Welcome | Unwelcome


class WrongPeer(WireError):
    """One of the two servers refuses the other in the handshake.

    If the answering server refuses, it sends the text of the error as an `Unwelcome`.
    """


def admit(greeting: object, me: ServerId, ensemble: str, purpose: Purpose) -> Hello:
    """Check a `Hello` at the answering server, and return it. Raise `WrongPeer` if its sender is refused."""
    match greeting:
        case Hello(ensemble=name) if name != ensemble:
            raise WrongPeer(f"it belongs to the ensemble {name!r}, this server to {ensemble!r}")
        case Hello(purpose=wanted) if wanted != purpose.value:
            raise WrongPeer(f"it connects for {wanted!r}, and this port is for {purpose.value!r}")
        case Hello(server=server) if server == me:
            raise WrongPeer(f"it claims to be server {me}, which is this server")
        case Hello():
            return greeting
        case _:
            raise WrongPeer("its first message is not a hello")


def accept(greeting: object, wanted: ServerId) -> None:
    """Check the reply at the dialling server. Raise `WrongPeer` unless it is the `Welcome` of server `wanted`."""
    match greeting:
        case Unwelcome(reason=reason):
            raise WrongPeer(f"it refused this server: {reason}")
        case Welcome(server=server) if server != wanted:
            raise WrongPeer(f"server {server} answers at the address of server {wanted}")
        case Welcome():
            return
        case _:
            raise WrongPeer("it did not answer the greeting with a welcome")
