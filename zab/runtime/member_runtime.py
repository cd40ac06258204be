"""Everything that exists only between the start and the end of a member, put together."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import trio
from attrs import frozen

from zab.core.ensemble import Ensemble, Server
from zab.core.ready import Recovered, Settings
from zab.core.zxid import ServerId
from zab.host.clocks import now_ms
from zab.host.logs import Log
from zab.host.watchdog import Watchdogs
from zab.net.cannot_listen import CannotListen
from zab.net.network import Network
from zab.net.socket_reader import EpollReader
from zab.net.wakeup import Wakeup
from zab.runtime.driver import Driver, Hooks
from zab.runtime.election_links import Address, ElectionLinks
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.inbox import Inbox
from zab.runtime.learner_sync import LearnerSync
from zab.runtime.links import Links
from zab.runtime.peer_handshake import PeerHandshake
from zab.runtime.peer_port import PeerDialler, PeerPort
from zab.runtime.snapshot_taker import SnapshotTaker
from zab.runtime.status import Counters, DiskStatus, RoleChange, SnapshotStatus, Status
from zab.service.limits import Limits
from zab.service.pending_submissions import PendingSubmissions
from zab.service.replicated_machine import Machine
from zab.service.request_path import RequestPath
from zab.storage.disk import Disk
from zab.storage.storage import Storage, StorageSettings
from zab.wire.greeting import Purpose

NO_HOST: Final = "embedded.invalid"
"""The host of a member without an address: no server dials it, and it listens nowhere."""
COMMITTED_S: Final = 1.0
"""How often it is saved how far the history is committed. A killed server may have forgotten so much of it."""

BIND_RETRY_S: Final = 1.0


@frozen
class Options:
    """The fixed arguments of a member."""

    me: ServerId
    ensemble: Ensemble
    name: str
    settings: Settings
    limits: Limits
    storage: StorageSettings
    listen: bool
    listen_host: str | None
    network: Network
    environment: Environment = REAL_ENVIRONMENT
    admit_non_members: bool = False


def single_server_ensemble(server_id: int) -> Ensemble:
    """Return the membership of a member that was given none. To grow, it gives itself an address by `reconfigure`."""
    return Ensemble((Server(ServerId(server_id), NO_HOST, 1, 2),))


class MemberRuntime:
    """The parts of one running member. Its making connects them; `run` sets them going."""

    def __init__(
        self,
        options: Options,
        machine: Machine,
        disk: Disk,
        storage: Storage,
        recovered: Recovered,
        pending: PendingSubmissions,
        wakeup: Wakeup,
        changed: Callable[[RoleChange], None],
        watchdogs: Watchdogs,
        hooks: Hooks,
    ) -> None:
        limits, me, network, environment = options.limits, options.me, options.network, options.environment
        chance = random.Random(environment.random_bytes(16))

        def jitter(span: int) -> int:
            return chance.randint(0, max(0, span))

        self.node = node = environment.node(me, options.ensemble, recovered, options.settings, jitter, now_ms())
        self._options = options
        self._pending = pending
        self._wakeup = wakeup
        self._disk = disk
        self._storage = storage
        self._recovered = recovered
        self._log = log = Log(me, lambda: node.epoch)
        self._handshake = handshake = PeerHandshake(
            me, options.name, limits.handshake_ms, self._hosts, admit_non_members=options.admit_non_members
        )
        self._writer = writer = environment.writer(
            storage, lambda ticket: self.driver.saved(ticket), limits.pause_us_max
        )
        inbox = Inbox(wakeup, limits.inbox_bytes_max, lambda: writer.backlog_bytes)
        dialler = PeerDialler(network, handshake, limits, log)
        self._elections = ElectionLinks(me, dialler, inbox, limits, log, partial(self._addresses, "election_port"))
        self.socket_reader = EpollReader(wakeup)
        learner_sync = LearnerSync(storage, limits, log, node.log_starts, environment)
        self._links = Links(
            dialler, learner_sync, inbox, limits, partial(self._addresses, "quorum_port"), self.socket_reader
        )
        clock = trio.lowlevel.current_clock().current_time
        watchdog = watchdogs.add("driver", wakeup.ring, lambda: self.driver.restoring is not None, clock)
        self.requests = RequestPath(
            node,
            machine,
            pending,
            self._links,
            limits,
            log,
            environment.wall_ms,
            watchdog,
            hooks.on_leader_message,
            hooks.on_member_message,
        )
        self._snapshots = SnapshotTaker(storage, writer, limits, log, jitter, node.log_starts, environment)
        self.driver = Driver(
            node,
            machine,
            storage,
            wakeup,
            inbox,
            self._links,
            self._elections,
            self.requests,
            log,
            writer,
            self._snapshots,
            changed,
            self._activated,
            hooks,
            watchdog,
            clock,
            environment,
        )
        self._election_port = PeerPort(
            Purpose.ELECTION, network, handshake, limits, log, self._elections.welcomed, self._lives_at
        )
        self._quorum_port = PeerPort(
            Purpose.LEARNER, network, handshake, limits, log, self._links.welcomed, self._lives_at
        )
        self._members = node.ensemble
        self._left: dict[ServerId, tuple[str, float]] = {}
        """Servers that left the membership not long ago: the host of each, and until when it may still connect."""
        self._rebind = Wakeup()
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        for line in self._storage.notes:
            self._log.say("recovery", "warning" if line in self._storage.rotten else "info", what=line)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.socket_reader.open(nursery, self.driver.turn)
                await self._bind(nursery)
                nursery.start_soon(self._writer.run)
                nursery.start_soon(self._elections.run)
                nursery.start_soon(self._links.run)
                nursery.start_soon(self._keep_bound, nursery)
                nursery.start_soon(self._save_committed)
                nursery.start_soon(self._snapshots.run)
                nursery.start_soon(self.driver.run)
                task_status.started()
        finally:
            self.socket_reader.close()
            # The writer has ended: no other task uses the disk any more.
            with trio.CancelScope(shield=True):
                await self._options.environment.in_thread(self._close_disk)

    async def _save_committed(self) -> None:
        """Save now and then how far the history is committed: so this server keeps it, also if it is killed."""
        while True:
            await trio.sleep(COMMITTED_S)
            if self._storage.knows_more_committed:
                await self._writer.call(self._storage.save_committed)

    def _close_disk(self) -> None:
        try:
            self._storage.close()
        finally:
            self._disk.close()

    def stop(self, error: Exception) -> None:
        """Fail everything that still waits for this member, after it has ended."""
        self.requests.stop(error)
        self._snapshots.stop(error)

    # -- addresses ---------------------------------------------------------------------------------

    def _addresses(self, port: str, peer: ServerId) -> Sequence[Address]:
        """Return the addresses of a server in all memberships that this one knows, the newest first."""
        found: list[Address] = []
        for ensemble in (self.node.pending, self.node.ensemble, self._options.ensemble):
            server = None if ensemble is None else ensemble.by_id.get(peer)
            if server is not None and server.host != NO_HOST and (server.host, getattr(server, port)) not in found:
                found.append((server.host, getattr(server, port)))
        return found

    def _hosts(self, peer: ServerId) -> Collection[str]:
        """Return the hosts of a server that may connect: of a member, now or when a pending change is decided, and for
        a while of one that left, which has yet to apply its own removal and to answer the client that asked for it."""
        memberships = (self.node.pending, self.node.ensemble)
        servers = [each.by_id.get(peer) for each in memberships if each is not None]
        hosts = [server.host for server in servers if server is not None]
        left = self._left.get(peer)
        return hosts or ([] if left is None or left[1] <= trio.current_time() else [left[0]])

    def _lives_at(self, address: str) -> bool:
        known = (self.node.pending, self.node.ensemble, self._options.ensemble)
        return any(each is not None and any(server.host == address for server in each.servers) for each in known)

    def _activated(self, ensemble: Ensemble) -> None:
        for sid, server in self._members.by_id.items():
            if sid not in ensemble.by_id:
                self._elections.drop(sid)
                self._left[sid] = server.host, trio.current_time() + self._options.limits.parting_ms / 1000
                if self._nursery is not None and not self._options.admit_non_members:
                    self._nursery.start_soon(self._part_from, sid)
        self._members = ensemble
        self._rebind.ring()

    async def _part_from(self, peer: ServerId) -> None:
        """Cut the link of a server that left the membership, when its time is over and it has not come back."""
        await trio.sleep_until(self._left[peer][1])
        if not self._hosts(peer):
            self._links.cut(peer, "it left the membership")

    async def _keep_bound(self, nursery: trio.Nursery) -> None:
        """Listen where the membership says, and follow its changes. A port that is taken then may become free."""
        while True:
            await self._rebind.wait()
            while True:
                try:
                    await self._bind(nursery)
                    break
                except CannotListen as error:
                    self._log.warn_rate_limited("port_taken", "rebind", why=error)
                    await trio.sleep(BIND_RETRY_S)

    async def _bind(self, nursery: trio.Nursery) -> None:
        options = self._options
        server = self.node.ensemble.by_id.get(options.me)
        if server is None:  # not a member yet, or not any more
            if self._quorum_port.bound is not None:
                return
            server = options.ensemble.by_id[options.me]
        if not options.listen or server.host == NO_HOST:
            return
        host = options.listen_host or server.host
        self._handshake.host, self._handshake.port = server.host, server.election_port
        await self._election_port.bind(nursery, host, server.election_port)
        await self._quorum_port.bind(nursery, host, server.quorum_port)

    # -- status ------------------------------------------------------------------------------------

    def status(self) -> Status:
        node, driver, requests, disk = self.node, self.driver, self.requests, self._writer.counts
        counters = Counters(
            submits=self._pending.submits,
            proposals=requests.queue.proposed,
            batches=requests.queue.batches,
            applied=driver.applied,
            applied_bytes=driver.applied_bytes,
            elections=node.elections,
            barriers=requests.barriers.completed,
            refusals=requests.intake.refused,
            snapshots=self._snapshots.status.taken,
            restores=driver.restores,
            diffs_sent=self._links.diffs,
            snapshots_sent=self._links.snapshots,
            turns=driver.turns,
            fsyncs=disk.fsyncs,
            fsync_us=disk.fsync_us,
            fsync_us_max=disk.fsync_us_max,
            logged_bytes=disk.logged_bytes,
        )
        return Status(
            server=self._options.me,
            role=driver.role,
            ensemble=node.ensemble,
            pending=node.pending,
            last=node.last,
            durable=node.durable,
            committed=node.committed,
            applied=node.applied,
            synced=node.synced,
            voting=node.voting,
            damage=() if node.voting else self._recovered.damage,
            cut_off_since=node.cut_off_since,
            heard=node.responsive_voters,
            outstanding=len(self._pending),
            links=self._links.status(),
            election_links=self._elections.links(),
            election_failures=self._elections.failures(),
            counters=counters,
        )

    async def take_snapshot(self) -> SnapshotStatus:
        waiter = self._snapshots.ask()
        self._wakeup.ring()
        taken = await waiter.wait()
        assert isinstance(taken, SnapshotStatus)
        return taken

    def disk_status(self) -> DiskStatus:
        path = getattr(self._disk, "path", None)
        return DiskStatus(
            path=None if path is None else str(path),
            log_path=None if path is None else str(getattr(self._disk, "log_path", path)),
            fsyncs_us=tuple(self._writer.counts.recent_us),
            writes=self._writer.counts.writes,
            backlog_bytes=self._writer.backlog_bytes,
            snapshot=self._snapshots.status,
            rotten=self._storage.rotten,
        )
