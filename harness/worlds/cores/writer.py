"""The writer of a simulated server: it performs all waiting writes with one fsync, and stores snapshots meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checkers.oracle_state import Violation
from harness.worlds.cores.simulator import Simulator
from harness.worlds.disks import Crashed, crash_amid, judge_durable, judge_purge, lose
from zab.core.errors import StorageError
from zab.core.ready import Write
from zab.core.zxid import Zxid
from zab.storage.snapshot_files import SnapshotWriter


class Writer:
    def __init__(self, server: Any) -> None:
        self._server = server
        self._world: Simulator = server.world
        self._random = server.random
        self.slower = 1
        self._queue: list[Write] = []
        self._writing: list[Write] = []
        self._number = 0
        self.storing: Zxid | None = None
        """The zxid of the snapshot that is being stored, or None."""

    @property
    def idle(self) -> bool:
        """True if nothing is being written to the log."""
        return not self._writing

    # -- the log ---------------------------------------------------------------------------------------

    def hand_over(self, writes: Sequence[Write]) -> None:
        self._queue.extend(writes)
        if not self._writing:
            self._write_next()

    def _write_next(self) -> None:
        """Begin to perform all waiting writes with one fsync."""
        self._writing, self._queue = self._queue, []
        self._number += 1
        self._world.push(self._world.now + self._takes(1), self._written, self._server.life, self._number)

    def _takes(self, times: int) -> int:
        return self._world.fsync_us(self._random, times) * self.slower

    def usual_speed(self) -> None:
        """End the fault, also for a write in progress."""
        self.slower = 1
        if self._writing:
            self._number += 1
            self._world.push(self._world.now + self._takes(1), self._written, self._server.life, self._number)

    def _written(self, life: int, number: int) -> None:
        server, world = self._server, self._world
        if server.life != life or self._number != number:
            return
        if server.paused:
            server.defer(self._written, life, number)
            return
        writes = self._writing
        watched = server.watched  # a fault that is injected meanwhile may change it
        try:
            if watched:
                self._perform_slowly(writes)
            else:
                server.storage.perform(writes)
        except StorageError as error:
            world.disk_failed(server, error)
            return
        except (Crashed, Violation):
            raise
        except Exception as error:
            world.report_failure(server, "fails to write to its disk", error)
            return
        if not watched:
            judge_durable(world.judge, server.id, writes)
        if self._queue:
            self._write_next()
        else:
            self._writing = []
        server.saved(writes[-1].ticket)

    def _perform_slowly(self, writes: list[Write]) -> None:
        """Perform the writes one by one. A fault may strike between any two, and before the last one is reported."""
        server, world = self._server, self._world
        for number, write in enumerate(writes):
            name = type(write).__name__
            world.act(server, "before writing", name)
            server.storage.perform([write])
            judge_durable(world.judge, server.id, [write])
            self._writing = writes[number + 1 :]
            world.act(server, "after writing", name)

    # -- snapshots -------------------------------------------------------------------------------------

    def snapshot(self, spare: bool = False) -> bool:
        """Begin to store the present state of the machine. Return whether a snapshot was begun.

        `spare` is true if the snapshot is stored because a leader sends the same state to a learner.
        """
        server, world = self._server, self._world
        machine = server.machine
        if self.storing is not None or not machine.zxid or (spare and server.storage.newest_snapshot == machine.zxid):
            return False
        world.record(server.id, "begins a snapshot", 0, None)
        try:
            writer = server.storage.snapshot_writer(machine.zxid, server.node.digest())
        except StorageError as error:
            world.disk_failed(server, error)
            return False
        except Exception as error:
            world.report_failure(server, "fails to begin a snapshot", error)
            return False
        self.storing = machine.zxid
        snapshot = writer, machine.snapshot(), spare
        world.push(world.now + self._takes(4), self._stored, server.life, snapshot)
        return True

    def _stored(self, life: int, snapshot: tuple[SnapshotWriter, list[bytes], bool]) -> None:
        server, world = self._server, self._world
        if server.life != life:
            return
        writer, state, spare = snapshot
        try:
            for chunk in state:
                writer.write(chunk)
            writer.finish()
            start = server.storage.purge(spare=writer.zxid if spare else None)
        except StorageError as error:
            world.disk_failed(server, error)
            return
        except Exception as error:
            world.report_failure(server, "fails to store a snapshot", error)
            return
        judge_purge(world.judge, server.id, server.disk, server.storage.spare)
        self.storing = None
        world.record(server.id, "has stored a snapshot", 0, None)
        server.node.log_starts(start)

    # -- the end ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Perform all waiting writes now. The node receives no report of them."""
        writes = self._writing + self._queue
        self._writing, self._queue = [], []
        if writes:
            self._server.storage.perform(writes)
            judge_durable(self._world.judge, self._server.id, writes)

    def crash(self, loss: str) -> list[Write]:
        """End the process in the middle of its current writes, and return these. The waiting writes never happen."""
        writing, self._writing, self._queue = self._writing, [], []
        self.storing = None
        server, choose = self._server, self._random.randrange
        crash_amid(server.disk, server.storage, writing, choose)
        lose(server.disk, loss, choose)
        return writing
