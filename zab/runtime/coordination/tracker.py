"""Signs of life: the one thing about sessions that is not in the history.

The leader keeps for all of them when each was last heard of; the other servers tell it of theirs twice a tick. A new
leader gives everybody the full time again.

A server that cannot reach a leader must not hold a client back until its session has ended elsewhere. If the server
sees no quorum, it cuts the connection after two ticks: no leader can be elected here, and the client may find the
majority. If it sees one, an election is under way, and the client may stay for a third of its session's time. The same
goes for a client that is about to attach.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from zab.core.zxid import Epoch
from zab.runtime.coordination.attached import Attached
from zab.runtime.coordination.local import LocalSessions
from zab.runtime.driver import now_ms
from zab.store.sessions import Expiry

ALIVE: Final = b"a"
"""The first byte of an aside: ids of sessions that were heard of follow."""
ASIDE_SESSIONS_MAX: Final = 10_000
CUT_OFF_TICKS: Final = 2
"""For so long a server without a quorum keeps its clients."""
PATIENCE: Final = 3
"""A client is let go after this part of its session's time without a leader."""


class Serves(Protocol):
    """The server whose sessions these are."""

    @property
    def tick_ms(self) -> int: ...
    @property
    def known(self) -> Mapping[int, tuple[int, int]]:
        """All sessions that there are, with their times and their servers."""

    @property
    def attached(self) -> Mapping[int, Attached]: ...
    @property
    def local(self) -> LocalSessions: ...
    @property
    def ready(self) -> bool: ...
    @property
    def lost_ms(self) -> int | None: ...
    @property
    def cut_off_ms(self) -> int | None:
        """The time since which no quorum can be reached, or None."""

    def expire_session(self, session: int, epoch: Epoch) -> None: ...
    def tell_alive(self, body: bytes) -> None:
        """To the leader, as an aside."""


class Waits(Protocol):
    """Who waits for a session, until it is told to wait no longer."""

    def cancel(self) -> None: ...


class SessionTracker:
    def __init__(self, server: Serves, now: Callable[[], int] = now_ms) -> None:
        self._server = server
        self._now = now
        self._expiry: Expiry | None = None
        """At the leader only."""
        self._epoch = Epoch(-1)
        self._arriving: dict[Waits, tuple[int, int]] = {}
        """Who waits for a session: since when, and for how long a session."""

    def lead(self, epoch: Epoch) -> None:
        """Whoever has led already in this epoch goes on."""
        if self._expiry is None or epoch != self._epoch:
            self._expiry, self._epoch = Expiry(self._server.tick_ms), epoch
            self.touch(self._server.known)

    def rest(self) -> None:
        self._expiry = None

    def ends(self) -> list[tuple[int, list[int]]]:
        """When which sessions will have ended if nothing is heard of them."""
        return [] if self._expiry is None else self._expiry.buckets()

    # -- what is heard -----------------------------------------------------------------------------

    @staticmethod
    def word_of(session: int) -> bytes:
        """What tells the leader of one of them: in front of its `sync`, so that the answer shows that it was heard."""
        return ALIVE + struct.pack(">q", session)

    def touch(self, sessions: Iterable[int]) -> None:
        expiry, table, now = self._expiry, self._server.known, self._now()
        if expiry is not None:
            for session in sessions:
                known = table.get(session)
                if known is not None:
                    expiry.touch(session, known[0], now)

    def forget(self, session: int) -> None:
        if self._expiry is not None:
            self._expiry.forget(session)

    def heard(self, sessions: bytes) -> None:
        """By another server, of its clients."""
        if len(sessions) % 8 == 0:
            self.touch(struct.unpack(f">{len(sessions) // 8}q", sessions))

    @contextmanager
    def arriving(self, scope: Waits, timeout_ms: int) -> Iterator[None]:
        """Around the making or finding of a session, which waits for a leader no longer than an attached client does.

        The session of a client that comes back runs out meanwhile, and another server may be able to take it.
        """
        self._arriving[scope] = (self._now(), timeout_ms)
        try:
            yield
        finally:
            del self._arriving[scope]

    # -- twice a tick ------------------------------------------------------------------------------

    def look(self, now: int, *, slept: bool) -> None:
        """`slept`: this process did. Whoever called meanwhile was not heard, and is not to blame."""
        server, expiry = self._server, self._expiry
        alive = [session for session, client in server.attached.items() if client.heard_of()]
        if server.local:
            self._keep_local(alive, now)
        if expiry is not None:
            self.touch(alive)
            if slept:
                self.touch(server.known)
            for session in expiry.due(now):
                server.expire_session(session, self._epoch)
        elif server.ready:
            for start in range(0, len(alive), ASIDE_SESSIONS_MAX):
                part = alive[start : start + ASIDE_SESSIONS_MAX]
                server.tell_alive(ALIVE + struct.pack(f">{len(part)}q", *part))
        elif server.lost_ms is not None:
            cut_off = server.cut_off_ms is not None and now - server.cut_off_ms > CUT_OFF_TICKS * server.tick_ms
            for client in list(server.attached.values()):
                if (cut_off or (now - server.lost_ms) * PATIENCE > client.timeout_ms) and not client.read_only:
                    client.ended("no quorum can be reached from here" if cut_off else "no leader is elected here")
            for scope, (since_ms, timeout_ms) in self._arriving.items():
                if cut_off or (now - max(since_ms, server.lost_ms)) * PATIENCE > timeout_ms:
                    scope.cancel()

    def _keep_local(self, alive: list[int], now: int) -> None:
        server = self._server
        server.local.touch(alive, now)
        for session in server.local.due(now):
            client = server.attached.get(session)
            if client is not None:
                client.ended("the session is over: nothing was heard of it")
