"""The replicated table of sessions, their passwords and their ids.

Only transactions and snapshots change the table. It contains the server that each session is attached to. So a new
leader knows at once which requests to refuse, and a server notices that one of its clients has moved to another server.
"""

from __future__ import annotations

import hmac
from typing import Final

from zab.core.errors import LocalProtocolError
from zab.store.znode import CONTAINER

PASSWORD_BYTES: Final = 16
SECRET_BYTES_MIN: Final = 16
NO_SERVER: Final = 0
"""The server of a session of which the history does not tell the server."""


class SessionTable:
    """The open sessions, and the secret that their passwords are derived from."""

    __slots__ = ("secret", "table")

    def __init__(self) -> None:
        self.table: dict[int, tuple[int, int]] = {}
        """session -> (timeout_ms, the server that it is attached to)"""
        self.secret = b""
        """The secret. It is set once in the life of an ensemble, and empty before."""

    def password(self, session: int) -> bytes:
        """Return the password of a session. It is the same on every server, and other passwords do not reveal it.

        Raise `LocalProtocolError` if the secret is not set yet.
        """
        if not self.secret:
            raise LocalProtocolError("no secret has been set: SET_SECRET must come before the first session")
        return hmac.digest(self.secret, session.to_bytes(8, "big", signed=True), "sha256")[:PASSWORD_BYTES]

    def password_is(self, session: int, password: bytes | None) -> bool:
        return password is not None and hmac.compare_digest(self.password(session), password)


class SessionIds:
    """Unique session ids: the low 8 bits of the server's id, the time of its start (40 bits), and a count (16 bits).

    The first byte is 0 if the low 8 bits are 0xff. If the count overflows, it carries into the time.

    `now_ms` must be greater than at any earlier start of this server; the wall clock will do.
    """

    def __init__(self, server: int, now_ms: int) -> None:
        top = server & 0xFF
        if top == 0xFF:
            top = 0  # a first byte of 0xff would mark a TTL node
        first = (top << 56) | ((now_ms << 16) & 0x00FF_FFFF_FFFF_0000)
        self._next = first

    def next(self) -> int:
        while True:
            self._next = (self._next & ~0x00FF_FFFF_FFFF_FFFF) | ((self._next + 1) & 0x00FF_FFFF_FFFF_FFFF)
            session = self._next - (1 << 64) if self._next >> 63 else self._next
            if session not in (0, CONTAINER):
                return session
