"""Elections, promises and epochs: who may lead, and who may follow whom."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

ELECTION: Final = "zab.core.leader_election"
LEADER: Final = "zab.core.leader.leader:Leader"
LEADER_DISCOVERY: Final = "zab.core.leader.leader_discovery:LeaderDiscovery"
LEARNER: Final = "zab.core.learner.learner:Learner"
LEARNER_DISCOVERY: Final = "zab.core.learner.learner_discovery:LearnerDiscovery"
LEARNER_SYNCHRONIZATION: Final = "zab.core.learner.learner_synchronization:LearnerSynchronization"

WHOEVER_LEADS: Final = (
    f"{ELECTION}:LeaderElection._is_followed",
    "return self._electorate.is_quorum_of_any(agreeing) and self._leader_confirms(votes, received)",
    "return self._leader_confirms(votes, received)",
)
"""A second guard that must fall before some bugs matter: a server in search of a leader follows anybody who says
that it leads, although no quorum follows that one."""

MUTANTS: Final[tuple[Mutant, ...]] = (
    mutant(
        "M01a",
        "ZOOKEEPER-335: the epoch is chosen from the log, not from what was promised",
        (
            f"{LEADER_DISCOVERY}._choose_epoch",
            "max(log_state.accepted, log_state.newest_promise) + 1",
            "max(log_state.current, log_state.history.last >> 32) + 1",
        ),
    ),
    mutant(
        "M01b",
        "ZOOKEEPER-335: a promise is kept in memory only",
        (
            "zab.storage.recovery:_recover_whole",
            "record, last = epochs.record, walk.last",
            "record, last = evolve(epochs.record, accepted=max(epochs.record.current, epoch_of(walk.last))), walk.last",
        ),
        (
            "zab.storage.epochs:EpochsFile.save",
            "if record.accepted < old.accepted or record.current < old.current:",
            "if record.current < old.current:",
        ),
    ),
    mutant(
        "M03",
        "ZOOKEEPER-2307, 4269: a server uses an epoch in memory although it could not write the file",
        (
            "zab.storage.epochs:EpochsFile.save",
            """
            write_atomically(self._disk, NAME, encode(record))
            """,
            """
            try:
                write_atomically(self._disk, NAME, encode(record))
            except Exception:
                pass
            """,
        ),
    ),
    mutant(
        "M04",
        "ZOOKEEPER-1264, 1282: the epoch is adopted at UPTODATE, not before NEWLEADER is acknowledged",
        (f"{LEARNER_SYNCHRONIZATION}._on_new_leader", "log_state.current = message.epoch", "pass"),
        (
            "zab.core.learner.learner_broadcast:LearnerAcknowledged._on_up_to_date",
            """
            self._role.enter(broadcast)
            """,
            """
            self._role.enter(broadcast)
            self._log_state.current = self._epoch
            self._log_state.save_epochs()
            """,
        ),
    ),
    mutant(
        "M05",
        "ZOOKEEPER-4643: the epoch becomes durable before the history that it stands for",
        (
            f"{LEARNER_DISCOVERY}._on_leader_info",
            """
            log_state.accepted = message.epoch
            """,
            """
            log_state.accepted = message.epoch
            log_state.current = message.epoch
            """,
        ),
    ),
    mutant(
        "M07",
        "ZOOKEEPER-1419: the order of votes is not a total order: a field counts although an earlier field differs",
        (
            f"{ELECTION}:beats",
            "new > old",
            "(new.epoch > old.epoch or new.zxid > old.zxid or new.leader > old.leader)",
        ),
    ),
    mutant(
        "M08",
        "ZOOKEEPER-1732, 1805, 1818: votes of established servers must agree in round and zxid, though they may differ",
        (
            f"{ELECTION}:ReceivedVote.agrees_with",
            "return self.vote.leader == other.vote.leader and self.vote.epoch == other.vote.epoch",
            "return self.vote == other.vote and self.round == other.round",
        ),
    ),
    mutant(
        "old-promise-counted",
        "a promise of an earlier epoch counts again, even one to another leader, so any leader is followed",
        (
            f"{LEARNER_DISCOVERY}._on_leader_info",
            "self._counts = message.epoch > promised and not log_state.forgotten",
            "self._counts = not log_state.forgotten",
        ),
        WHOEVER_LEADS,
    ),
    mutant(
        "forgotten-promise-counted",
        "a server that lost its disk, and its promises with it, is counted again as soon as it is synchronized",
        (
            f"{LEARNER_SYNCHRONIZATION}._on_new_leader",
            """
            log_state.whole = True
            """,
            """
            log_state.whole = True
            log_state.forgotten = False
            """,
        ),
        (
            "zab.core.leader.learner_handshake:LearnerHandshake.take_promise",
            "learner.forgotten = message.forgotten",
            "pass",
        ),
        WHOEVER_LEADS,
    ),
    mutant(
        "old-leader-accepted",
        "a server that promised a newer epoch follows a leader of an older one",
        (f"{LEARNER_DISCOVERY}._on_leader_info", "if message.epoch < promised:", "if False:"),
        (
            f"{LEARNER_DISCOVERY}._on_leader_info",
            "log_state.accepted = message.epoch",
            "log_state.accepted = max(log_state.accepted, message.epoch)",
        ),
        (f"{LEADER}._on_follower_info", "if phase.epoch is not None and promised > phase.epoch and", "if False and"),
        WHOEVER_LEADS,
    ),
    mutant(
        "newer-history-ignored",
        "the highest id wins the election, and imposes its history on followers that have a newer one",
        (f"{LEADER}._on_ack_epoch", "if theirs > self._vote and self.quorums.may_know_more(learner):", "if False:"),
        (f"{ELECTION}:beats", "new > old", "new.leader > old.leader"),
    ),
    mutant(
        "promise-before-durable",
        "a server promises an epoch when it has handed the record to the disk, before it is durable",
        (
            f"{LEARNER_DISCOVERY}._on_leader_info",
            """
            self._promise = log_state.save_epochs()
            """,
            """
            log_state.save_epochs()
            self._acknowledge()
            """,
        ),
    ),
    mutant(
        "epoch-announced-before-durable",
        "ZOOKEEPER-1291: a leader announces its epoch before its own promise is durable",
        (f"{LEADER_DISCOVERY}._announce", "if not self._promise_durable:", "if self.epoch is None:"),
        (
            f"{LEADER_DISCOVERY}._choose_epoch",
            """
            self._promise = log_state.save_epochs()
            """,
            """
            self._promise = log_state.save_epochs()
            self._promises.add(log_state.me)
            self._histories.add(log_state.me)
            for learner in self._learners.values():
                if learner.step is LearnerStep.INTRODUCED:
                    self._announce(learner)
            self._count_promises(now)
            """,
        ),
    ),
    mutant(
        "established-without-quorum",
        "one acknowledgement of NEWLEADER establishes a leader",
        (
            "zab.core.leader.leader_synchronization:LeaderSynchronization._count_adoptions",
            "if not quorums.has(quorums.counting()):",
            "if not quorums.counting():",
        ),
        voters=(5,),
    ),
    mutant(
        "dead-leader-followed",
        "a server follows a candidate with a quorum, although the candidate does not claim to lead and may be down",
        (
            f"{ELECTION}:LeaderElection._leader_confirms",
            "return leader in votes and votes[leader].state is _LEADING",
            "return True",
        ),
        voters=(5,),
    ),
    mutant(
        "looking-server-disturbs",
        "a server that looks for a leader makes every server that it reaches elect again (Raft: disruptive server)",
        (
            "zab.core.node:Node._on_notification",
            "elif notification.state is _LOOKING:",
            "elif notification.state is _LOOKING and not self._start_election(now):",
        ),
    ),
    mutant(
        "leader-stays-without-quorum",
        "a leader does not notice that it has lost its quorum of followers",
        (
            "zab.core.leader.leader_broadcast:LeaderBroadcast.check_quorum",
            'self._role.end("a quorum no longer follows")',
            "pass",
        ),
    ),
    mutant(
        "follower-stays-without-leader",
        "a follower does not notice that its leader is silent",
        (f"{LEARNER}.tick", "if now >= self._silent_until:", "if False:"),
        (f"{LEARNER}.deadline", "self._silent_until", "self._silent_until + 3_600_000"),
    ),
)
