"""Proposing, acknowledging, committing, applying, and the barrier."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

LEADING: Final = "zab.core.leading:Leading"
LEARNING: Final = "zab.core.learning:Learning"
REPLICA: Final = "zab.core.replica:Replica"
QUORUM: Final = "zab.core.ensemble:Ensemble.quorum_zxid"

MUTANTS: Final[tuple[Mutant, ...]] = (
    mutant(
        "leader-answers-unapplied",
        "a leader answers its own barrier before it has applied what the answer says",
        (
            "zab.core.barriers:Barriers.release",
            "if self._waiting[0].origin == self._replica.me and self._replica.applied < self._waiting[0].zxid:",
            "if False:",
        ),
    ),
    mutant(
        "observer-synced-to-applied",
        "an observer is synchronized up to what its leader has applied, and not to what is committed",
        (
            "zab.core.leading:Leading._synchronize",
            "decided = max(self._initial, replica.committed, how.common)",
            "decided = max(self._initial, replica.applied, how.common)",
        ),
    ),
    mutant(
        "M27",
        "ZOOKEEPER-4882, 5094: a committed transaction is applied although this server's disk does not have it yet",
        (f"{REPLICA}._apply", "min(self.committed, self.durable)", "self.committed"),
    ),
    mutant(
        "M39",
        "ZOOKEEPER-1277: the counter overflows into the epoch",
        (
            f"{LEADING}._next_zxid",
            """
            self.over = "the counter of this epoch is used up"
            raise NotLeader(self.over)
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
            f"{REPLICA}.append",
            """
            self._appends.append((ticket, batch.last))
            """,
            """
            self._appends.append((ticket, batch.last))
            self.durable = batch.last
            """,
        ),
        (
            f"{LEARNING}._log",
            """
            if self._received is None:
                self._replica.append(batch)
            """,
            """
            if self._received is None:
                self._replica.append(batch)
                self._ack()
            """,
        ),
    ),
    mutant(
        "leader-counts-itself-early",
        "the leader counts its own disk before it has reported back",
        (f"{LEADING}._count", "acked[replica.me] = replica.durable", "acked[replica.me] = replica.history.last"),
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
        "acknowledgements are counted without asking who may vote",
        (QUORUM, "for sid in self.voters], reverse=True)", "for sid in self.by_id], reverse=True)"),
        (f"{LEARNING}._ack", " and not self.observer", ""),
    ),
    mutant(
        "commit-is-forgotten",
        "a commit of all that a follower has is taken for one that it knows already",
        (
            f"{LEARNING}._on_commit",
            """
            self._replica.commit(message.zxid)
            self._check_readmission()
            """,
            """
            if message.zxid < self._replica.history.last:
                self._replica.commit(message.zxid)
            self._check_readmission()
            """,
        ),
    ),
    mutant(
        "barrier-without-proof",
        "a leader answers a barrier without asking whether it still leads",
        (
            "zab.core.barriers:Barriers.release",
            "if each.counts and each.pong >= ping]):",
            "if True]) and False:",
        ),
    ),
    mutant(
        "barrier-by-old-pong",
        "a pong to a ping from before the question counts as an answer to it",
        ("zab.core.barriers:Barriers.release", "each.counts and each.pong >= ping", "each.counts and each.pong > 0"),
    ),
    mutant(
        "barrier-at-what-is-applied",
        "a barrier stands where the leader has applied, and others have applied more when its disk is slow",
        ("zab.core.barriers:Barriers.ask", "self._replica.committed", "self._replica.applied"),
    ),
    mutant(
        "barrier-outlives-its-link",
        "what was asked on a link that another one replaced is answered on that, where the numbers begin anew",
        (f"{LEADING}.link_up", "self.link_down(source, now)", "pass"),
    ),
    mutant(
        "barrier-answered-locally",
        "a follower answers a barrier with what it has applied",
        (
            f"{LEARNING}.barrier",
            """
            self._barrier_number += 1
            """,
            """
            self._out.barriers.append(BarrierDone(token, self._replica.applied))
            return
            """,
        ),
    ),
    mutant(
        "barrier-before-applied",
        "a follower answers a barrier before it has applied what the answer says",
        (f"{LEARNING}.flush", "if zxid is not None and applied >= zxid:", "if zxid is not None:"),
    ),
)
