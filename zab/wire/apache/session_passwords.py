"""The passwords of sessions as Apache ZooKeeper computes them: from the id alone, by Java's random numbers.

Every server computes the same password, and so does everybody else who knows an id. A session's id is therefore as
secret as its password.
"""

from __future__ import annotations

from typing import Final

PASSWORD_BYTES: Final = 16
_SALT: Final = 0xB3415C00
_MULTIPLIER: Final = 0x5DEECE66D
_MASK: Final = (1 << 48) - 1


def session_password(session: int) -> bytes:
    """Return the password of a session. Session 0 has none that a server accepts."""
    state = ((session ^ _SALT) ^ _MULTIPLIER) & _MASK
    made = b""
    while len(made) < PASSWORD_BYTES:
        state = (state * _MULTIPLIER + 0xB) & _MASK
        made += (state >> 16).to_bytes(4, "little")
    return made
