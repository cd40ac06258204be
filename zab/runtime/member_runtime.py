"""The parts of a running member, and how they are connected. They exist between its start and its end."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final

import trio

from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError
from zab.core.messages import Veto
from zab.core.ready import Recovered
from zab.core.zxid import Millis, Zxid
from zab.host.clocks import loop_clock, now_ms
from zab.host.logs import Log
from zab.host.watchdog import Watchdogs
from zab.net.socket_reader import EpollReader
from zab.net.wakeup import Wakeup
from zab.runtime.deadline_alarm import DeadlineAlarm
from zab.runtime.driver import Driver
from zab.runtime.election_links import ElectionLinks
from zab.runtime.inbox import Inbox
from zab.runtime.learner_sync import LearnerSync
from zab.runtime.link import Link
from zab.runtime.links import Links
from zab.runtime.member_arguments import MemberArguments, MemberHooks
from zab.runtime.member_status import MemberStatus
from zab.runtime.membership_follower import MembershipFollower
from zab.runtime.peer_handshake import PeerHandshake
from zab.runtime.peer_port import PeerDialler
from zab.runtime.peer_protocol import Introduction, PeerProtocol
from zab.runtime.quorum_auth import QuorumAuth
from zab.runtime.snapshot_finder import SnapshotFinder
from zab.runtime.snapshot_restorer import RestoreGate, SnapshotRestorer
from zab.runtime.snapshot_taker import SnapshotTaker
from zab.runtime.turn_runner import TurnRunner
from zab.runtime.waiter import Waiter
from zab.runtime.writer import Writer
from zab.runtime.zookeeper_handshake import ZookeeperHandshake
from zab.service.batch_applier import BatchApplier
from zab.service.forwarding.leadership import LearnerLink
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.request_path import RequestPath
from zab.service.forwarding.zookeeper_forwarder import SessionOwners, ZookeeperForwarder
from zab.service.forwarding.zookeeper_intake import ZookeeperSeal
from zab.service.health.role_reporter import RoleReporter
from zab.service.health.status import RoleChange, SnapshotStatus
from zab.service.peer_directory import PeerDirectory
from zab.service.replicated_machine import Machine
from zab.service.tree_digests import DigestedTree, PredictedTree, TreeDigestCheck
from zab.storage.disk import Disk
from zab.storage.storage import Storage
from zab.wire.apache.proposals import ProposalEncoder

COMMITTED_S: Final = 1.0
"""The interval at which the committed zxid is saved. A killed server may know an older one after its next start."""


def _encode_on(link: LearnerLink, message: Any) -> bytes:
    assert isinstance(link, Link), "the links of a member are those of its runtime"
    return link.codec.encode(message)


class _NoSessions:
    """The sessions of a machine that has none."""

    def attach_session(self, session: int, server: int, epoch: int) -> bool:
        return False


class MemberRuntime:
    """The parts of one running member. The constructor connects them; `run` starts them."""

    def __init__(
        self,
        arguments: MemberArguments,
        machine: Machine,
        disk: Disk,
        storage: Storage,
        recovered: Recovered,
        pending: PendingSubmissions,
        wakeup: Wakeup,
        on_role: Callable[[RoleChange], None],
        watchdogs: Watchdogs,
        hooks: MemberHooks,
    ) -> None:
        limits, me, network, environment = arguments.limits, arguments.me, arguments.network, arguments.environment
        chance = random.Random(environment.random_bytes(16))

        def jitter(span: int) -> int:
            return chance.randint(0, max(0, span))

        self.node = node = environment.node(me, arguments.ensemble, recovered, arguments.settings, jitter, now_ms())
        self.gate = gate = RestoreGate()
        self.socket_reader = EpollReader(wakeup, lambda: self.turns.turn())
        """Reads from the ready sockets of peers and clients, then runs a turn if there is input for it."""
        self._arguments = arguments
        self._wakeup = wakeup
        self._disk = disk
        self._storage = storage
        self._log = log = Log(me, lambda: node.epoch)
        writer = environment.writer(storage, limits.pause_us_max)
        self._inbox = inbox = Inbox(wakeup, limits.inbox_bytes_max, lambda: writer.backlog_bytes)
        clock = loop_clock()
        watchdog = watchdogs.add("driver", wakeup.ring, lambda: gate.closed, clock)

        # Links to the other servers.
        directory = PeerDirectory(
            node, me, arguments.ensemble, limits.parting_ms, admit_non_members=arguments.admit_non_members
        )

        def hosts(introduced: Introduction) -> Collection[str]:
            return directory.hosts(introduced.server, introduced.host, clock())

        encoder = ProposalEncoder()
        sasl = None if arguments.zookeeper is None else arguments.zookeeper.sasl
        auth = None if sasl is None else QuorumAuth(sasl, environment.random_bytes)
        protocol: PeerProtocol = (
            PeerHandshake(me, arguments.name, limits, hosts)
            if arguments.zookeeper is None
            else ZookeeperHandshake(me, arguments.zookeeper, limits, hosts, encoder, auth)
        )
        dialler = PeerDialler(network, protocol, limits, log)
        elections = ElectionLinks(me, dialler, inbox, limits, log, directory.election_addresses)
        learner_sync = LearnerSync(storage, limits, log, node.log_starts, environment)
        links = Links(dialler, elections, learner_sync, inbox, limits, directory.quorum_addresses, self.socket_reader)
        self._membership = membership = MembershipFollower(
            arguments, directory, protocol, elections, links, network, log
        )

        # The parts of a turn.
        zookeeper, seal = None, None
        if arguments.zookeeper is not None:
            seal = ZookeeperSeal(encoder, machine if isinstance(machine, PredictedTree) else None)
            digests = TreeDigestCheck(machine) if isinstance(machine, DigestedTree) else None
            owners = machine if isinstance(machine, SessionOwners) else _NoSessions()
            zookeeper = ZookeeperForwarder(me, pending, limits, _encode_on, owners, digests, lambda: node.last)
        self.requests = requests = RequestPath(
            node,
            machine,
            pending,
            links,
            limits,
            log,
            environment.wall_ms,
            watchdog,
            hooks.on_leader_message,
            hooks.on_member_message,
            zookeeper,
            seal,
            hooks.on_touches,
        )
        self._snapshots = snapshots = SnapshotTaker(storage, writer, limits, log, jitter, node.log_starts, environment)
        finder = SnapshotFinder(node, inbox, storage, snapshots, log, environment)

        def on_membership(ensemble: Ensemble, zxid: Zxid | None) -> None:
            if zxid is None:
                membership.activate(ensemble)
            hooks.on_membership(ensemble, zxid)

        on_untagged = None if zookeeper is None else zookeeper.applied
        count = snapshots.schedule.count
        applier = BatchApplier(machine, storage, pending, count, on_membership, watchdog, on_untagged)
        restorer = SnapshotRestorer(node, machine, storage, links, snapshots.schedule, gate, environment)
        roles = RoleReporter(node, elections.settled, log, on_role)
        alarm = DeadlineAlarm(node, wakeup)
        driver = Driver(
            node, inbox, storage, writer, links, requests, applier, restorer, snapshots, finder, roles, alarm, log,
            clock,
        )  # fmt: skip
        self.turns = turns = TurnRunner(
            driver, applier, restorer, requests.queue, wakeup, watchdog, clock, hooks.on_turn
        )
        self.status = MemberStatus(
            me, node, recovered, pending, requests, roles, turns, applier, restorer, links, elections, writer,
            snapshots, storage, disk,
        )  # fmt: skip
        self._tasks: tuple[Callable[[], Awaitable[None]], ...] = (
            partial(writer.run, turns.saved),
            elections.run,
            links.run,
            membership.run,
            snapshots.run,
            finder.run,
            alarm.run,
            partial(self._save_committed, writer),
            partial(self._renew_silent_links, elections),
            turns.run,
        )
        """Tasks that run until the member ends."""
        self._giving_up: list[Callable[[Veto | None, Exception | None], None]] = []
        """The `done` of each call of `give_up_history` that no turn has answered yet."""

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Listen, take part until cancelled, and close the disk. The errors of the parts are raised in a group."""
        for line in self._storage.notes:
            self._log.say("recovery", "warning" if line in self._storage.rotten else "info", what=line)
        try:
            async with trio.open_nursery() as nursery:
                self.socket_reader.open(nursery)
                await self._membership.bind(nursery)
                self.node.tick(now_ms())  # a single server leads at once
                self._wakeup.ring()
                for task in self._tasks:
                    nursery.start_soon(task)
                task_status.started()
        finally:
            self.socket_reader.close()
            # The writer has ended: no other task uses the disk any more.
            with trio.CancelScope(shield=True):
                await self._arguments.environment.in_thread(self._close_disk)

    async def _save_committed(self, writer: Writer) -> None:
        """Save the committed zxid at intervals, so that a killed server finds it at its next start."""
        while True:
            await trio.sleep(COMMITTED_S)
            if self._storage.knows_more_committed:
                await writer.call(self._storage.save_committed)

    async def _renew_silent_links(self, elections: ElectionLinks) -> None:
        """Once an election has lasted for `init_ms`, reconnect to the voters that have sent nothing since its start.

        A link that was opened less than `init_ms` ago is kept.
        """
        init_ms = self._arguments.settings.init_ms
        while True:
            await trio.sleep(init_ms / 4_000)
            elections.renew_silent(self.node.silent_voters(now_ms()), init_ms)

    def _close_disk(self) -> None:
        try:
            self._storage.close()
        finally:
            self._disk.close()

    def stop(self, error: Exception) -> None:
        """End the waiting of all callers: the member has ended. Readers look for themselves; all others get `error`."""
        self.requests.stop(error)
        self._snapshots.schedule.stop(error)
        for done in self._giving_up:
            done(None, error)
        if self.gate.closed:
            self.gate.open()

    def give_up_history(self, done: Callable[[Veto | None, Exception | None], None]) -> None:
        """Give up the history in the next turn.

        `done` receives the veto that this ends, or `LocalProtocolError` if there is none.
        """

        def give_up(now: Millis) -> None:
            self._giving_up.remove(done)
            try:
                done(self.node.give_up_history(now), None)
            except LocalProtocolError as error:
                done(None, error)

        self._giving_up.append(done)
        self._inbox.call(give_up)

    async def take_snapshot(self) -> SnapshotStatus:
        """Take one more snapshot, and return its status when it is durable."""
        waiter = Waiter()
        self._snapshots.schedule.ask(waiter.done)
        self._wakeup.ring()
        taken = await waiter.wait()
        assert isinstance(taken, SnapshotStatus)
        return taken
