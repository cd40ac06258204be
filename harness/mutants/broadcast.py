"""Proposing, acknowledging, committing, applying, and the barrier."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

LEADER: Final = "zab.core.leader.leader:Leader"
LEADER_BROADCAST: Final = "zab.core.leader.leader_broadcast:LeaderBroadcast"
COMMITS: Final = "zab.core.leader.commit_accounting:CommitAccounting"
LEARNER: Final = "zab.core.learner.learner:Learner"
LEARNER_BROADCAST: Final = "zab.core.learner.learner_broadcast:LearnerBroadcast"
ADOPTED: Final = "zab.core.learner.learner_broadcast:_AdoptedPhase"
LOG_STATE: Final = "zab.core.log_state:LogState"
BARRIERS: Final = "zab.core.leader.barriers:Barriers"
QUORUM: Final = "zab.core.ensemble:Ensemble.quorum_zxid"

MUTANTS: Final[tuple[Mutant, ...]] = (
    mutant(
        "leader-answers-unapplied",
        "a leader answers its own barrier before it has applied what the answer says",
        (
            f"{BARRIERS}.release",
            "if self._waiting[0].origin == self._log_state.me and self._log_state.applied < self._waiting[0].zxid:",
            "if False:",
        ),
    ),
    mutant(
        "observer-synced-to-applied",
        "an observer is synchronized up to what its leader has applied, and not to what is committed",
        (
            "zab.core.leader.learner_handshake:LearnerHandshake._synchronize",
            "decided = max(self._initial, log_state.committed, how.common)",
            "decided = max(self._initial, log_state.applied, how.common)",
        ),
    ),
    mutant(
        "M27",
        "ZOOKEEPER-4882, 5094: a committed transaction is applied although this server's disk does not have it yet",
        (f"{LOG_STATE}._apply", "min(self.committed, self.durable)", "self.committed"),
    ),
    mutant(
        "M39",
        "ZOOKEEPER-1277: the counter overflows into the epoch",
        (
            f"{LEADER_BROADCAST}._next_zxid",
            """
            why = "the counter of this epoch is used up"
            self._role.end(why)
            raise NotLeader(why)
            """,
            """
            return make(self.epoch + 1, 1)
            """,
        ),
    ),
    mutant(
        "ack-before-durable",
        "a proposal is acknowledged when it was handed to the disk",
        (
            f"{LOG_STATE}.append",
            """
            self._appends.append((ticket, batch.last))
            """,
            """
            self._appends.append((ticket, batch.last))
            self.durable = batch.last
            """,
        ),
        (
            f"{ADOPTED}.on_propose",
            """
            self._log_state.append(batch)
            """,
            """
            self._log_state.append(batch)
            self.saved(0, True)
            """,
        ),
    ),
    mutant(
        "leader-counts-itself-early",
        "the leader counts its own disk before it has reported back",
        (
            f"{COMMITS}.reached",
            "acked[log_state.me] = log_state.durable",
            "acked[log_state.me] = log_state.history.last",
        ),
    ),
    mutant(
        "commit-without-quorum",
        "one acknowledgement is enough to commit",
        (QUORUM, "reached[len(reached) // 2]", "reached[0]"),
    ),
    mutant(
        "half-is-a-quorum",
        "half of an even number of servers counts as a majority",
        (QUORUM, "reached[len(reached) // 2]", "reached[(len(reached) - 1) // 2]"),
        voters=(4, 2),
    ),
    mutant(
        "observers-count",
        "acknowledgements of servers without a vote are counted",
        (QUORUM, "for sid in self.voters], reverse=True)", "for sid in self.by_id], reverse=True)"),
        (f"{ADOPTED}.saved", " and not self._observer", ""),
    ),
    mutant(
        "commit-is-forgotten",
        "a commit of all that a follower has is taken for one that it knows already",
        (
            f"{LEARNER_BROADCAST}.on_commit",
            """
            self._log_state.commit(message.zxid)
            self._check_readmission()
            """,
            """
            if message.zxid < self._log_state.history.last:
                self._log_state.commit(message.zxid)
            self._check_readmission()
            """,
        ),
    ),
    mutant(
        "barrier-without-proof",
        "a leader answers a barrier without asking whether it still leads",
        (
            f"{BARRIERS}.release",
            "if not self._quorums.has(answered):",
            "if False:",
        ),
    ),
    mutant(
        "barrier-by-old-pong",
        "a pong to a ping from before the question counts as an answer to it",
        (
            f"{BARRIERS}.release",
            "each.counts and each.pong >= ping",
            "each.counts and each.pong > 0",
        ),
    ),
    mutant(
        "barrier-at-what-is-applied",
        "a barrier stands where the leader has applied, and others have applied more when its disk is slow",
        (f"{BARRIERS}.ask", "self._log_state.committed", "self._log_state.applied"),
    ),
    mutant(
        "barrier-outlives-its-link",
        "what was asked on a link that another one replaced is answered on that, where the numbers begin anew",
        (f"{LEADER}.link_up", "self.link_down(source, now)", "pass"),
    ),
    mutant(
        "barrier-answered-locally",
        "a follower answers a barrier with what it has applied",
        (
            f"{LEARNER}.barrier",
            """
            self._barrier_number += 1
            """,
            """
            self._out.barriers.append(BarrierDone(token, self._log_state.applied))
            return
            """,
        ),
    ),
    mutant(
        "barrier-before-applied",
        "a follower answers a barrier before it has applied what the answer says",
        (f"{LEARNER}.flush", "if zxid is not None and applied >= zxid:", "if zxid is not None:"),
    ),
)
