"""One server of the store, from its first role to its end: the tasks around `ClientService`, which makes the decisions.

The parts of a server are the clients and their sessions (`ClientService`), the path of requests to the member
(`RequestPoster`), and statistics for operators. While there is no leader, requests wait in the connections, and earlier
writes wait in the member.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Final, TypeVar

import trio

from zab.core.errors import Stopped
from zab.host.clocks import loop_clock, now_ms
from zab.host.logs import Log
from zab.net.listener import ConnectionCounts
from zab.runtime.admin.metrics_sampler import MetricsSampler
from zab.runtime.member import Member
from zab.runtime.store_server.audit import Audit
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.in_process_session import InProcessSession, opened
from zab.runtime.store_server.readiness import Readiness
from zab.runtime.store_server.request_poster import RequestPoster
from zab.runtime.store_server.server_membership import ServerMembership
from zab.runtime.store_server.store_machine import StoreMachine
from zab.service.attached import Connected
from zab.service.client_service import ClientService
from zab.service.client_sessions import Revalidate, SessionStep, Steps
from zab.service.config_node import ConfigNode
from zab.service.health.operator_warnings import quorum_loss
from zab.service.health.server_role import ServerRole
from zab.service.health.status import OpenPorts
from zab.service.session_tracker import ALIVE
from zab.service.slow_clients import CHECK_MS, SlowClients
from zab.session.call_arguments import timeout_of
from zab.store.quota import ExceededLimit
from zab.store.server_watches import Watcher

T = TypeVar("T")

WATCHES_DROPPED_AT_ONCE: Final = 2_000
"""The largest number of watches of a client that are removed before other tasks run: some milliseconds of work."""
QUOTA_CHARS_SHOWN: Final = 256
"""The number of characters after which the log cuts a path with a quota."""
_REPORT: Final = b"r"
"""The first byte of a message to the leader: the report of a server follows."""


class ServerRuntime:
    """A server as its connections, admin pages and commands use it. `StoreServer` is the part of it for users."""

    def __init__(self, machine: StoreMachine, member: Member, settings: ClientPortSettings) -> None:
        self.machine = machine
        self.member = member
        self.settings = settings
        self.me = member.me
        self.role = role = ServerRole(now_ms())
        self.log = Log(member.me, lambda: role.epoch)
        self.ports = OpenPorts()
        self.client_connections = ConnectionCounts()
        """The open connections at all client ports: the limits apply to all ports together."""
        self.audit = None if settings.audit is None else Audit(settings.audit)
        self.trace_mask = 306
        """A number that clients may set and read, as in ZooKeeper. It has no effect."""
        self.sampler = MetricsSampler(self)
        self.poster = RequestPoster(member, self.sampler.timed)
        self.clients = ClientService(
            member.me,
            machine,
            settings,
            self.log,
            self.poster,
            member.watchdogs.add("client requests", clock=loop_clock()),
            clock_ms=now_ms,
            wall_ms=member.environment.wall_ms,
            cut_off_since=lambda: self.member.status().cut_off_since,
            random_bytes=member.environment.random_bytes,
            chance=Random(member.environment.random_bytes(16)).random,
            audit=self.audit,
            touch=None if member.zookeeper is None else member.touch_sessions,
        )
        self.readiness = Readiness(self.clients)
        """Notified whenever `clients.ready` may have changed."""
        self.membership = ServerMembership(member, ConfigNode(member.me, machine, settings))
        machine.observe(self, member.environment.in_loop)
        member.on_leader_message(self._on_leader_message)
        member.on_member_message(self.sampler.on_reports)
        member.on_touches(self._on_touches)

    def __repr__(self) -> str:
        port = "" if self.ports.client is None else f", clients at port {self.ports.client}"
        return f"<StoreServer {self.me} at {self.member.path}, {self.readiness.over or self.mode}{port}>"

    # -- sessions in this process -----------------------------------------------------------------------------------

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[InProcessSession]:
        """Open a session in this process. It ends with the block, and its ephemeral nodes are then deleted."""
        return opened(self, self.settings.timeout_ms(timeout_of(timeout_ms)))

    # -- the tasks ---------------------------------------------------------------------------------

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
            self.role.changed(role, now_ms())
            self.clients.role_changed(serving=role.serving, leading=self.role.leading, epoch=role.epoch)
            self.readiness.changed()
            self.sampler.role_changed(role, self.mode)

    async def _tick(self) -> None:
        while True:
            await trio.sleep(self.settings.tick_ms // 2 / 1000)
            self._spare_the_collector()
            self.member.watchdogs.check()
            missing = quorum_loss(self.member.status(), now_ms())
            if missing is not None:
                self.log.warn_rate_limited("no_quorum", "", **missing)
            for report in self.clients.check():
                self.member.tell_leader(report)

    async def _cut_slow_clients(self) -> None:
        slow_clients = SlowClients[Connected](self.settings.unsent_total_bytes_max)
        while True:
            await trio.sleep(CHECK_MS / 1000)
            slow_clients.cut(self.clients.connections, self.log)

    async def _reap_containers(self) -> None:
        while True:
            due_ms = self.clients.reap()
            await trio.sleep(max(0, due_ms - now_ms()) / 1000)

    def _spare_the_collector(self) -> None:
        """Exempt a large tree from the garbage collector: a visit of a million nodes takes 0.1 s and frees none."""
        if len(self.machine.tree) >= self.settings.nodes_spared_min:
            self.machine.spare_the_collector()

    def stop(self) -> None:
        """End the sessions in this process, and fail requests that wait for room. Called when all tasks have ended."""
        stopped = self.member.stopped or Stopped("this store was closed")
        failure = stopped.__cause__
        self.readiness.close("the store was closed" if failure is None else f"the store failed: {failure}")
        self.poster.refuse_waiting(stopped)

    # -- sessions ----------------------------------------------------------------------------------

    async def create_session(self, timeout_ms: int) -> int:
        return await self._carry_out(self.clients.sessions.create(timeout_ms))

    async def create_local_session(self, timeout_ms: int, *, read_only: bool = False) -> int:
        return await self._carry_out(self.clients.sessions.create_local(timeout_ms, now_ms, read_only=read_only))

    async def attach_session(self, session: int, password: bytes | None) -> int | None:
        return await self._carry_out(self.clients.sessions.find(session, password))

    async def _carry_out(self, steps: Steps[T]) -> T:
        """Await the steps of an operation, and return its result. If this call is cancelled, give up the operation."""
        result: object = None
        try:
            while True:
                step = steps.send(result)
                result = await self._take_step(step)
        except StopIteration as end:
            found: T = end.value
            return found
        finally:
            steps.close()

    async def _take_step(self, step: bytes | SessionStep | Revalidate) -> object:
        if isinstance(step, Revalidate):
            return await self.member.revalidate_session(step.session, step.timeout_ms)
        if isinstance(step, SessionStep):
            await self.member.barrier()
            return None
        return await self.poster.ask(step)

    # -- the state at the moment ------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """The role of this server, by the name that ZooKeeper's tools use."""
        alone = self.role.serving and len(self.member.status().ensemble.servers) == 1
        return self.role.mode(read_only=self.clients.leader.read_only, alone=alone)

    # -- messages of the other servers -----------------------------------------------------------------

    def tell_leader(self, report: bytes) -> None:
        self.member.tell_leader(_REPORT + report)

    def _on_leader_message(self, body: bytes) -> None:
        kind, rest = body[:1], body[1:]
        if kind == ALIVE:
            self.clients.tracker.reported(rest, now_ms())
        elif kind == _REPORT:
            self.sampler.on_report(rest)

    def _on_touches(self, sessions: Iterable[tuple[int, int]]) -> None:
        self.clients.tracker.touch([session for session, _ in sessions], now_ms())

    async def forget_watches(self, watcher: Watcher) -> None:
        """Remove the watches of a client that is gone, a bounded number at a time."""
        watches = self.machine.watches
        with trio.CancelScope(shield=True):
            while watches.drop(watcher, WATCHES_DROPPED_AT_ONCE):
                await trio.lowlevel.checkpoint()

    # -- called by the machine -----------------------------------------------------------------------

    def session_changed(self, session: int) -> None:
        self.clients.session_changed(session)

    def session_closes(self, session: int, owned: Iterable[str]) -> None:
        self.clients.session_closes(session, owned)

    def limit_exceeded(self, exceeded: ExceededLimit, refused: bool) -> None:
        path = exceeded.path[:QUOTA_CHARS_SHOWN]
        self.log.warn_rate_limited(
            "quota_exceeded", (path, exceeded.key), cause="clients", path=path, limit=exceeded.key,
            allowed=exceeded.limit, wanted=exceeded.wanted, refused=refused,
        )  # fmt: skip

    def restore_begins(self) -> None:
        self.clients.restore_begins()
        self.readiness.changed()

    def restore_ended(self) -> None:
        """Let the state be read again, also after a failed restore."""
        self._spare_the_collector()
        self.membership.restored()
        self.clients.restore_ended()
        self.readiness.changed()
