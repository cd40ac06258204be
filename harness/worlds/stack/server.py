"""One server: the state that outlives its processes, and the real member that runs in each process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeVar, cast

import trio

from harness.checkers import Violation
from harness.worlds.common import settings_of
from harness.worlds.cores.clock import Clock
from harness.worlds.disks import SNAPSHOTS_KEPT, lose
from harness.worlds.stack.checked_machine import CheckedMachine, DeliveryCheck, MachineState
from harness.worlds.stack.node import ReportingNode
from harness.worlds.stack.scheduler import OWNER
from harness.worlds.stack.simulation import Simulation
from harness.worlds.stack.writer import DiskSpeed, TaskWriter
from zab import Member
from zab.core.ensemble import Ensemble
from zab.core.errors import Stopped, StorageError, ZabError
from zab.core.node import Node
from zab.core.ready import Recovered, Settings
from zab.core.zxid import Millis, ServerId
from zab.net.memory_network import ProcessNetwork
from zab.net.wakeup import Wakeup
from zab.runtime.environment import Environment
from zab.runtime.writer import Writer
from zab.service.limits import Limits
from zab.service.replicated_machine import Machine
from zab.storage.memory_disk import MemoryDisk
from zab.storage.storage import Storage, StorageSettings

T = TypeVar("T")
IN_ORDER: Final = "a stopped server ends and leaves no task behind"
STOP_MAX_US: Final = 5_000_000
"""The time limit for a stop. Linger, closing handshakes and a slow disk together take less."""


class Life:
    """One process of a server: a member and its environment. After its end (`dead`) its actions have no effect."""

    member: Member
    delivery_check: DeliveryCheck
    machine_state: MachineState

    def __init__(self, server: Server) -> None:
        self.server = server
        self.scope = trio.CancelScope()
        self.node: ReportingNode | None = None
        self.writer: TaskWriter | None = None
        self.stopping = self.ending = False
        self.again: Callable[[], None] = lambda: None
        """Called when the process has ended."""
        self._crashed = False
        self._open()

    def _open(self) -> None:
        machine = self._machine()
        self.delivery_check, self.machine_state = machine.delivery_check, machine.machine_state
        self.member = self._member(machine)
        self.member.on_membership(machine.membership)

    def _machine(self) -> CheckedMachine:
        return CheckedMachine(self)

    async def run(self) -> None:
        await self.member.run()

    # -- its environment ---------------------------------------------------------------------------

    def _member(self, machine: Machine) -> Member:
        server, world = self.server, self.server.world
        knobs = server.knobs
        return Member(
            machine,
            f"server {server.id}",
            server_id=server.id,
            ensemble=server.ensemble,
            admit_non_members=True,
            settings=settings_of(knobs),
            limits=Limits(
                # A batch larger than an epoch has room for would end every leader that begins to serve.
                batch_entries_max=min(4_096, knobs.counter_max),
                connect_ms=300,
                handshake_ms=300,
                linger_ms=100,
                redial_ms_min=knobs.dial_retry_ms,
                redial_ms_max=max(knobs.dial_retry_ms, knobs.notification_ms_max),
                snap_entries=max(2, knobs.snapshot_every),
                snapshots_kept=SNAPSHOTS_KEPT,
                resume_bytes_min=1,
            ),
            storage=StorageSettings(
                segment_bytes=knobs.segment_bytes,
                preallocate=False,
                snapshots_kept=SNAPSHOTS_KEPT,
                autocreate=server.founding,
            ),
            disk=server.disk,
            network=ProcessNetwork(world.network, self),
            host=Environment(
                in_thread=self._in_thread,
                check_cancelled=lambda: None,
                in_loop=_at_once,
                random_bytes=server.random.randbytes,
                listen=ProcessNetwork(world.network, self).listen_for_clients,
                wall_ms=server.clock.wall_ms,
                node=self._make_node,
                writer=self._make_writer,
            ),
        )

    @property
    def dead(self) -> bool:
        return self._crashed or self.server.world.over

    def ends(self) -> None:
        """Stop all output: the server crashes as soon as its messages so far have left."""
        self.ending = True

    def crash(self) -> None:
        self._crashed = True
        self.scope.cancel()

    async def _in_thread(self, job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        await trio.sleep(self.server.random.random() / 1_000)
        return job()

    def _make_node(
        self,
        me: ServerId,
        ensemble: Ensemble,
        recovered: Recovered,
        settings: Settings,
        jitter: Callable[[Millis], Millis],
        now: Millis,
    ) -> Node:
        self.server.recovered(recovered, self.machine_state)
        self.node = self.server.node = ReportingNode(self, me, ensemble, recovered, settings, jitter, now)
        return self.node

    def _make_writer(self, storage: Storage, pause_us_max: int) -> Writer:
        self.writer = TaskWriter(self, storage)
        return self.writer

    def restored(self) -> None:
        """Report that the machine took a snapshot while the member runs. `recovered` reports the start."""
        if self.node is not None and not self.dead:
            server, machine_state = self.server, self.machine_state
            server.world.record(server.id, "restores", 0, None)
            server.world.jumped(server.id, machine_state.zxid)
            server.world.judge.restored(server.id, machine_state.zxid)
            server.world.judge.machine(server.id, machine_state.zxid, machine_state.digest, self.node.digest())


class Server:
    node: Node

    def __init__(self, world: Simulation, sid: ServerId, ensemble: Ensemble, seed: str) -> None:
        self.world = world
        self.id = sid
        self.ensemble = ensemble
        self.knobs = world.script.knobs
        self.clock = Clock(cast(Any, world))
        self.disk = MemoryDisk()
        self.random = Random(f"{seed}/server/{sid}")
        self.writer = DiskSpeed()
        self.founding = True
        self.founded = False
        self.life = 0
        self.up = self.paused = self.watched = False
        self.pauses: list[tuple[int, int]] = []
        """The begin and the end of each pause, in milliseconds."""
        self._paused_since = 0
        self.now: Life | None = None
        self.acts = 0
        self._starting = False
        self._wakeup = Wakeup()

    @property
    def machine(self) -> MachineState:
        assert self.now is not None
        return self.now.machine_state

    # -- its lives -----------------------------------------------------------------------------------

    async def live(self) -> None:
        OWNER.set(self)
        while True:
            await self._wakeup.wait()
            if not self._starting:
                continue
            self.now = life = self.world.life(self)
            try:
                with life.scope:
                    await life.run()
            except Violation as violation:
                self.world.violated(violation)
            except Exception as error:
                self._ended(life, error)
            else:
                if life.stopping and not life.dead:
                    if left := self.world.network.count_open(life):
                        what = f"server {self.id} has ended, but {left} of its streams are open"
                        self.world.violated(Violation(IN_ORDER, what))
                    self._tear_down(life, "keep")

    def _ended(self, life: Life, error: Exception) -> None:
        if life.dead:
            return
        world = self.world
        for each in _leaves(error):
            if isinstance(each, Violation):
                world.violated(each)
                return
        self._starting = False
        try:
            if isinstance(error, StorageError) and self.up:
                world.disk_failed(self, error)
            elif isinstance(error, StorageError) and world.nemesis.excuses(self):
                world.push(world.now + 50_000, world.start, self, self.life)
            else:
                world.report_failure(self, "runs", error)
        except Violation as violation:
            world.violated(violation)

    def start(self) -> None:
        self.world.nemesis.starts(self)
        self._starting = True
        self._wakeup.ring()

    @property
    def starting(self) -> bool:
        return self._starting

    def recovered(self, recovered: Recovered, machine_state: MachineState) -> None:
        """Report that the server has read its disk and runs from now on."""
        judge = self.world.judge
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        self.world.record(self.id, "starts", 0, recovered)
        self.life += 1
        self.up = True
        self._starting = self.founding = False
        judge.started(self.id, recovered, last)
        judge.restored(self.id, recovered.snapshot)
        judge.machine(self.id, machine_state.zxid, machine_state.digest, recovered.digest)

    def crash(self, loss: str) -> None:
        """Crash the process at one instant: actions of its tasks until they are cancelled have no effect."""
        assert self.now is not None
        self.world.record(self.id, "crashes", 0, loss)
        self._tear_down(self.now, loss)

    def stop(self, again: Callable[[], None]) -> None:
        """Stop the process as an application does: cancel its scope, and let it clean up."""
        life = self.now
        assert life is not None
        if life.stopping:
            return
        self.world.record(self.id, "is stopped", 0, None)
        self.resume()
        life.stopping, life.again = True, again
        life.scope.cancel()
        self.world.push(self.world.now + STOP_MAX_US, self._check_ended, life, None)

    def _check_ended(self, life: Life, _: None) -> None:
        if not life.dead:
            raise Violation(IN_ORDER, f"server {self.id} runs {STOP_MAX_US / 1e6:g} s after it was stopped")

    def _tear_down(self, life: Life, loss: str) -> None:
        life.crash()
        life.again()
        self.up = self.paused = False
        self.world.freezer.thaw(self)
        self.life += 1
        self.world.nemesis.power_fails(self, loss)
        unfinished = life.writer.crash() if life.writer is not None else []
        lose(self.disk, loss, self.random.randrange)
        self.world.network.crashed(life)
        self.world.judge.crashed(self.id, unfinished)

    def pause(self) -> None:
        """Pause the process: nothing reaches it or leaves it, and none of its tasks runs."""
        if self.up and not self.paused:
            self.paused, self._paused_since = True, self.world.now_ms
            self.world.record(self.id, "pauses", 0, None)
            self.world.network.pause(self.id)
            self.world.freezer.freeze(self)

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self.pauses.append((self._paused_since, self.world.now_ms))
            self.world.record(self.id, "resumes", 0, None)
            self.world.network.resume(self.id)
            self.world.freezer.thaw(self)

    def turn_clock(self, turn: Callable[[], None]) -> None:
        turn()

    def fsync_s(self) -> float:
        timing = self.world.script.timing
        span = max(1, timing.fsync_us_max - timing.fsync_us_min)
        return (timing.fsync_us_min + int(self.random.random() * span)) * self.writer.slower / 1e6

    # -- requests of clients ---------------------------------------------------------------------------

    def submit(self, payloads: list[bytes]) -> None:
        life = self.now
        if life is None or life.member.stopped is not None:
            return

        for payload in payloads:

            def done(result: object, error: Exception | None, payload: bytes = payload) -> None:
                if not life.dead:
                    self.world.request_done(self, payload, result, error)

            life.member.post(payload, done)

    def ask(self, token: int) -> None:
        life = self.now
        if life is None or life.member.stopped is not None:
            return

        def done(_: object, error: Exception | None) -> None:
            if error is None and not life.dead:
                zxid = life.machine_state.zxid
                self.world.record(self.id, "answers a barrier", 0, str(token))
                self.world.judge.barrier_answered(self.id, token, zxid)
                self.world.counted("barrier")

        life.member.post_barrier(done)

    def reconfigure(self, wanted: Ensemble) -> None:
        life = self.now
        if life is not None and life.member.stopped is None:
            self.world.spawn(self._reconfigure, life, wanted)

    async def _reconfigure(self, life: Life, wanted: Ensemble) -> None:
        try:
            await life.member.reconfigure(members=wanted)
        except ZabError as error:
            self.world.record(self.id, "refuses", 0, type(error).__name__)

    def snapshot(self) -> None:
        life = self.now
        if self.up and life is not None and life.member.stopped is None:
            self.world.spawn(self._take_snapshot, life)

    @staticmethod
    async def _take_snapshot(life: Life) -> None:
        with suppress(Stopped, StorageError):  # the snapshot waits until its disk is healed
            await life.member.take_snapshot()


def _at_once(job: Callable[[], object]) -> None:
    """Run a job for the loop at once: there are no threads here."""
    job()


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
