"""The first words on every link: who I am, of which ensemble, what for. A stranger is told why it may not stay.

Two ensembles whose addresses were mixed up would otherwise merge their histories. So nothing is believed
on a link before both ends have named the same ensemble and speak the same version.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from attrs import frozen

from zab.core.errors import WireError
from zab.core.zxid import ServerId

VERSION: Final = 2
"""Of the frames. Raised when an old server could misread a new one; a mere new tag is not that.

It stands in the first field of `Hello` and `Welcome` for ever: whatever else they hold, that much can be read.
"""

GREETING_BYTES_MAX: Final = 4096


class Purpose(Enum):
    ELECTION = "election"
    LEARNER = "learner"


@frozen
class Hello:
    """Said by whoever dialled. `host` and `port` are where the dialler can be called back for elections."""

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
    """The other end is not whom we want to talk to. The text is for both sides' logs."""


def admit(greeting: object, me: ServerId, ensemble: str, purpose: Purpose) -> Hello:
    """What an answering server checks before it says `Welcome`."""
    match greeting:
        case Hello(ensemble=name) if name != ensemble:
            raise WrongPeer(f"it belongs to the ensemble {name!r}, this server to {ensemble!r}")
        case Hello(purpose=wanted) if wanted != purpose.value:
            raise WrongPeer(f"it came for {wanted!r}, and this port is for {purpose.value!r}")
        case Hello(server=server) if server == me:
            raise WrongPeer(f"it says that it is server {me}, and that is this server")
        case Hello():
            return greeting
        case _:
            raise WrongPeer("it did not say hello")


def accept(greeting: object, wanted: ServerId) -> None:
    """What a dialling server checks before it speaks on."""
    match greeting:
        case Unwelcome(reason=reason):
            raise WrongPeer(f"refused there: {reason}")
        case Welcome(server=server) if server != wanted:
            raise WrongPeer(f"server {server} answers at the address of server {wanted}")
        case Welcome():
            return
        case _:
            raise WrongPeer("it did not answer the greeting")
