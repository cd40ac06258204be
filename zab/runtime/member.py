"""One member of an ensemble, as an application uses it.

async with zab.open_member(MyMachine(), "data") as member:
    print(await member.submit(b"request"))
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import trio

from zab.core.argument_names import checks_arguments, checks_names
from zab.core.ensemble import NO_HOST, Ensemble, Server
from zab.core.errors import ConfigError, DamagedError, LocalProtocolError, Overloaded, Stopped
from zab.core.messages import Veto
from zab.core.ready import Recovered, Settings, with_zookeeper_peers
from zab.core.zxid import Epoch, ServerId, Zxid
from zab.host.logs import Log
from zab.host.pace import beside_the_loop
from zab.host.watchdog import Stall, Watchdogs
from zab.net.network import LinkTls, Network, TcpNetwork
from zab.net.socket_reader import TASK_READER, SocketReader
from zab.net.wakeup import Wakeup
from zab.runtime.block_nursery import block_nursery, sole_error
from zab.runtime.directory_owner import NAME as IDENTITY
from zab.runtime.directory_owner import claim_directory
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.member_arguments import MemberArguments, MemberHooks, single_server_ensemble
from zab.runtime.member_runtime import MemberRuntime
from zab.runtime.peer_port import listen_for_peers
from zab.runtime.waiter import Waiter
from zab.service.batch_applier import OnMembership
from zab.service.forwarding.pending_submissions import Done, PendingSubmissions, Submission
from zab.service.forwarding.side_channel import MessageHandler
from zab.service.forwarding.zookeeper_forwarder import ZookeeperForwarder
from zab.service.forwarding.zookeeper_intake import OnTouches
from zab.service.health.status import DiskStatus, RoleChange, SnapshotStatus, Status
from zab.service.limits import Limits
from zab.service.replicated_machine import Machine, check_machine, kind_of
from zab.service.zookeeper_peers import ZookeeperPeers
from zab.storage import snapshot_files
from zab.storage.disk import Disk
from zab.storage.real_disk import RealDisk
from zab.storage.recovery import check_curable
from zab.storage.storage import Storage, StorageSettings
from zab.wire.greeting import Purpose
from zab.wire.relay_messages import ORIGIN_BYTES, ReconfigureRequest

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_SETTINGS: Final = Settings()
DEFAULT_LIMITS: Final = Limits()
DEFAULT_STORAGE: Final = StorageSettings()

_BYTES: Final = frozenset({bytes})


@checks_arguments
class Member:
    """A member of an ensemble: it replicates a state machine, and takes requests for it.

    Start `run` in a nursery of yours, and cancel it to stop the member; or use `zab.open_member`. Await `submit` and
    `read`, watch `roles`, look at `status`, all in the event loop in which `run` runs. A call that needs the running
    member raises `Stopped` before the member has recovered and after it has ended.
    """

    def __init__(
        self,
        machine: Machine,
        path: str | os.PathLike[str],
        *,
        server_id: int | None = None,
        ensemble: Ensemble | None = None,
        name: str = "zab",
        settings: Settings = DEFAULT_SETTINGS,
        limits: Limits = DEFAULT_LIMITS,
        storage: StorageSettings = DEFAULT_STORAGE,
        tls: LinkTls | None = None,
        listen: bool = True,
        listen_host: str | None = None,
        disk: Disk | None = None,
        network: Network | None = None,
        host: Environment = REAL_ENVIRONMENT,
        admit_non_members: bool = False,
        zookeeper: ZookeeperPeers | None = None,
    ) -> None:
        """Make a member of an ensemble, or a member that runs alone.

        machine      the state machine to replicate; it must be new and empty
        path         the directory of this member's log and snapshots; no other member may use it
        server_id    this server's id in the ensemble; required with an ensemble, else 1 by default
        ensemble     the first membership; None: this member alone, without ports for other servers until `reconfigure`
                     gives it an address. A later membership on the disk takes precedence
        name         the ensemble's name: a server that gives another name is refused
        settings     times and limits of the consensus
        limits       limits of this member's queues, frames, waits and snapshots
        storage      settings of the log and the snapshots on the disk
        tls          TLS between the servers, such as `zab.TlsConfig`; None: plain TCP
        listen       False: open no ports for the other servers
        listen_host  the address to bind to, if it differs from the address that the others dial
        disk, network, host   replacements of the real ones, for tests; `tls` has no effect on a given network
        admit_non_members     True: servers that are not members may connect, read everything and forward requests. Set
                     it only to add new servers, which connect before they are members

        zookeeper    settings of an ensemble that speaks the protocol of Apache ZooKeeper between its servers; None: it
                     speaks our own. With them the machine must be a store

        Raise `TypeError` if the machine, `path`, `server_id` or `ensemble` has a wrong type, and `ConfigError` if an
        argument is invalid or contradicts another one, or a file of `tls` cannot be used.
        """
        check_machine(machine)
        given_path: object = path
        if not isinstance(given_path, (str, os.PathLike)):
            raise TypeError(f"path must be a directory, as text or a pathlib.Path, not {type(path).__name__}")
        given: object = ensemble
        number: object = server_id
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise TypeError(f"server_id must be a number, like 1, not {type(number).__name__}")
        if ensemble is None:
            server_id = 1 if server_id is None else server_id
            ensemble = single_server_ensemble(server_id)
        elif not isinstance(given, Ensemble):
            raise TypeError(f"ensemble takes zab.Ensemble.parse(text), not {type(given).__name__}")
        elif not ensemble.voters:
            raise ConfigError("the ensemble has no participant: at least one server has to vote")
        elif server_id is None:
            raise ConfigError(f"server_id= is missing: which server of {sorted(ensemble.by_id)} is this?")
        elif server_id not in ensemble.by_id:
            raise ConfigError(f"server {server_id} is not in the ensemble, whose servers are {sorted(ensemble.by_id)}")
        self.me = ServerId(server_id)
        if limits.batch_entries_max > settings.counter_max:
            # A batch could need more zxids than an epoch has. Each leader that tries to propose it would lose its role.
            raise ConfigError(
                f"Limits.batch_entries_max = {limits.batch_entries_max}: "
                f"at most Settings.counter_max = {settings.counter_max} is allowed"
            )
        if zookeeper is not None:
            settings = with_zookeeper_peers(settings, reconfig_enabled=zookeeper.reconfig_enabled)
        network = network or TcpNetwork(tls, silence_ms=settings.sync_ms)
        self._arguments = MemberArguments(
            self.me, ensemble, name, settings, limits, storage, listen, listen_host, network, host, admit_non_members,
            zookeeper,
        )  # fmt: skip
        self._machine = machine
        self._path = path
        self._disk = disk
        self._wakeup = Wakeup()
        self._pending = PendingSubmissions(
            host.random_bytes(ORIGIN_BYTES), limits.submits_max, limits.submit_bytes_max, limits.leaders_lost_max
        )
        self._begun = False
        """True once `run` was called."""
        self._running: MemberRuntime | None = None
        """Set once by `run`, after the recovery."""
        self.watchdogs = Watchdogs(self._report_stall)
        self._stopped: Stopped | None = Stopped("this member was not started yet")
        """The error of calls that need the running member; None between the recovery and the end."""
        self._ended = False
        """True once `run` has ended, also if the recovery failed."""
        self._role: RoleChange | None = None
        """The present role, or the last one after the end; None until the recovery is complete."""
        self._next_role = trio.lowlevel.ParkingLot()
        """The tasks that wait for the next change of the role, or for the end."""
        self._hooks = MemberHooks()

    # -- life --------------------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Recover, listen and take part until cancelled. A single error is raised as it is, not in a group.

        `task_status` is started when the member has recovered and listens. `roles` tells when it serves. A member runs
        once only, even if it fails: a second call raises `LocalProtocolError`.

        Raise `ConfigError` if the directory belongs to another server, another ensemble or another kind of machine,
        `CannotListen` if a port cannot be opened, `StorageError` if the disk fails, and its subclass `DamagedError` if
        data on the disk are damaged and the other servers cannot replace them. An exception that the machine raises may
        end the member, too.
        """
        if self._begun:
            raise LocalProtocolError("a member runs only once; make a new one")
        self._begun = True
        failure: Exception | None = None
        try:
            self._running = running = await self._recover()
            self._stopped = None
            self._on_role(running.status.member().role)
            self._hooks.on_membership(running.node.ensemble, None)
            await running.run(task_status)
        except BaseExceptionGroup as group:
            error = sole_error(group)
            failure = error if isinstance(error, Exception) else None
            raise error from None
        except Exception as error:
            failure = error
            raise
        finally:
            self._stopped = stopped_by(failure)
            self._ended = True
            self._pending.stop(self._stopped)
            if self._running is not None:
                self._running.stop(self._stopped)
            self._next_role.unpark_all()

    async def _recover(self) -> MemberRuntime:
        """Recover in a thread, and return the parts of the member. Close the disk if that fails.

        A cancellation waits for the thread, which must not use the directory later.
        """
        disk, in_thread = self._disk, self._arguments.environment.in_thread
        if disk is None:
            if not await in_thread(partial(os.path.exists, os.path.join(self._path, IDENTITY))):
                await self._check_ports()
            disk = await in_thread(partial(RealDisk, self._path))
        try:
            kind = kind_of(self._machine)
            await in_thread(partial(claim_directory, disk, self._path, self._arguments.name, self.me, kind))
            with beside_the_loop():
                storage, recovered = await in_thread(partial(_open_storage, disk, self._arguments.storage))
            check_curable(recovered, self._arguments.ensemble, self.me, self._path)
            if storage.newest_snapshot is not None:
                chunks = storage.read_snapshot(recovered.snapshot)
                try:
                    with beside_the_loop():
                        await in_thread(partial(self._machine.restore, chunks))
                except DamagedError as error:
                    file = snapshot_files.name_of(recovered.snapshot)
                    raise DamagedError(f"{self._path}/{file}: {error}") from error
            return MemberRuntime(
                self._arguments,
                self._machine,
                disk,
                storage,
                recovered,
                self._pending,
                self._wakeup,
                self._on_role,
                self.watchdogs,
                self._hooks,
            )
        except BaseException:
            disk.close()
            raise

    async def _check_ports(self) -> None:
        """Raise `CannotListen` if a port cannot be opened, before the first start has written anything."""
        arguments = self._arguments
        server = arguments.ensemble.by_id[self.me]
        if not arguments.listen or server.host == NO_HOST:
            return
        host = arguments.listen_host or server.host
        for port, purpose in ((server.election_port, Purpose.ELECTION), (server.quorum_port, Purpose.LEARNER)):
            listeners, _ = await listen_for_peers(arguments.network, purpose, host, port)
            for listener in listeners:
                await listener.aclose()

    def _report_stall(self, stall: Stall) -> None:
        log = Log(self.me, lambda: Epoch(0) if self._role is None else self._role.epoch)
        log.say("loop_stalled", "warning", loop=stall.loop, ms=round(stall.seconds * 1000), cause=stall.cause)

    def _on_role(self, role: RoleChange) -> None:
        self._role = role
        self._next_role.unpark_all()

    @property
    def path(self) -> str:
        """The directory of the log and the snapshots."""
        return os.fspath(self._path)

    @property
    def stopped(self) -> Stopped | None:
        """The error that calls raise because this member does not run, or None while it runs."""
        return self._stopped

    def _started(self) -> MemberRuntime:
        if self._stopped is not None:
            raise Stopped(*self._stopped.args) from self._stopped.__cause__
        assert self._running is not None
        return self._running

    # -- requests ----------------------------------------------------------------------------------

    async def submit(self, request: bytes) -> Any:
        """Submit a request to the ensemble. Return the result of `apply` on this member.

        If the call returns, the request was carried out exactly once, even if leaders and links failed. The requests of
        one member are carried out in the order of their submission. The call waits while there is no leader, and while
        too many other requests are open: put a deadline around it, `trio.fail_after`, if you have one. *Cancelling does
        not withdraw the request*: afterwards it is unknown whether it was or will be carried out.

        Raise `Refused` if the request was refused and changed nothing; its subclass `LeadersLost` if too many leaders
        in a row were lost while it was under way; `OutcomeUnknown` if its outcome is unknown. Raise `Stopped` if the
        member does not run, or ends before the outcome is known. Raise `LocalProtocolError` if the request is larger
        than `Limits.request_bytes_max`, and `TypeError` if it is not `bytes`.
        """
        waiter = Waiter()
        self._check(request)
        submission = self._pending.submit(request, waiter.done)
        self._wakeup.ring()
        try:
            return await waiter.wait()
        except trio.Cancelled:
            self.forget(submission)
            raise

    def post(self, request: bytes, done: Done) -> Submission:
        """Submit a request without a waiting task: `done(result, error)` is called once, with the outcome of `submit`.

        This is for callers with thousands of requests under way. After `forget`, `done` is not called.

        `done` is called in the event loop, in the middle of the member's work: it must be quick and must not raise.
        `post` itself raises `Overloaded` if `submit` would wait for room, `Stopped` if the member does not run, and the
        errors of `submit` for a request that is too large or not bytes. The return value is for `forget`.
        """
        self._check(request)
        if not self._pending.has_room(len(request)):
            limits = self._arguments.limits
            raise Overloaded(
                f"{len(self._pending)} requests of {self._pending.bytes} bytes together are open "
                f"(Limits.submits_max = {limits.submits_max}, submit_bytes_max = {limits.submit_bytes_max}): "
                "wait until some of them are done"
            )
        submission = self._pending.submit(request, done)
        self._wakeup.ring()
        return submission

    def forget(self, submission: Submission) -> None:
        """Drop a submission: its `done` is not called any more. May be called at any time.

        A request that was sent to a leader may still be carried out. It is not sent to another leader.
        """
        self._pending.cancel(submission)
        self._wakeup.ring()

    def post_many(self, requests: Sequence[bytes], done: Done) -> int:
        """Submit requests that arrived together, as `post` does; `done` is called for each accepted one.

        Results come in the order of the requests; an error may come earlier or later. Return the number of accepted
        requests, counted from the first: fewer than all if there is no room for more. If one of them is too large or
        not `bytes`, raise the error of `submit`, and accept none.
        """
        self._started()
        most = self._arguments.limits.request_bytes_max
        if not _BYTES.issuperset(map(type, requests)) or max(map(len, requests), default=0) > most:
            for request in requests:
                self._check_size(request)
        taken = self._pending.submit_many(requests, done)
        self._wakeup.ring()
        return taken

    def _check(self, request: bytes) -> None:
        self._started()
        self._check_size(request)

    def _check_size(self, request: bytes) -> None:
        if not isinstance(request, bytes):
            raise TypeError(f"a request must be bytes, not {type(request).__name__}")
        if len(request) > self._arguments.limits.request_bytes_max:
            raise LocalProtocolError(
                f"the request is too large, {len(request)} bytes: Limits.request_bytes_max is "
                f"{self._arguments.limits.request_bytes_max}"
            )

    async def barrier(self, ahead: bytes = b"") -> None:
        """Wait until this member has applied every request that was acknowledged at any member before this call.

        This holds even if this member's leader has been deposed without noticing. The call waits while there is no
        leader. `ahead` is a message to the leader (see `tell_leader`), which has received it when this call returns.
        """
        requests = self._started().requests
        waiter = Waiter()
        answer = waiter.done
        requests.barriers.add(answer, ahead)
        self._wakeup.ring()
        try:
            await waiter.wait()
        except trio.Cancelled:
            requests.barriers.forget(answer)
            raise

    def post_barrier(self, done: Done, ahead: bytes = b"") -> None:
        """Start a `barrier` without a waiting task: `done(None, error)` is called once, with None after a success."""
        self._started().requests.barriers.add(done, ahead)
        self._wakeup.ring()

    async def read(self, look: Callable[[Any], T], *, linearizable: bool = True) -> T:
        """Return `look(machine)` after a barrier. If `linearizable` is False, skip the barrier: the state may be old.

        In both cases, wait while a snapshot replaces the state. `look` must not change the machine, nor return a part
        of it that may change later.
        """
        running = self._started()
        if linearizable:
            await self.barrier()
        else:
            await trio.lowlevel.checkpoint()
        await running.gate.passed()
        self._started()  # the member may have ended meanwhile, with half of a snapshot in the machine
        return look(self._machine)

    @property
    def socket_reader(self) -> SocketReader:
        """The reader for sockets with requests to this member.

        While the member runs, one round reads from all ready sockets, and then takes a turn if there is input for it.
        """
        return TASK_READER if self._running is None else self._running.socket_reader

    def on_turn(self, turned: Callable[[], None]) -> None:
        """Set the function to call when a turn ends or begins to wait, after its calls of `done`.

        Call this before the member runs.
        """
        self._hooks.on_turn = turned

    @property
    def turning(self) -> bool:
        """True while a turn runs. The function of `on_turn` is called when the turn ends or begins to wait."""
        return self._running is not None and self._running.turns.turning

    # -- sessions, in an ensemble that speaks the protocol of ZooKeeper ------------------------------

    @property
    def zookeeper(self) -> ZookeeperPeers | None:
        """The settings of an ensemble that speaks the protocol of ZooKeeper; None if it speaks our own."""
        return self._arguments.zookeeper

    async def revalidate_session(self, session: int, timeout_ms: int) -> bool:
        """Let the leader regard a session as one of this server. Return False if there is no such session.

        The call waits while there is no leader. Raise `OutcomeUnknown` if the leader is lost before its answer.
        """
        to_leader = self._to_zookeeper()
        waiter = Waiter()
        done = waiter.done
        to_leader.revalidate(session, timeout_ms, done)
        self._wakeup.ring()
        try:
            return await waiter.wait() is True
        except trio.Cancelled:
            to_leader.forget(done)
            raise

    def touch_sessions(self, sessions: Iterable[tuple[int, int]]) -> None:
        """Report sessions that are in use, with their timeouts in ms. The report is lost without a leader."""
        self._to_zookeeper().touch(sessions)

    def on_touches(self, handler: OnTouches) -> None:
        """Set the function that receives sessions, with timeouts in ms, that learners of this leader report as used.

        Call this before the member runs.
        """
        self._hooks.on_touches = handler

    def _to_zookeeper(self) -> ZookeeperForwarder:
        to_leader = self._started().requests.zookeeper
        assert to_leader is not None, "the ensemble speaks our own protocol"
        return to_leader

    # -- messages outside of the history ------------------------------------------------------------

    def tell_leader(self, body: bytes) -> bool:
        """Send a message to the leader's application over the side channel: it is not stored and may get lost.

        If this member leads, its own function receives the message before this call returns. Return False if this
        member has no leader: then the message is lost.
        """
        sent = self._started().requests.side_channel.tell_leader(body)
        self._wakeup.ring()
        return sent

    def on_leader_message(self, handler: MessageHandler) -> None:
        """Set the function that receives the messages of `tell_leader` while this member leads.

        Call this before the member runs.
        """
        self._hooks.on_leader_message = handler

    def tell_members(self, body: bytes) -> bool:
        """Send a message to the application of every synchronized follower and observer. It may get lost.

        Return False if this member does not lead: then the message is lost.
        """
        sent = self._started().requests.side_channel.tell_members(body)
        self._wakeup.ring()
        return sent

    def on_member_message(self, handler: MessageHandler) -> None:
        """Set the function that receives each message of the leader's application. Call this before the member runs."""
        self._hooks.on_member_message = handler

    # -- the ensemble ------------------------------------------------------------------------------

    def on_membership(self, concerned: OnMembership) -> None:
        """Set the function that receives the memberships, in the loop. Call this before the member runs.

        It is called as `(ensemble, None)` at the start and as soon as a membership is in force. It is called as
        `(ensemble, zxid)`, with the zxid of the change, when this member's machine has applied everything before the
        change. There is no call with a zxid for the first membership, nor for a change that a restored snapshot
        contains: read the membership again after `restore`.
        """
        self._hooks.on_membership = concerned

    @checks_names("Member.reconfigure")
    async def reconfigure(
        self,
        *,
        joining: Collection[Server] = (),
        leaving: Collection[int] = (),
        members: Ensemble | None = None,
        expect_version: Zxid | None = None,
    ) -> Ensemble:
        """Change the membership, and return the new one once it is in force at this server.

        joining         servers to add; a server replaces the member with its id
        leaving         ids of members to remove
        members         the whole new membership, in place of `joining` and `leaving`; required if the present one has
                        groups
        expect_version  the version that the membership must have; None: any

        A quorum of the new membership must be synchronized before the change. A member that is an observer does not
        count, even if the change makes it a voter. For new voters to count, start them first, with an ensemble in which
        they are observers, and let the members `admit_non_members`. The call waits while there is no leader. Cancelling
        does not withdraw the change.

        Raise `NewConfigNoQuorum` if the servers that count are no quorum of the new membership, `WrongVersion` if
        `expect_version` is not the present version, `ReconfigInProgress` while another change is undecided,
        `ConfigError` if the new membership is invalid, and `NotLeader` or `Overloaded` if the change cannot be taken
        now: then nothing was changed. Raise `ChangeLost` if the change was lost with its leader, and `OutcomeUnknown`
        or `Stopped` if its outcome is unknown. Raise `TypeError` if `joining` holds anything but `zab.Server` values.
        """
        running = self._started()
        for server in joining:
            if not isinstance(server, Server):
                raise TypeError(f"joining takes zab.Server values, not {type(server).__name__}; see zab.Ensemble.parse")
        request = ReconfigureRequest(
            0,
            tuple(server.text() for server in joining),
            tuple(ServerId(sid) for sid in leaving),
            None if members is None else members.text(),
            expect_version,
        )
        waiter = Waiter()
        running.requests.changes.add(request, lambda error: waiter.done(None, error))
        self._wakeup.ring()
        await waiter.wait()
        return running.node.ensemble

    async def give_up_history(self) -> Veto:
        """Give up this member's history, although it contains committed transactions that the leader lacks.

        Return the veto that this ends: the veto names what is lost. Later, a snapshot of the next leader replaces the
        history. The files of the lost history are kept as `damaged.*`, within the bounds of `StorageSettings`. An
        operator decides this while `roles()` shows a `veto`; without one, raise `LocalProtocolError`.
        """
        running = self._started()
        waiter = Waiter()
        running.give_up_history(waiter.done)
        veto = await waiter.wait()
        assert isinstance(veto, Veto)
        return veto

    def roles(self) -> Roles:
        """Iterate over this member's role, now and at each change. The iteration ends with the member.

        It may begin before the member runs. A slow consumer misses older roles, never the present one.
        """
        return Roles(self)

    async def wait_serving(self) -> RoleChange:
        """Wait until this member serves, and return its role.

        The call may begin before the member runs. Raise `Stopped` if the member has ended, or ends before it serves.
        """
        if self._stopped is None or self._running is None:
            async for role in self.roles():
                if role.serving:
                    return role
        self._started()
        raise Stopped("this member was stopped")

    @property
    def settings(self) -> Settings:
        """The settings of the consensus that this member was made with."""
        return self._arguments.settings

    @property
    def environment(self) -> Environment:
        """The replaceable parts of this member's environment: threads, the wall clock, random bytes and more."""
        return self._arguments.environment

    def status(self) -> Status:
        """Return the present status of this member."""
        return self._started().status.member()

    async def take_snapshot(self) -> SnapshotStatus:
        """Write another snapshot to the disk while the member works. Return the snapshot's status once it is durable.

        Raise `Stopped` if the member ends before that, and `StorageError` while the member has no history: it was lost,
        damaged or given up, and the leader has not sent another one yet.
        """
        return await self._started().take_snapshot()

    def disk_status(self) -> DiskStatus:
        """Return the present state of this member's log and snapshots."""
        return self._started().status.disk()


