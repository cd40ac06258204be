"""Sessions that only this server knows: no transaction makes them, keeps them alive, or ends them.

There are two reasons for one. Where many clients only read, a session that nobody else has to know of is cheap; it may
own no ephemeral nodes, unless it becomes a session like any other first, under the same id and password. And a server
without a leader can make no other.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from typing import Final

from zab.store.ops import CREATES, CreateFlag, Op
from zab.store.sessions import PASSWORD_BYTES, Expiry
from zab.wire.client.requests import Refused, decode_request

SECRET_BYTES: Final = 32
MAY_OWN: Final = frozenset(map(int, CREATES | {Op.MULTI}))
"""Operations that may make an ephemeral node."""
_EPHEMERAL: Final = frozenset({CreateFlag.EPHEMERAL, CreateFlag.EPHEMERAL_SEQUENTIAL})


class LocalSessions:
    def __init__(self, tick_ms: int) -> None:
        self._timeouts: dict[int, int] = {}
        self._rising: dict[int, None] = {}
        self._expiry = Expiry(tick_ms)
        self._secret = os.urandom(SECRET_BYTES)

    def __contains__(self, session: int) -> bool:
        return session in self._timeouts

    def __len__(self) -> int:
        return len(self._timeouts)

    def add(self, session: int, timeout_ms: int, now_ms: int) -> None:
        self._timeouts[session] = timeout_ms
        self._expiry.touch(session, timeout_ms, now_ms)

    def timeout_ms(self, session: int) -> int:
        return self._timeouts[session]

    def password(self, session: int) -> bytes:
        """For one that will never be known to all, where there is no secret of the ensemble yet."""
        return hmac.digest(self._secret, session.to_bytes(8, "big", signed=True), "sha256")[:PASSWORD_BYTES]

    # -- becoming one like any other ---------------------------------------------------------------

    def rise(self, session: int) -> int:
        """Its creation as a session of all is on its way. From now on its end is the leader's business."""
        self._expiry.forget(session)
        self._rising[session] = None
        return self._timeouts[session]

    def is_rising(self, session: int) -> bool:
        return session in self._rising

    def forget(self, session: int) -> None:
        self._timeouts.pop(session, None)
        self._rising.pop(session, None)
        self._expiry.forget(session)

    # -- signs of life -----------------------------------------------------------------------------

    def touch(self, sessions: Iterable[int], now_ms: int) -> None:
        for session in sessions:
            if session in self._expiry:
                self._expiry.touch(session, self._timeouts[session], now_ms)

    def due(self, now_ms: int) -> list[int]:
        ended = self._expiry.due(now_ms)
        for session in ended:
            del self._timeouts[session]
        return ended


def makes_ephemeral(op: int, body: bytes) -> bool:
    """Whether this request wants a node that lives as long as its session. What cannot be read wants nothing."""
    if op not in MAY_OWN:
        return False
    fields = decode_request(op, body)
    if isinstance(fields, Refused):
        return False
    parts = fields if op == Op.MULTI else ((op, fields),)
    return any(part in CREATES and values[3] in _EPHEMERAL for part, values in parts)
