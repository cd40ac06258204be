"""Errors of listening on an address."""

from __future__ import annotations

import errno
import socket
from typing import Final

from zab.core.addresses import with_port
from zab.core.errors import ZabError, present_as


class CannotListen(ZabError):
    """This process cannot listen at an address that it was given: the address is not this machine's, for instance."""


class PortTaken(CannotListen):
    """The address that this process was given is in use, for instance by another server."""


present_as("zab", globals())

_HINTS: Final = {
    errno.EADDRINUSE: "Is another server running there?",
    errno.EADDRNOTAVAIL: "This machine has no such address.",
    errno.EACCES: "Ports below 1024 need special permission.",
    socket.EAI_NONAME: "The name has no address.",
}


def cannot_listen(host: str | None, port: int, what: str, error: OSError) -> CannotListen:
    """Return the error for an address where listening failed, with a hint at the cause or the remedy if it is known."""
    hint = _HINTS.get(error.errno or 0, "")
    if what.endswith(" port") and error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME):
        hint += (
            " Use listen_host= (in zoo.cfg: quorumListenOnAllIPs=true) to listen on another address than the one that "
            "other servers dial."
        )
    kind = PortTaken if error.errno == errno.EADDRINUSE else CannotListen
    return kind(
        f"cannot listen on {with_port(host or '*', port)} for {what}: {error.strerror or error}. {hint}".rstrip()
    )
