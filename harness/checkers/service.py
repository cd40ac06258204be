"""What callers are promised: barriers that see every acknowledged write, and servers that do not fall over."""

from __future__ import annotations

from harness.checkers.ghost import Ghost, Known
from harness.checkers.judge import Checker
from zab.core.messages import State, UpToDate
from zab.core.zxid import NOTHING, ServerId, Zxid, show


class BarrierIsLinearizable(Checker):
    """A barrier is behind every write that anybody was told of before the barrier was asked, and is reached here."""

    promise = "barriers are linearizable"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._floor: dict[int, Zxid] = {}

    def barrier_asked(self, who: Known, token: int) -> None:
        self._floor[token] = self.ghost.acknowledged

    def barrier_answered(self, who: Known, token: int, zxid: Zxid) -> None:
        floor = self._floor.pop(token)
        if zxid < floor:
            self.fail(
                f"server {who.id} answers a barrier with {show(zxid)};"
                f" {show(floor)} was acknowledged before it was asked"
            )
        if who.applied < zxid:
            self.fail(f"server {who.id} answers a barrier with {show(zxid)}, but has applied only {show(who.applied)}")


class ServingIsCurrent(Checker):
    """Whoever begins to serve has applied what its leader called committed, and that is no less than what the
    epoch began with."""

    promise = "serving servers are current"

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
    """Nothing that peers or disks legally do makes a server fall over."""

    promise = "no server falls over"

    def failed(self, who: Known, doing: str, error: Exception) -> None:
        self.fail(f"server {who.id} {doing}: {type(error).__name__}: {error}")
