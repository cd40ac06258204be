"""The clients of one server, and the decisions about all of them together.

A connection decides for its own client (see `connection`). `ClientService` decides when the state may be read, which
sessions expire, which clients are disconnected without a leader, and when containers and TTL nodes are deleted. It
also holds the totals that the throttles and the status pages read. It is the `ServerPort` of all connections of the
server.

It is pure: its owner reports role changes and restores, calls `check` and `reap` when they are due, and supplies the
clocks. In production the owner is `ServerRuntime`, in simulation the client port of a simulated server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from zab.core.failed_logins import FailedLoginSettings
from zab.core.zxid import Epoch, Millis, ServerId, Zxid, counter_of, epoch_of
from zab.service.attached import Connected, Latency, Traffic
from zab.service.client_sessions import SECRET_BYTES, ClientSessions, ignore_result
from zab.service.connection.ports import AuditLog, ConnectionSettings, EventLog, RequestPort, TurnWatch
from zab.service.container_reaper import ContainerReaper, ReaperSettings
from zab.service.counts import Counts
from zab.service.health.leader_contact import LeaderContact, ReadOnlySettings
from zab.service.inner_bounds import DEFAULT_BOUNDS, InnerBounds
from zab.service.local_sessions import LocalSessions
from zab.service.session_tracker import SessionTracker
from zab.service.throttle import RequestTotals, Throttles
from zab.store.operations import Op
from zab.store.session_table import NO_SERVER, SessionIds
from zab.store.store import Store

Touch: TypeAlias = Callable[[list[tuple[int, int]]], None]


class ServiceSettings(ConnectionSettings, ReadOnlySettings, Protocol):
    """The settings of `ClientPortSettings` that decide about all clients together."""

    @property
    def tick_ms(self) -> int: ...
    @property
    def containers_ms(self) -> int: ...
    @property
    def containers_per_minute_max(self) -> int: ...
    @property
    def containers_never_used_ms(self) -> int: ...
    @property
    def failed_logins(self) -> FailedLoginSettings: ...


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
        bounds: InnerBounds = DEFAULT_BOUNDS,
        touch: Touch | None = None,
    ) -> None:
        """`clock_ms` never goes back; `wall_ms` is the wall clock. `chance` returns a random number from 0 to 1.

        `touch` takes the active sessions, with their timeouts, in an ensemble that speaks the protocol of ZooKeeper;
        None in one of our own, where `check` returns reports for the leader.
        """
        self.me = me
        self.machine = machine
        """The applied state, from which clients read."""
        self.settings = settings
        self.bounds = bounds
        self.log = log
        self.audit = audit
        """The log of clients' changes and logins; None if it is switched off."""
        self.requests = requests
        """The path of requests to the leader."""
        self.requests_watchdog = requests_watchdog
        """Times the requests that a connection takes in one pass."""
        self.ready = False
        """True if all clients may read the state, and not only read-only clients.

        It is a copy of `leader.readable` for speed, but False once the store is closed.
        """
        self.leader = LeaderContact(settings, clock_ms, cut_off_since)
        """The contact with a leader, from the roles and restores that the owner reports."""
        self.connections: dict[Connected, None] = {}
        """All connections that have a session."""
        self.totals = RequestTotals()
        """The totals of the requests on all connections."""
        self.throttles = Throttles(settings.throttle, settings.failed_logins, chance, clock_ms())
        """The limits for new connections and for wrong passwords."""
        self.counts = Counts()
        """Counters of events since the start, for the metrics."""
        self.sessions = ClientSessions(
            me,
            machine,
            SessionIds(me, wall_ms()),
            LocalSessions(settings.tick_ms, random_bytes(SECRET_BYTES)),
            requests.post,
            random_bytes,
            zookeeper=touch is not None,
        )
        """The global sessions of the ensemble, and the local ones of this server."""
        self.tracker = SessionTracker(self, settings.tick_ms, clock_ms(), bounds.report_sessions_max)
        """The last activity of sessions, and the time at which each expires."""
        self._reaper = ContainerReaper(
            ReaperSettings(
                settings.containers_ms, settings.containers_per_minute_max, settings.containers_never_used_ms
            ),
            clock_ms,
            wall_ms,
        )
        """The schedule for the deletion of containers and TTL nodes."""
        self._clock_ms = clock_ms
        self._touch = touch
        self._epoch = Epoch(0)
        """The epoch of the role that was reported last."""

    def has_reached(self, zxid: int) -> bool:
        """Return whether the state is at least as new as one with this zxid.

        The beginning of an epoch has a zxid, too: clients see it at servers of ZooKeeper. It is reached if this server
        serves in that epoch or a later one, because it has applied everything before.
        """
        if zxid <= self.machine.zxid:
            return True
        return self.ready and not counter_of(Zxid(zxid)) and epoch_of(Zxid(zxid)) <= self._epoch

    # -- roles and snapshots -------------------------------------------------------------------------

    def role_changed(self, *, serving: bool, leading: bool, epoch: Epoch) -> None:
        self._epoch = epoch
        self.leader.role_changed(serving=serving, leading=leading, epoch=epoch)
        self._update_readiness()

    def restore_begins(self) -> None:
        """Stop reads until `restore_ended`: a snapshot is about to replace the state."""
        self.leader.restoring = True
        self._update_readiness()

    def restore_ended(self) -> None:
        """Handle the end of a restore, even of a failed one: send clients the watch events that they missed.

        Reads resume if this server serves.
        """
        self.leader.restoring = False
        self.machine.deliver_missed()
        for session in list(self.sessions.attached):
            self.session_changed(session)
        self._update_readiness()

    def _update_readiness(self) -> None:
        leader = self.leader
        self.ready = leader.readable
        if leader.leads is not None:
            self.tracker.lead(leader.leads, self._clock_ms())
        else:
            self.tracker.rest()
        if self.ready or leader.restoring:
            if not self.settings.local_sessions_enabled:
                self.sessions.local.clear()  # all were made for read-only clients, connected or not
            for connection in [each for each in self.connections if each.read_only]:
                connection.cut("there is a leader again: the client may write after it reconnects")
        if self.ready:
            for connection in list(self.connections):
                connection.resume()

    # -- sessions ------------------------------------------------------------------------------------

    def check(self) -> list[bytes]:
        """Expire sessions. Disconnect clients of expired local sessions, and clients that another server may serve.

        Called twice a tick. Return reports for the leader.
        """
        found = self.tracker.check(self._clock_ms())
        for client, why in found.ended:
            client.ended(why)
        for session in found.expired:
            self.expire_session(session, found.epoch)
        for opening in found.gave_up:
            opening.cancel()
        if self._touch is None:
            return found.reports
        table = self.sessions.table
        self._touch([(session, table[session][0]) for session in found.active if session in table])
        return []

    def expire_session(self, session: int, epoch: Epoch) -> None:
        self.log.say("session_expired", session=f"{session:#x}")
        self.counts.stale_sessions_expired += 1
        self.sessions.expire(session, epoch)

    def session_changed(self, session: int) -> None:
        """Handle a change of a session, which the store's table shows.

        A transaction has created, attached or closed the session, or a restored snapshot has replaced the state.
        """
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
        if client is not None and known[1] not in (self.me, NO_SERVER):
            client.ended("the session has moved to another server")

    def session_closes(self, session: int, owned: Iterable[str]) -> None:
        """Record in the audit log each ephemeral node that the coming close of a session deletes."""
        if self.audit is not None and self.ready:  # otherwise the server only catches up with older changes
            self.audit.session_ended(session, owned)

    # -- periodic work -------------------------------------------------------------------------------

    def reap(self) -> Millis:
        """Submit the deletions of containers and TTL nodes that are due. Return the time of the next call."""
        leads = self.leader.leads is not None and not self.leader.restoring
        for path in self._reaper.due(self.machine.tree, leads=leads):
            self.requests.post(self.sessions.internal_request(Op.DELETE_CONTAINER, (path,)), ignore_result)
        return self._reaper.deadline

    # -- counts --------------------------------------------------------------------------------------

    def traffic(self) -> tuple[int, int]:
        """Return the numbers of requests received, and of replies and events sent, on all connections.

        Connections that were closed before the last `reset_statistics` do not count. Each other connection counts from
        its beginning, or from the last reset of its own counts.
        """
        received = sum(connection.received for connection in self.connections)
        sent = sum(connection.sent for connection in self.connections)
        return received + self.counts.gone.received, sent + self.counts.gone.sent

    @property
    def response_bytes(self) -> int:
        return self.counts.response_bytes + sum(each.response_bytes for each in self.connections)

    def reset_statistics(self) -> None:
        self.totals.latency, self.counts.gone = Latency(), Traffic()
