"""Invariants of service: a barrier covers acknowledged writes, a serving server is current, and no server fails."""

from __future__ import annotations

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from zab.core.batch import Batch
from zab.core.messages import State, UpToDate
from zab.core.zxid import NOTHING, ServerId, Zxid, show


class BarrierIsLinearizable(Checker):
    """A barrier covers every write that any client knew of before the barrier's request, and is reached at this server.

    A client also knows of a write that any server has applied, because it can read it there.
    """

    invariant = "barriers are linearizable"
    by_place = frozenset({"applied"})

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._floor: dict[int, tuple[Zxid, bool]] = {}
        """The zxid that each barrier must cover, and true if a leader had acknowledged it to a client, by token."""
        self._shown = NOTHING

    def applied(self, server: ServerState, batch: Batch) -> None:
        self._shown = max(self._shown, batch.last)

    def barrier_asked(self, server: ServerState, token: int) -> None:
        acknowledged = self.ghost.acknowledged
        self._floor[token] = max(acknowledged, self._shown), acknowledged >= self._shown

    def barrier_answered(self, server: ServerState, token: int, zxid: Zxid) -> None:
        floor, acknowledged = self._floor.pop(token)
        if zxid < floor:
            had = "acknowledged" if acknowledged else "applied, and could be read,"
            self.fail(
                f"server {server.id} answers a barrier with {show(zxid)}; {show(floor)} was {had} before its request"
            )
        if server.applied < zxid:
            self.fail(
                f"server {server.id} answers a barrier with {show(zxid)}, but has applied only {show(server.applied)}"
            )


class ServingIsCurrent(Checker):
    """A server that begins to serve has applied what its leader called committed: at least the initial history of the
    epoch."""

    invariant = "serving servers are current"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._floor: dict[ServerId, Zxid] = {}

    def said_up_to_date(self, server: ServerState, to: ServerId, message: UpToDate) -> None:
        ghost = self.ghost
        initial = ghost.initial.get(server.epoch, NOTHING)
        if message.committed not in ghost.place or message.committed < initial:
            self.fail(
                f"server {server.id} sends UPTODATE with {ghost.view(message.committed)} to {to}, but the last commit"
                f" is {show(ghost.committed)}, and epoch {server.epoch} began with {show(initial)}"
            )
        self._floor[to] = message.committed

    def serves(self, server: ServerState) -> None:
        floor = self._floor.get(server.id, NOTHING)
        if server.state == State.LEADING:
            initial = self.ghost.initial.get(server.epoch, NOTHING)
            if server.applied < initial:
                self.fail(
                    f"server {server.id} serves as leader with {show(server.applied)} applied, but epoch"
                    f" {server.epoch} began with {show(initial)}"
                )
        elif floor >> 32 <= server.epoch and server.applied < floor:
            self.fail(
                f"server {server.id} serves with {show(server.applied)} applied, but its leader reported"
                f" {show(floor)} as committed"
            )


class NoCrash(Checker):
    """No legal input from a peer or a disk makes a server fail."""

    invariant = "no server fails unexpectedly"

    def failed(self, server: ServerState, doing: str, error: Exception) -> None:
        self.fail(f"server {server.id} {doing}: {type(error).__name__}: {error}")


class HistoriesAgree(Checker):
    """Two servers that compare a part of their histories find it equal."""

    invariant = "histories agree"

    def contradicted(self, server: ServerState, what: str) -> None:
        self.fail(f"server {server.id} {what}")
