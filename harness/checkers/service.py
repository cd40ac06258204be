"""What callers are promised: barriers that see every acknowledged write, and servers that do not fall over."""

from __future__ import annotations

from harness.checkers.ghost import Ghost, Known
from harness.checkers.judge import Checker
from zab.core.zxid import Zxid, show


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
            self.fail(f"server {who.id} answers a barrier with {show(zxid)}; {show(floor)} was acknowledged before it was asked")
        if who.applied < zxid:
            self.fail(f"server {who.id} answers a barrier with {show(zxid)}, but has applied only {show(who.applied)}")


class NoCrash(Checker):
    """Nothing that peers or disks legally do makes a server fall over."""

    promise = "no server falls over"

    def failed(self, who: Known, doing: str, error: Exception) -> None:
        self.fail(f"server {who.id} {doing}: {type(error).__name__}: {error}")
