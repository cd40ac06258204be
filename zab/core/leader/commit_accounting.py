"""Decide which zxid is committed: count the acknowledgements in every membership that applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.core.ensemble import Ensemble
from zab.core.leader.learner_state import LearnerState, LearnerStep
from zab.core.log_state import LogState
from zab.core.zxid import Epoch, ServerId, Zxid, counter_of

# Looking up a member of an enum is slow, and each acknowledgement needs this one.
_SYNCED: Final = LearnerStep.SYNCED


class CommitAccounting:
    """Counts the servers that have a transaction on disk, the leader included, and advances the committed zxid.

    Each zxid needs a quorum of every membership that applies to it:

    - the *active* membership always applies;
    - the *pending* membership, if any, applies to the change that proposes it and to everything after that change;
    - the *joint* membership, which a change has just replaced, applies to everything that was proposed before the
      change was in force.
    """

    def __init__(self, log_state: LogState, learners: Mapping[ServerId, LearnerState], epoch: Epoch) -> None:
        self._log_state = log_state
        self._learners = learners
        """The learners that are linked to the leader, with the last zxid that each has acknowledged."""
        self._epoch = epoch
        self.joint: tuple[Ensemble, Zxid] | None = None
        """The former membership, and the last zxid that needs a quorum of it; None if no zxid does."""

    def advance(self) -> Zxid | None:
        """Return the newest zxid that can be committed now, or None if there is none after the committed one.

        Also end `joint` once a quorum of the former membership has acknowledged the last zxid that needs it.

        - Of the active and the pending membership, zxids before the change need a quorum of the active one only. The
          change and later zxids need quorums of both.
        - The result never exceeds a pending change: later zxids are committed once the change is in force.
        - A zxid with counter 0 is no transaction, so it is never returned.
        """
        log_state = self._log_state
        # A comprehension instead of a call per learner, because this runs for each acknowledgement.
        acked = {sid: each.acked for sid, each in self._learners.items() if each.step is _SYNCED and not each.forgotten}
        acked[log_state.me] = log_state.durable
        reached = log_state.ensemble.quorum_zxid(acked)
        pending = log_state.pending
        if pending is not None and reached >= pending.version:
            both = min(reached, pending.quorum_zxid(acked))
            reached = pending.version if both >= pending.version else Zxid(pending.version - 1)
        if self.joint is not None:
            former, until = self.joint
            in_former = former.quorum_zxid(acked)
            if in_former < until:
                reached = min(reached, in_former)
            else:
                self.joint = None
        if reached <= log_state.committed or counter_of(reached) == 0:
            return None
        return reached

    def commit(self, zxid: Zxid) -> bool:
        """Commit up to `zxid`. Return whether that put a membership change into force."""
        log_state = self._log_state
        active, pending, last = log_state.ensemble, log_state.pending, log_state.history.last
        assert log_state.committed < zxid <= last, "the committed zxid only advances, and never beyond the history"
        assert zxid >> 32 == self._epoch, "acknowledgements alone never decide a zxid of an older epoch"
        log_state.commit(zxid)
        if pending is None or zxid != pending.version:
            return False
        assert log_state.ensemble is pending, "a change is in force from its commit on"
        if last > zxid:
            # A server may acknowledge the proposals after the change before it knows that the change is in force. If
            # only the new membership gives it a vote, a new leader may then overrule it: see
            # `LeaderQuorums.may_know_more`. So a quorum of the new membership alone must not commit these proposals.
            self.joint = active, last
        return True

    @property
    def asks_others(self) -> bool:
        """True if a membership besides the active one applies."""
        return self.joint is not None or self._log_state.pending is not None
