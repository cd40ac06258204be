"""The writer thread as a task: it takes all waiting writes, sleeps for the duration of an fsync, and performs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import trio

from harness.worlds.disks import Crashed, crash_amid, judge_durable
from zab.core.ready import Append, SnapshotChunk, Write
from zab.core.zxid import Ticket, Zxid
from zab.net.wakeup import Wakeup
from zab.runtime.writer import Writer
from zab.storage.storage import Storage

T = TypeVar("T")


class DiskSpeed:
    """The speed of one server's disk. It outlives the process."""

    def __init__(self) -> None:
        self.slower = 1
        self.sleeping = trio.CancelScope()

    def usual_speed(self) -> None:
        """End the fault, also for a write in progress."""
        self.slower = 1
        self.sleeping.cancel()


class TaskWriter(Writer):
    def __init__(self, life: Any, storage: Storage) -> None:
        super().__init__(storage, 0, lambda: life.server.world.now * 1_000)
        self._life = life
        self._waiting: list[tuple[Sequence[Write], int, Callable[[], None] | None]] = []
        self._writing: list[Write] = []
        self._wakeup = Wakeup()

    @property
    def spare(self) -> Zxid | None:
        assert isinstance(self._storage, Storage)
        return self._storage.spare

    def put(self, writes: Sequence[Write]) -> bool:
        size = sum(
            len(write.batch.body) if isinstance(write, Append) else len(write.data)
            for write in writes
            if isinstance(write, Append | SnapshotChunk)
        )
        self.backlog_bytes += size
        self._waiting.append((writes, size, None))
        self._wakeup.ring()
        return False

    async def call(self, job: Callable[[], T]) -> T:
        done = trio.Event()
        outcome: list[Any] = []

        def run() -> None:
            outcome.append(job())
            done.set()

        self._waiting.append(((), 0, run))
        self._wakeup.ring()
        await done.wait()
        result: T = outcome[0]
        return result

    async def run(self, report: Callable[[Ticket], None]) -> None:
        try:
            await self._run(report)
        finally:
            if self._life.stopping and not self._life.dead:
                self.finish()

    async def _run(self, report: Callable[[Ticket], None]) -> None:
        server = self._life.server
        while True:
            if not self._waiting:
                await self._wakeup.wait()
                continue
            size, job = 0, None
            while self._waiting and job is None:
                writes, bytes_, job = self._waiting.pop(0)
                self._writing.extend(writes)
                size += bytes_
            with trio.CancelScope(deadline=trio.current_time() + server.fsync_s()) as server.writer.sleeping:
                await trio.sleep_forever()
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._writing:
                done = self._writing
                try:
                    self._write_down(done, size)
                except Crashed as crash:
                    self._life.ends()
                    server.world.crashed(crash)
                    await trio.sleep_forever()  # until it is cancelled, if this server has crashed
                self._writing = []
                self.backlog_bytes -= size
                report(done[-1].ticket)
            if job is not None:
                job()

    def _write_down(self, writes: list[Write], size: int) -> None:
        """Perform writes, one by one if a fault is aimed at this server: it may strike between any two."""
        server = self._life.server
        if not server.watched:
            self._perform(writes, size)
            return
        world = server.world
        for number, write in enumerate(writes):
            name = type(write).__name__
            world.nemesis.act(server, "before writing", name)
            self._perform([write], size)
            self._writing = writes[number + 1 :]
            world.nemesis.act(server, "after writing", name)

    def finish(self) -> None:
        """Perform all waiting writes, as the thread does when its member ends in good order. Report nothing."""
        writes = [*self._writing, *(write for group, _, _ in self._waiting for write in group)]
        self._writing = []
        self._waiting.clear()
        if writes:
            self._perform(writes, 0)

    def _perform(self, writes: Sequence[Write], size: int) -> int:
        took_us = super()._perform(writes, size)
        judge_durable(self._life.server.world.judge, self._life.server.id, writes)
        return took_us

    def crash(self) -> list[Write]:
        """End the process in the middle of its current writes, and return these. The waiting writes never happen."""
        writing, self._writing = self._writing, []
        self._waiting.clear()
        server = self._life.server
        crash_amid(server.disk, self._storage, writing, server.random.randrange)
        return writing
