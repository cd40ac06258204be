"""Primary order: each primary's changes come in its order, after all changes of earlier primaries.

The published specifications quantify these with "there are two transactions such that", which a single transaction
satisfies, so they can never fail. Here they hold for *all* pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from zab.core.batch import Batch
from zab.core.messages import State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch, ServerId, Zxid, epoch_of, show

# Members of an enum are looked up slowly, and this one is used for every applied batch.
_LEADING: Final = State.LEADING


class LocalPrimaryOrder(Checker):
    """For all a, b of one primary, a broadcast before b: a server that delivers b delivers a before b.

    Every proposal has a number in its primary's epoch. Delivering 1, 2, 3, ... without a gap is the same for all pairs.
    """

    invariant = "local primary order"
    by_place = frozenset({"applied"})

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._number: dict[Zxid, int] = {}
        self._count: dict[Epoch, int] = {}

    def proposed(self, server: ServerState, first: Zxid, payloads: Sequence[bytes]) -> None:
        epoch = epoch_of(first)
        count = self._count.get(epoch, 0)
        for offset in range(len(payloads)):
            count += 1
            self._number[Zxid(first + offset)] = count
        self._count[epoch] = count

    def applied(self, server: ServerState, batch: Batch) -> None:
        """Number them behind the last applied transaction, or behind a restored snapshot."""
        same = epoch_of(batch.first) == epoch_of(server.applied)
        number = self._number.get(server.applied, 0) if same else 0
        for zxid in range(batch.first, batch.last + 1):
            proposed = self._number.get(Zxid(zxid))
            if proposed is None:
                return  # it was never proposed, which `Integrity` reports
            number += 1
            if proposed != number:
                self.fail(
                    f"server {server.id} delivers {show(Zxid(zxid))}, number {proposed} of its primary; expected number"
                    f" {number}"
                )


class GlobalPrimaryOrder(Checker):
    """A server delivers in the order of epochs."""

    invariant = "global primary order"
    by_place = frozenset({"applied"})

    def applied(self, server: ServerState, batch: Batch) -> None:
        if batch.first >> 32 < server.applied >> 32:
            self.fail(
                f"server {server.id} delivers {show(batch.first)} after {show(server.applied)}, which has a later epoch"
            )


class PrimaryIntegrity(Checker):
    """A primary that broadcasts has delivered what any server had before it began, and what its followers have
    since."""

    invariant = "primary integrity"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._broadcasting: dict[Epoch, ServerId | None] = {}
        """The primary of each epoch; None after its restart, because its later deliveries do not belong to the
        epoch."""

    def started(self, server: ServerState, recovered: Recovered) -> None:
        for epoch, primary in self._broadcasting.items():
            if primary == server.id:
                self._broadcasting[epoch] = None

    def broadcasts(self, server: ServerState, epoch: Epoch) -> None:
        if epoch in self._broadcasting:
            return
        self._broadcasting[epoch] = server.id
        for other in self.ghost.servers[1:]:
            if other.up and epoch_of(other.applied) < epoch and other.count > server.count:
                self.fail(
                    f"server {server.id} broadcasts in epoch {epoch} with {show(server.applied)} delivered, but server"
                    f" {other.id} has delivered {show(other.applied)}"
                )

    def applied(self, server: ServerState, batch: Batch) -> None:
        if server.leader is None or server.state == _LEADING:
            return
        primary = self.ghost.servers[server.leader]
        if primary.state != _LEADING or self._broadcasting.get(primary.epoch) != primary.id:
            return
        if (
            server.epoch == primary.epoch
            and epoch_of(batch.last) < primary.epoch
            and server.count + batch.count > primary.count
        ):
            self.fail(
                f"server {server.id} delivers {show(batch.last)}, but its primary {primary.id} of epoch"
                f" {primary.epoch}, which broadcasts, has delivered only {show(primary.applied)}"
            )
