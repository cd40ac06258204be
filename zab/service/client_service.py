"""The clients of one server, and the decisions about all of them together.

A connection decides for its own client (see `connection`). `ClientService` decides when the state may be read, which
sessions expire, which clients are disconnected without a leader, and which containers are deleted. It also holds the
totals that the throttles and the status pages read. It is the `ServerPort` of all connections of the server.

It is pure: its owner reports role changes and snapshots, calls `check` and `reap` when they are due, and supplies the
clocks. In production the owner is `ServerRuntime`, in simulation the client port of a simulated server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from zab.core.failed_logins import FailedLogins, FailedLoginSettings
from zab.core.zxid import Epoch, Millis, ServerId
from zab.service.attached import Connected, Latency, Traffic
from zab.service.client_sessions import SECRET_BYTES, ClientSessions, ignore_result
from zab.service.connection.ports import AuditLog, ConnectionSettings, EventLog, TurnWatch
from zab.service.container_reaper import ContainerReaper, ReaperSettings
from zab.service.counts import Counts
from zab.service.local_sessions import LocalSessions
from zab.service.pending_submissions import Done
from zab.service.session_tracker import SessionTracker
from zab.service.slow_clients import REASON, SlowClients
from zab.service.throttle import ConnectionThrottle
from zab.store.operations import Op
from zab.store.session_table import SessionIds
from zab.store.store import Store

SLEPT_CHECKS: Final = 3
"""After this many missed checks the process counts as suspended: it may have missed signs of life of clients."""

READABLE_MS_MIN: Final = 10
"""The least time between two looks whether the state may be read."""


class ServiceSettings(ConnectionSettings, Protocol):
    """The settings of `ClientPortSettings` that decide about all clients together."""

    @property
    def tick_ms(self) -> int: ...
    @property
    def read_only_after_ms(self) -> int: ...
    @property
    def unsent_total_bytes_max(self) -> int: ...
    @property
    def containers_ms(self) -> int: ...
    @property
    def containers_per_minute_max(self) -> int: ...
    @property
    def containers_never_used_ms(self) -> int: ...
    @property
    def failed_logins(self) -> FailedLoginSettings: ...


class RequestPort(Protocol):
    """The path of requests to the leader."""

    def post(self, request: bytes, done: Done) -> None: ...
    def post_many(self, requests: Sequence[bytes], done: Done) -> None: ...
    def postpone(self, do: Callable[[], None]) -> None: ...


class ClientService:
    def __init__(
        self,
        me: ServerId,
        machine: Store,
        settings: ServiceSettings,
        log: EventLog,
        requests: RequestPort,
        requests_watchdog: TurnWatch,
        *,
        clock_ms: Callable[[], Millis],
        wall_ms: Callable[[], Millis],
        cut_off_since: Callable[[], Millis | None],
        random_bytes: Callable[[int], bytes],
        chance: Callable[[], float],
        audit: AuditLog | None = None,
    ) -> None:
        """`clock_ms` never goes back; `wall_ms` is the wall clock. `chance` returns 0 to 1."""
        self.me = me
        self.machine = machine
        self.settings = settings
        self.log = log
        self.audit = audit
        self.requests_watchdog = requests_watchdog
        self.post, self.post_many, self.postpone = requests.post, requests.post_many, requests.postpone
        self.ready = False
        """True if the state may be read: there is a leader, and no snapshot is being restored."""
        self.restoring = False
        """True while a snapshot is being restored."""
        self.lost_ms: Millis | None = clock_ms()
        """The time since which this server knows no leader; None while it knows one."""
        self.leads: Epoch | None = None
        """The epoch that this server leads, or None."""
        self.connections: dict[Connected, None] = {}
        """All connections that have a session."""
        self.open_requests = 0
        """Unanswered requests of all connections. Each pipeline keeps its part up to date."""
        self.large_bytes = 0
        """Bytes of the large requests among them. Each connection's throttle keeps its part up to date."""
        self.auth_failed = 0
        """Failed logins since the start."""
        self.counts = Counts()
        """Events since the start, for the metrics."""
        self.latency = Latency()
        """Latencies since the start, or since the last reset of the statistics."""
        self.gone = Traffic()
        """The traffic of closed connections. All traffic is the sum of this and the traffic of `connections`."""
        self.failed_logins = FailedLogins(settings.failed_logins)
        self.connection_throttle = ConnectionThrottle(settings.throttle, chance, clock_ms())
        self.sessions = ClientSessions(
            me,
            machine,
            SessionIds(me, wall_ms()),
            LocalSessions(settings.tick_ms, random_bytes(SECRET_BYTES)),
            requests.post,
            random_bytes,
        )
        self.tracker = SessionTracker(self, settings.tick_ms)
        self._slow_clients = SlowClients[Connected](settings.unsent_total_bytes_max)
        self._reaper = ContainerReaper(
            ReaperSettings(
                settings.containers_ms, settings.containers_per_minute_max, settings.containers_never_used_ms
            ),
            clock_ms(),
        )
        self._clock_ms = clock_ms
        self._wall_ms = wall_ms
        self._cut_off_since = cut_off_since
        self._serving = False
        """True if this server leads or follows a leader."""
        self._checked_ms = clock_ms()
        """The time at which the last `check` ended."""

    # -- roles and snapshots -------------------------------------------------------------------------

    def role_changed(self, *, serving: bool, leading: bool, epoch: Epoch) -> None:
        self._serving = serving
        self.leads = epoch if serving and leading else None
        if serving:
            self.lost_ms = None
        elif self.lost_ms is None:
            self.lost_ms = self._clock_ms()
        self._update_readiness()

    def restore_begins(self) -> None:
        """Stop reads until `restore_ended`: a snapshot is about to replace the state."""
        self.restoring = True
        self._update_readiness()

    def restore_ended(self) -> None:
        """Resume reads and send clients the events that they missed. Also called if the restore failed."""
        self.restoring = False
        self.machine.deliver_missed()
        for session in list(self.sessions.attached):
            self.session_changed(session)
        self._update_readiness()

    def _update_readiness(self) -> None:
        self.ready = self._serving and not self.restoring
        if self.leads is not None:
            self.tracker.lead(self.leads, self._clock_ms())
        else:
            self.tracker.rest()
        if self.ready or self.restoring:
            for connection in [each for each in self.connections if each.read_only]:
                if not self.settings.local_sessions_enabled:
                    self.sessions.local.forget(connection.session)
                connection.cut("there is a leader again: the client may write after it reconnects")
        if self.ready:
            for connection in list(self.connections):
                connection.resume()

    @property
    def read_only(self) -> bool:
        """True if there has been no leader for so long that clients in read-only mode may read the last known state."""
        return (
            self.settings.read_only_mode_enabled
            and self.lost_ms is not None
            and not self.restoring
            and self._clock_ms() - self.lost_ms >= self.settings.read_only_after_ms
        )

    @property
    def unreadable_ms(self) -> Millis:
        """The milliseconds after which to look again whether the state may be read, or only read; 0 if it may."""
        if self.ready or self.read_only:
            return 0
        since_ms = 0 if self.lost_ms is None else self._clock_ms() - self.lost_ms
        return max(self.settings.read_only_after_ms - since_ms, READABLE_MS_MIN)

    @property
    def cut_off_ms(self) -> Millis | None:
        return self._cut_off_since()

    # -- sessions ------------------------------------------------------------------------------------

    def check(self) -> list[bytes]:
        """Expire sessions, and disconnect clients that another server can serve better. Return reports to the leader.

        Called twice a tick.
        """
        missed_ms = self._clock_ms() - self._checked_ms
        found = self.tracker.check(self._clock_ms(), slept=missed_ms > SLEPT_CHECKS * (self.settings.tick_ms // 2))
        for client, why in found.ended:
            client.ended(why)
        for session in found.expired:
            self.expire_session(session, found.epoch)
        for opening in found.gave_up:
            opening.cancel()
        self._checked_ms = self._clock_ms()
        return found.reports

    def expire_session(self, session: int, epoch: Epoch) -> None:
        self.log.say("session_expired", session=f"{session:#x}")
        self.counts.stale_sessions_expired += 1
        self.sessions.expire(session, epoch)

    def session_changed(self, session: int) -> None:
        """Handle a transaction that created, attached or closed a session. The store's table shows its state."""
        sessions = self.sessions
        known = sessions.table.get(session)
        client = sessions.attached.get(session)
        if known is None:
            if session in sessions.local:
                return
            self.tracker.forget(session)
            if client is not None:
                client.ended("the session is closed")
            return
        self.tracker.touch((session,), self._clock_ms())
        if client is not None and known[1] != self.me:
            client.ended("the session has moved to another server")

    def session_closes(self, session: int, owned: Iterable[str]) -> None:
        """Handle a session that is about to close, with its ephemeral nodes."""
        if self.audit is not None and self.ready:  # before, the log on the disk is only replayed
            self.audit.session_ended(session, owned)

    # -- periodic work -------------------------------------------------------------------------------

    def reap(self) -> Millis:
        """Submit the deletions of containers and TTL nodes that are due. Return the time of the next call."""
        leads = self.leads is not None and not self.restoring
        for path in self._reaper.due(self.machine.tree, self._clock_ms(), self._wall_ms(), leads=leads):
            self.post(self.sessions.internal_request(Op.DELETE_CONTAINER, (path,)), ignore_result)
        return self._reaper.deadline

    def cut_slow_clients(self) -> None:
        """Cut clients that make no progress while all clients together hold too much memory."""
        for slow in self._slow_clients.check(self.connections):
            peer = slow.connection.peer
            self.log.warn_rate_limited(
                slow.event,
                peer.rpartition(":")[0],
                peer=peer,
                unsent_bytes=slow.unsent,
                unfinished_bytes=slow.unfinished,
            )
            slow.connection.cut(REASON)

    # -- counts --------------------------------------------------------------------------------------

    def traffic(self) -> tuple[int, int]:
        """Return the requests received, and the replies and events sent, on all connections since the start."""
        received = sum(connection.received for connection in self.connections)
        sent = sum(connection.sent for connection in self.connections)
        return received + self.gone.received, sent + self.gone.sent

    @property
    def response_bytes(self) -> int:
        return self.counts.response_bytes + sum(each.response_bytes for each in self.connections)

    def reset_statistics(self) -> None:
        self.latency, self.gone = Latency(), Traffic()
