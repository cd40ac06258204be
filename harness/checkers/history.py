"""The contents of logs: one per zxid, one past per transaction, no holes, and nothing committed is truncated."""

from __future__ import annotations

from harness.checkers.ghost import Known
from harness.checkers.judge import Checker
from zab.core.batch import Batch
from zab.core.messages import AckNewLeader, State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch, ServerId, Zxid, follows, show


class SameZxidSameTransaction(Checker):
    """Two logs never hold different transactions under one zxid."""

    invariant = "same zxid, same transaction"
    by_place = frozenset({"appended"})

    def appended(self, who: Known, batch: Batch) -> None:
        ghost = self.ghost
        for offset, payload in enumerate(batch.payloads()):
            zxid = Zxid(batch.first + offset)
            if ghost.payload.get(zxid, payload) != payload:
                self.fail(f"server {who.id} logs {show(zxid)} with another content than it has elsewhere")


class LogMatching(Checker):
    """Histories that share a transaction share everything before it: all servers log it behind the same one."""

    invariant = "log matching"
    by_place = frozenset({"appended"})

    def appended(self, who: Known, batch: Batch) -> None:
        behind = self.ghost.parent.get(batch.first, who.tip)
        if behind != who.tip:
            self.fail(
                f"server {who.id} logs {show(batch.first)} behind {show(who.tip)}, elsewhere it stands behind"
                f" {show(behind)}"
            )


class Contiguity(Checker):
    """Counters within an epoch are 1, 2, 3, ...; epochs ascend; also in what a restart finds."""

    invariant = "contiguity"
    by_place = frozenset({"appended"})

    def appended(self, who: Known, batch: Batch) -> None:
        if not follows(batch.first, who.tip):
            self.fail(f"server {who.id} logs {show(batch.first)} behind {show(who.tip)}")

    def started(self, who: Known, recovered: Recovered) -> None:
        last = recovered.snapshot
        for batch in recovered.batches:
            if not follows(batch.first, last):
                self.fail(f"server {who.id} finds {show(batch.first)} behind {show(last)} on its disk")
            last = batch.last


class CommittedStays(Checker):
    """No truncation and no snapshot from a leader removes a committed transaction, not even for a moment: after a crash
    in that moment no quorum would hold the transaction."""

    invariant = "committed transactions stay"

    def truncated(self, who: Known, zxid: Zxid) -> None:
        self._check(who, zxid, "cuts its log at")

    def installed(self, who: Known, zxid: Zxid) -> None:
        self._check(who, zxid, "replaces its history by a snapshot of")

    def _check(self, who: Known, zxid: Zxid, does: str) -> None:
        ghost = self.ghost
        if zxid not in ghost.depth:
            self.fail(f"server {who.id} {does} {show(zxid)}, which was never logged")
        if not who.impaired and ghost.shared(zxid) < ghost.shared(who.tip):
            lost = ghost.canon[ghost.shared(who.tip)]
            self.fail(f"server {who.id} {does} {show(zxid)} and loses {show(lost)}, which was committed")


class ProcessConsistency(Checker):
    """The log of a synchronized learner is a prefix of its leader's log."""

    invariant = "process consistency"

    def said_ack_new_leader(self, who: Known, to: ServerId, message: AckNewLeader) -> None:
        self._check(who, to, message.epoch, who.durable)

    def role(self, who: Known, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if serving and not who.serving and leader is not None:
            self._check(who, leader, epoch, who.tip)

    def _check(self, who: Known, leader: ServerId, epoch: Epoch, end: Zxid) -> None:
        ghost = self.ghost
        ruler = ghost.servers[leader]
        if ruler.state != State.LEADING or ruler.epoch != epoch or ghost.ruler.get(epoch) != leader:
            return  # that leader is gone; whoever comes next will synchronize
        if not ghost.holds(ruler.tip, end):
            self.fail(
                f"server {who.id} follows {leader} in epoch {epoch} with a history that ends at {show(end)},"
                f" which is not in the leader's, that ends at {show(ruler.tip)}"
            )
