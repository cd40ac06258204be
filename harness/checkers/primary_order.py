"""Primary order: each primary's changes come in its order, after all changes of earlier primaries.

The published specifications quantify these with "there are two transactions such that", which a single
transaction satisfies: they can never fail. Here they are meant for *all* pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers.ghost import Ghost, Known
from harness.checkers.judge import Checker
from zab.core.batch import Batch
from zab.core.messages import State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch, ServerId, Zxid, epoch_of, show

# A member of an enum is looked up slowly, and this with every batch that is applied.
_LEADING: Final = State.LEADING


class LocalPrimaryOrder(Checker):
    """For all a, b of one primary, a broadcast before b: a server that delivers b delivers a before b.

    Every proposal has a number in its primary's epoch. Delivering 1, 2, 3, ... without a gap is the same for all pairs.
    """

    invariant = "local primary order"
    by_place = frozenset({"applied"})

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._number: dict[Zxid, int] = {}
        self._count: dict[Epoch, int] = {}

    def proposed(self, who: Known, first: Zxid, payloads: Sequence[bytes]) -> None:
        epoch = epoch_of(first)
        count = self._count.get(epoch, 0)
        for offset in range(len(payloads)):
            count += 1
            self._number[Zxid(first + offset)] = count
        self._count[epoch] = count

    def applied(self, who: Known, batch: Batch) -> None:
        """Number them behind the last applied transaction, or behind a restored snapshot."""
        same = epoch_of(batch.first) == epoch_of(who.applied)
        number = self._number.get(who.applied, 0) if same else 0
        for zxid in range(batch.first, batch.last + 1):
            proposed = self._number.get(Zxid(zxid))
            if proposed is None:
                return  # nobody proposed it: integrity says so
            number += 1
            if proposed != number:
                self.fail(
                    f"server {who.id} delivers {show(Zxid(zxid))}, number {proposed} of its primary, where number"
                    f" {number} is due"
                )


class GlobalPrimaryOrder(Checker):
    """A server delivers in the order of epochs."""

    invariant = "global primary order"
    by_place = frozenset({"applied"})

    def applied(self, who: Known, batch: Batch) -> None:
        if batch.first >> 32 < who.applied >> 32:
            self.fail(f"server {who.id} delivers {show(batch.first)} behind {show(who.applied)}, of a later epoch")


class PrimaryIntegrity(Checker):
    """A primary that broadcasts has delivered what any server had before it began, and what its followers have
    since."""

    invariant = "primary integrity"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._broadcasting: dict[Epoch, ServerId | None] = {}
        """None: it was restarted since, and its deliveries do not belong to that epoch any more."""

    def started(self, who: Known, recovered: Recovered) -> None:
        for epoch, primary in self._broadcasting.items():
            if primary == who.id:
                self._broadcasting[epoch] = None

    def broadcasts(self, who: Known, epoch: Epoch) -> None:
        if epoch in self._broadcasting:
            return
        self._broadcasting[epoch] = who.id
        for other in self.ghost.servers[1:]:
            if other.up and epoch_of(other.applied) < epoch and other.count > who.count:
                self.fail(
                    f"server {who.id} broadcasts in epoch {epoch} after delivering up to {show(who.applied)},"
                    f" server {other.id} has delivered {show(other.applied)}"
                )

    def applied(self, who: Known, batch: Batch) -> None:
        if who.leader is None or who.state == _LEADING:
            return
        primary = self.ghost.servers[who.leader]
        if primary.state != _LEADING or self._broadcasting.get(primary.epoch) != primary.id:
            return
        if (
            who.epoch == primary.epoch
            and epoch_of(batch.last) < primary.epoch
            and who.count + batch.count > primary.count
        ):
            self.fail(
                f"server {who.id} delivers {show(batch.last)}; its primary {primary.id} of epoch {primary.epoch}"
                f" broadcasts and has delivered only up to {show(primary.applied)}"
            )
