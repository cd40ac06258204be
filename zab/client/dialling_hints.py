"""Guess what was dialled by mistake: ports are numbers, and numbers get mistyped."""

from __future__ import annotations

import ssl
from typing import Final

_BEGINNINGS: Final = {
    b"HTTP": "that looks like HTTP",
    b"SSH-": "that looks like SSH",
    b"\x15\x03": "that looks like TLS: give tls= to connect",
    b"\x16\x03": "that looks like TLS: give tls= to connect",
}
_SHOWN_BYTES: Final = 40
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})


def looks_like(said: bytes | bytearray) -> str | None:
    """The first bytes that came, where they are no answer of a server of ours."""
    head = bytes(said[:_SHOWN_BYTES])
    for beginning, what in _BEGINNINGS.items():
        if head.startswith(beginning):
            return what
    if len(head) >= 4 and all(32 <= byte < 127 or byte in b"\r\n\t" for byte in head):
        return f"it says {head.decode()!r}, which is no ZooKeeper's protocol"
    return None


def why_no_tls(error: BaseException) -> str:
    """Explain a failed handshake."""
    why = f"no TLS: {str(error) or type(error).__name__}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return why
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError) and error.reason not in _NO_TLS:
        return why
    return f"{why}; this port does not seem to speak TLS"
