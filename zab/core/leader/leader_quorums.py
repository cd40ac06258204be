"""The quorums that a leader needs. A leader counts itself with its learners."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from zab.core.leader.learner_state import LearnerState, LearnerStep
from zab.core.log_state import LogState
from zab.core.zxid import ServerId

_SYNCHRONIZING: Final = LearnerStep.SYNCHRONIZING


class LeaderQuorums:
    """Checks sets of servers against the quorums of the active membership and of a pending change."""

    def __init__(self, log_state: LogState, learners: Mapping[ServerId, LearnerState]) -> None:
        self._log_state = log_state
        self._learners = learners
        """The learners that are linked to the leader, by id. The leader adds and removes them."""

    def has(self, sids: Collection[ServerId], *, with_leader: bool = True) -> bool:
        """Return whether these servers, by default with the leader, include a quorum of each membership."""
        counted = [*sids, self._log_state.me] if with_leader else sids
        return all(view.is_quorum(counted) for view in self._log_state.views)

    def meet_every(self, sids: Collection[ServerId]) -> bool:
        """Return whether each quorum of each membership contains one of these servers."""
        return all(view.meets_every_quorum(sids) for view in self._log_state.views)

    def counting(self) -> list[ServerId]:
        """Return the learners that have acknowledged NEWLEADER and are not `forgotten`."""
        return [sid for sid, learner in self._learners.items() if learner.counts]

    def following(self) -> list[ServerId]:
        """Return the learners to which NEWLEADER was sent and which are not `forgotten`."""
        return [sid for sid, each in self._learners.items() if each.step >= _SYNCHRONIZING and not each.forgotten]

    def may_vote(self, sid: ServerId) -> bool:
        """Return whether this server has a vote of positive weight in the active membership or in a pending change."""
        return any(view.weight(sid) for view in self._log_state.views)

    def may_know_more(self, learner: LearnerState) -> bool:
        """Return whether transactions that the learner has and the leader lacks may be committed.

        They may if the learner is a voter of the active membership. If only the pending change makes it a voter, they
        may if the learner knows that the change is in force. Until then the learner acknowledges no transaction that a
        quorum of the new membership alone can commit.
        """
        log_state = self._log_state
        if log_state.ensemble.weight(learner.sid):
            return True
        pending = log_state.pending
        if pending is None or learner.info is None or learner.info.ensemble_version < pending.version:
            return False
        return pending.weight(learner.sid) > 0
