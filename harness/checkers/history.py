"""Logs have one transaction per zxid, one predecessor per transaction and no holes, and lose nothing committed."""

from __future__ import annotations

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import ServerState
from zab.core.batch import Batch
from zab.core.messages import AckNewLeader, State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch, ServerId, Zxid, follows, show


class SameZxidSameTransaction(Checker):
    """Two logs never hold different transactions under one zxid."""

    invariant = "same zxid, same transaction"
    by_place = frozenset({"appended"})

    def appended(self, server: ServerState, batch: Batch) -> None:
        ghost = self.ghost
        for offset, payload in enumerate(batch.payloads()):
            zxid = Zxid(batch.first + offset)
            if ghost.payload.get(zxid, payload) != payload:
                self.fail(f"server {server.id} logs {show(zxid)} with another content than another server")


class LogMatching(Checker):
    """Histories that share a transaction share everything before it: all servers log it behind the same one."""

    invariant = "log matching"
    by_place = frozenset({"appended"})

    def appended(self, server: ServerState, batch: Batch) -> None:
        behind = self.ghost.parent.get(batch.first, server.tip)
        if behind != server.tip:
            self.fail(
                f"server {server.id} logs {show(batch.first)} behind {show(server.tip)}, but another server logged it"
                f" behind {show(behind)}"
            )


class Contiguity(Checker):
    """Counters within an epoch are 1, 2, 3, ..., and epochs ascend, also in the history that a restart finds."""

    invariant = "contiguity"
    by_place = frozenset({"appended"})

    def appended(self, server: ServerState, batch: Batch) -> None:
        if not follows(batch.first, server.tip):
            self.fail(f"server {server.id} logs {show(batch.first)} behind {show(server.tip)}")

    def started(self, server: ServerState, recovered: Recovered) -> None:
        last = recovered.snapshot
        for batch in recovered.batches:
            if not follows(batch.first, last):
                self.fail(f"server {server.id} finds {show(batch.first)} behind {show(last)} on its disk")
            last = batch.last


class CommittedStays(Checker):
    """No truncation and no snapshot from a leader removes a committed transaction, not even for a moment: after a crash
    in that moment no quorum would hold the transaction."""

    invariant = "committed transactions stay"

    def truncated(self, server: ServerState, zxid: Zxid) -> None:
        self._check(server, zxid, "truncates its log at")

    def installed(self, server: ServerState, zxid: Zxid) -> None:
        self._check(server, zxid, "replaces its history by a snapshot of")

    def _check(self, server: ServerState, zxid: Zxid, does: str) -> None:
        ghost = self.ghost
        if zxid not in ghost.depth:
            self.fail(f"server {server.id} {does} {show(zxid)}, which was never logged")
        if not server.impaired and ghost.shared(zxid) < ghost.shared(server.tip):
            lost = ghost.canon[ghost.shared(server.tip)]
            self.fail(f"server {server.id} {does} {show(zxid)} and loses {show(lost)}, which was committed")


class ProcessConsistency(Checker):
    """The log of a synchronized learner is a prefix of its leader's log."""

    invariant = "process consistency"

    def said_ack_new_leader(self, server: ServerState, to: ServerId, message: AckNewLeader) -> None:
        self._check(server, to, message.epoch, server.durable)

    def role(self, server: ServerState, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if serving and not server.serving and leader is not None:
            self._check(server, leader, epoch, server.tip)

    def _check(self, server: ServerState, leader: ServerId, epoch: Epoch, end: Zxid) -> None:
        ghost = self.ghost
        ruler = ghost.servers[leader]
        if ruler.state != State.LEADING or ruler.epoch != epoch or ghost.ruler.get(epoch) != leader:
            return  # this leader is deposed; the next one will synchronize the server
        if not ghost.holds(ruler.tip, end):
            self.fail(
                f"server {server.id} follows {leader} in epoch {epoch} with a history that ends at {show(end)},"
                f" which is not in the leader's history up to {show(ruler.tip)}"
            )
