"""Explain failed connections to operators.

A mistyped port may belong to another protocol, so the message describes an unexpected answer. Some failures are
permanent: further attempts fail, too, until an operator changes something.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from zab.core.errors import ZabError, present_as

CAUSES_MAX: Final = 10
"""The maximum number of chained exceptions that are searched."""
SHOWN_BYTES: Final = 40
"""The largest number of bytes of an unexpected answer that a message quotes."""

_BEGINNINGS: Final = {
    b"HTTP": "the reply looks like HTTP",
    b"SSH-": "the reply looks like SSH",
    b"\x15\x03": "the reply looks like TLS: connect with TLS (in Python: tls=)",
    b"\x16\x03": "the reply looks like TLS: connect with TLS (in Python: tls=)",
}
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})


class Unreachable(ZabError):
    """No server could be reached, or none accepted the session; or a read lost its connection too often.

    The message lists the outcome of each server, or the reason for the last loss.
    """


present_as("zab", globals())  # the exceptions below are internal


class ConnectionOver(Exception):
    """Ends one connection, but not the session. The message is the reason."""


def is_permanent(error: BaseException | None, *, refusals: bool = False) -> bool:
    """Return True if waiting does not help: TLS failed, or the name of the host is unknown or invalid.

    With `refusals`, a refused connection counts, too, because no server listens there. If the connection only ends in
    the TLS handshake, that does not count, because the server may just be stopping.
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


def foreign_protocol(received: bytes | bytearray) -> str | None:
    """Describe the first received bytes in one phrase; return None if they may be ZooKeeper's protocol."""
    head = bytes(received[:SHOWN_BYTES])
    for beginning, what in _BEGINNINGS.items():
        if head.startswith(beginning):
            return what
    if len(head) >= 4 and all(32 <= byte < 127 or byte in b"\r\n\t" for byte in head):
        return f"the reply begins with {head.decode()!r}, which is not ZooKeeper's protocol"
    return None


def handshake_failure(error: BaseException) -> str:
    """Explain a failed TLS handshake."""
    why = f"the TLS handshake failed: {str(error) or type(error).__name__}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return why
    ended = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    if isinstance(error, ssl.SSLError) and not ended and error.reason not in _NO_TLS:
        return why
    return f"{why}; this port does not seem to speak TLS"
