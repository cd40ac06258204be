"""Servers of an ensemble that speaks ZooKeeper's protocol, some of which make durable what a server of ZooKeeper does.

The links lose what no packet of ZooKeeper carries: digests, a second DIFF, the TRUNC before a snapshot, the offer to
resume a snapshot.

A learner of ZooKeeper makes durable, before it acknowledges NEWLEADER, only what a COMMIT follows. It logs the other
proposals after UPTODATE, and acknowledges them one by one. So the leader's end of a link marks, right before NEWLEADER,
the part of the history for which ZooKeeper's leader sends COMMITs: what is committed, and the initial history of the
epoch. After SNAP the learner syncs its snapshot at NEWLEADER, after TRUNC it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from attrs import evolve, frozen

from harness.checkers import ALL, Checker
from harness.faults import Script
from harness.worlds.cores.server import Server
from harness.worlds.cores.world import World
from zab.core import messages
from zab.core import ready as effects
from zab.core.batch import Batch
from zab.core.leader.leader import Leader
from zab.core.learner.learner import Learner
from zab.core.learner.learner_broadcast import LearnerAcknowledged
from zab.core.learner.learner_phase import LearnerPhase
from zab.core.learner.learner_synchronization import LearnerSynchronization
from zab.core.messages import RESUMES, Commit, Inform, InformAndActivate, LinkEvent, Message, NewLeader, Propose, Trunc
from zab.core.node import Node
from zab.core.zxid import NOTHING, ServerId, Zxid

OURS_ALONE: Final = 1
"""The value of `zookeeper_peers` with which all servers are ours; with a greater one those with odd ids are not."""
_WITH_DIGEST: Final = (messages.AckEpoch, messages.Diff, Trunc, messages.SnapBegin)
_OPS: Final = (messages.Diff, Trunc, messages.SnapBegin)
_SNAPSHOTS: Final = (effects.SendSnapshot, effects.SendRest)


@frozen
class CommittedSoFar:
    """Stands for the COMMITs before NEWLEADER: one for each transaction up to `zxid`."""

    zxid: Zxid


class PeerOfZookeeper(Server):
    """A server whose links speak ZooKeeper's protocol."""

    decided: Zxid = NOTHING
    """The last transaction before NEWLEADER that a COMMIT follows, on the present link to the leader."""
    _cuts: dict[ServerId, Trunc]
    """The TRUNC that waits for the next message to a learner: it is left out before a snapshot."""

    _begun: set[ServerId]
    """The learners whose synchronization has begun on the present link. A second DIFF would only bring a digest."""

    def make_node(self, recovered: effects.Recovered) -> Node:
        self._cuts, self._begun = {}, set()
        is_ours = self.knobs.zookeeper_peers == OURS_ALONE or self.id % 2 == 0
        kind = Node if is_ours else NodeOfZookeeper
        node = kind(self.id, self.ensemble, recovered, self.settings, self.jitter, self.now_ms)
        if isinstance(node, NodeOfZookeeper):
            node.server = self
        return node

    def _send(self, to: ServerId, message: Any) -> None:
        cut = self._cuts.pop(to, None)
        if cut is not None and not isinstance(message, _SNAPSHOTS):
            super()._send(to, cut)
        if message == RESUMES or (isinstance(message, messages.Diff) and to in self._begun):
            return
        if isinstance(message, messages.LeaderInfo):
            self._begun.discard(to)
        if isinstance(message, _OPS):
            self._begun.add(to)
        if isinstance(message, _WITH_DIGEST):
            message = evolve(message, digest=None)
        if isinstance(message, Trunc):
            self._cuts[to] = message
            return
        if isinstance(message, NewLeader):
            role = self.node._role
            assert isinstance(role, Leader)
            decided = max(role.handshake._initial, self.node.committed)
            self.world.network.send(self.accepted.get(to), CommittedSoFar(decided))  # type: ignore[arg-type]
        super()._send(to, message)

    def receive(self, source: ServerId, message: Message | LinkEvent | CommittedSoFar) -> None:
        if isinstance(message, CommittedSoFar):
            self.decided = message.zxid
            return
        super().receive(source, message)


class NodeOfZookeeper(Node):
    server: PeerOfZookeeper

    @property
    def learner_class(self) -> Any:  # type: ignore[override]
        return self._learner

    def _learner(self, *arguments: Any) -> Learner:
        learner = LearnerOfZookeeper(*arguments)
        learner.server = self.server
        return learner


class LearnerOfZookeeper(Learner):
    server: PeerOfZookeeper

    def enter(self, phase: LearnerPhase) -> None:
        if type(phase) is LearnerSynchronization:
            phase = TakesCommitted(self, phase._epoch, phase._offered)
        elif type(phase) is LearnerAcknowledged:
            before, membership = self.phase, phase._membership
            assert isinstance(before, TakesCommitted)
            state = phase._epoch, membership, phase._brought, phase._acked, phase._commit_seen
            phase = LogsAfterUpToDate(self, *state)
            phase.open = before.open
        super().enter(phase)


class TakesCommitted(LearnerSynchronization):
    """Takes over, at NEWLEADER, the part of the history that a COMMIT follows. It keeps the open proposals."""

    def __init__(self, role: Any, *state: Any) -> None:
        super().__init__(role, *state)
        self.open: list[Batch] = []
        """The proposals that are not handed to the disk."""
        self._server: PeerOfZookeeper = role.server
        self._truncated = False

    def _on_trunc(self, message: Trunc) -> None:
        self._truncated = True
        super()._on_trunc(message)

    def on_propose(self, message: Propose | Inform | InformAndActivate) -> None:
        self.open.append(message.batch)

    def on_commit(self, message: Commit) -> None:
        self._commit_seen = max(self._commit_seen, message.zxid)

    def _on_new_leader(self, message: NewLeader) -> None:
        decided = self._server.decided
        proposals, self.open = self.open, []
        if self._truncated and any(batch.first <= decided for batch in proposals):
            what = "transactions follow TRUNC before NEWLEADER: the snapshot that has them is not synced"
            self._server.world.report_failure(self._server, "adopts an epoch", AssertionError(what))
        for batch in proposals:
            if batch.first <= decided:
                super().on_propose(Propose(batch.until(decided)))
            if batch.last > decided:
                self.open.append(batch.after(decided))
        super()._on_new_leader(message)

    HANDLERS: ClassVar = {
        **LearnerSynchronization.HANDLERS,
        Trunc: _on_trunc,
        Propose: on_propose,
        Commit: on_commit,
        NewLeader: _on_new_leader,
    }


class LogsAfterUpToDate(LearnerAcknowledged):
    """Logs the open proposals once UPTODATE has come."""

    open: list[Batch]

    def on_propose(self, message: Propose | Inform | InformAndActivate) -> None:
        self.open.append(message.batch)

    def on_commit(self, message: Commit) -> None:
        self._commit_seen = max(self._commit_seen, message.zxid)

    def _on_up_to_date(self, message: messages.UpToDate) -> None:
        for batch in self.open:
            super().on_propose(Propose(batch))
        super()._on_up_to_date(message)

    HANDLERS: ClassVar = {
        **LearnerAcknowledged.HANDLERS, Propose: on_propose, Commit: on_commit, messages.UpToDate: _on_up_to_date
    }  # fmt: skip


class EnsembleOfZookeeper(World):
    server_type = PeerOfZookeeper

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        super().__init__(script, trace=trace, checkers=checkers)
        self.ghost.digests_are_sent = False
