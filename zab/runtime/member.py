"""One member of an ensemble: the library's face. Start it in a nursery of yours; cancel it to stop it.

async with zab.open_member(MyMachine(), "data") as member:
    print(await member.submit(b"request"))
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import trio

from zab.core.ensemble import Ensemble, Server
from zab.core.errors import ConfigError, LocalProtocolError, Overloaded
from zab.core.node import Node
from zab.core.ready import Recovered, Settings
from zab.core.zxid import ServerId, Zxid
from zab.runtime.doorbell import Doorbell
from zab.runtime.driver import Driver, now_ms
from zab.runtime.elections import Address, Elections
from zab.runtime.errors import PortTaken, Stopped
from zab.runtime.greet import Handshake
from zab.runtime.inbox import Inbox
from zab.runtime.limits import Limits
from zab.runtime.links import Links
from zab.runtime.logs import Log
from zab.runtime.machine import Machine
from zab.runtime.network import Network, TcpNetwork, TlsConfig
from zab.runtime.origin import Done, Origin
from zab.runtime.ports import Dialler, Port
from zab.runtime.requests import Requests, wall_ms
from zab.runtime.snapshots import Snapshots
from zab.runtime.status import Counters, RoleChange, Status
from zab.runtime.waiting import Waiter
from zab.runtime.writer import Writer
from zab.storage.disk import Disk
from zab.storage.storage import Storage, StorageSettings
from zab.wire.greeting import Purpose
from zab.wire.relay import ORIGIN_BYTES, ReconfigureRequest

M = TypeVar("M", bound=Machine)
T = TypeVar("T")

NOWHERE: Final = "embedded.invalid"
"""Where a member lives that has no address: nobody dials it, and it listens nowhere."""
BIND_RETRY_S: Final = 1.0
DEFAULT_SETTINGS: Final = Settings()
DEFAULT_LIMITS: Final = Limits()
DEFAULT_STORAGE: Final = StorageSettings()
_Path = str | os.PathLike[str]


def alone(server_id: int) -> Ensemble:
    """The membership of one who was given none. To grow, it gives itself an address by `reconfigure`."""
    return Ensemble((Server(ServerId(server_id), NOWHERE, 1, 2),))


class Member:
    """Await `submit` and `read`; watch `roles`; look at `status`. All of it in the loop in which `run` runs."""

    def __init__(
        self,
        machine: Machine,
        path: _Path,
        *,
        server_id: int = 1,
        ensemble: Ensemble | None = None,
        name: str = "zab",
        settings: Settings = DEFAULT_SETTINGS,
        limits: Limits = DEFAULT_LIMITS,
        storage: StorageSettings = DEFAULT_STORAGE,
        tls: TlsConfig | None = None,
        listen: bool = True,
        listen_host: str | None = None,
        disk: Disk | None = None,
        network: Network | None = None,
    ) -> None:
        """
        machine      the state machine to be replicated, new and empty
        path         the directory of this member's log and snapshots; nobody else's
        server_id    which of the ensemble's servers this is
        ensemble     who takes part at first; None: this one alone, and no socket is opened. What the disk
                     remembers of later changes counts more
        name         of the ensemble: who says another one is a stranger
        listen_host  the address to bind to, where it is not the one that the others dial
        disk, network   something else than the real ones, for tests
        """
        self.me = ServerId(server_id)
        if ensemble is None:
            ensemble = alone(server_id)
        elif server_id not in ensemble.by_id:
            raise ConfigError(f"server {server_id} is none of the ensemble's, {sorted(ensemble.by_id)}")
        self._machine = machine
        self._path = path
        self._ensemble = ensemble
        self._name = name
        self._settings = settings
        self._limits = limits
        self._storage_settings = storage
        self._listen = listen
        self._listen_host = listen_host
        self._disk = disk
        self._network = network or TcpNetwork(tls, silence_ms=settings.sync_ms)
        self._bell = Doorbell()
        self._origin = Origin(os.urandom(ORIGIN_BYTES), limits.submits_max, limits.submit_bytes_max)
        self._running: _Running | None = None
        self._stopped: Stopped | None = Stopped("this member was not started yet")
        self._role: RoleChange | None = None
        self._role_changed = trio.Event()

    # -- life --------------------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Recover, listen, take part, until cancelled. Raises what made it impossible, as one plain exception.

        Started when it has recovered and listens; whether it serves is a matter of `roles`.
        """
        if self._role is not None:
            raise LocalProtocolError("a member runs once; make a new one")
        try:
            running = await _Running.start(self)
            self._running = running
            self._stopped = None
            self._tell(running.driver.role)
            try:
                await running.run(task_status)
            finally:
                await running.close()
        except BaseExceptionGroup as group:
            raise sole_error(group) from None
        finally:
            self._stopped = Stopped("this member was stopped")
            self._origin.stop(self._stopped)
            if self._running is not None:
                self._running.requests.stop(self._stopped)
            self._role_changed.set()

    def _tell(self, role: RoleChange) -> None:
        self._role = role
        self._role_changed.set()
        self._role_changed = trio.Event()

    def _started(self) -> _Running:
        if self._stopped is not None:
            raise self._stopped
        assert self._running is not None
        return self._running

    # -- requests ----------------------------------------------------------------------------------

    async def submit(self, request: bytes) -> Any:
        """Have the request carried out by the ensemble; returns the result of `apply` on this member.

        It is carried out exactly once, whatever happens to leaders and links, and requests of one member
        are carried out in the order in which they were submitted. While there is no leader it waits, and
        so it does while too many others are open: put a deadline around it, `trio.fail_after`, if you
        have one. *Cancelling does not take the request back*: from then on nobody can tell you whether it
        was, or will be, carried out.

        Raises `Refused` when the machine turned it down, `OutcomeUnknown` and `Stopped` when its end is
        not known.
        """
        waiter = Waiter()
        self._check(request)
        submission = self._origin.submit(request, waiter.done)
        self._bell.ring()
        try:
            return await waiter.wait()
        except trio.Cancelled:
            self._origin.cancel(submission)
            self._bell.ring()
            raise

    def post(self, request: bytes, done: Done) -> None:
        """`submit` for those who have thousands under way: no task waits, `done(result, error)` is called.

        In the event loop, in the middle of the member's work: be quick, and raise nothing. `Overloaded`
        where `submit` would wait.
        """
        self._check(request)
        if not self._origin.has_room(len(request)):
            raise Overloaded(
                f"{len(self._origin)} submits of {self._origin.bytes} bytes are open: wait for some of them"
            )
        self._origin.submit(request, done)
        self._bell.ring()

    def _check(self, request: bytes) -> None:
        self._started()
        if len(request) > self._limits.request_bytes_max:
            raise LocalProtocolError(
                f"a request of {len(request)} bytes; request_bytes_max is {self._limits.request_bytes_max}"
            )

    async def barrier(self) -> None:
        """Returns when everything is applied here that any member had been told was done before this call.

        Also when this member's leader has been deposed without knowing it. Waits while there is no leader.
        """
        requests = self._started().requests
        waiter = Waiter()
        answer = waiter.done
        requests.barrier(answer)
        self._bell.ring()
        try:
            await waiter.wait()
        except trio.Cancelled:
            requests.forget_barrier(answer)
            raise

    async def read(self, look: Callable[[Any], T], *, linearizable: bool = True) -> T:
        """`look(machine)`, after a barrier; or, if that is enough, of what this member happens to know.

        `look` must not change the machine, nor keep anything of it that may change.
        """
        running = self._started()
        if linearizable:
            await self.barrier()
        else:
            await trio.lowlevel.checkpoint()
        while running.driver.restoring is not None:
            await running.driver.restoring.wait()
        return look(self._machine)

    # -- the ensemble ------------------------------------------------------------------------------

    async def reconfigure(
        self,
        *,
        joining: Collection[Server] = (),
        leaving: Collection[int] = (),
        members: Ensemble | None = None,
        expect_version: Zxid | None = None,
    ) -> Ensemble:
        """Change who takes part: add or replace servers, remove some, or name all. Returns when it is in force here.

        New voters must be running and in sync already: start them with an ensemble in which they are
        observers. With `expect_version`, nothing happens if somebody else changed it meanwhile.
        """
        running = self._started()
        request = ReconfigureRequest(
            0,
            tuple(server.text() for server in joining),
            tuple(ServerId(sid) for sid in leaving),
            None if members is None else members.text(),
            expect_version,
        )
        waiter = Waiter()
        running.requests.changes.add(request, lambda error: waiter.done(None, error))
        self._bell.ring()
        await waiter.wait()
        return running.node.ensemble

    def roles(self) -> Roles:
        """What this member is, now and whenever it changes. Who is slow misses the past, never the present."""
        return Roles(self)

    async def wait_serving(self) -> RoleChange:
        """Until this member is part of an ensemble that works."""
        async for role in self.roles():
            if role.serving:
                return role
        raise Stopped("this member was stopped")

    def status(self) -> Status:
        return self._started().status()


