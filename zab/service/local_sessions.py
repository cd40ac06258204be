"""Local sessions. Each exists at one server only: no transaction creates or closes it, and no leader tracks it.

They have two uses. A session without transactions is cheap, for many clients that only read. And a server without a
leader can create no other session. A local session owns no ephemeral nodes. If upgrades are enabled, it is upgraded
before it creates one: it becomes a global session, with the same id and password.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from zab.store.expiry_queue import ExpiryQueue
from zab.store.session_table import PASSWORD_BYTES


class LocalSessions:
    def __init__(self, tick_ms: int, secret: bytes) -> None:
        """`secret`: random bytes, from which passwords are made while the ensemble has no secret."""
        self.timeouts: dict[int, int] = {}
        """session -> its timeout in milliseconds"""
        self._upgrading: dict[int, None] = {}
        """The sessions in `timeouts` that are being upgraded. The leader decides about their expiry."""
        self._expiry = ExpiryQueue(tick_ms)
        self._secret = secret

    def __contains__(self, session: int) -> bool:
        return session in self.timeouts

    def __len__(self) -> int:
        return len(self.timeouts)

    def add(self, session: int, timeout_ms: int, now_ms: int) -> None:
        self.timeouts[session] = timeout_ms
        self._expiry.touch(session, timeout_ms, now_ms)

    def timeout_ms(self, session: int) -> int:
        return self.timeouts[session]

    def password(self, session: int) -> bytes:
        """Return a password that only this server can check. It is used while the ensemble has no secret."""
        return hmac.digest(self._secret, session.to_bytes(8, "big", signed=True), "sha256")[:PASSWORD_BYTES]

    # -- upgrades ----------------------------------------------------------------------------------

    def upgrade(self, session: int) -> int:
        """Begin the upgrade of a session, and return its timeout. From now on the leader decides about its expiry."""
        self._expiry.forget(session)
        self._upgrading[session] = None
        return self.timeouts[session]

    def is_upgrading(self, session: int) -> bool:
        return session in self._upgrading

    def forget(self, session: int) -> None:
        self.timeouts.pop(session, None)
        self._upgrading.pop(session, None)
        self._expiry.forget(session)

    def clear(self) -> None:
        for session in list(self.timeouts):
            self.forget(session)

    # -- activity ----------------------------------------------------------------------------------

    def touch(self, sessions: Iterable[int], now_ms: int) -> None:
        for session in sessions:
            if session in self._expiry:
                self._expiry.touch(session, self.timeouts[session], now_ms)

    def due(self, now_ms: int) -> list[int]:
        ended = self._expiry.due(now_ms)
        for session in ended:
            del self.timeouts[session]
        return ended
