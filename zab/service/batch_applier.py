"""Apply committed batches to the replicated machine, and pass the results to the callers of this member's submissions.

The module is pure. The owner runs the steps of `apply_batch`, and lets other tasks run between them: a server that has
restarted or was far behind may have to apply a large part of the log. In production the owner is `Driver`, in
simulation a server on virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Final, Protocol, TypeAlias

from zab.core.batch import Batch, parts_of_change
from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError
from zab.core.ready import Restore
from zab.core.zxid import Zxid, show
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.proposal_queue import StallWatch
from zab.service.replicated_machine import Describes, Machine
from zab.wire.relay_messages import TAG, TAG_BYTES

APPLY_S: Final = 0.02
"""The time for which a turn applies committed transactions before other tasks run."""
SLOW_APPLY_S: Final = 0.2
"""A transaction that takes longer is reported."""

_unpack_tag: Final = TAG.unpack_from

OnMembership: TypeAlias = Callable[[Ensemble, Zxid | None], None]
"""Called with None when a membership comes into force, and with its zxid when everything before it is applied."""

OnUntagged: TypeAlias = Callable[[Zxid, bytes, object], None]
"""Called with the zxid, the payload and the result of an applied transaction."""


class Pause(Enum):
    """A reason for a turn to wait. A `Restore` is another one."""

    LET_OTHERS = "other tasks need the loop"
    TURN_AGAIN = "other tasks need the loop, and another turn has to follow"


TurnWait: TypeAlias = Restore | Pause


class CommittedLog(Protocol):
    """The part of `Storage` that the applier uses."""

    def know_committed(self, zxid: Zxid) -> None: ...
    def log_file_of(self, zxid: Zxid) -> str: ...


class BatchApplier:
    def __init__(
        self,
        machine: Machine,
        log: CommittedLog,
        pending: PendingSubmissions,
        count_applied: Callable[[int, int], None],
        on_membership: OnMembership,
        watchdog: StallWatch,
        on_untagged: OnUntagged | None = None,
    ) -> None:
        """`count_applied` receives the numbers of transactions and bytes of each batch, before it is applied.

        `on_untagged` receives each applied transaction without this member's tag; None: they answer no request here.
        """
        self.machine = machine
        self.applied = self.applied_bytes = 0
        """The numbers of transactions and bytes since the start, in all batches whose application has begun."""
        self._log = log
        self._pending = pending
        self._count_applied = count_applied
        self._on_membership = on_membership
        self._watchdog = watchdog
        self._on_untagged = on_untagged
        self._pause_at = watchdog.clock() + APPLY_S
        """The time at which the applier next pauses, so that other tasks run."""

    def begin_turn(self, now: float) -> None:
        """Start the period in which this turn may apply without a pause."""
        self._pause_at = now + APPLY_S

    def activate(self, ensemble: Ensemble) -> None:
        """Report a membership that has come into force."""
        self._on_membership(ensemble, None)

    def apply_batch(self, batch: Batch) -> Iterator[TurnWait]:
        """Apply a batch to the machine, with a pause for other tasks every `APPLY_S`.

        A batch with a membership goes to `on_membership`, after its attached transaction, if it has one, was applied.
        Raise `DamagedError` with the name of the log file if the machine cannot read a transaction.
        """
        payloads = batch.payloads()
        change = None
        count, size = batch.count, len(batch.body)
        self._count_applied(count, size)
        self.applied += count
        self.applied_bytes += size
        self._log.know_committed(batch.last)
        if batch.config:
            text, attached = parts_of_change(*payloads)
            change = Ensemble.parse(text)
            if not attached:
                self._on_membership(change, batch.last)
                return
            payloads = [attached]
        apply, pending, clock = self.machine.apply, self._pending, self._watchdog.clock
        mine, applied, on_untagged = pending.origin, pending.applied, self._on_untagged
        started = clock()
        for zxid, payload in zip(batch.zxids, payloads, strict=True):
            try:
                result = apply(zxid, payload[TAG_BYTES:])
            except DamagedError as error:
                raise DamagedError(f"{self._log.log_file_of(zxid)}: {error}") from error
            origin, counter = _unpack_tag(payload)
            if origin == mine:
                applied(counter, result)
            elif on_untagged is not None:
                on_untagged(zxid, payload, result)
            ended = clock()
            if ended - started > SLOW_APPLY_S:
                self._watchdog.took(ended - started, partial(self._describe, zxid, payload))
            if ended >= self._pause_at:
                yield Pause.LET_OTHERS
                ended = clock()
                self._pause_at = ended + APPLY_S
            started = ended
        if change is not None:
            self._on_membership(change, batch.last)

    def _describe(self, zxid: Zxid, payload: bytes) -> str:
        machine, txn = self.machine, payload[TAG_BYTES:]
        described = machine.describe_transaction(txn) if isinstance(machine, Describes) else "a transaction"
        return f"applying {described} of {len(txn)} bytes, zxid {show(zxid)}"
