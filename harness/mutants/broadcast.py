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
        "a leader replies to its own barrier before it has applied the barrier's zxid",
        (
            f"{BARRIERS}.release",
            "if self._waiting[0].origin == self._log_state.me and self._log_state.applied < self._waiting[0].zxid:",
            "if False:",
        ),
    ),
    mutant(
        "observer-synced-to-applied",
        "an observer is synchronized up to the leader's applied zxid, not up to the committed one",
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
        "ZOOKEEPER-1277: the counter of a zxid overflows into the epoch",
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
        "a proposal is acknowledged when it is handed to the disk, before it is durable",
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
        "the leader counts its own acknowledgement before its disk has reported",
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
        "a follower ignores the commit of its last transaction as one that it has seen",
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
        "a leader replies to a barrier without a proof that it still leads",
        (
            f"{BARRIERS}.release",
            "if not self._quorums.has(answered):",
            "if False:",
        ),
    ),
    mutant(
        "barrier-by-old-pong",
        "a pong to a ping from before the barrier counts for the barrier",
        (
            f"{BARRIERS}.release",
            "each.counts and each.pong >= ping",
            "each.counts and each.pong > 0",
        ),
    ),
    mutant(
        "barrier-at-what-is-applied",
        "a barrier returns the leader's applied zxid, though others have applied more if its disk is slow",
        (f"{BARRIERS}.ask", "self._log_state.committed", "self._log_state.applied"),
    ),
    mutant(
        "barrier-outlives-its-link",
        "a barrier of a replaced link is answered on the new link, where the numbers start again",
        (f"{LEADER}.link_up", "self.link_down(source, now)", "pass"),
    ),
    mutant(
        "barrier-answered-locally",
        "a follower replies to a barrier with its own applied zxid",
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
        "a follower replies to a barrier before it has applied the barrier's zxid",
        (f"{LEARNER}.flush", "if zxid is not None and applied >= zxid:", "if zxid is not None:"),
    ),
)
