"""Explain why a handshake failed. OpenSSL's own messages name a line of its source instead."""

from __future__ import annotations

import ssl
from typing import Final

_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other side sent no certificate, and one is required",
    "NO_SHARED_CIPHER": "the two sides allow no common cipher suite",
    "UNSUPPORTED_PROTOCOL": "the two sides allow no common version of TLS",
    "NO_PROTOCOLS_AVAILABLE": "the two sides allow no common version of TLS",
    "WRONG_VERSION_NUMBER": "the received bytes are not TLS: one side uses TLS, the other plain text",
    "HTTP_REQUEST": "the received bytes are not TLS: plain text on a TLS port",
    "PACKET_LENGTH_TOO_LONG": "the received bytes are not TLS",
    "RECORD_LAYER_FAILURE": "the received bytes are not TLS",
    "UNEXPECTED_EOF_WHILE_READING": "the other side closed the connection during the handshake",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust the signer of this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not accept this side's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not accept this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side reports that this side's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the other side reports that this side's certificate is revoked",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the other side found no common version or cipher suite, or needs a certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side supports no version of TLS that is allowed here",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side requires a certificate, and this side sent none",
    "TLSV1_ALERT_ACCESS_DENIED": "the other side denied access",
}


def reason_of(error: BaseException) -> str:
    """Return why a handshake or a stream failed: from the TLS error among the causes of `error`, else its own text."""
    found = _tls_error(error)
    if found is None:
        return str(error) or type(error).__name__
    if isinstance(found, ssl.SSLCertVerificationError):
        return f"certificate error: {found.verify_message.rstrip('.') or found}"
    if isinstance(found, ssl.SSLZeroReturnError | ssl.SSLEOFError):
        return "the other side closed the connection during the handshake"
    words = _REASONS.get(found.reason or "")
    if words is None:
        return f"TLS: {(found.reason or str(found)).replace('_', ' ').lower()}"
    certificate = "CERTIFICATE" in found.reason or "UNKNOWN_CA" in found.reason
    return f"certificate error: {words}" if certificate else words


def is_tls_error(error: BaseException) -> bool:
    """Return whether the error, or one of its causes, is an `ssl.SSLError`."""
    return _tls_error(error) is not None


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    for _ in range(10):
        if error is None or isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None
