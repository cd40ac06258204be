"""Apply committed transactions to the user's machine, and restore snapshots into it.

Both can take long. After a restart, or far behind, a server applies a whole log: then other tasks run every few
milliseconds. A snapshot is restored in a thread, and until it is done, no task may read the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

import trio

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError
from zab.core.node import Node
from zab.core.ready import Restore
from zab.core.zxid import Zxid, show
from zab.host.pace import beside_the_loop
from zab.host.watchdog import STALL_S, Watchdog
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.links import Links
from zab.service.replicated_machine import Describes, Machine
from zab.service.request_path import RequestPath
from zab.service.snapshot_schedule import SnapshotSchedule
from zab.storage.storage import Storage
from zab.wire.relay_messages import TAG, TAG_BYTES

APPLY_S: Final = 0.02
"""A turn applies committed transactions for this long before other tasks run."""

_unpack_tag: Final = TAG.unpack_from

OnMembership: TypeAlias = Callable[[Ensemble, Zxid | None], None]
"""Called with None when a membership is in force, and with its zxid when everything before it is applied."""


class Pause(Enum):
    """A reason for a turn to wait. A `Restore` is another one."""

    LET_OTHERS = "other tasks need the loop"
    TURN_AGAIN = "other tasks need the loop, and another turn has to follow"


TurnWait: TypeAlias = Restore | Pause


class RestoreGate:
    """Closed while a thread replaces the machine's state. Readers of the machine wait until it is open."""

    def __init__(self) -> None:
        self._opened: trio.Event | None = None
        """The event that opens the gate; None while it is open."""

    @property
    def closed(self) -> bool:
        """Return whether a restore is under way."""
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


class MachineApplier:
    """Applies committed batches to the machine, and gives the results of own submissions to their callers."""

    def __init__(
        self,
        node: Node,
        machine: Machine,
        storage: Storage,
        links: Links,
        requests: RequestPath,
        snapshot_schedule: SnapshotSchedule,
        gate: RestoreGate,
        on_membership: OnMembership,
        watchdog: Watchdog,
        clock: Callable[[], float],
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        self.machine = machine
        self.applied = self.applied_bytes = self.restores = 0
        """Counted since the start of this member."""
        self._node = node
        self._storage = storage
        self._links = links
        self._requests = requests
        self._snapshot_schedule = snapshot_schedule
        self._gate = gate
        self._on_membership = on_membership
        self._watchdog = watchdog
        self._clock = clock
        self._environment = environment
        self._pause_at = 0.0
        """The time at which the turn stops applying and lets other tasks run."""

    def begin_turn(self, now: float) -> None:
        """Start the time that this turn may apply without a pause."""
        self._pause_at = now + APPLY_S

    def activate(self, ensemble: Ensemble) -> None:
        """Follow a membership that has come into force."""
        self._on_membership(ensemble, None)

    def restore(self, restore: Restore) -> Iterator[TurnWait]:
        """Close the gate, and have the turn wait for `restore_in_thread`."""
        self._gate.close()
        yield restore

    def apply_batch(self, batch: Batch) -> Iterator[TurnWait]:
        """Apply a batch to the machine, with a pause for other tasks every `APPLY_S`."""
        payloads = batch.payloads()
        count, size = batch.count, len(batch.body)
        self._snapshot_schedule.count(count, size)
        self.applied += count
        self.applied_bytes += size
        self._storage.know_committed(batch.last)
        if batch.config:
            (text,) = payloads
            self._on_membership(Ensemble.parse(text.decode()), batch.last)
            return
        apply, pending = self.machine.apply, self._requests.pending
        mine, applied, clock = pending.origin, pending.applied, self._clock
        started = clock()
        for zxid, payload in zip(batch.zxids, payloads, strict=True):
            try:
                result = apply(zxid, payload[TAG_BYTES:])
            except DamagedError as error:
                raise DamagedError(f"{self._storage.log_file_of(zxid)}: {error}") from error
            origin, counter = _unpack_tag(payload)
            if origin == mine:
                applied(counter, result)
            ended = clock()
            if ended - started > STALL_S:
                self._watchdog.took(ended - started, partial(self._describe, zxid, payload))
            if ended >= self._pause_at:
                yield Pause.LET_OTHERS
                ended = clock()
                self._pause_at = ended + APPLY_S
            started = ended

    def _describe(self, zxid: Zxid, payload: bytes) -> str:
        machine, txn = self.machine, payload[TAG_BYTES:]
        described = machine.describe_transaction(txn) if isinstance(machine, Describes) else "a transaction"
        return f"applying {described} of {len(txn)} bytes, zxid {show(zxid)}"

    async def restore_in_thread(self, restore: Restore) -> None:
        """Restore in a thread, so that the rest of the application continues. Then open the gate."""
        assert self._gate.closed, "the gate is closed when the turn begins to wait"
        chunks = self._storage.read_snapshot(restore.zxid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_signs_of_life)
            with beside_the_loop():
                await self._environment.in_thread(
                    partial(self.machine.restore, chunks), limiter=trio.CapacityLimiter(1)
                )
            nursery.cancel_scope.cancel()
        self._gate.open()
        self.restores += 1
        self._storage.know_committed(restore.zxid)
        self._snapshot_schedule.restored()

    async def _send_signs_of_life(self) -> None:
        node, links = self._node, self._links
        while True:
            await trio.sleep(node.settings.report_ms / 1_000)
            links.send(node.signs_of_life(), self.machine.snapshot)
            links.flush()
