"""Broadcast (Zab, phase 3): propose in order, commit what a quorum has on disk, notify the learners."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from attrs import evolve

from zab.core.batch import Batch, change_payload, pack
from zab.core.ensemble import Ensemble
from zab.core.errors import (
    ConfigError,
    LocalProtocolError,
    NewConfigNoQuorum,
    NotLeader,
    Overloaded,
    ReconfigInProgress,
    RemoteProtocolError,
    WrongVersion,
)
from zab.core.leader.commit_accounting import CommitAccounting
from zab.core.leader.leader_phase import LeaderPhase, LeaderRole
from zab.core.leader.learner_state import LearnerState, LearnerStep
from zab.core.messages import (
    Ack,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Inform,
    InformAndActivate,
    Propose,
    UpToDate,
)
from zab.core.plurals import counted
from zab.core.zxid import NEVER, Epoch, Millis, ServerId, Ticket, Zxid, counter_of, make, show

# Looking up a member of an enum is slow, and each acknowledgement and proposal needs these.
_SYNCHRONIZING: Final = LearnerStep.SYNCHRONIZING
_SYNCED: Final = LearnerStep.SYNCED


class LeaderBroadcast(LeaderPhase):
    """Lasts from the decision of the initial history until the attempt to lead ends."""

    name: ClassVar[str] = "broadcast"
    decided: ClassVar[bool] = True
    epoch: Epoch

    def __init__(self, role: LeaderRole, epoch: Epoch) -> None:
        super().__init__(role)
        self.epoch = epoch
        self.until = NEVER
        self._out = role.log_state.out
        self._initial = role.log_state.history.last
        """The end of the initial history. The leader serves once it has applied everything up to here."""
        self._commits = CommitAccounting(role.log_state, role.learners, epoch)
        self._outstanding: deque[tuple[Zxid, int, int]] = deque()
        """The uncommitted proposals: last zxid, number of transactions and number of bytes of each batch, in order."""
        self._outstanding_count = 0
        """The number of transactions in `_outstanding`."""
        self._outstanding_bytes = 0
        """The number of bytes in `_outstanding`."""
        settings = role.log_state.settings
        self._readmits = settings.open_before_new_leader and settings.membership_versions
        """True if `forgotten` servers are readmitted. A readmission needs a change that the synchronization had not
        brought, and a server can only tell this if it has brought the open proposals.
        """
        self._may_readmit = self._readmits and any(learner.forgotten for learner in role.learners.values())
        """True once a `forgotten` learner has promised the epoch: each later turn looks for servers to readmit."""

    @property
    def serving(self) -> bool:
        return self._log_state.applied >= self._initial

    def membership(self) -> Ensemble:
        return self._log_state.ensemble

    def establish(self, membership: Ensemble) -> None:
        """Put the membership of the epoch into force, commit the initial history, and notify the learners.

        Then end the attempt to lead if this server has no vote.
        """
        log_state = self._log_state
        self._out.note("established", epoch=self.epoch, initial=show(self._initial))
        log_state.partial.drop()
        log_state.activate(membership)
        log_state.commit(self._initial)
        for learner in self._learners.values():
            if learner.step is _SYNCED:
                self._out.send(learner.sid, UpToDate(log_state.committed))
            elif learner.step is _SYNCHRONIZING and not learner.observer:
                self._out.send(learner.sid, Commit(log_state.committed))
        self._leave_if_removed()

    # -- learners that join an established leader ----------------------------------------------------

    def introduced(self, learner: LearnerState, now: Millis) -> None:
        self._role.handshake.announce(learner, self.epoch)

    def promised(self, learner: LearnerState, now: Millis) -> None:
        self._may_readmit = self._may_readmit or (self._readmits and learner.forgotten)

    def synced(self, learner: LearnerState, now: Millis) -> None:
        self._out.send(learner.sid, UpToDate(self._log_state.committed))
        self._count()

    def flush(self, now: Millis) -> None:
        if self._may_readmit:
            self._readmit(now)

    def _readmit(self, now: Millis) -> None:
        """Propose the active membership again, to readmit synchronized voters that may have lost promises, if any.

        Do nothing while a change is pending. The proposal is decided without the votes of these voters, and its commit
        voids the promises that they may have lost. A learner that joined as an observer and has become a voter must
        reconnect first.
        """
        waiting = [
            learner.sid
            for learner in self._learners.values()
            if learner.forgotten and learner.step is _SYNCED and not learner.observer
        ]
        log_state = self._log_state
        if log_state.pending is None and any(self._role.quorums.may_vote(sid) for sid in waiting):
            self._out.note("readmitting", peers=waiting)
            with suppress(NotLeader):  # the counter may be used up: then the next leader readmits them
                self._propose_membership(log_state.ensemble, now)

    def check_quorum(self) -> None:
        quorums, joint = self._role.quorums, self._commits.joint
        following = quorums.following()
        if not quorums.has(following):
            self._role.end("a quorum no longer follows")
        elif joint is not None and not joint[0].is_quorum([*following, self._log_state.me]):
            # Outstanding proposals need a quorum of the former membership, too, and too few of its servers follow. A
            # new epoch does not need that quorum.
            self._role.end("a quorum of the former membership no longer follows")

    # -- proposals -----------------------------------------------------------------------------------

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        """Propose all payloads and return the zxid of the first, or raise an error and propose none."""
        settings = self._log_state.settings
        if not payloads:
            raise LocalProtocolError("nothing to propose")
        if self._outstanding_count + len(payloads) > settings.outstanding_max and self._outstanding_count:
            raise Overloaded(
                f"{counted(self._outstanding_count, 'outstanding transaction')} and {len(payloads)} more exceed "
                f"outstanding_max = {settings.outstanding_max}: wait until some are committed"
            )
        if self._outstanding_bytes > settings.outstanding_bytes_max:
            raise Overloaded(
                f"{self._outstanding_bytes} bytes of outstanding transactions exceed outstanding_bytes_max = "
                f"{settings.outstanding_bytes_max}: wait until some are committed"
            )
        first = self._next_zxid(len(payloads))
        self._propose(pack(first, payloads), now)
        return first

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = b"") -> Zxid:
        """Propose a membership, with a payload for the machine, and return its zxid.

        Raise ConfigError or a subclass of it if the change is refused, and NotLeader if the epoch has no zxid left.
        The membership comes into force when quorums of the old and the new one have acknowledged it.
        """
        log_state, quorums = self._log_state, self._role.quorums
        if not log_state.settings.membership_versions:
            raise ConfigError("the membership does not change: Settings.membership_versions is off")
        if log_state.pending is not None:
            raise ReconfigInProgress(f"membership {show(log_state.pending.version)} is not decided yet")
        if expect is not None and expect != log_state.ensemble.version:
            raise WrongVersion(f"the membership is at version {show(log_state.ensemble.version)}, not {show(expect)}")
        if not ensemble.voters:
            raise ConfigError("a membership needs at least one voter")
        ensemble.check_addresses()
        synced = [sid for sid in quorums.counting() if not self._learners[sid].observer]
        if not ensemble.is_quorum([*synced, log_state.me]):
            present = sorted({*synced, log_state.me}.intersection(ensemble.voters))
            forgotten = [sid for sid in ensemble.voters if sid in self._learners and self._learners[sid].forgotten]
            why = (
                f"; servers {forgotten} do not count, because they may have lost promises (a server that joins must "
                "start with an empty directory and with autocreate)"
            )
            raise NewConfigNoQuorum(
                f"of the new voters {list(ensemble.voters)} only {present} lead or are synchronized followers, which "
                f"is no quorum: start the others first; a server that is an observer now does not count"
                f"{why if forgotten else ''}"
            )
        return self._propose_membership(ensemble, now, attached)

    def _propose_membership(self, ensemble: Ensemble, now: Millis, attached: bytes = b"") -> Zxid:
        zxid = self._next_zxid(1)
        text = evolve(ensemble, version=zxid).text()
        self._propose(pack(zxid, [change_payload(text, attached)], config=True), now)
        return zxid

    def _next_zxid(self, count: int) -> Zxid:
        last = self._log_state.history.last
        counter = counter_of(last) if last >> 32 == self.epoch else 0
        if counter + count > self._log_state.settings.counter_max:
            # Carrying into the epoch bits would make a zxid of an epoch that no server promised.
            why = "the counter of this epoch is used up"
            self._role.end(why)
            raise NotLeader(why)
        return make(self.epoch, counter + 1)

    def _propose(self, batch: Batch, now: Millis) -> None:
        self._log_state.append(batch)
        self._outstanding.append((batch.last, batch.count, len(batch.body)))
        self._outstanding_count += batch.count
        self._outstanding_bytes += len(batch.body)
        message = Propose(batch)
        for learner in self._learners.values():
            if learner.step >= _SYNCHRONIZING and not learner.observer:
                self._out.send(learner.sid, message)
                if learner.behind is None and learner.step is _SYNCED:
                    learner.behind = (batch.last, now)

    # -- acknowledgements and commits ----------------------------------------------------------------

    def saved(self, ticket: Ticket, grew: bool, now: Millis) -> None:
        if grew:
            self._count()

    def _on_ack(self, learner: LearnerState, message: Ack, now: Millis) -> None:
        last = self._log_state.history.last
        if learner.step is not _SYNCED:
            learner.require(_SYNCED, message)
        if message.zxid > last:
            raise RemoteProtocolError(f"acknowledged {show(message.zxid)}, but the last proposal is {show(last)}")
        if message.zxid <= learner.acked:
            return
        learner.acked = message.zxid
        behind = learner.behind
        if behind is not None:
            # An acknowledgement of older proposals is progress, too.
            awaited = behind[0] if message.zxid < behind[0] else last
            learner.behind = (awaited, now) if message.zxid < awaited else None
        if message.zxid > self._log_state.committed:  # older zxids are committed already
            self._count()

    def _count(self) -> None:
        """Commit everything that a quorum of each applicable membership has on disk."""
        commits = self._commits
        reached = commits.advance()
        while reached is not None:
            # This commit may put another membership into force, under which later zxids may be committed, too.
            again = commits.asks_others
            left = self._commit(reached)
            if left or not (again or commits.joint is not None):
                return
            reached = commits.advance()

    def _commit(self, zxid: Zxid) -> bool:
        """Commit up to `zxid` and notify the learners. Return whether that ended the attempt to lead.

        This is the last step of phase 3 of the ZAB paper. CommitAndActivate, Inform and InformAndActivate are not in
        the paper: they have the meaning of ZooKeeper's COMMITANDACTIVATE, INFORM and INFORMANDACTIVATE.

        A follower receives Commit, or CommitAndActivate for a membership change. An observer receives a transaction
        only when it is committed, as Inform or InformAndActivate. But for transactions that the observer has held since
        its synchronization, it receives Commit or CommitAndActivate, like a follower.
        """
        log_state = self._log_state
        before = log_state.committed
        observers = [learner for learner in self._learners.values() if learner.observer]
        decided = log_state.history.after(before, zxid) if observers else []  # the commit may trim them from memory
        activated = self._commits.commit(zxid)
        while self._outstanding and self._outstanding[0][0] <= zxid:
            _, count, size = self._outstanding.popleft()
            self._outstanding_count -= count
            self._outstanding_bytes -= size
        message: Commit | CommitAndActivate = Commit(zxid)
        designated = log_state.me
        if activated:
            for learner in self._learners.values() if self._readmits else ():
                if learner.step is _SYNCED and learner.synced_until < zxid and not learner.observer:
                    learner.forgotten = False
            designated = self._designate(zxid)
            message = CommitAndActivate(zxid, designated)
        for learner in self._learners.values():
            if learner.step < _SYNCHRONIZING:
                continue
            if not learner.observer:
                self._out.send(learner.sid, message)
                continue
            if before < learner.synced_until:
                # The observer holds everything up to `synced_until` already.
                self._out.send(learner.sid, message if zxid <= learner.synced_until else Commit(learner.synced_until))
            for batch in decided:
                if batch.last <= learner.synced_until:
                    continue
                if batch.first <= learner.synced_until:
                    batch = batch.after(learner.synced_until)
                if batch.config:
                    self._out.send(learner.sid, InformAndActivate(batch, designated))
                else:
                    self._out.send(learner.sid, Inform(batch))
        return activated and self._leave_if_removed(designated)

    def _designate(self, zxid: Zxid) -> ServerId:
        """Return the leader for the membership that was just activated.

        It is this server if it has a vote. Otherwise it is the synchronized voter that has acknowledged most, or among
        equals the one with the greatest id. If none has acknowledged the change, it is the voter with the greatest id.
        """
        log_state = self._log_state
        if log_state.me in log_state.ensemble.voters:
            return log_state.me
        acked = [
            (learner.acked, sid)
            for sid, learner in self._learners.items()
            if learner.counts and sid in log_state.ensemble.voters and learner.acked >= zxid
        ]
        return max(acked)[1] if acked else log_state.ensemble.voters[-1]

    def _leave_if_removed(self, designated: ServerId | None = None) -> bool:
        """End the attempt to lead if this server has no vote any more. Return whether the attempt ended."""
        log_state = self._log_state
        if log_state.me in log_state.ensemble.voters:
            return False
        self._role.end("this server is no longer a voter", designated)
        return True

    def _on_barrier_request(self, learner: LearnerState, message: BarrierRequest, now: Millis) -> None:
        self._role.barriers.ask(learner.sid, message.number)

    HANDLERS: ClassVar[Mapping[type, Callable[[Any, LearnerState, Any, Millis], None]]] = {
        Ack: _on_ack,
        BarrierRequest: _on_barrier_request,
    }
