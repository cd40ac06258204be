"""What callers rely on: a barrier includes every acknowledged write, serving servers are current, and none fails."""

from __future__ import annotations

from harness.checkers.ghost import Ghost, Known
from harness.checkers.judge import Checker
from zab.core.batch import Batch
from zab.core.messages import State, UpToDate
from zab.core.zxid import NOTHING, ServerId, Zxid, show


class BarrierIsLinearizable(Checker):
    """A barrier covers every write that any client knew of before the barrier's request, and is reached at this server.

    A client also knows of a write that any server has applied, because it can read it there.
    """

    invariant = "barriers are linearizable"
    by_place = frozenset({"applied"})

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._floor: dict[int, tuple[Zxid, bool]] = {}
        """By token: the zxid that the barrier must cover, and whether a leader had acknowledged it to a client."""
        self._shown = NOTHING

    def applied(self, who: Known, batch: Batch) -> None:
        self._shown = max(self._shown, batch.last)

    def barrier_asked(self, who: Known, token: int) -> None:
        acknowledged = self.ghost.acknowledged
        self._floor[token] = max(acknowledged, self._shown), acknowledged >= self._shown

    def barrier_answered(self, who: Known, token: int, zxid: Zxid) -> None:
        floor, acknowledged = self._floor.pop(token)
        if zxid < floor:
            had = "acknowledged" if acknowledged else "applied, and could be read,"
            self.fail(
                f"server {who.id} answers a barrier with {show(zxid)}; {show(floor)} was {had} before it was asked"
            )
        if who.applied < zxid:
            self.fail(f"server {who.id} answers a barrier with {show(zxid)}, but has applied only {show(who.applied)}")


class ServingIsCurrent(Checker):
    """A server that begins to serve has applied what its leader called committed: at least the initial history of the
    epoch."""

    invariant = "serving servers are current"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._floor: dict[ServerId, Zxid] = {}

    def said_up_to_date(self, who: Known, to: ServerId, message: UpToDate) -> None:
        ghost = self.ghost
        initial = ghost.initial.get(who.epoch, NOTHING)
        if message.committed not in ghost.place or message.committed < initial:
            self.fail(
                f"server {who.id} calls {to} up to date with {ghost.view(message.committed)}; committed is"
                f" {show(ghost.committed)}, and epoch {who.epoch} began with {show(initial)}"
            )
        self._floor[to] = message.committed

    def serves(self, who: Known) -> None:
        floor = self._floor.get(who.id, NOTHING)
        if who.state == State.LEADING:
            initial = self.ghost.initial.get(who.epoch, NOTHING)
            if who.applied < initial:
                self.fail(
                    f"server {who.id} serves as leader with {show(who.applied)} applied; epoch {who.epoch} began with"
                    f" {show(initial)}"
                )
        elif floor >> 32 <= who.epoch and who.applied < floor:
            self.fail(
                f"server {who.id} serves with {show(who.applied)} applied; its leader called {show(floor)} committed"
            )


class NoCrash(Checker):
    """No legal input from a peer or a disk makes a server fail."""

    invariant = "no server fails unexpectedly"

    def failed(self, who: Known, doing: str, error: Exception) -> None:
        self.fail(f"server {who.id} {doing}: {type(error).__name__}: {error}")


class HistoriesAgree(Checker):
    """Servers that compare histories that must be equal find them equal."""

    invariant = "histories agree"

    def contradicted(self, who: Known, what: str) -> None:
        self.fail(f"server {who.id} {what}")
