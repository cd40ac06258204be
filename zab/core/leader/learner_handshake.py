"""A leader's steps with each learner, from its first message to broadcast (ZooKeeper: LearnerHandler).

    learner                        leader
    FollowerInfo           ->                                 INTRODUCED
                           <-      LeaderInfo                 ASKED
    AckEpoch               ->                                 PROMISED
                           <-      DIFF, TRUNC or SNAP,
                                   proposals, NEWLEADER       SYNCHRONIZING
    AckNewLeader           ->                                 SYNCED
                           <-      UPTODATE

The steps are the same for a learner that joins an established leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from zab.core.batch import contradict
from zab.core.ensemble import Ensemble
from zab.core.errors import RemoteProtocolError
from zab.core.leader.learner_state import LearnerState, LearnerStep
from zab.core.log_state import LogState
from zab.core.messages import RESUMES, AckEpoch, AckNewLeader, Diff, LeaderInfo, NewLeader, Propose, SnapHeld, Trunc
from zab.core.ready import FindSnapshot, FoundSnapshot, SendLog, SendRest, SendSnapshot
from zab.core.sync_plan import Form, SyncPlan, can_resume, plan
from zab.core.sync_progress import SyncProgress
from zab.core.zxid import UNKNOWN, Epoch, Millis, ServerId, Zxid, counter_of, epoch_of, show


class LearnerHandshake:
    """Takes the learners of one leader through the steps, and sends each learner the history that it lacks."""

    def __init__(self, log_state: LogState) -> None:
        self._log_state = log_state
        self._out = log_state.out
        self._settings = log_state.settings
        self._initial = log_state.history.last
        """The end of the initial history of the leader's epoch."""
        self._given: set[ServerId] = set()
        """Servers whose transactions of this epoch, if they have any, came from this leader."""
        self.has_waiting = False
        """True if `synchronize_waiting` may have work: a learner is PROMISED and waits for no answer of the disk."""

    # -- the promise ---------------------------------------------------------------------------------

    def announce(self, learner: LearnerState, epoch: Epoch) -> None:
        """Ask the learner to promise the epoch. Call it only once the leader's own promise is durable."""
        learner.step = LearnerStep.ASKED
        if learner.resumes:
            self._out.send(learner.sid, RESUMES)
        self._out.send(learner.sid, LeaderInfo(epoch))

    def take_held(self, learner: LearnerState, message: SnapHeld) -> None:
        learner.require(LearnerStep.ASKED, message)
        if not learner.resumes or learner.held is not None:
            raise RemoteProtocolError("SnapHeld without RESUMES before it, or a second SnapHeld on one link")
        learner.held = message

    def take_promise(self, learner: LearnerState, message: AckEpoch) -> None:
        learner.step = LearnerStep.PROMISED
        learner.ack_epoch = message
        learner.forgotten = message.forgotten
        self.has_waiting = True

    # -- the synchronization -------------------------------------------------------------------------

    def take_found(self, learner: LearnerState, question: FindSnapshot, found: FoundSnapshot | None) -> None:
        """Take the disk's answer. Ignore it if the question was asked for an earlier link of the learner."""
        if learner.question is not question:
            return
        history = self._log_state.history
        if found is not None and contradict(history.digest_at(question.held.zxid), found.digest):
            found = None  # the file belongs to another history
        learner.question, learner.found = None, found
        if found is None:
            learner.held = None
        self.has_waiting = True

    def synchronize_waiting(
        self, learners: Iterable[LearnerState], epoch: Epoch, membership: Ensemble, now: Millis
    ) -> None:
        """Synchronize the learners that have promised the epoch and wait for no answer of the disk.

        Call it after all inputs of a Ready: only then is `applied` the zxid of the state that a snapshot contains.
        """
        self.has_waiting = False
        for learner in learners:
            if learner.step is LearnerStep.PROMISED and learner.question is None:
                self._synchronize(learner, epoch, membership, now)

    def _synchronize(self, learner: LearnerState, epoch: Epoch, membership: Ensemble, now: Millis) -> None:
        """Send the learner the history that it lacks, then NEWLEADER. Later proposals and commits follow on the link.

        This is one step, so that there is no gap between the history and those messages. The rule is Zab's
        synchronization phase, with DIFF, TRUNC and SNAP as in ZooKeeper's LearnerHandler:

        - The plan comes from the leader's history and the learner's last zxid (`zab.core.sync_plan`).
        - If a snapshot is planned, the learner holds the beginning of one, and `can_resume` allows it, this server's
          disk is asked for that file. The synchronization waits for the answer. If the disk has the file, only the rest
          of the file is sent.
        - If the plan has a `cut`, the learner's history ends with transactions that the leader lacks. Then TRUNC is
          sent first, even before a snapshot, so that the learner can veto if it knows them to be committed.
        - Transactions that are no longer in memory are read from the log. If the leader does not know the digest at the
          zxid where they begin, it sends the one at the zxid where they end, and the learner compares that.
        - An observer receives the initial history and committed transactions, but no outstanding proposals.
        - A follower receives the outstanding proposals before NEWLEADER, or after it if `open_before_new_leader` is
          off. Then the acknowledgement of NEWLEADER does not cover them. The initial history always comes before
          NEWLEADER, decided or not: a server with this epoch must have all of it.
        - With `open_before_new_leader` off, NEWLEADER has the last membership of the learner's history, decided or not:
          no commit of ZooKeeper's protocol activates a change that the learner had before. The learner activates it at
          UPTODATE, which it gets once that history is decided.
        """
        ack = learner.ack_epoch
        assert ack is not None
        log_state, history, sid, last = self._log_state, self._log_state.history, learner.sid, ack.last
        # An epoch has one leader. If another leader gave the learner transactions of this epoch, promises were lost.
        foreign = last != UNKNOWN and epoch_of(last) == epoch and sid not in self._given
        includes_open = self._settings.open_before_new_leader and not learner.observer
        decided = max(self._initial, log_state.committed)
        until = history.last if includes_open else decided
        how = plan(history, log_state.applied, last, self._settings, foreign, until)
        held, rest = learner.held, None
        if how.form is Form.SNAP and held is not None and can_resume(history, held, self._settings):
            if learner.found is None:
                learner.question = FindSnapshot(sid, held)
                self._out.finds.append(learner.question)
                return
            how, rest = SyncPlan(Form.SNAP, held.zxid, how.cut), SendRest(held, learner.found)
        if not foreign:
            self._given.add(sid)
        digest = history.digest_at(how.common) if rest is None else rest.found.digest
        if how.common == last and contradict(digest, ack.digest):
            self._out.note("diverged", "warning", peer=sid, at=show(how.common))
        until = max(until, how.common)
        if how.cut is not None:
            self._send_trunc(learner, how.cut, last)
        if rest is not None:
            self._out.send(sid, rest)
        elif how.form is Form.SNAP:
            self._out.send(sid, SendSnapshot(how.common, digest))
        elif how.form is Form.DIFF:
            # A learner at the beginning of an epoch may not know the transaction before it.
            self._out.send(sid, Diff(how.common if counter_of(last) else last, digest))
        start = how.common
        if start < history.base:
            stop = min(history.base, until)
            self._out.send(sid, SendLog(start, stop))
            later = history.digest_at(stop)
            if digest is None and later is not None:
                # The leader does not know the digest at `how.common`. It knows this one, so the learner compares it.
                self._out.send(sid, Diff(stop, later))
            start = stop
        for batch in history.after(start, until):
            self._out.send(sid, Propose(batch))
        if not self._settings.open_before_new_leader:
            changes = [change for change in history.configs if membership.version < change.version <= until]
            membership = changes[-1] if changes else membership
        self._out.send(sid, NewLeader(epoch, membership))
        if not learner.observer:
            for batch in history.after(until):
                self._out.send(sid, Propose(batch))
        more: dict[str, Any] = {} if rest is None else {"resumes_at": rest.held.size, "of": rest.found.size}
        self._out.note("synchronize", peer=sid, form=how.form.value, common=show(how.common), until=show(until), **more)
        learner.step = LearnerStep.SYNCHRONIZING
        learner.synced_until = until
        learner.sync_began = now
        learner.sync_progress = SyncProgress(now, *(() if rest is None else (rest.held.size, rest.found.size)))
        self.extend(learner, now)

    def _send_trunc(self, learner: LearnerState, cut: Zxid, last: Zxid) -> None:
        self._out.send(learner.sid, Trunc(cut, self._log_state.history.digest_at(cut)))
        count = str(last - cut) if last >> 32 == cut >> 32 else f"{counter_of(last)} or more"
        ends = {"from": show(last), "to": show(cut), "count": count}
        why = "the leader lacks these transactions; a learner that knows them to be committed vetoes instead"
        self._out.note("asks_to_truncate", "warning", peer=learner.sid, **ends, why=why)

    def extend(self, learner: LearnerState, now: Millis) -> None:
        """Restart the time limit of a synchronization that has made progress."""
        learner.silent_until = now + self._settings.init_ms + self._settings.sync_ms

    def take_adoption(self, learner: LearnerState, message: AckNewLeader, epoch: Epoch | None, now: Millis) -> None:
        """Take `AckNewLeader`: the learner has history and epoch on disk. Unless `forgotten`, it counts from now on."""
        learner.require(LearnerStep.SYNCHRONIZING, message)
        if message.epoch != epoch:
            raise RemoteProtocolError(f"AckNewLeader({message.epoch}), but the epoch is {epoch}")
        learner.step = LearnerStep.SYNCED
        self._given.add(learner.sid)
        learner.acked = max(learner.acked, learner.synced_until)
        last = self._log_state.history.last
        # An observer acknowledges no proposal, so none is awaited from it.
        learner.behind = (last, now) if last > learner.acked and not learner.observer else None
        learner.silent_until = now + self._settings.sync_ms
