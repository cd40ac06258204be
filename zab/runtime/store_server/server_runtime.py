"""One server of the store, from its first role to its end: the tasks around `ClientService`, which decides.

Composed of the clients and their sessions (`ClientService`), the way of requests to the member (`RequestPoster`), and
statistics for operators. While there is no leader, writes wait in the member, and reads wait in the connections.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Final, TypeVar

import trio

from zab.core.ensemble import Ensemble
from zab.core.errors import Stopped, ZabError
from zab.core.messages import State
from zab.core.zxid import Epoch, Zxid
from zab.host.clocks import now_ms
from zab.host.logs import Log
from zab.net.wakeup import Wakeup
from zab.runtime.admin.metrics_sampler import MetricsSampler
from zab.runtime.member import Member
from zab.runtime.store_server.audit import Audit
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.in_process_session import InProcessSession, opened
from zab.runtime.store_server.request_poster import RequestPoster
from zab.runtime.store_server.store_machine import StoreMachine
from zab.service.client_service import ClientService
from zab.service.client_sessions import BARRIER, Steps
from zab.service.config_node import Answer, ConfigNode
from zab.service.operator_warnings import quorum_loss
from zab.service.serving_times import ServingTimes
from zab.service.session_tracker import ALIVE
from zab.service.slow_clients import CHECK_MS
from zab.service.status import OpenPorts, RoleChange
from zab.session.call_arguments import timeout_of
from zab.store.operations import Fields
from zab.store.server_watches import Watcher

VERSION: Final = "3.9.5-zab, built on 11/20/2026 00:00 UTC"
"""Tools derive from this version which requests a server supports. Some insist on a date after it, month first and with
a zone, as ZooKeeper wrote it until 3.5: `FLWSrvr` of go-zookeeper accepts no other form."""
_MODES: Final = {State.LEADING: "leader", State.FOLLOWING: "follower", State.OBSERVING: "observer"}
T = TypeVar("T")

WATCHES_DROPPED_AT_ONCE: Final = 2_000
"""Watches of a departed client that are removed before other tasks run: it takes some milliseconds."""
_REPORT: Final = b"r"
"""The first byte of a message to the leader: the report of a server follows."""


class ServerRuntime:
    """A server as its connections, admin pages and commands use it. `StoreServer` is the part of it for users."""

    def __init__(self, machine: StoreMachine, member: Member, settings: ClientPortSettings) -> None:
        self.machine = machine
        self.member = member
        self.settings = settings
        self.me = member.me
        self.log = Log(member.me, lambda: Epoch(0) if self.role is None else self.role.epoch)
        self.role: RoleChange | None = None
        """The role of the member; None before it has one."""
        self.over: str | None = None
        """The reason why the store is closed; None while it is open."""
        self.ports = OpenPorts()
        self.audit = None if settings.audit is None else Audit(settings.audit)
        self.sessions: dict[InProcessSession, None] = {}
        """Sessions in this process."""
        self.times = ServingTimes(now_ms())
        """The times of its roles, for the status pages."""
        self.version = VERSION
        """The version that the server reports to tools."""
        self.trace_mask = 306
        """A number that clients may set and read, as at ZooKeeper. It has no effect."""
        self.sampler = MetricsSampler(self)
        self.poster = poster = RequestPoster(member, self.sampler.timed)
        self.post, self.dirty = poster.post, poster.dirty
        """The poster's methods, held directly: requests in this process and connections with output call them."""
        self.clients = ClientService(
            member.me,
            machine,
            settings,
            self.log,
            poster,
            member.watchdogs.add("client requests"),
            clock_ms=now_ms,
            wall_ms=member.environment.wall_ms,
            cut_off_since=lambda: self.member.status().cut_off_since,
            random_bytes=member.environment.random_bytes,
            chance=Random(member.environment.random_bytes(16)).random,
            audit=self.audit,
        )
        self.session_changed, self.session_closes = self.clients.session_changed, self.clients.session_closes
        """Called by the machine, of which this server is the observer."""
        self._unready = trio.lowlevel.ParkingLot()
        """The tasks that wait until the state may be read again, or for the end."""
        self._config_node = ConfigNode(member.me, machine, settings)
        """Keeps the node with the membership up to date, and decides the steps of changes that clients request."""
        self._address_moved = Wakeup()
        """Rung when the membership has another address for the clients of this server."""
        member.on_membership(self._on_membership)
        machine.observe(self, member.environment.in_loop)
        member.on_leader_message(self._on_leader_message)
        member.on_member_message(self.sampler.on_reports)

    def __repr__(self) -> str:
        port = "" if self.ports.client is None else f", clients at port {self.ports.client}"
        return f"<StoreServer {self.me} at {self.member.path}, {self.over or self.mode}{port}>"

    # -- sessions in this process -----------------------------------------------------------------------------------

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[InProcessSession]:
        """Open a session in this process, for as long as the block lasts. Its ephemeral nodes live as long."""
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
            self.times.role_changed(role.epoch, now_ms(), serving=role.serving, leading=self.leading)
            self.clients.role_changed(serving=role.serving, leading=self.leading, epoch=role.epoch)
            self._readiness_changed()
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
        while True:
            await trio.sleep(CHECK_MS / 1000)
            self.clients.cut_slow_clients()

    async def _reap_containers(self) -> None:
        while True:
            due_ms = self.clients.reap()
            await trio.sleep(max(0, due_ms - now_ms()) / 1000)

    def _spare_the_collector(self) -> None:
        """Exempt a large tree from the collector, which would walk a million nodes for 0.1 s and find nothing."""
        if len(self.machine.tree) >= self.settings.nodes_spared_min:
            self.machine.spare_the_collector()

    def _readiness_changed(self) -> None:
        """Notify waiting tasks and in-process sessions that the state may be read; `clients` notifies connections."""
        ready = self.clients.ready
        if ready:
            self._unready.unpark_all()
        for session in self.sessions:
            session.ready_changed(ready)

    def stop(self) -> None:
        """Fail all calls that wait for this store. Called when its tasks have ended."""
        stopped = self.member.stopped or Stopped("this store was closed")
        self.over = "the store was closed" if stopped.__cause__ is None else f"the store failed: {stopped.__cause__}"
        self.clients.ready = False
        for session in self.sessions:
            session.store_closed(self.over)
        self._unready.unpark_all()
        self.poster.refuse_waiting(stopped)

    # -- sessions ----------------------------------------------------------------------------------

    async def create_session(self, timeout_ms: int) -> int:
        return await self._carry_out(self.clients.sessions.create(timeout_ms))

    async def create_local_session(self, timeout_ms: int, *, read_only: bool = False) -> int:
        return await self._carry_out(self.clients.sessions.create_local(timeout_ms, now_ms, read_only=read_only))

    async def attach_session(self, session: int, password: bytes | None) -> int | None:
        return await self._carry_out(self.clients.sessions.find(session, password))

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

    # -- the membership ----------------------------------------------------------------------------

    def _on_membership(self, ensemble: Ensemble, zxid: Zxid | None) -> None:
        if self._config_node.on_membership(ensemble, zxid):
            self._address_moved.ring()

    async def address_moved(self) -> tuple[str | None, int]:
        """Wait until the membership has another address for the clients of this server, and return it."""
        while True:
            await self._address_moved.wait()
            address = self._config_node.client_address
            if address is not None:
                return address

    async def change_membership(self, fields: Fields) -> Answer:
        """Carry out the steps of a reconfiguration that the leader has permitted."""
        member = self.member
        steps = self._config_node.change(fields, lambda: member.status().ensemble)
        try:
            step = next(steps)
            while True:
                try:
                    if step is BARRIER:
                        await member.barrier()
                    else:
                        await member.reconfigure(members=step, expect_version=step.version)
                except ZabError as error:
                    step = steps.throw(error)
                else:
                    step = next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        finally:
            steps.close()

    # -- the state at the moment ------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        role = self.role
        return role is not None and role.serving and role.state is State.LEADING

    async def ready_or_read_only(self) -> bool:
        """Wait until the state may be read, or only be read. Return whether it is the latter."""
        while wait_ms := self.clients.unreadable_ms:
            with trio.move_on_after(wait_ms / 1000):
                await self._unready.park()
        return not self.clients.ready

    async def readable(self) -> None:
        """Wait until the state may be read, or the store is closed."""
        if self.clients.ready:
            await trio.lowlevel.checkpoint()
        while not self.clients.ready and self.over is None:
            await self._unready.park()

    @property
    def mode(self) -> str:
        """The role of this server in the words of ZooKeeper's tools."""
        role = self.role
        if role is None or not role.serving:
            return "read-only" if self.clients.read_only else "looking"
        alone = len(self.member.status().ensemble.servers) == 1
        return "standalone" if alone else _MODES.get(role.state, "looking")

    # -- messages of the other servers -----------------------------------------------------------------

    def tell_leader(self, report: bytes) -> None:
        self.member.tell_leader(_REPORT + report)

    def _on_leader_message(self, body: bytes) -> None:
        kind, rest = body[:1], body[1:]
        if kind == ALIVE:
            self.clients.tracker.reported(rest, now_ms())
        elif kind == _REPORT:
            self.sampler.on_report(rest)

    async def forget_watches(self, watcher: Watcher) -> None:
        """Remove the watches of a client that is gone, in slices: there may be as many as `watches_per_client_max`."""
        watches = self.machine.watches
        with trio.CancelScope(shield=True):
            while watches.drop(watcher, WATCHES_DROPPED_AT_ONCE):
                await trio.lowlevel.checkpoint()

    # -- called by the machine -----------------------------------------------------------------------

    def restore_begins(self) -> None:
        self.clients.restore_begins()
        self._readiness_changed()

    def restore_ended(self) -> None:
        """Let the state be read again. The restore may have failed."""
        self._spare_the_collector()
        self._config_node.restored()
        self.clients.restore_ended()
        self._readiness_changed()
