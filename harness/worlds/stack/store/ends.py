"""Who ends sessions, judged where the shipped tracker does it.

A session ends because nothing was heard of it for its time, and the leader says so. Whoever does not lead, and has not
led when it looked last, has no say; nor has a leader that has heard of the session since, by itself or from another.
Nor does it count as silence that a leader heard nothing while its process stood still, unless that was so short that it
need not have noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from harness.checkers.ghost import Violation
from harness.worlds.cores.store.checks import ATTACHED, LEADS, TIME
from zab.core.zxid import Millis
from zab.host.clocks import now_ms
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.service.connection.ports import ConnectionPhase
from zab.service.session_tracker import Findings, SessionTracker

UNNOTICED_LOOKS: Final = 3
"""Who stood still for so many times the pause between two looks, twice a tick, sees it by the clock."""
Violated = Callable[[Violation], None]


class JudgedTracker(SessionTracker):
    def __init__(self, server: ServerRuntime, violated: Violated, stood: Sequence[tuple[int, int]]) -> None:
        super().__init__(server.clients, server.settings.tick_ms, now_ms())
        self._judged: ServerRuntime = server
        self._violated = violated
        self._stood = stood
        self._heard_at: dict[int, int] = {}
        self._led = False
        """Whether its server led when it looked last: that it does no more may reach the one before the other."""

    def touch(self, sessions: Iterable[int], now: Millis) -> None:
        listed = list(sessions)
        super().touch(listed, now)
        for session in listed:
            self._heard_at[session] = now

    def check(self, now: Millis) -> Findings:
        self._judge_attached()
        found = super().check(now)
        for session in found.expired:
            self.judge_end(session)
        self._led = self._judged.role.leading
        return found

    def _judge_attached(self) -> None:
        """Whom nobody finds by its session gives no signs of life, and its session ends while it talks."""
        server, sessions = self._judged, self._judged.clients.sessions
        connection: Any
        for connection in server.clients.connections:
            serving = connection.phase is ConnectionPhase.SERVING and not connection.read_only
            if serving and connection.session not in sessions.attached and sessions.knows(connection.session):
                who = f"session {connection.session:#x}"
                self._violated(
                    Violation(ATTACHED, f"server {server.me} talks with {who}, and does not count it as here")
                )

    def judge_end(self, session: int) -> None:
        server, now = self._judged, now_ms()
        if not (server.role.leading or self._led):
            self._violated(Violation(LEADS, f"server {server.me} ends session {session:#x}, and does not lead"))
        known, heard_at = server.machine.sessions.table.get(session), self._heard_at.get(session, 0)
        if known is None:
            return
        silent_ms, deaf_ms = now - heard_at, self._deaf_ms(heard_at)
        if silent_ms - deaf_ms < known[0]:
            who = f"session {session:#x} of {known[0]} ms"
            deaf = f", and stood still for {deaf_ms} ms of that" if deaf_ms else ""
            self._violated(Violation(TIME, f"server {server.me} ends {who} {silent_ms} ms after it heard of it{deaf}"))

    def _deaf_ms(self, since_ms: int) -> int:
        """For so long of the time since then its process stood still, and can have noticed it."""
        unnoticed_ms = UNNOTICED_LOOKS * (self._judged.settings.tick_ms // 2) + 1
        return sum(min(end - begin, max(0, end - since_ms)) for begin, end in self._stood if end - begin > unnoticed_ms)


class JudgedServer(ServerRuntime):
    def judge(self, violated: Violated, stood: Sequence[tuple[int, int]]) -> None:
        """`stood`: from when to when its process stood still, in milliseconds."""
        self.clients.tracker = JudgedTracker(self, violated, stood)
