"""State machines apply the same transactions in the same order, and only proposed and committed ones."""

from __future__ import annotations

from collections.abc import Sequence

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from zab.core.batch import Batch
from zab.core.zxid import ServerId, Zxid, show


class PrefixConsistency(Checker):
    """All committed histories are prefixes of one history, the canon."""

    invariant = "prefix consistency"
    by_place = frozenset({"applied"})

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        if path is None:
            ghost = self.ghost
            self.fail(
                f"server {server.id} committed {ghost.view(zxid)}, whose history does not contain"
                f" {show(ghost.committed)}, which was committed"
            )

    def applied(self, server: ServerState, batch: Batch) -> None:
        canon = self.ghost.canon
        place = server.count + 1
        for zxid in range(batch.first, batch.last + 1):
            if place >= len(canon) or canon[place] != zxid:
                there = show(canon[place]) if place < len(canon) else "nothing"
                self.fail(
                    f"server {server.id} applies {show(Zxid(zxid))} as number {place}, where {there} is committed"
                )
            place += 1

    def restored(self, server: ServerState, zxid: Zxid) -> None:
        if zxid not in self.ghost.place:
            self.fail(f"server {server.id} restored a state of {self.ghost.view(zxid)}, which was never committed")


class TotalOrder(Checker):
    """Every server that delivers b delivers a before b, if any server does so.

    The checker compares neighbours: all servers must deliver b right after the same a. By induction this holds for all
    pairs.
    """

    invariant = "total order"
    by_place = frozenset({"applied"})

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._before: dict[Zxid, Zxid] = {}

    def applied(self, server: ServerState, batch: Batch) -> None:
        before = self._before
        previous = server.applied
        for number in range(batch.first, batch.last + 1):
            zxid = Zxid(number)
            if before.setdefault(zxid, previous) != previous:
                self.fail(
                    f"server {server.id} delivers {show(zxid)} behind {show(previous)},"
                    f" but another server delivered it behind {show(before[zxid])}"
                )
            previous = zxid


class Agreement(Checker):
    """Server g delivers a, or f delivers b, if f delivers a and g delivers b.

    One of the sets of two servers must contain the other. As long as all servers deliver in one order, each set is a
    prefix of it, and nothing needs to be compared. From the first delivery out of this order on, the checker counts for
    each pair the transactions that one has and the other has not.
    """

    invariant = "agreement"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._order: list[Zxid] = []
        """All delivered transactions, in the order of their first deliveries."""
        self._place: dict[Zxid, int] = {}
        self._reached = [0] * len(ghost.servers)
        """The length of the prefix of this order that each server has delivered, and nothing else."""
        self._in_order = True
        self._delivered: list[set[Zxid]] = []
        self._ahead: list[list[int]] = []

    def applied(self, server: ServerState, batch: Batch) -> None:
        for zxid in range(batch.first, batch.last + 1):
            self._deliver(server.id, Zxid(zxid))

    def restored(self, server: ServerState, zxid: Zxid) -> None:
        """A restored state contains all deliveries that led to it."""
        for delivered in self._order:
            if delivered <= zxid:
                self._deliver(server.id, delivered)

    def _deliver(self, sid: ServerId, zxid: Zxid) -> None:
        if self._in_order:
            order, reached = self._order, self._reached[sid]
            place = self._place.get(zxid, len(order))
            if place < reached:
                return
            if place == reached:
                if place == len(order):
                    self._place[zxid] = place
                    order.append(zxid)
                self._reached[sid] = reached + 1
                return
            self._compare_from_now_on()
        self._compare(sid, zxid)

    def _compare_from_now_on(self) -> None:
        self._in_order = False
        self._delivered = [set(self._order[:reached]) for reached in self._reached]
        self._ahead = [[max(0, one - other) for other in self._reached] for one in self._reached]

    def _compare(self, sid: ServerId, zxid: Zxid) -> None:
        mine = self._delivered[sid]
        if zxid in mine:
            return
        mine.add(zxid)
        first = True
        for other, theirs in enumerate(self._delivered):
            if other == sid:
                continue
            if zxid in theirs:
                first = False
                self._ahead[other][sid] -= 1
                continue
            self._ahead[sid][other] += 1
            if self._ahead[other][sid]:
                self.fail(
                    f"server {sid} delivered {show(zxid)}, which server {other} did not;"
                    f" {other} delivered {self._ahead[other][sid]} transactions that {sid} did not"
                )
        if first:
            self._order.append(zxid)


class Integrity(Checker):
    """Each delivered transaction was proposed by a primary, with the same content."""

    invariant = "integrity"
    by_place = frozenset({"applied"})

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._proposed: dict[Zxid, bytes] = {}

    def proposed(self, server: ServerState, first: Zxid, payloads: Sequence[bytes]) -> None:
        for offset, payload in enumerate(payloads):
            zxid = Zxid(first + offset)
            if self._proposed.setdefault(zxid, payload) != payload:
                self.fail(f"server {server.id} proposes {show(zxid)}, which was proposed with another content")

    def applied(self, server: ServerState, batch: Batch) -> None:
        for offset, payload in enumerate(batch.payloads()):
            zxid = Zxid(batch.first + offset)
            if zxid not in self._proposed:
                self.fail(f"server {server.id} delivers {show(zxid)}, which was never proposed")
            if self._proposed[zxid] != payload:
                self.fail(f"server {server.id} delivers {show(zxid)} with another content than was proposed")


class CommittedAndDurable(Checker):
    """A machine applies only what is committed and on its own server's disk, without a gap."""

    invariant = "applied only when committed and durable"

    def believed(self, server: ServerState, zxid: Zxid) -> None:
        if zxid not in self.ghost.place:
            self.fail(f"server {server.id} counts {self.ghost.view(zxid)} as committed, but no leader committed it")

    def applied(self, server: ServerState, batch: Batch) -> None:
        ghost = self.ghost
        if batch.last not in ghost.place:
            self.fail(f"server {server.id} applies {show(batch.last)}, which no leader committed")
        if not ghost.holds(server.durable, batch.last):
            self.fail(f"server {server.id} applies {show(batch.last)}, but its disk ends at {show(server.durable)}")
        if ghost.parent[batch.first] != server.applied:
            self.fail(f"server {server.id} applies {show(batch.first)} behind {show(server.applied)}: out of order")
