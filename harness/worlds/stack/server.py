"""One server: what outlives a process, and the real member that runs in each life."""

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
from harness.worlds.stack.machine import Fed, Holds, ToldMachine
from harness.worlds.stack.network import LifeNetwork
from harness.worlds.stack.node import ToldNode
from harness.worlds.stack.scheduler import WHOSE
from harness.worlds.stack.simulation import Simulation, as_core
from harness.worlds.stack.writer import Speed, TaskWriter
from zab import Member
from zab.core.ensemble import Ensemble
from zab.core.errors import Stopped, StorageError, ZabError
from zab.core.node import Node
from zab.core.ready import Recovered, Settings
from zab.core.zxid import Millis, ServerId
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
"""Linger, goodbyes and a slow disk all together take less."""


class Life:
    """One process: a member, and what it was given. Once `dead`, nothing that it does counts any more."""

    member: Member
    fed: Fed
    holds: Holds

    def __init__(self, server: Server) -> None:
        self.server = server
        self.scope = trio.CancelScope()
        self.node: ToldNode | None = None
        self.writer: TaskWriter | None = None
        self.stopping = self.ending = False
        self.again: Callable[[], None] = lambda: None
        """Called when it has ended."""
        self._crashed = False
        self._open()

    def _open(self) -> None:
        machine = self._machine()
        self.fed, self.holds = machine.fed, machine.holds
        self.member = self._member(machine)
        self.member.on_membership(machine.membership)

    def _machine(self) -> ToldMachine:
        return ToldMachine(self)

    async def run(self) -> None:
        await self.member.run()

    # -- what it is given --------------------------------------------------------------------------

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
                # A batch that no epoch has room for would end each leader that begins to serve, and the next.
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
            network=LifeNetwork(world.network, self),
            host=Environment(
                in_thread=self._in_thread,
                check_cancelled=lambda: None,
                in_loop=_at_once,
                random_bytes=server.random.randbytes,
                listen=LifeNetwork(world.network, self).listen_for_clients,
                wall_ms=server.clock.wall_ms,
                node=self._make_node,
                writer=self._make_writer,
            ),
        )

    @property
    def dead(self) -> bool:
        return self._crashed or self.server.world.over

    def ends(self) -> None:
        """Do nothing any more: the server crashes as soon as its messages so far have left."""
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
        self.server.found(recovered, self.holds)
        self.node = self.server.node = ToldNode(self, me, ensemble, recovered, settings, jitter, now)
        return self.node

    def _make_writer(self, storage: Storage, pause_us_max: int) -> Writer:
        self.writer = TaskWriter(self, storage)
        return self.writer

    def restored(self) -> None:
        """Report that the machine took a snapshot while the member runs. `found` reports the start."""
        if self.node is not None and not self.dead:
            server, holds = self.server, self.holds
            server.world.record(server.id, "restores", 0, None)
            server.world.jumped(server.id, holds.zxid)
            server.world.judge.restored(server.id, holds.zxid)
            server.world.judge.machine(server.id, holds.zxid, holds.digest, self.node.digest())


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
        self.writer = Speed()
        self.founding = True
        self.founded = False
        self.life = 0
        self.up = self.paused = self.watched = False
        self.stood: list[tuple[int, int]] = []
        """Begin and end of each pause, in milliseconds."""
        self._stands_since = 0
        self.now: Life | None = None
        self.acts = 0
        self._starting = False
        self._wakeup = Wakeup()

    @property
    def machine(self) -> Holds:
        assert self.now is not None
        return self.now.holds

    # -- its lives -----------------------------------------------------------------------------------

    async def live(self) -> None:
        WHOSE.set(self)
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
                    if left := self.world.network.open_of(life):
                        what = f"server {self.id} has ended, and {left} of its streams are open"
                        self.world.violated(Violation(IN_ORDER, what))
                    self._take_away(life, "keep")

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
            elif isinstance(error, StorageError) and world.nemesis.excuses(as_core(self)):
                world.push(world.now + 50_000, world.start, self, self.life)
            else:
                world.fell(self, "runs", error)
        except Violation as violation:
            world.violated(violation)

    def start(self) -> None:
        self.world.nemesis.starts(as_core(self))
        self._starting = True
        self._wakeup.ring()

    @property
    def starting(self) -> bool:
        return self._starting

    def found(self, recovered: Recovered, holds: Holds) -> None:
        """It has read its disk, and takes part from now on."""
        judge = self.world.judge
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        self.world.record(self.id, "starts", 0, recovered)
        self.life += 1
        self.up = True
        self._starting = self.founding = False
        judge.started(self.id, recovered, last)
        judge.restored(self.id, recovered.snapshot)
        judge.machine(self.id, holds.zxid, holds.digest, recovered.digest)

    def crash(self, loss: str) -> None:
        """End it at one instant: nothing that its tasks still do on their way out counts."""
        assert self.now is not None
        self.world.record(self.id, "crashes", 0, loss)
        self._take_away(self.now, loss)

    def stop(self, again: Callable[[], None]) -> None:
        """Stop it as an application does: cancel its scope, and let it close what it has."""
        life = self.now
        assert life is not None
        if life.stopping:
            return
        self.world.record(self.id, "is told to end", 0, None)
        self.resume()
        life.stopping, life.again = True, again
        life.scope.cancel()
        self.world.push(self.world.now + STOP_MAX_US, self._hangs, life, None)

    def _hangs(self, life: Life, _: None) -> None:
        if not life.dead:
            raise Violation(IN_ORDER, f"server {self.id} was told to end, and is still there")

    def _take_away(self, life: Life, loss: str) -> None:
        life.crash()
        life.again()
        self.up = self.paused = False
        self.world.still.go_on(self)
        self.life += 1
        self.world.nemesis.power_fails(as_core(self), loss)
        unfinished = life.writer.crash() if life.writer is not None else []
        lose(self.disk, loss, self.random.randrange)
        self.world.network.crashed(life)
        self.world.judge.crashed(self.id, unfinished)

    def pause(self) -> None:
        """Let nothing reach it or leave it, and give none of its tasks a turn."""
        if self.up and not self.paused:
            self.paused, self._stands_since = True, self.world.now_ms
            self.world.record(self.id, "pauses", 0, None)
            self.world.network.stand_still(self.id)
            self.world.still.stop(self)

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self.stood.append((self._stands_since, self.world.now_ms))
            self.world.record(self.id, "resumes", 0, None)
            self.world.network.go_on(self.id)
            self.world.still.go_on(self)

    def turn_clock(self, turn: Callable[[], None]) -> None:
        turn()

    def fsync_s(self) -> float:
        timing = self.world.script.timing
        span = max(1, timing.fsync_us_max - timing.fsync_us_min)
        return (timing.fsync_us_min + int(self.random.random() * span)) * self.writer.slower / 1e6

    # -- what clients ask ------------------------------------------------------------------------------

    def submit(self, payloads: list[bytes]) -> None:
        life = self.now
        if life is None or life.member.stopped is not None:
            return

        for payload in payloads:

            def done(result: object, error: Exception | None, payload: bytes = payload) -> None:
                if not life.dead:
                    self.world.told(self, payload, result, error)

            life.member.post(payload, done)

    def ask(self, token: int) -> None:
        life = self.now
        if life is None or life.member.stopped is not None:
            return

        def done(_: object, error: Exception | None) -> None:
            if error is None and not life.dead:
                zxid = life.holds.zxid
                self.world.record(self.id, "answers a barrier", 0, str(token))
                self.world.judge.barrier_answered(self.id, token, zxid)
                self.world.counted("barrier")

        life.member.post_barrier(done)

    def reconfigure(self, wanted: Ensemble) -> None:
        life = self.now
        if life is not None and life.member.stopped is None:
            self.world.beside(self._reconfigure, life, wanted)

    async def _reconfigure(self, life: Life, wanted: Ensemble) -> None:
        try:
            await life.member.reconfigure(members=wanted)
        except ZabError as error:
            self.world.record(self.id, "refuses", 0, type(error).__name__)

    def snapshot(self) -> None:
        life = self.now
        if self.up and life is not None and life.member.stopped is None:
            self.world.beside(self._take_snapshot, life)

    @staticmethod
    async def _take_snapshot(life: Life) -> None:
        with suppress(Stopped, StorageError):  # what it has to store waits for the healing of its disk
            await life.member.take_snapshot()


def _at_once(job: Callable[[], object]) -> None:
    """Run a job of a thread in the loop: there are no threads here."""
    job()


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
