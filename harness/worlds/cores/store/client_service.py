"""The real `ClientService` of a simulated server: its settings, and checks of the sessions that it ends or keeps.

The checks keep their own records of signs of life and of the time without a leader. They do not use the session
tracker, which may be wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from attrs import evolve

from harness.checkers.oracle_state import Violation
from harness.faults import Knobs
from harness.lists import credentials_of
from harness.script.script import INNER_BOUNDS
from harness.worlds.cores.store.checks import ATTACHED, LEADS, READERS, TIME, VALID
from zab.core.zxid import Epoch
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.service.client_service import ClientService
from zab.service.connection.ports import ConnectionPhase
from zab.service.inner_bounds import InnerBounds
from zab.service.session_tracker import ALIVE, SLEPT_CHECKS
from zab.service.throttle import ThrottleSettings
from zab.store.acl import digest_id

PATIENCE: Final = 3
"""A server without a leader serves a client for at most the session timeout divided by this number."""
STALL_MS: Final = 20
"""The pause between two attempts of requests that a throttle holds back."""
FILL_MS: Final = 50
"""The period in which a server gets a token for a new connection."""
CONTAINERS_MS: Final = 100
"""The period of checks for containers and TTL nodes, much shorter than in production."""
LARGE_MAX: Final = 3
"""The number of large requests for which a server has room."""
SUPER: Final = "super"
"""The name of the user that may change the membership. The simulated clients log in with the name as the password."""
PORTS: Final = ClientPortSettings(
    containers_ms=CONTAINERS_MS, reconfig_enabled=True, super_digest=digest_id(credentials_of(SUPER))
)
"""The settings that `Knobs` does not have."""
TICKS_MAX: Final = PORTS.timeout_ticks_max
"""The longest timeout of a session, in ticks."""


class StrictLog:
    """A log that raises errors of connections, because no simulated client breaks the protocol."""

    def say(self, event: str, level: str = "info", /, **fields: object) -> None: ...

    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None:
        why = str(fields.get("why"))
        if event in ("client_failed", "client_protocol_error") and "bytes of large requests are open" not in why:
            raise AssertionError(f"{event}: {fields.get('why')}")


class Unwatched:
    """A watchdog that does nothing, because turns take no virtual time."""

    _TURN: Final = nullcontext()

    def turn(self, cause: Callable[[], str]) -> AbstractContextManager[object]:
        return self._TURN


def port_settings(knobs: Knobs) -> ClientPortSettings:
    throttle = ThrottleSettings(
        request_max_requests=knobs.open_requests,
        request_stall_ms=STALL_MS,
        op_wait_ms=knobs.wait_ms,
        large_request_threshold=knobs.large_bytes or -1,
        large_request_max_bytes=LARGE_MAX * max(knobs.large_bytes, 1),
        connection_tokens=knobs.connection_tokens,
        connection_fill_ms=FILL_MS,
    )
    return evolve(
        PORTS,
        tick_ms=knobs.tick_ms,
        local_sessions_enabled=knobs.local_sessions > 0,
        local_sessions_upgrading_enabled=knobs.local_sessions > 1,
        read_only_mode_enabled=knobs.read_only_ms > 0,
        read_only_after_ms=knobs.read_only_ms or PORTS.read_only_after_ms,
        throttle=throttle,
    )


def inner_bounds(knobs: Knobs) -> InnerBounds:
    """Return the bounds of the script. Bounds that it does not set are those of the product."""
    drawn = {name: getattr(knobs, name) for name in INNER_BOUNDS}
    return InnerBounds(**{name: value for name, value in drawn.items() if value})


class JudgedClientService(ClientService):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._alive_ms: dict[int, int] = {}
        """The time of the last sign of life that reached this leader in its epoch, by session."""
        self._checked_ms = self._clock_ms()
        """The time of the last `check`."""
        self._leaderless_ms: int | None = self._clock_ms()
        """The time since which the server has no leader; None while it has one."""
        self._local_alive_ms: dict[int, int] = {}
        """The time of the last sign of life of a local session, or of the first check that saw it, by session."""

    def _note_alive(self, sessions: Iterable[int]) -> None:
        """Note a sign of life of these sessions, if this server leads."""
        if self.leader.leads is not None:
            for session in sessions:
                self._alive_ms[session] = self._clock_ms()

    def role_changed(self, *, serving: bool, leading: bool, epoch: Epoch) -> None:
        led = self.leader.leads
        super().role_changed(serving=serving, leading=leading, epoch=epoch)
        if serving:
            self._leaderless_ms = None
            self._judge_readers()
        elif self._leaderless_ms is None:
            self._leaderless_ms = self._clock_ms()
        if self.leader.leads is not None and self.leader.leads != led:
            self._alive_ms.clear()
            self._note_alive(self.sessions.table)

    def session_changed(self, session: int) -> None:
        if session in self.sessions.table:
            self._note_alive((session,))
        super().session_changed(session)

    def reported(self, body: bytes) -> None:
        """Handle another server's report about its clients."""
        assert body[:1] == ALIVE, "simulated servers send no other messages to their leader"
        self._note_alive(struct.unpack(f">{len(body) // 8}q", body[1:]))
        self.tracker.reported(body[1:], self._clock_ms())

    def check(self) -> list[bytes]:
        now = self._clock_ms()
        slept, self._checked_ms = now - self._checked_ms > SLEPT_CHECKS * (self.settings.tick_ms // 2), now
        connections: dict[int, Any] = self.sessions.attached
        alive = [session for session, connection in connections.items() if connection.active]
        self._note_alive(self.sessions.table if slept else alive)
        local = {
            session: now if session in alive else self._local_alive_ms.get(session, now)
            for session in self.sessions.local.timeouts
        }
        timeouts, self._local_alive_ms = dict(self.sessions.local.timeouts), local
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
        reported = {session for body in reports for session in struct.unpack(f">{len(body) // 8}q", body[1:])}
        for session in alive:
            if session not in reported and session in self.sessions.table:
                what = f"server {self.me} has an active connection of session {session:#x}"
                raise Violation(ATTACHED, f"{what}, but does not report the session to the leader")

    def _judge_local_ends(self, timeouts: Mapping[int, int]) -> None:
        for session, timeout_ms in timeouts.items():
            silent_ms = self._clock_ms() - self._local_alive_ms[session]
            if session not in self.sessions.local and silent_ms + self.settings.tick_ms < timeout_ms:
                what = f"server {self.me} ends local session {session:#x} {silent_ms} ms after its last sign of life"
                raise Violation(TIME, f"{what}, but its timeout is {timeout_ms} ms")

    def _judge_patience(self) -> None:
        if self._leaderless_ms is None:
            return
        alone_ms = self._clock_ms() - self._leaderless_ms
        for client in self._served():
            if not client.read_only and alone_ms * PATIENCE > client.timeout_ms:
                what = f"server {self.me} serves session {client.session:#x} after {alone_ms} ms without a leader"
                raise Violation(VALID, f"{what}, longer than the allowed {client.timeout_ms // PATIENCE} ms")

    def _judge_readers(self) -> None:
        for client in self._served():
            if client.read_only and not self.leader.restoring:
                raise Violation(READERS, f"server {self.me} has a leader, but session {client.session:#x} is read-only")

    def _served(self) -> list[Any]:
        connections: dict[int, Any] = self.sessions.attached
        return [each for each in connections.values() if each.phase is ConnectionPhase.SERVING]

    def _judge_end(self, session: int) -> None:
        if self.leader.leads is None:
            raise Violation(LEADS, f"server {self.me} ends session {session:#x}, but does not lead")
        known, silent_ms = self.sessions.table.get(session), self._clock_ms() - self._alive_ms.get(session, 0)
        if known is not None and silent_ms < known[0]:
            what = f"server {self.me} ends session {session:#x} {silent_ms} ms after its last sign of life"
            raise Violation(TIME, f"{what}, but its timeout is {known[0]} ms")
