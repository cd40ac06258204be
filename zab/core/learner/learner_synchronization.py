"""Synchronization (Zab, phase 2): take over the leader's history, then its epoch.

The dangerous moment is NEWLEADER: other implementations have lost data there, because they acknowledged the epoch
before the history was durable. Here the order is fixed: the history goes to the disk first, then the epoch, and the
learner acknowledges only when the disk has reported the epoch durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from zab.core.batch import Batch, contradict
from zab.core.ensemble import Ensemble
from zab.core.errors import RemoteProtocolError
from zab.core.learner.learner_broadcast import LearnerAcknowledged
from zab.core.learner.learner_phase import LearnerPhase, LearnerRole
from zab.core.messages import (
    ALIVE,
    AckNewLeader,
    Commit,
    Diff,
    Inform,
    InformAndActivate,
    NewLeader,
    Propose,
    SnapBegin,
    SnapChunk,
    SnapEnd,
    SnapHeld,
    SnapResume,
    Trunc,
    Veto,
)
from zab.core.sync_progress import SyncProgress
from zab.core.zxid import NOTHING, Epoch, Millis, Ticket, Zxid, counter_of, epoch_of, show


class LearnerSynchronization(LearnerPhase):
    """Lasts from `AckEpoch` until the leader's history and epoch are durable here and `AckNewLeader` is sent."""

    name: ClassVar[str] = "synchronization"
    synchronizes: ClassVar[bool] = True

    def __init__(self, role: LearnerRole, epoch: Epoch, offered: SnapHeld | None) -> None:
        super().__init__(role)
        self.receiving = True  # False from NEWLEADER on: then only the disk makes progress
        self.due = 0
        self._epoch = epoch
        self._offered = offered
        """The part of a snapshot on this disk that was reported to the leader, or None."""
        self._snapshot: tuple[Zxid, int | None] | None = None
        """Zxid and digest of the snapshot that arrives now, or None."""
        self._received: tuple[Zxid, int | None] | None = None
        """Zxid and digest of a snapshot that has arrived but is not installed yet, or None."""
        self._behind_snapshot: list[Batch] = []
        """The batches that have arrived after `_received`; they are appended once it is installed."""
        self._began_at: Zxid | None = None
        """The first common zxid that was confirmed, or None. Batches appended since then came from this leader."""
        self._membership: Ensemble | None = None
        """The membership that came with NEWLEADER; None before."""
        self._adoption: Ticket | None = None
        """The ticket of the write of the adopted epoch, queued after the leader's history. None until NEWLEADER."""
        self._acked = NOTHING
        """The end of this server's history at NEWLEADER. `AckNewLeader` acknowledges everything up to it."""
        self._brought = NOTHING
        """The newest zxid that the synchronization brought: `_acked`, or the version of NEWLEADER's membership if
        newer.
        """
        self._sync_progress: SyncProgress | None = None
        """Decides when a progress line is logged. None until bytes arrive; `SnapResume` resets it to None."""
        self._resumed: tuple[int, ...] = ()
        """The size of the part that this server held, and of the whole snapshot, if a snapshot resumes; else empty."""
        self._commit_seen = NOTHING
        """The newest zxid that the leader has reported as committed. Everything up to it is applied after UPTODATE."""

    # -- progress ------------------------------------------------------------------------------------

    def tick(self, now: Millis) -> bool:
        """Send `ALIVE` to the leader if the synchronization has made progress since the last tick."""
        self.due = now + self._log_state.settings.report_ms
        if not self.progressed:
            return False
        self.progressed = False
        self._out.send(self._role.leader, ALIVE)
        return True

    def on_progress(self, moved: int, now: Millis) -> None:
        if self._sync_progress is None:
            self._sync_progress = SyncProgress(now, *self._resumed)
        fields = self._sync_progress.fields(moved, now)
        if fields:
            self._out.note("synchronizing", leader=self._role.leader, **fields)

    def saved(self, ticket: Ticket, grew: bool) -> None:
        self.progressed = True
        if self._adoption is not None and ticket >= self._adoption:
            self._acknowledge(ticket)

    # -- the history ---------------------------------------------------------------------------------

    def _on_diff(self, message: Diff) -> None:
        self._require_history(message)
        if message.common != self._log_state.history.last:
            raise RemoteProtocolError(
                f"a DIFF from {show(message.common)}, but this server's history ends at "
                f"{show(self._log_state.history.last)}"
            )
        self._agree(message.common, message.digest)

    def _on_trunc(self, message: Trunc) -> None:
        self._require_history(message)
        log_state, common = self._log_state, message.common
        if common > log_state.history.last:
            raise RemoteProtocolError(
                f"a TRUNC to {show(common)}, but this server's history ends at {show(log_state.history.last)}"
            )
        if not counter_of(common):
            # The leader's history begins with a snapshot at the beginning of an epoch: the same state as after the
            # last transaction before.
            before = log_state.history.floor(common)
            common = common if before is None else before
        if common < log_state.known:
            self._refuse(common, "asked to truncate committed transactions")
            return
        if not self._agree(common, message.digest):
            return
        if log_state.durable > common:
            last = log_state.history.last
            count = log_state.history.entries_between(common, last)
            self._out.note(
                "truncated", "warning", leader=self._role.leader, **{"from": show(last), "to": show(common)},
                count=count, why="the leader lacks these transactions; this server may have acknowledged some of them"
            )  # fmt: skip
        log_state.truncate(common)

    def _agree(self, common: Zxid, digest: int | None) -> bool:
        """Return whether the histories of this server and the leader agree up to `common`; if not, leave the leader.

        Both histories must contain `common`, and the digests up to it must be equal if both are known. Otherwise
        truncate the batches that came from this leader. Then refuse the leader's history if this server knows committed
        transactions, else distrust its own history.
        """
        log_state, history = self._log_state, self._log_state.history
        why = "the histories of this server and the leader have diverged"
        if history.floor(common) != common:
            evidence = f"this server lacks {show(common)}, which the leader takes for the common zxid"
        else:
            mine = history.digest_at(common)
            if digest is None or mine is None or mine == digest:
                self._began_at = common if self._began_at is None else self._began_at
                return True
            evidence = f"digest at {show(common)} is {mine:08x}, the leader's {digest:08x}"
        if self._began_at is not None and self._began_at < history.last:
            log_state.truncate(self._began_at)
        if log_state.known == NOTHING:
            log_state.distrust(evidence)
            self._role.end(why)
        else:
            self._refuse(NOTHING, why)
        return False

    def _refuse(self, common: Zxid, why: str) -> None:
        """Leave a leader that lacks committed transactions: the two histories agree at most up to `common`.

        Every leader has all committed transactions, unless a majority of the disks lost their data. Then an operator
        has to decide which history survives. So this server vetoes; with `veto_lost_history` off, it gives up its own
        history.
        """
        log_state, history, leader = self._log_state, self._log_state.history, self._role.leader
        count = history.entries_between(common, history.last)
        veto = Veto(leader, self._epoch, common, log_state.known, history.last, count)
        if not log_state.settings.veto_lost_history:
            log_state.give_up(veto)
            self._role.end(why)
            return
        self._role.end(why, veto=veto)
        self._out.send(leader, veto)
        self._out.note(
            "vetoes",
            "warning",
            leader=leader,
            common=show(common),
            committed=show(veto.committed),
            last=show(veto.last),
            count=count,
            why=f"{veto.text()}; this server keeps them and follows no leader that lacks them; to give them up, use "
            f"the admin command give_up_history, or stop this server and use zab log give-up on its directory; to keep "
            f"them, stop the others, empty their directories except for `myid`, and start the others again while this "
            f"server runs",
        )

    def on_propose(self, message: Propose | Inform | InformAndActivate) -> None:
        """Log a batch. If a received snapshot is not installed yet, keep the batch until it is."""
        if self._snapshot is not None:
            raise RemoteProtocolError(f"a transaction in the middle of a snapshot, in {self.name}")
        batch = message.batch
        epoch = epoch_of(batch.first)
        if epoch > self._epoch or (self._adoption is not None and epoch != self._epoch):
            raise RemoteProtocolError(f"{show(batch.first)} does not belong to epoch {self._epoch}")
        if self._received is None:
            self._log_state.append(batch)
        else:
            self._behind_snapshot.append(batch)

    def on_commit(self, message: Commit) -> None:
        """Remember a commit for later, but put its membership changes into force at once.

        The leader is established, but this server has not acknowledged NEWLEADER yet.
        """
        self._log_state.note_decided(message.zxid)
        self._commit_seen = max(self._commit_seen, message.zxid)

    # -- the snapshot --------------------------------------------------------------------------------

    def _on_snap_begin(self, message: SnapBegin) -> None:
        self._require_history(message)
        if self._snapshot is not None or self._received is not None:
            raise RemoteProtocolError("a second snapshot in one synchronization")
        self._snapshot = (message.zxid, message.digest)
        self._log_state.partial.begin(message.zxid)

    def _on_snap_resume(self, message: SnapResume) -> None:
        """Resume the part of a snapshot on the disk: the leader has a file with the same beginning.

        The part on the disk and the chunks that follow equal that file, so `message.digest` holds for the whole
        snapshot.
        """
        self._require_history(message)
        held = self._offered
        if self._snapshot is not None or self._received is not None:
            raise RemoteProtocolError("a second snapshot in one synchronization")
        if held is None or (message.zxid, message.size) != (held.zxid, held.size):
            raise RemoteProtocolError(f"SnapResume at {show(message.zxid)}, but this server holds no such part")
        self._snapshot = (message.zxid, message.digest)
        self._log_state.partial.resume(held)
        self._sync_progress, self._resumed = None, (held.size, message.total)
        leader, zxid = self._role.leader, show(message.zxid)
        self._out.note("snapshot_resumed", leader=leader, zxid=zxid, resumes_at=held.size, of=message.total)

    def _on_snap_chunk(self, message: SnapChunk) -> None:
        if self._snapshot is None:
            raise RemoteProtocolError("a snapshot chunk without a snapshot")
        self._log_state.partial.append(message.data)

    def _on_snap_end(self, message: SnapEnd) -> None:
        if self._snapshot is None:
            raise RemoteProtocolError("the end of a snapshot that never began")
        self._received, self._snapshot = self._snapshot, None
        self._out.note("snapshot_received", zxid=show(self._received[0]))

    def _install(self) -> None:
        """Install the received snapshot, if any, and append the batches after it.

        Call it only once NEWLEADER has brought the membership: a snapshot replaces the transactions that changed it. A
        server with the new state and the old membership could help to elect a server that is not a member any more.
        """
        if self._received is None:
            return
        log_state, common = self._log_state, self._common_after_snapshot()
        if common is None:
            log_state.install_snapshot(*self._received)
            common = self._received[0]
        else:
            log_state.partial.discard()
            log_state.truncate(common)
        for batch in self._behind_snapshot:
            if batch.last > common:
                log_state.append(batch.after(common))
        self._received = None
        self._behind_snapshot = []

    def _common_after_snapshot(self) -> Zxid | None:
        """Return the newest common zxid if the received snapshot is older than it, or None to install the snapshot.

        With `diff_after_trunc` off, a leader that is not established yet may send the state before its undecided
        history, and this history after it. If this server replaced its own history by that state, and crashed before
        it had logged the rest, transactions would be lost that a quorum may have committed with its acknowledgement. So
        it keeps them, and truncates only what the leader lacks.
        """
        assert self._received is not None
        log_state, history = self._log_state, self._log_state.history
        zxid, digest = self._received
        if log_state.settings.diff_after_trunc or not log_state.whole or zxid >= history.last:
            return None
        common = history.floor(zxid)  # None if the outline begins later
        if common is not None and (common != zxid or contradict(history.digest_at(zxid), digest)):
            return None
        for batch in self._behind_snapshot:
            mine = history.floor(batch.last)
            if mine is None:
                continue
            if mine >= batch.first:
                common = mine
            if mine < batch.last:
                break
        return common

    # -- the epoch -----------------------------------------------------------------------------------

    def _on_new_leader(self, message: NewLeader) -> None:
        """Adopt the membership, a received snapshot with the batches after it, and the epoch, in this order.

        A membership whose version has a counter above 0 is in force at the leader already. It is activated before the
        snapshot is installed, because the snapshot may have replaced the transaction that would activate it. A first
        version (counter 0) comes into force when its epoch is established, that is at UPTODATE.

        A leader of ZooKeeper sends the last membership of its log, which may be undecided. So with
        `open_before_new_leader` off, a change that the history brings is not activated before UPTODATE. Until then it
        is pending, and this server acknowledges no proposal after it.

        The leader may lack a change of the membership that is in force here, if a majority of the disks lost their
        data. Then this server vetoes if its history contains the change; otherwise it takes the leader's membership.

        The order of the steps must not change. The membership enters the disk queue before the snapshot, which replaces
        the transactions that led to it. The current epoch follows both: with a new epoch and an old history, this
        server could win an election and make others truncate committed transactions. `save_epochs` comes last, so its
        ticket covers all of these writes.
        """
        self._require_history(message)
        if message.epoch != self._epoch:
            raise RemoteProtocolError(f"NewLeader({message.epoch}), but epoch {self._epoch} was promised")
        if self._snapshot is not None:
            raise RemoteProtocolError("NEWLEADER before the end of a snapshot")
        log_state, version = self._log_state, self._log_state.ensemble.version
        ensemble = log_state.without_first_version(message.ensemble)
        lacks_membership = self._is_lacking(version, ensemble)
        if self._received is not None:
            behind = self._behind_snapshot
            ends = behind[-1].last if behind else self._received[0]
            if lacks_membership and counter_of(version):
                # The change at `version` is committed and missing in the leader's history, even if that history ends
                # with a greater zxid. So the two histories agree at most up to the zxid before the change.
                ends = min(ends, Zxid(version - 1))
            kept = self._common_after_snapshot()
            if kept is not None:
                ends = min(ends, kept)
            if ends < log_state.known:
                common = log_state.history.floor(ends)
                self._refuse(NOTHING if common is None else common, "asked to replace committed transactions")
                return
        else:
            log_state.partial.drop()
        self._membership = ensemble
        if lacks_membership:
            log_state.drop_membership(ensemble)
        if counter_of(ensemble.version) and not self._brings_undecided(ensemble.version):
            log_state.activate(ensemble)
        self._install()
        log_state.current = message.epoch
        log_state.whole = True
        self._brought = max(ensemble.version, log_state.history.last)
        self._acked = log_state.history.last
        self._adoption = log_state.save_epochs()
        self.receiving = False

    def _brings_undecided(self, version: Zxid) -> bool:
        """Return whether the history contains the change of this version, which the leader may not have decided yet."""
        log_state = self._log_state
        if log_state.settings.open_before_new_leader:
            return False
        keeps_history = self._received is None or self._common_after_snapshot() is not None
        changes = [config.version for config in log_state.history.configs] if keeps_history else []
        return version in changes or any(batch.first == version for batch in self._behind_snapshot)

    def _is_lacking(self, version: Zxid, leaders: Ensemble) -> bool:
        """Return whether the leader's history lacks the membership of this version."""
        if version <= leaders.version:
            return False
        if self._received is None:
            return self._log_state.history.floor(version) != version
        return all(batch.first != version for batch in self._behind_snapshot)

    def _acknowledge(self, ticket: Ticket) -> None:
        """Acknowledge NEWLEADER: history and epoch are durable."""
        assert self._membership is not None
        state = self._epoch, self._membership, self._brought, self._acked, self._commit_seen
        acknowledged = LearnerAcknowledged(self._role, *state)
        self._role.enter(acknowledged)
        self._out.send(self._role.leader, AckNewLeader(self._epoch))
        acknowledged.saved(ticket, True)  # acknowledges later proposals that are durable already

    def _require_history(self, message: object) -> None:
        """Raise RemoteProtocolError if NEWLEADER has already ended the leader's history."""
        if self._adoption is not None:
            raise RemoteProtocolError(f"{type(message).__name__} in {self.name}, after NEWLEADER")

    HANDLERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        Diff: _on_diff,
        Trunc: _on_trunc,
        SnapBegin: _on_snap_begin,
        SnapResume: _on_snap_resume,
        SnapChunk: _on_snap_chunk,
        SnapEnd: _on_snap_end,
        NewLeader: _on_new_leader,
        Propose: on_propose,
        Commit: on_commit,
    }
