"""Broadcast (Zab, phase 3): log each proposal, acknowledge what is durable, apply what is committed.

Between the acknowledgement of NEWLEADER and UPTODATE, a follower acknowledges proposals already, unless
`open_before_new_leader` is off. But a learner applies no committed transaction before UPTODATE, which reports that a
quorum has adopted the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from zab.core.ensemble import Ensemble
from zab.core.errors import RemoteProtocolError
from zab.core.learner.learner_phase import LearnerPhase, LearnerRole
from zab.core.messages import Ack, Commit, Inform, InformAndActivate, Propose, UpToDate
from zab.core.zxid import Epoch, Ticket, Zxid, show


class _AdoptedPhase(LearnerPhase):
    """The common part of the phases after the epoch is adopted: transactions are logged, and followers send Ack."""

    def __init__(self, role: LearnerRole, epoch: Epoch, brought: Zxid, acked: Zxid) -> None:
        super().__init__(role)
        self.silence_ms = role.log_state.settings.sync_ms
        self._epoch = epoch
        self._brought = brought
        """The newest zxid that the synchronization brought: the end of the history at NEWLEADER, or the version of
        NEWLEADER's membership if newer.
        """
        self._acked = acked
        """The newest zxid that was acknowledged to the leader. Never beyond what is durable."""
        self._observer = role.observer
        """True if this server joined as an observer: it acknowledges no proposals."""
        self._leader = role.leader

    def on_propose(self, message: Propose | Inform | InformAndActivate) -> None:
        batch = message.batch
        if batch.first >> 32 != self._epoch:
            raise RemoteProtocolError(f"{show(batch.first)} does not belong to epoch {self._epoch}")
        self._log_state.append(batch)

    def saved(self, ticket: Ticket, grew: bool) -> None:
        """Send one Ack for everything that is newly durable. An observer sends none."""
        durable = self._log_state.durable
        if grew and durable > self._acked and not self._observer:
            self._acked = durable
            self._out.send(self._leader, Ack(durable))


class LearnerAcknowledged(_AdoptedPhase):
    """Lasts from `AckNewLeader` until the leader reports with UPTODATE that a quorum has adopted the epoch."""

    name: ClassVar[str] = "acknowledged"

    def __init__(
        self, role: LearnerRole, epoch: Epoch, membership: Ensemble, brought: Zxid, acked: Zxid, commit_seen: Zxid
    ) -> None:
        super().__init__(role, epoch, brought, acked)
        self._membership = membership
        """NEWLEADER's membership. It comes into force at UPTODATE, unless it is in force already."""
        self._commit_seen = commit_seen
        """The newest zxid that the leader has reported as committed. Everything up to it is applied after UPTODATE."""

    def saved(self, ticket: Ticket, grew: bool) -> None:
        if self._log_state.settings.open_before_new_leader:
            super().saved(ticket, grew)

    def on_commit(self, message: Commit) -> None:
        self._log_state.note_decided(message.zxid)
        self._commit_seen = max(self._commit_seen, message.zxid)

    def _on_up_to_date(self, message: UpToDate) -> None:
        broadcast = LearnerBroadcast(self._role, self._epoch, self._brought, self._acked, message.committed)
        self._role.enter(broadcast)
        broadcast.begin(self._membership, max(message.committed, self._commit_seen))

    HANDLERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        Propose: _AdoptedPhase.on_propose,
        Commit: on_commit,
        UpToDate: _on_up_to_date,
    }


class LearnerBroadcast(_AdoptedPhase):
    """Lasts from UPTODATE until the attempt to follow ends."""

    name: ClassVar[str] = "broadcast"

    def __init__(self, role: LearnerRole, epoch: Epoch, brought: Zxid, acked: Zxid, serve_from: Zxid) -> None:
        super().__init__(role, epoch, brought, acked)
        self._serve_from = serve_from
        """The committed zxid in UPTODATE. The server serves once it has applied everything up to this zxid."""

    @property
    def serving(self) -> bool:
        return self._log_state.applied >= self._serve_from

    def begin(self, membership: Ensemble, committed: Zxid) -> None:
        """Put the membership of the epoch into force, and commit everything up to `committed`."""
        log_state = self._log_state
        changes = [config.version for config in log_state.history.configs]
        if membership.version <= committed or membership.version not in changes:
            log_state.activate(membership)
        log_state.commit(committed)
        self._check_readmission()
        if not log_state.settings.open_before_new_leader and not self._observer:
            self._acked = log_state.durable
            self._out.send(self._leader, Ack(self._acked))
        self.check_role()
        self._out.note("up_to_date", leader=self._leader, epoch=self._epoch, committed=show(self._serve_from))

    def on_commit(self, message: Commit) -> None:
        self._log_state.commit(message.zxid)
        self._check_readmission()

    def _check_readmission(self) -> None:
        """Regain the vote when a membership that was proposed after this server's synchronization is decided.

        The membership was decided without this server's vote, so a quorum of others has it in the history. A candidate
        to which this server once made a promise needs a member of that quorum. That member has a newer history than the
        candidate, so the candidate gives up. So the forgotten promises are void.

        The membership must be newer than the leader's history at NEWLEADER: the candidate may have that history, too.
        An observer does not regain a vote here: it receives no outstanding proposals, so it cannot tell whether a
        membership was proposed after its synchronization. Nor can a follower if `open_before_new_leader` is off.
        """
        log_state = self._log_state
        if not log_state.settings.open_before_new_leader:
            return
        if log_state.forgotten and log_state.ensemble.version > self._brought and not self._observer:
            log_state.forgotten = False
            log_state.save_epochs()
            self._out.note("readmitted", version=show(log_state.ensemble.version))

    def check_role(self) -> None:
        """Leave, to dial the leader again, if this server has become an observer or stopped being one."""
        if self._log_state.observer != self._observer and self._role.over is None:
            self._role.end("this server's role has changed", designated=self._leader)

    HANDLERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        Propose: _AdoptedPhase.on_propose,
        Commit: on_commit,
    }
