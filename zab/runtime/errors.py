"""What can become of a request, beside its result."""

from __future__ import annotations

import errno
import socket
from typing import Final

from zab.core.errors import ZabError


class Refused(ZabError):
    """The machine's `prepare` turned the request down; the text says why. Nothing was changed by it."""


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


class PortTaken(ZabError):
    """This server cannot listen where its membership says that it does."""


_HINTS: Final = {
    errno.EADDRINUSE: "Is another server running there?",
    errno.EADDRNOTAVAIL: "This machine has no such address.",
    errno.EACCES: "Ports below 1024 need a right of their own.",
    socket.EAI_NONAME: "The name has no address.",
}


def cannot_listen(host: str | None, port: int, what: str, error: OSError) -> PortTaken:
    hint = _HINTS.get(error.errno or 0, "")
    if what.endswith(" port") and error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME):
        hint += " With quorumListenOnAllIPs=true a server listens on all of its own, whatever the others dial."
    return PortTaken(f"cannot listen on {host or '*'}:{port} for {what}: {error.strerror or error}. {hint}".rstrip())
