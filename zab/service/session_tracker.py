"""Track the activity of sessions, which is not in the history.

The leader records the time of each session's last activity; the other servers report the active sessions of
their clients twice a tick. A new leader grants every session its full timeout again.

A server that cannot reach a leader must not keep a client until its session has expired elsewhere: it cuts the
connection after a third of the session's timeout. If it reaches no quorum, it cuts all connections after two ticks: no
leader can be elected here, and the clients may find the majority. The same limits apply to a client whose session is
still being opened. An attached read-only client stays.

The tracker is pure: the time is an argument, and `check` returns the work for its caller.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, Protocol

from attrs import define, field

from zab.core.zxid import Epoch, Millis
from zab.service.attached import Attached
from zab.service.client_sessions import ClientSessions
from zab.service.health.leader_contact import LeaderContact
from zab.service.inner_bounds import DEFAULT_BOUNDS
from zab.store.expiry_queue import ExpiryQueue

ALIVE: Final = b"a"
"""The first byte of a message to the leader. The ids of the active sessions follow."""
CUT_OFF_TICKS: Final = 2
"""The number of ticks for which a server without a quorum keeps its clients."""
SLEPT_CHECKS: Final = 3
"""The number of intervals, of half a tick each, after which the last check is too long ago.

Then the process was suspended, and may have missed pings.
"""
PATIENCE: Final = 3
"""Without a leader, a client is disconnected after 1/PATIENCE of its session's timeout."""


class TrackedServer(Protocol):
    """The part of a server that its session tracker uses."""

    @property
    def sessions(self) -> ClientSessions: ...
    @property
    def ready(self) -> bool: ...
    @property
    def leader(self) -> LeaderContact: ...


class SessionOpening(Protocol):
    """A client whose session is being created or attached."""

    def cancel(self) -> None:
        """Give up, because this server has had no leader, or no quorum, for too long."""


@define
class Findings:
    """The result of one check: work for its caller.

    expired  sessions that the leader of `epoch` is to close
    reports  messages to the leader
    ended    clients to disconnect, with the reason
    gave_up  openings that should wait no longer
    active   the sessions at this server whose clients have sent something, unless this server leads or has no leader
    """

    epoch: Epoch
    expired: list[int] = field(factory=list)
    reports: list[bytes] = field(factory=list)
    ended: list[tuple[Attached, str]] = field(factory=list)
    gave_up: list[SessionOpening] = field(factory=list)
    active: list[int] = field(factory=list)


class SessionTracker:
    def __init__(
        self,
        server: TrackedServer,
        tick_ms: int,
        now: Millis,
        report_sessions_max: int = DEFAULT_BOUNDS.report_sessions_max,
    ) -> None:
        self._server = server
        self._report_sessions_max = report_sessions_max
        self._tick_ms = tick_ms
        self._expiry: ExpiryQueue | None = None
        """The time at which each session expires; None while this server does not lead."""
        self._epoch = Epoch(-1)
        """The epoch in which this server began to lead for the last time; -1: never."""
        self._opening: dict[SessionOpening, tuple[Millis, int]] = {}
        """client whose session is being opened -> when that began, and the session's timeout"""
        self._checked_ms = now
        """The time of the last `check`."""

    def lead(self, epoch: Epoch, now: Millis) -> None:
        """Begin to track all sessions. A server that already leads in this epoch continues."""
        if self._expiry is None or epoch != self._epoch:
            self._expiry, self._epoch = ExpiryQueue(self._tick_ms), epoch
            self.touch(self._server.sessions.table, now)

    def rest(self) -> None:
        """Stop tracking: this server does not lead."""
        self._expiry = None

    def ends(self) -> list[tuple[Millis, list[int]]]:
        """Return expiry times, each with the sessions that expire then unless their clients send something before."""
        return [] if self._expiry is None else self._expiry.buckets()

    # -- activity ----------------------------------------------------------------------------------

    @staticmethod
    def sign_of(session: int) -> bytes:
        """Return the message that reports one session. It is sent before a `sync`, whose reply proves its arrival."""
        return ALIVE + struct.pack(">q", session)

    def touch(self, sessions: Iterable[int], now: Millis) -> None:
        expiry, table = self._expiry, self._server.sessions.table
        if expiry is not None:
            for session in sessions:
                known = table.get(session)
                if known is not None:
                    expiry.touch(session, known[0], now)

    def forget(self, session: int) -> None:
        if self._expiry is not None:
            self._expiry.forget(session)

    def reported(self, sessions: bytes, now: Millis) -> None:
        """Handle another server's report about its clients."""
        if len(sessions) % 8 == 0:
            self.touch(struct.unpack(f">{len(sessions) // 8}q", sessions), now)

    def begin_opening(self, opening: SessionOpening, timeout_ms: int, now: Millis) -> None:
        """Begin to bound the wait of a client whose session is being created or attached.

        The client waits for a leader no longer than an attached client. If it has a session already, this session may
        expire meanwhile, and another server may be able to attach it.
        """
        self._opening[opening] = (now, timeout_ms)

    def end_opening(self, opening: SessionOpening) -> None:
        del self._opening[opening]

    # -- periodic checks ---------------------------------------------------------------------------

    def check(self, now: Millis) -> Findings:
        """Return the work that is due. Only the leader expires global sessions; only the other servers report.

        After missed checks the leader grants the sessions their full timeout again: this process was suspended,
        and may have missed pings.
        """
        server, expiry = self._server, self._expiry
        slept = now - self._checked_ms > SLEPT_CHECKS * (self._tick_ms // 2)
        self._checked_ms = now
        found = Findings(self._epoch)
        alive = [session for session, client in server.sessions.attached.items() if client.was_active()]
        if server.sessions.local:
            self._check_local(alive, now, found)
        if expiry is not None:
            self.touch(alive, now)
            if slept:
                self.touch(server.sessions.table, now)
            found.expired += expiry.due(now)
        elif server.ready:
            found.active += alive
            for start in range(0, len(alive), self._report_sessions_max):
                part = alive[start : start + self._report_sessions_max]
                found.reports.append(ALIVE + struct.pack(f">{len(part)}q", *part))
        elif server.leader.lost_ms is not None:
            self._check_leaderless(server.leader.lost_ms, now, found)
        return found

    def _check_local(self, alive: list[int], now: Millis, found: Findings) -> None:
        sessions = self._server.sessions
        sessions.local.touch(alive, now)
        for session in sessions.local.due(now):
            client = sessions.attached.get(session)
            if client is not None:
                found.ended.append((client, "the session expired: nothing arrived from its client"))

    def _check_leaderless(self, lost_ms: Millis, now: Millis, found: Findings) -> None:
        server = self._server
        cut_off_ms = server.leader.cut_off_ms
        cut_off = cut_off_ms is not None and now - cut_off_ms > CUT_OFF_TICKS * self._tick_ms
        why = "this server reaches no quorum" if cut_off else "this server has no leader"
        for client in server.sessions.attached.values():
            if (cut_off or (now - lost_ms) * PATIENCE > client.timeout_ms) and not client.read_only:
                found.ended.append((client, why))
        for opening, (since_ms, timeout_ms) in self._opening.items():
            if cut_off or (now - max(since_ms, lost_ms)) * PATIENCE > timeout_ms:
                found.gave_up.append(opening)
