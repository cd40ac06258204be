"""Bringing a learner's history to the leader's: what is sent, what is cut, and what is adopted when."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

HANDSHAKE: Final = "zab.core.leader.learner_handshake:LearnerHandshake"
LEADER_BROADCAST: Final = "zab.core.leader.leader_broadcast:LeaderBroadcast"
LEARNER: Final = "zab.core.learner.learner_synchronization:LearnerSynchronization"
ACKNOWLEDGED: Final = "zab.core.learner.learner_broadcast:LearnerAcknowledged"
LEARNER_BROADCAST: Final = "zab.core.learner.learner_broadcast:LearnerBroadcast"
ADOPTED: Final = "zab.core.learner.learner_broadcast:_AdoptedPhase"
LOG_STATE: Final = "zab.core.log_state:LogState"
STORAGE: Final = "zab.storage.storage:Storage"
PLAN: Final = "zab.core.sync_plan:plan"

MUTANTS: Final[tuple[Mutant, ...]] = (
    mutant(
        "M06a",
        "ZOOKEEPER-3911, 3023: the transactions of a DIFF are logged at UPTODATE, after NEWLEADER was acknowledged",
        (
            f"{LEARNER}.on_propose",
            """
            if self._received is None:
                self._log_state.append(batch)
            """,
            """
            if self._received is None:
                self._role.__dict__.setdefault("unlogged", []).append(batch)
            """,
        ),
        (
            f"{ADOPTED}.on_propose",
            """
            self._log_state.append(batch)
            """,
            """
            if self.name == "acknowledged":
                self._role.__dict__.setdefault("unlogged", []).append(batch)
            else:
                self._log_state.append(batch)
            """,
        ),
        (f"{LOG_STATE}.note_decided", "if zxid > self.history.last:", "if False:"),
        (
            f"{ACKNOWLEDGED}._on_up_to_date",
            """
            self._role.enter(broadcast)
            """,
            """
            self._role.enter(broadcast)
            for batch in self._role.__dict__.pop("unlogged", []):
                self._log_state.append(batch)
            """,
        ),
    ),
    mutant(
        "M06b",
        "ZOOKEEPER-4646, 4785: NEWLEADER is acknowledged when the history is handed to the disk, before it is durable",
        (
            f"{LEARNER}._on_new_leader",
            """
            self._adoption = log_state.save_epochs()
            """,
            """
            self._adoption = log_state.save_epochs()
            self._acknowledge(0)
            """,
        ),
    ),
    mutant(
        "M06c",
        "ZOOKEEPER-4646: the log is written, but not synced",
        ("zab.storage.transaction_log:TransactionLog.sync", "self._file.sync()", "pass"),
    ),
    mutant(
        "M11",
        "ZOOKEEPER-3701: a truncation that did not happen counts as done",
        (f"{STORAGE}._truncate", "self._log.truncate(zxid)", "pass"),
    ),
    mutant(
        "M12",
        "ZOOKEEPER-1154: DIFF where TRUNC was needed, because the learner's zxid lies within the range",
        (
            PLAN,
            "return SyncPlan(Form.DIFF if cut is None else Form.TRUNC, common, cut)",
            "return SyncPlan(Form.DIFF, common)",
        ),
        (f"{LEARNER}._on_diff", "if message.common != self._log_state.history.last:", "if False:"),
        (f"{LEARNER}._agree", "if history.floor(common) != common:", "if False:"),
        ("zab.core.history:History.append", "if not follows(batch.first, self.last):", "if batch.first <= self.last:"),
    ),
    mutant(
        "M13",
        "ZOOKEEPER-1156: a truncation keeps one transaction too many",
        (f"{STORAGE}._truncate", "self._log.truncate(zxid)", "self._log.truncate(min(zxid + 1, self._log.last))"),
    ),
    mutant(
        "M14",
        "ZOOKEEPER-2418: the transactions between the log on disk and the window in memory are not sent",
        (f"{HANDSHAKE}._synchronize", "self._out.send(sid, SendLog(start, stop))", "pass"),
        ("zab.core.history:History.append", "if not follows(batch.first, self.last):", "if batch.first <= self.last:"),
    ),
    mutant(
        "M15",
        "ZOOKEEPER-2099, 2846: transactions that a snapshot replaced stay in the window for synchronizations",
        ("zab.core.history:History.reset", "self._batches = []", "pass"),
    ),
    mutant(
        "M17",
        "ZOOKEEPER-4925: transactions of a synchronization are missing in the window for synchronizations",
        (
            f"{LEARNER}.on_propose",
            """
            if self._received is None:
                self._log_state.append(batch)
            """,
            """
            if self._received is None:
                self._log_state.append(batch)
                if len(self._log_state.history._batches) > 1:
                    del self._log_state.history._batches[-2]
            """,
        ),
    ),
    mutant(
        "M19",
        "ZOOKEEPER-2678, 2845: votes and promises report the end of memory, not of the log",
        (f"{LOG_STATE}.last", "return self.history.last if", "return self.applied if"),
        (f"{LEARNER}._on_diff", "if message.common != self._log_state.history.last:", "if False:"),
    ),
    mutant(
        "M20",
        "ZOOKEEPER-3642: a part of a snapshot is kept as state after the leader was lost",
        (
            "zab.core.learner.learner:Learner.leave",
            "self.log_state.partial.keep()",
            """
            if self.log_state.partial._arrives:
                self.log_state.install_snapshot(self.log_state.partial.arriving, 0)
            """,
        ),
        (
            "zab.core.partial_snapshot:PartialSnapshot.begin",
            "self._arrives, self.is_held = True, False",
            """
            self._arrives, self.is_held = True, False
            self.arriving = zxid
            """,
        ),
    ),
    mutant(
        "beginnings-not-compared",
        "a leader sends the rest of its snapshot to a learner that has the beginning of another snapshot",
        (
            "zab.storage.snapshot_files:find",
            """
            if reader.position == held.size:
                same = reader.checksum() == held.checksum
            """,
            "same = True",
        ),
    ),
    mutant(
        "resumed-one-chunk-short",
        "a learner that resumes a snapshot has one chunk less than it reported to its leader",
        (
            "zab.storage.snapshot_files:resumed",
            "arriving.write(chunk)",
            "reader.position < held.size and arriving.write(chunk)",
        ),
    ),
    mutant(
        "M23",
        "ZOOKEEPER-4394: a COMMIT between the acknowledgement of NEWLEADER and UPTODATE finds no proposal",
        *(
            (
                f"{phase}.on_commit",
                "self._commit_seen = max(self._commit_seen, message.zxid)",
                "raise RemoteProtocolError('a COMMIT for nothing')",
            )
            for phase in (LEARNER, ACKNOWLEDGED)
        ),
    ),
    mutant(
        "M29",
        "ZOOKEEPER-3500: a learner serves before it has applied what was committed when it joined",
        (f"{LEARNER_BROADCAST}.serving", "self._log_state.applied >= self._serve_from", "True"),
    ),
    mutant(
        "proposals-only-to-the-synced",
        "Zab issue 1: proposals are not sent to learners that are still being synchronized",
        (
            f"{LEADER_BROADCAST}._propose",
            "if learner.step >= _SYNCHRONIZING and not learner.observer:",
            "if learner.step is _SYNCED and not learner.observer:",
        ),
    ),
    mutant(
        "up-to-date-with-uncommitted",
        "Zab issue 3: UPTODATE carries the newest acknowledged zxid, not the newest committed one",
        (f"{LEADER_BROADCAST}.synced", "UpToDate(self._log_state.committed)", "UpToDate(learner.acked)"),
    ),
    mutant(
        "truncate-to-own-commit",
        "a follower truncates its uncommitted tail before it asks the leader (the mistake of KIP-101)",
        (
            "zab.core.learner.learner:Learner.link_up",
            """
            self._linked_at = now
            """,
            """
            self._linked_at = now
            if not log_state._appends:
                log_state.truncate(max(log_state.committed, log_state.history.base))
            """,
        ),
    ),
    mutant(
        "snapshot-cuts-committed",
        "a learner with a tail of its own receives a snapshot that may be older than the common history",
        (PLAN, "if common is None:", "if common is None or common < peer:"),
    ),
    mutant(
        "trunc-too-far",
        "a learner is truncated to the start of the leader's window, not to the newest common transaction",
        (
            PLAN,
            """
            return SyncPlan(Form.DIFF if cut is None else Form.TRUNC, common, cut)
            """,
            """
            cut = None if cut is None else min(cut, history.base)
            return SyncPlan(Form.DIFF, common) if cut is None else SyncPlan(Form.TRUNC, cut, cut)
            """,
        ),
    ),
    mutant(
        "veto-without-need",
        "a learner vetoes a leader that lacks only uncommitted transactions",
        (f"{LEARNER}._on_trunc", "if message.common < log_state.known:", "if message.common < log_state.history.last:"),
    ),
)