class Roles:
    """An async iterator; ends when the member does."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._seen: RoleChange | None = None

    def __aiter__(self) -> Roles:
        return self

    async def __anext__(self) -> RoleChange:
        member = self._member
        await trio.lowlevel.checkpoint()
        while member._role is self._seen or member._role is None:
            if member._stopped is not None and member._role is not None:
                raise StopAsyncIteration
            await member._role_changed.wait()
        self._seen = member._role
        return self._seen


class _Running:
    """Everything that exists only between the start and the end of a member."""

    def __init__(self, member: Member, disk: Disk, storage: Storage, recovered: Recovered) -> None:
        limits, settings = member._limits, member._settings
        chance = random.Random(os.urandom(16))
        self.member = member
        self.disk = disk
        self.storage = storage
        self.recovered = recovered
        self.node = node = Node(
            member.me, member._ensemble, recovered, settings, lambda span: chance.randint(0, max(0, span)), now_ms()
        )
        self.log = Log(member.me, lambda: node.epoch)
        self.handshake = Handshake(member.me, member._name, limits.handshake_ms)
        self.writer = Writer(storage, lambda ticket: self.driver.saved(ticket))
        self.inbox = Inbox(member._bell, limits.inbox_bytes_max, lambda: self.writer.backlog_bytes)
        dialler = Dialler(member._network, self.handshake, limits)
        self.elections = Elections(
            member.me, dialler, self.inbox, limits, self.log, partial(self._addresses, "election_port")
        )
        self.links = Links(
            dialler, storage, self.inbox, limits, self.log, partial(self._addresses, "quorum_port"), node.log_starts
        )
        self.requests = Requests(node, member._machine, member._origin, self.links, limits, wall_ms)
        self.driver = Driver(
            node,
            member._machine,
            storage,
            member._bell,
            self.inbox,
            self.links,
            self.elections,
            self.requests,
            self.log,
            member._tell,
            self._activated,
        )
        self.snapshots = Snapshots(
            storage, self.writer, limits, self.log, lambda span: chance.randint(0, span), node.log_starts
        )
        self.election_port = Port(
            Purpose.ELECTION, member._network, self.handshake, limits, self.log, self.elections.welcomed
        )
        self.quorum_port = Port(Purpose.LEARNER, member._network, self.handshake, limits, self.log, self.links.welcomed)
        self._members = node.ensemble
        self._rebind = Doorbell()

    @classmethod
    async def start(cls, member: Member) -> _Running:
        """Recover. Cancelling waits for the disk: nothing may write behind the back of the next one."""
        disk = member._disk
        if disk is None:
            from zab.storage.real import RealDisk

            disk = await trio.to_thread.run_sync(RealDisk, member._path)
        try:
            storage, recovered = await trio.to_thread.run_sync(Storage.open, disk, member._storage_settings)
            if storage.newest_snapshot is not None:
                chunks = storage.read_snapshot(recovered.snapshot)
                await trio.to_thread.run_sync(member._machine.restore, chunks)
        except BaseException:
            disk.close()
            raise
        return cls(member, disk, storage, recovered)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        for line in self.storage.notes:
            self.log.say("recovery", what=line)
        async with trio.open_nursery() as nursery:
            await self._bind(nursery)
            nursery.start_soon(self.writer.run)
            nursery.start_soon(self.elections.run)
            nursery.start_soon(self.links.run)
            nursery.start_soon(self._keep_bound, nursery)
            nursery.start_soon(self.driver.run, self.writer, self.snapshots, nursery)
            await trio.lowlevel.checkpoint()
            task_status.started()

    async def close(self) -> None:
        """The writer has ended: nobody else uses the disk any more."""
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._close_disk)

    def _close_disk(self) -> None:
        try:
            self.storage.close()
        finally:
            self.disk.close()

    # -- addresses ---------------------------------------------------------------------------------

    def _addresses(self, port: str, peer: ServerId) -> Sequence[Address]:
        """Where a server may be, by every membership that this one knows: the newest first."""
        found: list[Address] = []
        for ensemble in (self.node.pending, self.node.ensemble, self.member._ensemble):
            server = None if ensemble is None else ensemble.by_id.get(peer)
            if server is not None and server.host != NOWHERE and (server.host, getattr(server, port)) not in found:
                found.append((server.host, getattr(server, port)))
        return found

    def _activated(self, ensemble: Ensemble) -> None:
        for sid in self._members.by_id:
            if sid not in ensemble.by_id:
                self.elections.drop(sid)
        self._members = ensemble
        self._rebind.ring()

    async def _keep_bound(self, nursery: trio.Nursery) -> None:
        """Listen where the membership says, also when it changes. A port that is taken then may become free."""
        while True:
            await self._rebind.wait()
            while True:
                try:
                    await self._bind(nursery)
                    break
                except PortTaken as error:
                    self.log.grumble("port_taken", "rebind", why=error)
                    await trio.sleep(BIND_RETRY_S)

    async def _bind(self, nursery: trio.Nursery) -> None:
        server = self.node.ensemble.by_id.get(self.member.me) or self.member._ensemble.by_id[self.member.me]
        if not self.member._listen or server.host == NOWHERE:
            return
        host = self.member._listen_host or server.host
        self.handshake.host, self.handshake.port = server.host, server.election_port
        await self.election_port.bind(nursery, host, server.election_port)
        await self.quorum_port.bind(nursery, host, server.quorum_port)

    # -- status ------------------------------------------------------------------------------------

    def status(self) -> Status:
        node, driver, requests, disk = self.node, self.driver, self.requests, self.writer.counts
        counters = Counters(
            submits=self.member._origin.submits,
            proposals=requests.desk.proposed,
            batches=requests.desk.batches,
            applied=driver.applied,
            applied_bytes=driver.applied_bytes,
            elections=node.elections,
            barriers=requests.barriers,
            refusals=requests.refusals,
            snapshots=self.snapshots.taken,
            restores=driver.restores,
            turns=driver.turns,
            fsyncs=disk.fsyncs,
            fsync_us=disk.fsync_us,
            fsync_us_max=disk.fsync_us_max,
            logged_bytes=disk.logged_bytes,
        )
        return Status(
            server=self.member.me,
            role=driver.role,
            ensemble=node.ensemble,
            pending=node.pending,
            last=node.last,
            durable=node.durable,
            committed=node.committed,
            applied=node.applied,
            synced=node.synced,
            voting=node.voting,
            damage=self.recovered.damage,
            outstanding=len(self.member._origin),
            links=self.links.status(),
            election_links=self.elections.links(),
            counters=counters,
        )


@asynccontextmanager
async def open_member(machine: Machine, path: _Path, **options: Any) -> AsyncIterator[Member]:
    """A member for as long as the block lasts; the options are those of `Member`.

    When the member fails, the block is cancelled, and what made it fail is raised.
    """
    member = Member(machine, path, **options)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(member.run)
            yield member
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise sole_error(group) from None


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong, out of the groups that nurseries wrap it in, where it is one thing."""
    _, others = group.split(Stopped)  # a consequence, where there is anything else
    error: BaseException = group if others is None else others
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
