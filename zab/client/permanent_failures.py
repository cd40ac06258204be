"""Failures that waiting does not mend: an operator has to change a file or a command line first."""

from __future__ import annotations

import socket
import ssl

CAUSES_MAX = 10


def is_hopeless(error: BaseException | None, *, refusals: bool = False) -> bool:
    """Return True if TLS refused the connection, for its certificates or settings, or if the host name does not exist.

    With `refusals`, a refused connection counts, too: no server listens there. An end in the midst of a handshake may
    be a server that stops, and a resolver that does not answer comes back.
    """
    for _ in range(CAUSES_MAX):
        match error:
            case None:
                return False
            case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
                return False
            case ssl.SSLError() | UnicodeError():
                return True
            case ConnectionRefusedError():
                return refusals
            case socket.gaierror():
                return error.errno == socket.EAI_NONAME
            case _:
                error = error.__cause__ or error.__context__
    return False
