"""The real `ClientService` of a simulated server, with a record of its own of which sessions the leader heard from.

By that record it judges every end of a session. The record does not use the session tracker, which may be wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from harness.checkers.ghost import Violation
from harness.worlds.cores.store.checks import ATTACHED, LEADS, TIME
from zab.core.zxid import Epoch
from zab.service.client_service import SLEPT_CHECKS, ClientService
from zab.service.session_tracker import ALIVE


class JudgedClientService(ClientService):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._heard_at: dict[int, int] = {}
        """By session: the time of its last sign of life that reached this leader in its epoch."""
        self._looked_ms = self._clock_ms()
        """The time of the last `check`."""

    def _heard(self, sessions: Iterable[int]) -> None:
        if self.leads is not None:
            for session in sessions:
                self._heard_at[session] = self._clock_ms()

    def role_changed(self, *, serving: bool, leading: bool, epoch: Epoch) -> None:
        led = self.leads
        super().role_changed(serving=serving, leading=leading, epoch=epoch)
        if self.leads is not None and self.leads != led:
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
        reports = super().check()
        if self.ready and self.leads is None:
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

    def _judge_end(self, session: int) -> None:
        if self.leads is None:
            raise Violation(LEADS, f"server {self.me} ends session {session:#x}, and does not lead")
        known, silent_ms = self.sessions.table.get(session), self._clock_ms() - self._heard_at.get(session, 0)
        if known is not None and silent_ms < known[0]:
            who = f"session {session:#x} of {known[0]} ms"
            raise Violation(TIME, f"server {self.me} ends {who} {silent_ms} ms after it heard of it")
