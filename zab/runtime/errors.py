"""What can become of a request, beside its result."""

from __future__ import annotations

import errno
import socket
from typing import Final

from zab.core.errors import ZabError, present_as


class Refused(ZabError):
    """The machine's `prepare` turned the request down; the text says why. Nothing was changed by it."""


class LeadersLost(Refused):
    """`Limits.leaders_lost_max` leaders in a row were lost while the request was under way. It changed nothing."""


class OutcomeUnknown(ZabError):
    """The request may have been carried out or not, and nothing can tell which any more.

    To a client it happens when its connection is lost before the answer has come. To a member, only when it was
    so far behind that it was brought up to date by a snapshot, in which the request may be contained. Look at
    the state, then decide whether to ask again.
    """


class Stopped(ZabError):
    """This member was stopped, or has failed, before it knew the outcome: the request may still be carried out."""


class ChangeLost(ZabError):
    """The leader that proposed this change of membership is gone, and the change with it. Ask again."""


class CannotListen(ZabError):
    """This server cannot listen at the address that it was given: the address is not this machine's, for instance."""


class PortTaken(CannotListen):
    """Another program listens at the address that this server was given."""


present_as("zab", globals())

_HINTS: Final = {
    errno.EADDRINUSE: "Is another server running there?",
    errno.EADDRNOTAVAIL: "This machine has no such address.",
    errno.EACCES: "Ports below 1024 need a right of their own.",
    socket.EAI_NONAME: "The name has no address.",
}


def cannot_listen(host: str | None, port: int, what: str, error: OSError) -> CannotListen:
    hint = _HINTS.get(error.errno or 0, "")
    if what.endswith(" port") and error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME):
        hint += " With quorumListenOnAllIPs=true a server listens on all of its own, whatever the others dial."
    kind = PortTaken if error.errno == errno.EADDRINUSE else CannotListen
    return kind(f"cannot listen on {host or '*'}:{port} for {what}: {error.strerror or error}. {hint}".rstrip())