class Roles:
    """The roles of a member, as an async iterator: see `Member.roles`."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._seen: RoleChange | None = None

    def __aiter__(self) -> Roles:
        return self

    async def __anext__(self) -> RoleChange:
        member = self._member
        await trio.lowlevel.checkpoint()
        while (role := member._role) is None or role is self._seen:
            if member._ended:
                raise StopAsyncIteration
            await member._next_role.park()
        self._seen = role
        return role


def _opening(make: Callable[P, Member]) -> Callable[P, AbstractAsyncContextManager[Member]]:
    @asynccontextmanager
    async def open_member(*args: P.args, **options: P.kwargs) -> AsyncIterator[Member]:
        """Open a member for as long as the block lasts; the arguments are those of `Member`.

        The block begins when the member has recovered and listens. When the member fails, the block is cancelled, and
        the member's error is raised.
        """
        member = make(*args, **options)
        async with block_nursery() as nursery:
            await nursery.start(member.run)
            yield member

    return open_member


open_member = checks_names("zab.open_member", Member)(_opening(Member))
"""Open a member for as long as the block lasts; the arguments are those of `Member`.

The block begins when the member has recovered and listens. When the member fails, the block is cancelled, and the
member's error is raised.
"""


def stopped_by(failure: Exception | None) -> Stopped:
    """Return the error for later calls, with the failure that stopped the member if there was one."""
    if failure is None:
        return Stopped("this member was stopped")
    stopped = Stopped(f"this member failed: {type(failure).__name__}: {failure}")
    stopped.__cause__ = failure
    return stopped


def _open_storage(disk: Disk, settings: StorageSettings) -> tuple[Storage, Recovered]:
    storage, recovered = Storage.open(disk, settings)
    storage.check_room()
    return storage, recovered
