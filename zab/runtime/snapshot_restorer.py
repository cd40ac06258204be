"""Restore snapshots into the user's machine, in a thread. During a restore no task may read the machine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import trio

from zab.core.node import Node
from zab.core.ready import Restore
from zab.host.pace import beside_the_loop
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.links import Links
from zab.service.replicated_machine import Machine
from zab.service.snapshot_schedule import SnapshotSchedule
from zab.storage.storage import Storage


class RestoreGate:
    """Closed while a thread replaces the machine's state. Readers of the machine wait until it is open."""

    def __init__(self) -> None:
        self._opened: trio.Event | None = None
        """Set when the gate opens; None while it is open."""

    @property
    def closed(self) -> bool:
        """True while a restore is about to begin or under way."""
        return self._opened is not None

    def close(self) -> None:
        """Keep readers out, because the state is about to be replaced."""
        assert self._opened is None, "two restores at once"
        self._opened = trio.Event()

    def open(self) -> None:
        """Let readers in."""
        assert self._opened is not None, "no restore is under way"
        self._opened.set()
        self._opened = None

    async def passed(self) -> None:
        """Wait until the gate is open."""
        while self._opened is not None:
            await self._opened.wait()


class SnapshotRestorer:
    """Replaces the machine's state by a snapshot, while the gate is closed."""

    def __init__(
        self,
        node: Node,
        machine: Machine,
        storage: Storage,
        links: Links,
        snapshot_schedule: SnapshotSchedule,
        gate: RestoreGate,
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        self.restores = 0
        """The number of received snapshots that were restored since the start of this member."""
        self._node = node
        self._machine = machine
        self._storage = storage
        self._links = links
        self._snapshot_schedule = snapshot_schedule
        self._gate = gate
        self._environment = environment

    def restore(self, restore: Restore) -> Iterator[Restore]:
        """Close the gate, and have the turn wait for `restore_in_thread`."""
        self._gate.close()
        yield restore

    async def restore_in_thread(self, restore: Restore) -> None:
        """Restore in a thread, so that the rest of the application continues. Then open the gate.

        Send keep-alives meanwhile, because no turn can send them.
        """
        assert self._gate.closed, "the turn that waits for the restore has not closed the gate"
        chunks = self._storage.read_snapshot(restore.zxid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_keep_alives)
            with beside_the_loop():
                await self._environment.in_thread(
                    partial(self._machine.restore, chunks), limiter=trio.CapacityLimiter(1)
                )
            nursery.cancel_scope.cancel()
        self._gate.open()
        self.restores += 1
        self._storage.know_committed(restore.zxid)
        self._snapshot_schedule.restored()

    async def _send_keep_alives(self) -> None:
        node, links = self._node, self._links
        while True:
            await trio.sleep(node.settings.report_ms / 1_000)
            links.send(node.keep_alives(), self._machine.snapshot)
            links.flush()
