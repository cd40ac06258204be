"""Synchronization (Zab, phase 2): give a quorum the initial history, and wait until it has adopted the epoch."""

from __future__ import annotations

from typing import ClassVar

from zab.core.ensemble import Ensemble
from zab.core.leader.leader_broadcast import LeaderBroadcast
from zab.core.leader.leader_phase import LeaderPhase, LeaderRole
from zab.core.leader.learner_state import LearnerState
from zab.core.zxid import Epoch, Millis, Ticket


class LeaderSynchronization(LeaderPhase):
    """Lasts from the promises of a quorum until a quorum, the leader included, has durably adopted the epoch."""

    name: ClassVar[str] = "synchronization"
    epoch: Epoch

    def __init__(self, role: LeaderRole, epoch: Epoch, membership: Ensemble, now: Millis) -> None:
        super().__init__(role)
        self.epoch = epoch
        self.until = now + role.log_state.settings.init_ms
        self._membership = membership
        """The membership of the epoch. It comes into force with the epoch, unless it is in force already."""
        role.log_state.current = epoch
        self._adoption: Ticket | None = role.log_state.save_epochs()
        """The pending write of the adopted epoch, queued after the whole history. None once it is durable."""

    def membership(self) -> Ensemble:
        return self._membership

    def introduced(self, learner: LearnerState, now: Millis) -> None:
        self._role.handshake.announce(learner, self.epoch)

    def progressed(self, learner: LearnerState, now: Millis) -> None:
        """Extend `until` if the learner has a vote, and the leader with the learners that follow has a quorum."""
        quorums = self._role.quorums
        if quorums.may_vote(learner.sid) and quorums.has(quorums.following()):
            self.until = now + self._log_state.settings.init_ms

    def saved(self, ticket: Ticket, grew: bool, now: Millis) -> None:
        if self._adoption is not None and ticket >= self._adoption:
            self._adoption = None
            self._count_adoptions()

    def synced(self, learner: LearnerState, now: Millis) -> None:
        self._count_adoptions()

    def _count_adoptions(self) -> None:
        """Begin broadcast once a quorum, the leader included, has durably adopted the epoch."""
        if self._adoption is not None:
            return
        quorums = self._role.quorums
        if not quorums.has(quorums.counting()):
            return
        broadcast = LeaderBroadcast(self._role, self.epoch)
        self._role.enter(broadcast)
        broadcast.establish(self._membership)
