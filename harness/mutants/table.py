"""The bugs, each as the edit that puts it back.

Names that begin with `M` are rows of the project's catalogue of bugs that ZooKeeper had; the others are
mistakes that any implementation of this protocol can make. `voters` are the sizes of ensemble in which a
campaign looks for it.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from harness.mutants.edit import Edit

ELECTION = "zab.core.election"
LEADING = "zab.core.leading:Leading"
LEARNING = "zab.core.learning:Learning"
NODE = "zab.core.node:Node"
REPLICA = "zab.core.replica:Replica"
STORAGE = "zab.storage.storage:Storage"


@frozen
class Mutant:
    name: str
    bug: str
    """What was or would be wrong, in the words of whoever would have to find it."""
    edits: tuple[Edit, ...]
    voters: tuple[int, ...] = (3, 5)


def _mutant(name: str, bug: str, *edits: tuple[str, str, str], voters: tuple[int, ...] = (3, 5)) -> Mutant:
    return Mutant(name, bug, tuple(Edit(*edit) for edit in edits), voters)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- epochs and election -------------------------------------------------------------------------
    _mutant(
        "M01a",
        "ZOOKEEPER-335: the epoch is chosen from the log, not from what was promised",
        (
            f"{LEADING}._choose_epoch",
            "epoch = max([replica.accepted, *(info.accepted_epoch for info in infos.values())]) + 1",
            "epoch = max(replica.current, replica.history.last >> 32) + 1",
        ),
    ),
    _mutant(
        "M01b",
        "ZOOKEEPER-335: a promise is kept in memory only",
        (
            f"{STORAGE}._save_epochs",
            "accepted=write.accepted,",
            "accepted=max(write.current, self._epochs.record.accepted if write.accepted > write.current + 1 else 0),",
        ),
    ),
    _mutant(
        "M03",
        "ZOOKEEPER-2307, 4269: the epoch counts in memory although its file could not be written",
        (
            "zab.storage.epochs:EpochsFile.save",
            "    write_durably(self._disk, NAME, encode(record))\n",
            "    try:\n        write_durably(self._disk, NAME, encode(record))\n    except Exception:\n        pass\n",
        ),
    ),
    _mutant(
        "M04",
        "ZOOKEEPER-1264, 1282: the epoch is adopted at UPTODATE, not before NEWLEADER is acknowledged",
        (f"{LEARNING}._on_new_leader", "    replica.current = message.epoch\n", ""),
        (
            f"{LEARNING}._on_up_to_date",
            "    self._serve_from = message.committed\n",
            "    self._serve_from = message.committed\n    self._replica.current = self._epoch\n"
            "    self._replica.save_epochs()\n",
        ),
    ),
    _mutant(
        "M05",
        "ZOOKEEPER-4643: the epoch is durable before the history that it stands for",
        (
            f"{LEARNING}._on_leader_info",
            "    replica.accepted = message.epoch\n",
            "    replica.accepted = message.epoch\n    replica.current = message.epoch\n",
        ),
    ),
    _mutant(
        "M06a",
        "ZOOKEEPER-3911: what DIFF brought is logged at UPTODATE, after NEWLEADER was acknowledged",
        (
            f"{LEARNING}._log",
            "    if self._received is None:\n",
            "    if self.phase is not Phase.BROADCAST and self._received is None:\n"
            "        self.__dict__.setdefault('unlogged', []).append(batch)\n"
            "    elif self._received is None:\n",
        ),
        (
            f"{LEARNING}._on_commit",
            "    elif message.zxid <= self._replica.history.last:",
            "    elif True:",
        ),
        (
            f"{LEARNING}._on_up_to_date",
            "    self.phase = Phase.BROADCAST\n",
            "    self.phase = Phase.BROADCAST\n"
            "    for batch in self.__dict__.pop('unlogged', []):\n"
            "        self._replica.append(batch)\n",
        ),
    ),
    _mutant(
        "M06b",
        "ZOOKEEPER-4646, 4785: NEWLEADER is acknowledged when the history was handed to the disk, not when it is there",
        (
            f"{LEARNING}._on_new_leader",
            "    self._adoption = replica.save_epochs()",
            "    replica.save_epochs()\n    self._adopted()",
        ),
    ),
    _mutant(
        "M06c",
        "ZOOKEEPER-4646: the log is written, but not synced",
        ("zab.storage.log:Log.sync", "    self._file.sync()\n", ""),
    ),
    _mutant(
        "M07",
        "ZOOKEEPER-1419: the order of votes is no order: a level counts although an earlier one differs",
        (
            f"{ELECTION}:beats",
            "new > old",
            "(new.epoch > old.epoch or new.zxid > old.zxid or new.leader > old.leader)",
        ),
    ),
    _mutant(
        "M08",
        "ZOOKEEPER-1732, 1805, 1818: who has a leader tells the round and zxid of its own election, and these must agree",
        (
            f"{ELECTION}:Heard.agrees_with",
            "return self.vote.leader == other.vote.leader and self.vote.epoch == other.vote.epoch",
            "return self.vote == other.vote and self.round == other.round",
        ),
    ),
    # -- synchronization, the leader's side -----------------------------------------------------------
    _mutant(
        "M11",
        "ZOOKEEPER-3701: a truncation that failed counts as done",
        (
            f"{STORAGE}._truncate",
            "    self._log.truncate(zxid)",
            "    pass",
        ),
    ),
    _mutant(
        "M12",
        "ZOOKEEPER-1154: DIFF where TRUNC was needed, because the learner's zxid lies within the range",
        ("zab.core.synchronization:plan", "return Plan(Form.TRUNC, common)", "return Plan(Form.DIFF, peer)"),
        (f"{LEADING}._synchronize", "    start = how.common\n", "    start = history.floor(how.common)\n"),
        (f"{LEARNING}._common", "if history.floor(common) != common:", "if False:"),
    ),
    _mutant(
        "M13",
        "ZOOKEEPER-1156: the log is cut one transaction too late",
        (
            f"{STORAGE}._truncate",
            "    self._log.truncate(zxid)",
            "    self._log.truncate(min(zxid + 1, self._log.last))",
        ),
    ),
    _mutant(
        "M14",
        "ZOOKEEPER-2418: the gap between the log on disk and the window in memory is not sent",
        (f"{LEADING}._synchronize", "        self._out.send(sid, SendLog(start, stop))\n", ""),
    ),
    _mutant(
        "M15",
        "ZOOKEEPER-2099, 2846: what a snapshot replaced is still in the window from which others are synchronized",
        ("zab.core.history:History.reset", "    self._batches = []\n", ""),
    ),
    _mutant(
        "M17",
        "ZOOKEEPER-4925: what a synchronization brought is not in the window from which others are synchronized",
        (
            f"{LEARNING}._log",
            "        self._replica.append(batch)\n",
            "        self._replica.append(batch)\n"
            "        if self.phase is Phase.SYNCHRONIZATION and len(self._replica.history._batches) > 1:\n"
            "            del self._replica.history._batches[-2]\n",
        ),
    ),
    # -- synchronization, the learner's side -----------------------------------------------------------
    _mutant(
        "M19",
        "ZOOKEEPER-2678, 2845: votes and epochs are acknowledged with what is in memory, not with what is in the log",
        (f"{REPLICA}.last", "return self.history.last if", "return self.applied if"),
        (f"{LEARNING}._on_diff", "message.common != self._replica.history.last", "False"),
    ),
    _mutant(
        "M20",
        "ZOOKEEPER-3642: what arrived of a snapshot before the leader was lost is kept",
        (
            f"{REPLICA}.abort_snapshot",
            "        self._receiving = False\n        self.out.save.append(AbortSnapshot(self.out.next_ticket()))",
            "        self.install_snapshot(self.arriving, 0)",
        ),
        (
            f"{REPLICA}.begin_snapshot",
            "    self._receiving = True\n",
            "    self._receiving = True\n    self.arriving = zxid\n",
        ),
    ),
    _mutant(
        "M23",
        "ZOOKEEPER-4394: a COMMIT between the acknowledgement of NEWLEADER and UPTODATE finds nothing",
        (
            f"{LEARNING}._on_commit",
            "        self._commit_seen = max(self._commit_seen, message.zxid)",
            "        raise RemoteProtocolError('a COMMIT for nothing')",
        ),
    ),
    _mutant(
        "M27",
        "ZOOKEEPER-4882, 5094: a committed transaction is applied although this server's disk does not have it yet",
        (f"{REPLICA}._apply", "min(self.committed, self.durable)", "self.committed"),
    ),
    _mutant(
        "M29",
        "ZOOKEEPER-3500: a learner serves before it has applied what was committed when it joined",
        (f"{LEARNING}.serving", " and self._replica.applied >= self._serve_from", ""),
    ),
    # -- snapshots, logs, recovery ---------------------------------------------------------------------
    _mutant(
        "M30",
        "ZOOKEEPER-1653, 2354: a server does not vote any more when it crashed between its history and its epoch",
        (
            "zab.storage.recovery:_Walk.check",
            "    record = self.epochs.record\n",
            "    record = self.epochs.record\n"
            "    if epoch_of(self.last) > record.current:\n"
            "        self.damage.append('the history is newer than the current epoch')\n",
        ),
    ),
    _mutant(
        "M31a",
        "ZOOKEEPER-2325, 3231: a damaged history counts as an empty one",
        (
            "zab.storage.recovery:_distrusted",
            "    epochs.distrust(forgotten=forgotten)\n",
            "    return Recovery(epochs, Recovered(epochs.record.accepted, epochs.record.current), last=NOTHING, notes=notes)\n",
        ),
    ),
    _mutant(
        "M31b",
        "ZOOKEEPER-2325: a lost disk counts as a new one",
        ("zab.storage.recovery:_begin", "if not autocreate:", "if False:"),
    ),
    _mutant(
        "M31c",
        "ZOOKEEPER-1797: purging removes log files that the kept snapshots still need",
        (
            "zab.storage.log:Log.purge",
            "while len(self.segments) > 1 and self.segments[1].previous <= zxid:",
            "while len(self.segments) > 1:",
        ),
    ),
    _mutant(
        "M34",
        "ZOOKEEPER-2247: a server whose log cannot be written carries on",
        (
            f"{STORAGE}.perform",
            "    except BaseException as error:\n        self._failure = error\n        raise",
            "    except BaseException as error:\n        pass",
        ),
    ),
    _mutant(
        "M39",
        "ZOOKEEPER-1277: the counter overflows into the epoch",
        (
            f"{LEADING}._next_zxid",
            '        self.over = "the counter of this epoch is used up"\n        raise NotLeader(self.over)',
            "        return make(self.epoch + 1, 1)",
        ),
    ),
    # -- what any implementation can get wrong ----------------------------------------------------------
    _mutant(
        "ack-before-durable",
        "a proposal is acknowledged when it was handed to the disk",
        (
            f"{REPLICA}.append",
            "    self._appends.append((ticket, batch.last))",
            "    self.durable = batch.last\n    self._appends.append((ticket, batch.last))",
        ),
        (
            f"{LEARNING}._log",
            "        self._replica.append(batch)\n",
            "        self._replica.append(batch)\n        self._ack()\n",
        ),
    ),
    _mutant(
        "leader-counts-itself-early",
        "the leader counts its own disk before it has reported back",
        (f"{LEADING}._count", "acked[replica.me] = replica.durable", "acked[replica.me] = replica.history.last"),
    ),
    _mutant(
        "commit-without-quorum",
        "one acknowledgement is enough to commit",
        (
            "zab.core.ensemble:Ensemble.quorum_zxid",
            "return reached[len(reached) // 2] if reached else NOTHING",
            "return reached[0] if reached else NOTHING",
        ),
    ),
    _mutant(
        "half-is-a-quorum",
        "half of an even number of servers counts as a majority",
        (
            "zab.core.ensemble:Ensemble.quorum_zxid",
            "return reached[len(reached) // 2] if reached else NOTHING",
            "return reached[(len(reached) - 1) // 2] if reached else NOTHING",
        ),
        voters=(4, 2),
    ),
    _mutant(
        "established-without-quorum",
        "one acknowledgement of NEWLEADER is enough to begin",
        (
            f"{LEADING}._count_new_leader",
            "if not self._is_quorum([sid for sid, learner in self.learners.items() if learner.counts]):",
            "if not any(learner.counts for learner in self.learners.values()):",
        ),
        voters=(5,),
    ),
    _mutant(
        "old-promise-counted",
        "a promise that was made before, perhaps to somebody else, counts again",
        (
            f"{LEARNING}._on_leader_info",
            "counts = message.epoch > replica.accepted and not replica.forgotten",
            "counts = not replica.forgotten",
        ),
    ),
    _mutant(
        "forgotten-promise-counted",
        "a server that lost its disk, and its promises with it, is counted again as soon as it is synchronized",
        (
            f"{LEARNING}._on_new_leader",
            "    replica.whole = True\n",
            "    replica.whole = True\n    replica.forgotten = False\n",
        ),
        (f"{LEADING}._on_ack_epoch", "    learner.forgotten = message.forgotten\n", ""),
    ),
    _mutant(
        "old-leader-accepted",
        "a learner follows a leader of an older epoch than it has promised",
        (f"{LEARNING}._on_leader_info", "if message.epoch < replica.accepted:", "if False:"),
    ),
    _mutant(
        "newer-history-ignored",
        "a leader imposes its history on a follower that has a newer one",
        (
            f"{LEADING}._on_ack_epoch",
            "newer = (message.current_epoch, message.last) > self._summary",
            "newer = False",
        ),
        (
            f"{ELECTION}:beats",
            "new > old",
            "new.leader > old.leader",
        ),
    ),
    _mutant(
        "proposals-only-to-the-synced",
        "Zab issue 1: what is proposed while a learner synchronizes is not sent to it",
        (
            f"{LEADING}._propose",
            "if learner.forwarding and not learner.observer:",
            "if learner.synced and not learner.observer:",
        ),
    ),
    _mutant(
        "up-to-date-with-uncommitted",
        "Zab issue 3: UPTODATE carries what was acknowledged, not what was committed",
        (
            f"{LEADING}._on_ack_new_leader",
            "UpToDate(self._replica.committed)",
            "UpToDate(learner.acked)",
        ),
    ),
    _mutant(
        "truncate-to-own-commit",
        "a follower cuts its own uncommitted tail before it asks the leader (the mistake of KIP-101)",
        (
            f"{LEARNING}.link_up",
            "    self._linked = True\n",
            "    self._linked = True\n    if not replica._appends: replica.truncate(max(replica.committed, replica.history.base))\n",
        ),
    ),
    _mutant(
        "snapshot-cuts-committed",
        "a learner that is only a little behind gets a snapshot that is older than its log",
        (
            "zab.core.synchronization:plan",
            "    if common is None:\n",
            "    if common is None or common < peer:\n",
        ),
    ),
    _mutant(
        "leader-stays-without-quorum",
        "a leader never notices that nobody follows it any more",
        (f"{LEADING}.tick", '        self.over = "a quorum no longer follows"', "        pass"),
    ),
    _mutant(
        "follower-stays-without-leader",
        "a follower never notices that it hears nothing from its leader",
        (f"{LEARNING}.tick", "    if now >= self._silent_until:\n", "    if False:\n"),
    ),
    _mutant(
        "barrier-without-proof",
        "a leader answers a barrier without asking whether it still leads",
        (
            f"{LEADING}._release_barriers",
            "if not self._is_quorum([sid for sid, each in self.learners.items() if each.counts and each.pong >= ping]):",
            "if False:",
        ),
    ),
    _mutant(
        "barrier-by-old-pong",
        "a pong to a ping from before the question counts as an answer to it",
        (
            f"{LEADING}._release_barriers",
            "each.counts and each.pong >= ping",
            "each.counts and each.pong > 0",
        ),
    ),
    _mutant(
        "barrier-answered-locally",
        "a follower answers a barrier with what it has applied",
        (
            f"{LEARNING}.barrier",
            "    self._barrier_number += 1\n",
            "    self._out.barriers.append(BarrierDone(token, self._replica.applied))\n    return\n",
        ),
    ),
    _mutant(
        "barrier-before-applied",
        "a follower answers a barrier before it has applied what the answer says",
        (f"{LEARNING}.flush", "if zxid is not None and applied >= zxid:", "if zxid is not None:"),
    ),
    _mutant(
        "old-membership-commits-the-new",
        "a membership change needs a quorum of the old members only",
        (f"{LEADING}._count", "both = min(reached, pending.quorum_zxid(acked))", "both = reached"),
        (
            f"{REPLICA}.views",
            "return (self.ensemble,) if pending is None else (self.ensemble, pending)",
            "return (self.ensemble,)",
        ),
    ),
    _mutant(
        "new-membership-commits-itself",
        "a membership change needs a quorum of the new members only",
        (
            f"{LEADING}._count",
            "reached = replica.ensemble.quorum_zxid(acked)",
            "reached = (replica.pending or replica.ensemble).quorum_zxid(acked)",
        ),
        (
            f"{REPLICA}.views",
            "return (self.ensemble,) if pending is None else (self.ensemble, pending)",
            "return (pending or self.ensemble,)",
        ),
    ),
    _mutant(
        "removed-leader-stays",
        "a leader that was removed goes on leading",
        (f"{LEADING}._yield_if_left", "if replica.me in replica.ensemble.voters:", "if True:"),
    ),
    _mutant(
        "membership-forgotten",
        "a restarted server goes back to the membership of its configuration file",
        (
            f"{REPLICA}.__init__",
            "self.ensemble = saved if saved is not None and saved.version > ensemble.version else ensemble",
            "self.ensemble = ensemble",
        ),
    ),
    _mutant(
        "commit-beyond-the-log",
        "a follower takes a commit for what it has not got yet, and forgets it",
        (f"{LEARNING}._on_up_to_date", "max(message.committed, self._commit_seen)", "message.committed"),
        (
            f"{REPLICA}.commit",
            "    if zxid <= self.committed:\n",
            "    if zxid <= self.committed or zxid == self.history.last:\n",
        ),
    ),
    _mutant(
        "snapshot-not-synced",
        "a snapshot from the leader is put in place before its content is durable",
        ("zab.storage.snapshots:SnapshotFile.place", "    file.sync()", "    pass"),
    ),
    _mutant(
        "names-not-synced",
        "files are made and put in place, but the directory is not synced",
        ("zab.storage.log:Log._make_room", "    self._disk.sync_dir()\n", ""),
        ("zab.storage.disk:write_durably", "    disk.sync_dir()", "    pass"),
    ),
    _mutant(
        "epochs-not-synced",
        "the epochs are put in place before they are durable",
        ("zab.storage.disk:write_durably", "        file.sync()", "        pass"),
    ),
    _mutant(
        "epoch-saved-before-the-log",
        "the disk writes an epoch before the history that was handed to it earlier",
        (
            f"{STORAGE}._save_epochs",
            "    self._log.sync()",
            "    pass",
        ),
    ),
    _mutant(
        "torn-tail-is-damage",
        "a torn tail is taken for damage: who lost power in the middle of a write never votes again",
        (
            "zab.storage.torn:contradiction",
            "if _has_unwritten_sector(data, at, end) or _stops_short(data, at, end):\n        return None",
            "pass",
        ),
    ),
    _mutant(
        "damage-is-a-torn-tail",
        "whatever cannot be read at the end of the log is cut off and forgotten",
        (
            "zab.storage.torn:contradiction",
            "    head = decode_record_head(data, at, segment.seed)\n",
            "    return None\n",
        ),
    ),
)

IMPOSSIBLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "M10",
        "ZOOKEEPER-3769, a malformed notification ends the receiver: cores hear values, not bytes; see the tests of wire",
    ),
    (
        "M18",
        "a leader ships what it has not got durably: SendLog ends where memory begins, which is applied, hence durable",
    ),
    (
        "M21",
        "memory reused across roles: the machine holds only what is committed, so nothing in it is ever taken back",
    ),
    ("M22", "ZOOKEEPER-3023 is M06a"),
    ("M24", "tasks that outlive a role: a core has no tasks, and what a role wanted is dropped with it"),
    (
        "M25",
        "a log writer that outlives its role: the disk keeps the order, and a learner says where its history ends only"
        " when the disk has reported a promise that was queued behind all older appends",
    ),
    (
        "M26",
        "ZOOKEEPER-4837, a snapshot newer than the cut: snapshots are of applied state, and no cut goes below that",
    ),
    (
        "M28",
        "memory ahead of the log after a failed TRUNC: a disk that fails stops the server, and memory is made anew",
    ),
    ("M32", "fuzzy snapshots: a snapshot is the machine's state at exactly one zxid, taken by the driver in one step"),
)
"""Bugs of the catalogue that cannot be written down in this design, and why."""

BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
assert len(BY_NAME) == len(MUTANTS)
