"""One server of the store: its life from the first role to the end, and what it tells whoever is attached to it.

Composed of its clients' sessions (`ClientSessions`), their expiry (`SessionTracker`), the way of their requests to the
member (`RequestPoster`), and statistics for operators. While there is no leader, writes wait in the member, and reads
wait in the connections.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Final, TypeVar

import trio

from zab.core.errors import Stopped
from zab.core.failed_logins import FailedLogins
from zab.core.messages import State
from zab.core.zxid import Epoch
from zab.host.logs import Log
from zab.runtime.admin.metrics_sampler import MetricsSampler
from zab.runtime.driver import now_ms
from zab.runtime.member import Member
from zab.runtime.status import RoleChange, missing_voters
from zab.runtime.store_server.audit import Audit
from zab.runtime.store_server.config_node import ConfigNode
from zab.runtime.store_server.door_settings import DoorSettings
from zab.runtime.store_server.in_process_session import InProcessSession, opened
from zab.runtime.store_server.request_poster import RequestPoster
from zab.runtime.store_server.store_machine import StoreMachine
from zab.service.attached import Connected, Latency, Traffic
from zab.service.client_sessions import BARRIER, SECRET_BYTES, ClientSessions, Steps, ignore_result
from zab.service.connection.handshake import SessionHandshake
from zab.service.container_reaper import ContainerReaper, ReaperSettings
from zab.service.counts import Counts
from zab.service.local_sessions import LocalSessions
from zab.service.session_tracker import ALIVE, Findings, SessionTracker
from zab.service.slow_clients import CHECK_MS, REASON, SlowClients
from zab.service.throttle import ConnectionThrottle
from zab.session.call_arguments import timeout_of
from zab.store.operations import Op
from zab.store.server_watches import Watcher
from zab.store.session_table import SessionIds

VERSION: Final = "3.9.5-zab, built on 11/20/2026 00:00 UTC"
"""Tools look at the number to know what they may ask for. Some insist on a date behind it, month first and with a
zone, as ZooKeeper wrote it until 3.5: `FLWSrvr` of go-zookeeper takes nothing else."""
_MODES: Final = {State.LEADING: "leader", State.FOLLOWING: "follower", State.OBSERVING: "observer"}
T = TypeVar("T")

WATCHES_DROPPED_AT_ONCE: Final = 2_000
"""Watches of a departed client that are removed before others have the loop: some milliseconds."""
QUORUM_MISSED_MS: Final = 3_000
"""After so long without a quorum the log says which servers are missing, and why."""
_REPORT: Final = b"r"
"""The first byte of a message to the leader: the report of a server follows."""


class ServerRuntime:
    """What the connections, the admin pages and the commands use. `StoreServer` shows the few parts for users."""

    def __init__(self, machine: StoreMachine, member: Member, settings: DoorSettings) -> None:
        self.machine = machine
        self.member = member
        self.settings = settings
        self.me = member.me
        self.log = Log(member.me, lambda: Epoch(0) if self.role is None else self.role.epoch)
        self.role: RoleChange | None = None
        self.ready = False
        """Whether the state may be read here and now."""
        self.over: str | None = None
        """Why it is closed."""
        self.client_port: int | None = None
        self.secure_client_port: int | None = None
        self.audit = None if settings.audit is None else Audit(settings.audit)
        self.admin_port: int | None = None
        self.connections: dict[Connected, None] = {}
        self.sessions: dict[InProcessSession, None] = {}
        """Those in this process."""
        self.open_requests = 0
        self.auth_failed = 0
        self.failed_logins = FailedLogins(settings.failed_logins)
        self.counts = Counts()
        self.large_bytes = 0
        self.connection_throttle = ConnectionThrottle(
            settings.throttle, Random(member.environment.random_bytes(16)).random, now_ms()
        )
        self.latency = Latency()
        self.gone = Traffic()
        self.started_ms = now_ms()
        self.version = VERSION
        self.trace_mask = 306
        """Has no effect: it is kept for who sets it and asks for it."""
        self.sampler = MetricsSampler(self)
        self.poster = poster = RequestPoster(member, self.sampler.timed)
        self.post, self.post_many = poster.post, poster.post_many
        self.dirty, self.postpone = poster.dirty, poster.postpone
        self.client_sessions = sessions = ClientSessions(
            member.me,
            machine,
            SessionIds(member.me, member.environment.wall_ms()),
            LocalSessions(settings.tick_ms, member.environment.random_bytes(SECRET_BYTES)),
            poster.post,
            member.environment.random_bytes,
        )
        self.attached, self.local = sessions.attached, sessions.local
        self.knows, self.password, self.attach_read_only = sessions.knows, sessions.password, sessions.find_read_only
        self.attach, self.detach, self.upgrade_session = sessions.attach, sessions.detach, sessions.upgrade
        self.close_session = sessions.close
        self.requests_watchdog = member.watchdogs.add("client requests")
        self.restoring = False
        self._became_ready = trio.Event()
        self.tracker = SessionTracker(self, settings.tick_ms)
        self._led_epoch = Epoch(-1)
        self._served_epoch = Epoch(-1)
        self.serving_since_ms: int | None = None
        """The time since which this server has served in the present epoch; None while it does not serve."""
        self.leading_since_ms = self.started_ms
        self.lost_ms: int | None = self.started_ms
        """Since when nobody leads, as far as is known here."""
        self.config_node = ConfigNode(machine, member, settings)
        machine.observer, machine.in_loop = self, member.environment.in_loop
        machine.reads.multi_read_bytes_max = settings.multi_read_bytes_max
        machine.watches.per_watcher_max = settings.watches_per_client_max
        machine.watches.total_max = settings.watches_max
        member.on_leader_message(self._heard)
        member.on_member_message(self.sampler.noticed)

    def __repr__(self) -> str:
        port = "" if self.client_port is None else f", clients at port {self.client_port}"
        return f"<StoreServer {self.me} at {self.member.path}, {self.over or self.mode}{port}>"

    # -- sessions in this process -----------------------------------------------------------------------------------

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[InProcessSession]:
        """A session in this process, for as long as the block lasts; so do its ephemerals."""
        return opened(self, self.settings.timeout_ms(timeout_of(timeout_ms)))

    # -- its tasks ---------------------------------------------------------------------------------

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_roles)
            nursery.start_soon(self.poster.run)
            nursery.start_soon(self._tick)
            nursery.start_soon(self._cut_slow_clients)
            nursery.start_soon(self._reap_containers)
            nursery.start_soon(self.sampler.run)

    async def _follow_roles(self) -> None:
        async for role in self.member.roles():
            self.role = role
            if not role.serving:
                self.lost_ms = self.lost_ms or now_ms()
                self.serving_since_ms = None
            else:
                self.lost_ms = None
                if self.serving_since_ms is None or role.epoch != self._served_epoch:
                    self.serving_since_ms, self._served_epoch = now_ms(), role.epoch
            self._consider()
            if self.leading and role.epoch != self._led_epoch:
                self._led_epoch, self.leading_since_ms = role.epoch, now_ms()
            self.sampler.role_changed(role, self.mode)

    async def _tick(self) -> None:
        pause_ms = self.settings.tick_ms // 2
        while True:
            before = now_ms()
            await trio.sleep(pause_ms / 1000)
            now = now_ms()
            self._spare_the_collector()
            self.member.watchdogs.check()
            self._explain_waiting(now)
            self._act_on(self.tracker.check(now, slept=now - before > 3 * pause_ms))

    def _act_on(self, found: Findings) -> None:
        for client, why in found.ended:
            client.ended(why)
        for session in found.expired:
            self.expire_session(session, found.epoch)
        for report in found.reports:
            self.member.tell_leader(report)
        for handshake in found.gave_up:
            assert isinstance(handshake, SessionHandshake)
            handshake.cancel()

    async def _cut_slow_clients(self) -> None:
        slow_clients = SlowClients[Connected](self.settings.unsent_total_bytes_max)
        while True:
            await trio.sleep(CHECK_MS / 1000)
            for slow in slow_clients.check(self.connections):
                peer = slow.connection.peer
                self.log.warn_rate_limited(
                    slow.event,
                    peer.rpartition(":")[0],
                    peer=peer,
                    unsent_bytes=slow.unsent,
                    unfinished_bytes=slow.unfinished,
                )
                slow.connection.cut(REASON)

    async def _reap_containers(self) -> None:
        settings = self.settings
        reaper = ContainerReaper(
            ReaperSettings(
                settings.containers_ms, settings.containers_per_minute_max, settings.containers_never_used_ms
            ),
            now_ms(),
        )
        while True:
            await trio.sleep(max(0, reaper.deadline - now_ms()) / 1000)
            leads = self.leading and not self.restoring
            for path in reaper.due(self.machine.tree, now_ms(), self.member.environment.wall_ms(), leads=leads):
                self.post(self.client_sessions.internal_request(Op.DELETE_CONTAINER, (path,)), ignore_result)

    def _explain_waiting(self, now: int) -> None:
        """Warn while no quorum can be reached, with each missing server and the reason."""
        if self.lost_ms is None or now - self.lost_ms < QUORUM_MISSED_MS:
            return
        status = self.member.status()
        if status.cut_off_since is not None and now - status.cut_off_since >= QUORUM_MISSED_MS:
            missing = {f"server_{sid}": why for sid, why in missing_voters(status).items()}
            self.log.warn_rate_limited("no_quorum", "", for_s=(now - status.cut_off_since) // 1000, **missing)

    def _spare_the_collector(self) -> None:
        """It would walk all nodes again and again, a tenth of a second for a million, and find nothing to collect."""
        if len(self.machine.tree) >= self.settings.nodes_spared_min:
            self.machine.spare_the_collector()

    def _consider(self) -> None:
        role = self.role
        self.ready = role is not None and role.serving and not self.restoring
        if role is not None and self.leading:
            self.tracker.lead(role.epoch, now_ms())
        else:
            self.tracker.rest()
        if self.ready or self.restoring:
            for connection in [each for each in self.connections if each.read_only]:
                if not self.settings.local_sessions_enabled:
                    self.local.forget(connection.session)
                connection.cut("there is a leader again: who comes back may write, too")
        if self.ready:
            self._became_ready.set()
            self._became_ready = trio.Event()
            for connection in list(self.connections):
                connection.resume()
        for session in self.sessions:
            session.ready_changed(self.ready)

    def stop(self) -> None:
        """When its tasks have ended: whoever still waits for this store hears that it is no more."""
        stopped = self.member.stopped or Stopped("this store was closed")
        self.over = "the store was closed" if stopped.__cause__ is None else f"the store failed: {stopped.__cause__}"
        self.ready = False
        for session in self.sessions:
            session.store_closed(self.over)
        self._became_ready.set()
        self.poster.refuse_waiting(stopped)

    @property
    def serving_ms(self) -> int:
        """How long this server has served in the present epoch."""
        return 0 if self.serving_since_ms is None else now_ms() - self.serving_since_ms

    @property
    def cut_off_ms(self) -> int | None:
        return self.member.status().cut_off_since

    # -- sessions ----------------------------------------------------------------------------------

    async def create_session(self, timeout_ms: int) -> int:
        return await self._carry_out(self.client_sessions.create(timeout_ms))

    async def create_local_session(self, timeout_ms: int, *, read_only: bool = False) -> int:
        return await self._carry_out(self.client_sessions.create_local(timeout_ms, now_ms, read_only=read_only))

    async def attach_session(self, session: int, password: bytes | None) -> int | None:
        return await self._carry_out(self.client_sessions.find(session, password))

    async def _carry_out(self, steps: Steps[T]) -> T:
        """Await the steps of an operation. If this is cancelled, the operation is given up."""
        result: object = None
        try:
            while True:
                step = steps.send(result)
                result = await (self.member.barrier() if step is BARRIER else self.poster.ask(step))
        except StopIteration as end:
            found: T = end.value
            return found
        finally:
            steps.close()

    # -- what it is at the moment ------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        role = self.role
        return role is not None and role.serving and role.state is State.LEADING

    @property
    def read_only(self) -> bool:
        """There has been no leader for so long that whoever accepts it may read what was known last."""
        return (
            self.settings.read_only_mode_enabled
            and self.lost_ms is not None
            and not self.restoring
            and now_ms() - self.lost_ms >= self.settings.read_only_after_ms
        )

    async def ready_or_read_only(self) -> bool:
        """Waits for either; whether it is the latter."""
        while not self.ready and not self.read_only:
            since_ms = now_ms() - (self.lost_ms or now_ms())
            with trio.move_on_after(max(self.settings.read_only_after_ms - since_ms, 10) / 1000):
                await self._became_ready.wait()
        return not self.ready

    async def readable(self) -> None:
        """Until the state may be looked at, or the store is closed."""
        if self.ready:
            await trio.lowlevel.checkpoint()
        while not self.ready and self.over is None:
            await self._became_ready.wait()

    @property
    def mode(self) -> str:
        """In the words of ZooKeeper's tools."""
        role = self.role
        if role is None or not role.serving:
            return "read-only" if self.read_only else "looking"
        alone = len(self.member.status().ensemble.servers) == 1
        return "standalone" if alone else _MODES.get(role.state, "looking")

    # -- counted -----------------------------------------------------------------------------------

    def traffic(self) -> tuple[int, int]:
        """Requests received, and replies and events sent, through the client port."""
        received = sum(connection.received for connection in self.connections)
        sent = sum(connection.sent for connection in self.connections)
        return received + self.gone.received, sent + self.gone.sent

    @property
    def response_bytes(self) -> int:
        return self.counts.response_bytes + sum(each.response_bytes for each in self.connections)

    def reset_statistics(self) -> None:
        self.latency, self.gone = Latency(), Traffic()

    def session_ends(self) -> list[tuple[int, list[int]]]:
        """At the leader: when which sessions will have ended if nothing is heard of them."""
        return self.tracker.ends()

    # -- told by the other servers -----------------------------------------------------------------

    def tell_leader(self, report: bytes) -> None:
        self.member.tell_leader(_REPORT + report)

    def _heard(self, body: bytes) -> None:
        kind, rest = body[:1], body[1:]
        if kind == ALIVE:
            self.tracker.reported(rest, now_ms())
        elif kind == _REPORT:
            self.sampler.heard(rest)

    async def forget_watches(self, watcher: Watcher) -> None:
        """Remove the watches of a client that is gone, in slices: there may be as many as `watches_per_client_max`."""
        watches = self.machine.watches
        with trio.CancelScope(shield=True):
            while watches.drop(watcher, WATCHES_DROPPED_AT_ONCE):
                await trio.lowlevel.checkpoint()

    # -- told by the machine -----------------------------------------------------------------------

    @property
    def known(self) -> dict[int, tuple[int, int]]:
        return self.machine.sessions.table

    def expire_session(self, session: int, epoch: Epoch) -> None:
        self.log.say("session_expired", session=f"{session:#x}")
        self.counts.stale_sessions_expired += 1
        self.client_sessions.expire(session, epoch)

    def session_changed(self, session: int) -> None:
        known = self.machine.sessions.table.get(session)
        client = self.attached.get(session)
        if known is None and session in self.local:
            return
        if known is None:
            self.tracker.forget(session)
            if client is not None:
                client.ended("the session is closed")
            return
        self.tracker.touch((session,), now_ms())
        if client is not None and known[1] != self.me:
            client.ended("the session has moved to another server")

    def session_closes(self, session: int, owned: Iterable[str]) -> None:
        if self.audit is not None and self.ready:  # else it is an old story, told again from the disk
            self.audit.session_ended(session, owned)

    def restore_begins(self) -> None:
        self.restoring = True
        self._consider()

    def restore_ended(self) -> None:
        """The other half of `restore_begins`; whether or not the restore succeeded."""
        self.restoring = False
        self._spare_the_collector()
        self.machine.deliver_missed()
        self.config_node.restored()
        for session in list(self.attached):
            self.session_changed(session)
        self._consider()
