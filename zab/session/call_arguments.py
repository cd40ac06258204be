"""Validate the timeouts and the credentials that callers give for sessions."""

from __future__ import annotations

from zab.core.errors import LocalProtocolError
from zab.store.znode import INT_MAX


def timeout_of(timeout_ms: int) -> int:
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        raise TypeError(f"timeout_ms must be a whole number of milliseconds, not {type(timeout_ms).__name__}")
    if not 0 < timeout_ms <= INT_MAX:
        raise LocalProtocolError(f"timeout_ms is {timeout_ms}; it must be from 1 to {INT_MAX}")
    return timeout_ms


def credentials_of(scheme: str, credentials: bytes) -> tuple[str, bytes]:
    """Return valid credentials; raise `TypeError` for others. No error message contains them."""
    if not isinstance(scheme, str):
        raise TypeError(f'a scheme must be text, like "digest", not {type(scheme).__name__}')
    if not isinstance(credentials, (bytes, bytearray, memoryview)):
        raise TypeError(f'credentials must be bytes, like b"user:password", not {type(credentials).__name__}')
    return scheme, bytes(credentials)
