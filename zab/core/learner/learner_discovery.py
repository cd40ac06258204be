"""Discovery (Zab, phase 1): reach the leader, and promise its epoch unless a newer one was promised before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from zab.core.errors import RemoteProtocolError
from zab.core.learner.learner_phase import LearnerPhase, LearnerRole
from zab.core.learner.learner_synchronization import LearnerSynchronization
from zab.core.messages import RESUMES, AckEpoch, BarrierReply, LeaderInfo, SnapHeld
from zab.core.zxid import NEVER, Epoch, Millis, Ticket


class LearnerDialling(LearnerPhase):
    """Lasts until the link to the leader is up. A dial is under way, or the next one begins at `due`."""

    name: ClassVar[str] = "dialling"

    def __init__(self, role: LearnerRole, redial_at: Millis = NEVER) -> None:
        super().__init__(role)
        self.may_redial = True
        self.due = redial_at

    def tick(self, now: Millis) -> bool:
        self.due = NEVER
        self._role.dial()
        return False


class LearnerDiscovery(LearnerPhase):
    """Lasts from `FollowerInfo` until the promise of the leader's epoch is durable and `AckEpoch` is sent."""

    name: ClassVar[str] = "discovery"

    def __init__(self, role: LearnerRole) -> None:
        super().__init__(role)
        self.may_redial = True
        self._epoch: Epoch | None = None
        """The leader's epoch; None until `LeaderInfo` arrives."""
        self._promise: Ticket | None = None
        """The pending write of the promise; None until `LeaderInfo` arrives."""
        self._counts = False
        """True if the leader may count the promise: it is the first one of this epoch, and none can have been lost."""
        self.resumes = False
        """True if the leader understands `SnapHeld`, and so may send the rest of a partly received snapshot."""

    def _on_barrier_reply(self, message: BarrierReply) -> None:
        if message == RESUMES:
            self.resumes = True

    def _on_leader_info(self, message: LeaderInfo) -> None:
        log_state = self._log_state
        if self._epoch is not None:
            raise RemoteProtocolError("a second LeaderInfo on one link")
        promised = log_state.accepted
        if message.epoch < promised:
            leader = self._role.leader
            self._role.end(f"leader {leader} proposes epoch {message.epoch}; epoch {promised} was promised already")
            return
        # An equal epoch was promised before, perhaps to another leader: that promise must not be counted twice.
        self._counts = message.epoch > promised and not log_state.forgotten
        self._epoch = message.epoch
        self.may_redial = False
        log_state.accepted = message.epoch
        self._promise = log_state.save_epochs()

    def saved(self, ticket: Ticket, grew: bool) -> None:
        if self._promise is not None and ticket >= self._promise:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Report the promise and the end of the history, and wait for the leader's history."""
        assert self._epoch is not None
        log_state, leader = self._log_state, self._role.leader
        digest = log_state.history.digest_at(log_state.history.last)
        offered: SnapHeld | None = None
        if self.resumes and log_state.partial.held is not None:
            offered = log_state.partial.held
            self._out.send(leader, offered)
        self._out.send(leader, AckEpoch(log_state.epoch, log_state.last, digest, self._counts, log_state.forgotten))
        self._role.enter(LearnerSynchronization(self._role, self._epoch, offered))

    HANDLERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        LeaderInfo: _on_leader_info,
        BarrierReply: _on_barrier_reply,
    }
