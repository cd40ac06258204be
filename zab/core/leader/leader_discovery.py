"""Discovery (Zab, phase 1): choose an epoch newer than every promise of a quorum, and collect promises for it."""

from __future__ import annotations

from typing import ClassVar

from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError
from zab.core.leader.leader_phase import LeaderPhase, LeaderRole
from zab.core.leader.leader_synchronization import LeaderSynchronization
from zab.core.leader.learner_state import LearnerState, LearnerStep
from zab.core.zxid import EPOCH_MAX, UNKNOWN, Epoch, Millis, ServerId, Ticket


class LeaderDiscovery(LeaderPhase):
    """Lasts from the election until enough servers have promised this epoch, and enough have no newer history.

    See `_count_promises`.
    """

    name: ClassVar[str] = "discovery"
    synchronizes: ClassVar[bool] = False

    def __init__(self, role: LeaderRole, now: Millis) -> None:
        super().__init__(role)
        self.epoch = None
        self.until = now + role.log_state.settings.init_ms
        self._membership = role.log_state.ensemble
        """The active membership. The choice of the epoch may give it its first version (`LogState.ensemble_of`)."""
        self._promise: Ticket | None = None
        """The pending write of this server's own promise, or None."""
        self._promise_durable = False
        """True once this server's own promise is durable. No `LeaderInfo` is sent before."""
        self._promises: set[ServerId] = set()
        """Servers whose promise of this epoch is durable and counts (`AckEpoch.counts`). The leader is one of them."""
        self._histories: set[ServerId] = set()
        """Servers of `_promises` whose history is complete, and has no committed transaction that the leader lacks."""
        self._choose_epoch(now)

    def membership(self) -> Ensemble:
        return self._membership

    def introduced(self, learner: LearnerState, now: Millis) -> None:
        if self.epoch is None:
            self._choose_epoch(now)
        else:
            self._announce(learner)

    def _choose_epoch(self, now: Millis) -> None:
        """Choose an epoch newer than every reported promise, and promise it, once a quorum has sent `FollowerInfo`.

        When a quorum has promised the epoch, no leader of an older epoch can commit anything any more.
        """
        infos = [sid for sid, learner in self._learners.items() if learner.info is not None]
        if not self._role.quorums.has(infos):
            return
        log_state = self._log_state
        epoch = max(log_state.accepted, log_state.newest_promise) + 1
        if epoch > EPOCH_MAX:
            raise LocalProtocolError(f"the epochs are used up: {EPOCH_MAX} is the last one")
        self.epoch = Epoch(epoch)
        self._membership = log_state.ensemble_of(self.epoch)
        log_state.accepted = self.epoch
        self._promise = log_state.save_epochs()
        self.until = now + log_state.settings.init_ms

    def saved(self, ticket: Ticket, grew: bool, now: Millis) -> None:
        if self._promise is None or ticket < self._promise:
            return
        self._promise = None
        self._promise_durable = True
        self._promises.add(self._log_state.me)
        self._histories.add(self._log_state.me)
        for learner in self._learners.values():
            if learner.step is LearnerStep.INTRODUCED:
                self._announce(learner)
        self._count_promises(now)

    def _announce(self, learner: LearnerState) -> None:
        """Send `LeaderInfo`, but not before this server itself has durably promised the epoch."""
        if not self._promise_durable:
            return
        assert self.epoch is not None
        self._role.handshake.announce(learner, self.epoch)

    def promised(self, learner: LearnerState, now: Millis) -> None:
        ack = learner.ack_epoch
        assert ack is not None
        if ack.counts:
            self._promises.add(learner.sid)
            if ack.last != UNKNOWN:
                self._histories.add(learner.sid)
        self._count_promises(now)

    def _count_promises(self, now: Millis) -> None:
        """End discovery when enough servers have promised, and enough of them have no newer history.

        A quorum must have promised, so that no other leader can have this epoch. And each quorum must contain a server
        whose history is no newer than the leader's, so that the leader has everything that was ever committed. The two
        conditions are counted separately, because a server with a damaged history still knows its promises.
        """
        quorums = self._role.quorums
        if not quorums.has(self._promises, with_leader=False) or not quorums.meet_every(self._histories):
            return
        assert self.epoch is not None
        self._role.enter(LeaderSynchronization(self._role, self.epoch, self._membership, now))
