"""The real `ClientService` of a simulated server, with a record of its own: of signs of life, and of leaderless times.

By that record it judges every end of a session, and which clients stay. It does not use the session tracker, which may
be wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.checkers.ghost import Violation
from harness.worlds.cores.store.checks import ATTACHED, HELD, LEADS, READERS, TIME
from zab.core.zxid import Epoch
from zab.service.client_service import ClientService
from zab.service.connection.ports import ConnectionPhase
from zab.service.session_tracker import ALIVE, SLEPT_CHECKS

PATIENCE: Final = 3
"""A server without a leader keeps a client for no more than this part of its session's timeout."""


class JudgedClientService(ClientService):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._heard_at: dict[int, int] = {}
        """By session: the time of its last sign of life that reached this leader in its epoch."""
        self._looked_ms = self._clock_ms()
        """The time of the last `check`."""
        self._leaderless_ms: int | None = self._clock_ms()
        """The time since which there is no leader; None while there is one."""
        self._local_heard_ms: dict[int, int] = {}
        """By local session: the time of its last sign of life, or of the first check that saw it."""

    def _heard(self, sessions: Iterable[int]) -> None:
        if self.leader.leads is not None:
            for session in sessions:
                self._heard_at[session] = self._clock_ms()

    def role_changed(self, *, serving: bool, leading: bool, epoch: Epoch) -> None:
        led = self.leader.leads
        super().role_changed(serving=serving, leading=leading, epoch=epoch)
        if serving:
            self._leaderless_ms = None
            self._judge_readers()
        elif self._leaderless_ms is None:
            self._leaderless_ms = self._clock_ms()
        if self.leader.leads is not None and self.leader.leads != led:
            self._heard_at.clear()
            self._heard(self.sessions.table)

    def session_changed(self, session: int) -> None:
        if session in self.sessions.table:
            self._heard((session,))
        super().session_changed(session)

    def reported(self, body: bytes) -> None:
        """Handle another server's report about its clients."""
        assert body[:1] == ALIVE, "simulated servers send no other messages to their leader"
        self._heard(struct.unpack(f">{len(body) // 8}q", body[1:]))
        self.tracker.reported(body[1:], self._clock_ms())

    def check(self) -> list[bytes]:
        now = self._clock_ms()
        slept, self._looked_ms = now - self._looked_ms > SLEPT_CHECKS * (self.settings.tick_ms // 2), now
        connections: dict[int, Any] = self.sessions.attached
        alive = [session for session, connection in connections.items() if connection.active]
        self._heard(self.sessions.table if slept else alive)
        local = {
            session: now if session in alive else self._local_heard_ms.get(session, now)
            for session in self.sessions.local.timeouts
        }
        timeouts, self._local_heard_ms = dict(self.sessions.local.timeouts), local
        reports = super().check()
        self._judge_local_ends(timeouts)
        self._judge_patience()
        if self.ready and self.leader.leads is None:
            self._judge_reports(alive, reports)
        return reports

    def expire_session(self, session: int, epoch: Epoch) -> None:
        self._judge_end(session)
        super().expire_session(session, epoch)

    def _judge_reports(self, alive: Sequence[int], reports: Sequence[bytes]) -> None:
        told = {session for body in reports for session in struct.unpack(f">{len(body) // 8}q", body[1:])}
        for session in alive:
            if session not in told and session in self.sessions.table:
                what = f"server {self.me} has heard of session {session:#x}, and does not tell the leader"
                raise Violation(ATTACHED, what)

    def _judge_local_ends(self, timeouts: Mapping[int, int]) -> None:
        for session, timeout_ms in timeouts.items():
            silent_ms = self._clock_ms() - self._local_heard_ms[session]
            if session not in self.sessions.local and silent_ms + self.settings.tick_ms < timeout_ms:
                who = f"local session {session:#x} of {timeout_ms} ms"
                raise Violation(TIME, f"server {self.me} ends {who} {silent_ms} ms after it heard of it")

    def _judge_patience(self) -> None:
        if self._leaderless_ms is None:
            return
        alone_ms = self._clock_ms() - self._leaderless_ms
        for client in self._served():
            if not client.read_only and alone_ms * PATIENCE > client.timeout_ms:
                who = f"session {client.session:#x} of {client.timeout_ms} ms"
                raise Violation(HELD, f"server {self.me} keeps {who} after {alone_ms} ms without a leader")

    def _judge_readers(self) -> None:
        for client in self._served():
            if client.read_only and not self.leader.restoring:
                raise Violation(READERS, f"server {self.me} has a leader, and session {client.session:#x} only reads")

    def _served(self) -> list[Any]:
        connections: dict[int, Any] = self.sessions.attached
        return [each for each in connections.values() if each.phase is ConnectionPhase.SERVING]

    def _judge_end(self, session: int) -> None:
        if self.leader.leads is None:
            raise Violation(LEADS, f"server {self.me} ends session {session:#x}, and does not lead")
        known, silent_ms = self.sessions.table.get(session), self._clock_ms() - self._heard_at.get(session, 0)
        if known is not None and silent_ms < known[0]:
            who = f"session {session:#x} of {known[0]} ms"
            raise Violation(TIME, f"server {self.me} ends {who} {silent_ms} ms after it heard of it")
