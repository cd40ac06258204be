"""Following: promise an epoch, take over the leader's history, then log, acknowledge and apply what it sends.

The order of the acts at NEWLEADER is the place where most data was ever lost. Here it cannot be got wrong:
every write goes to the disk in the order in which it was decided, the epoch is handed over behind the
history, and the acknowledgement does not exist before the disk has reported the epoch durable.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import RemoteProtocolError
from zab.core.log_state import LogState
from zab.core.messages import (
    ALIVE,
    RESUMES,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    Inform,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    Ping,
    Pong,
    Propose,
    SnapBegin,
    SnapChunk,
    SnapEnd,
    SnapHeld,
    SnapResume,
    Trunc,
    UpToDate,
    Veto,
)
from zab.core.ready import BarrierDone, Dial, HangUp
from zab.core.zxid import NOTHING, Epoch, Millis, ServerId, Ticket, Zxid, counter_of, epoch_of, show

DIAL_ATTEMPTS: Final = 5


class Phase(Enum):
    DIALLING = "dialling"
    DISCOVERY = "discovery"
    SYNCHRONIZATION = "synchronization"
    ACKNOWLEDGED = "acknowledged"
    BROADCAST = "broadcast"


# A member of an enum is looked up slowly, and these with every word that is heard.
_DIALLING: Final = Phase.DIALLING
_DISCOVERY: Final = Phase.DISCOVERY
_SYNCHRONIZATION: Final = Phase.SYNCHRONIZATION
_ACKNOWLEDGED: Final = Phase.ACKNOWLEDGED
_BROADCAST: Final = Phase.BROADCAST


class Learner:
    """One attempt to follow one leader. When `over` is set, the attempt has ended and says why."""

    def __init__(self, log_state: LogState, leader: ServerId, now: Millis, observer: bool) -> None:
        self.leader = leader
        self.observer = observer
        self.phase = _DIALLING
        self.over: str | None = None
        self.veto: Veto | None = None
        """Why this server keeps its history and leaves the leader, if it does."""
        self.designated: ServerId | None = None
        self._log_state = log_state
        self._out = log_state.out
        self._epoch: Epoch | None = None
        self._ensemble: Ensemble | None = None
        self._promise: tuple[Ticket, bool] | None = None
        self._adoption: Ticket | None = None
        self._snapshot: tuple[Zxid, int] | None = None
        self._received: tuple[Zxid, int] | None = None
        self._resumes = False
        """The leader can send the rest of a snapshot."""
        self._offered: SnapHeld | None = None
        """What the leader was told on this link that the disk has of one."""
        self._behind_snapshot: list[Batch] = []
        self._commit_seen = NOTHING
        self._acked = NOTHING
        self._began_at: Zxid | None = None
        """Where my history ended when the leader's began to come behind it."""
        self._brought = NOTHING
        """Where the history ended that came before NEWLEADER, or the membership that came with it."""
        self._serve_from = NOTHING
        self._attempts = 0
        self._redial_at: Millis | None = None
        self._dialled = False
        self._linked = False
        self._linked_at = now
        self._init_ms, self._sync_ms = log_state.settings.init_ms, log_state.settings.sync_ms
        self._silent_until = now + self._init_ms
        self._alive_ms = max(1, log_state.settings.tick_ms // 2)
        self._alive_at = now
        """When the next report of progress to the leader is due, if there is progress by then."""
        self._progressed = False
        self._moved = 0
        self._barriers: dict[int, tuple[int, Zxid | None]] = {}
        self._barrier_number = 0
        self._dial()

    @property
    def serving(self) -> bool:
        return self.phase is _BROADCAST and self._log_state.applied >= self._serve_from

    @property
    def deadline(self) -> Millis:
        if self.phase is _SYNCHRONIZATION:
            return min(self._alive_at, self._silent_until)
        return self._silent_until if self._redial_at is None else min(self._redial_at, self._silent_until)

    # -- the link ----------------------------------------------------------------------------------

    def _dial(self) -> None:
        self._attempts += 1
        self._dialled = True
        self._redial_at = None
        self._out.links.append(Dial(self.leader))

    def link_up(self, now: Millis) -> None:
        log_state = self._log_state
        self._linked = True
        self._linked_at = now
        self._redial_at = None
        self.phase = _DISCOVERY
        self._silent_until = now + log_state.settings.init_ms
        self._resumes = False
        if log_state.holds:
            self._out.send(self.leader, ALIVE)
        self._out.send(self.leader, FollowerInfo(log_state.accepted, log_state.ensemble.version, self.observer))

    def link_down(self, now: Millis) -> None:
        was = self.phase
        self._dialled = self._linked = False
        if self._attempts < DIAL_ATTEMPTS and was in (_DIALLING, _DISCOVERY) and self._epoch is None:
            # The elected may not know yet that it is: it decides at its own time.
            self.phase = _DIALLING
            self._redial_at = now + self._log_state.settings.dial_retry_ms
        else:
            self.over = f"link to leader {self.leader} lost in {was.value}"

    def leave(self) -> None:
        """Structured: nothing of this attempt outlives it, but what the disk was handed."""
        self._log_state.keep_snapshot()
        if self._dialled:
            self._out.links.append(HangUp(self.leader, dialled=True))
        for token, _ in self._barriers.values():
            self._out.barriers.append(BarrierDone(token, None))
        self._barriers.clear()

    # -- inputs ------------------------------------------------------------------------------------

    def handle(self, source: ServerId, message: object, now: Millis) -> None:
        handler = self._HANDLERS.get(type(message))
        if handler is None or source != self.leader or not self._linked:
            self._out.note("ignored", "debug", source=source, message=type(message).__name__)
            return
        if self.phase is _BROADCAST or self.phase is _ACKNOWLEDGED:
            self._silent_until = now + self._sync_ms
        else:
            self._silent_until = now + self._init_ms
            self._progressed = self._progressed or self._adoption is None
        handler(self, message)

    def progress(self, source: ServerId, moved: int, now: Millis) -> None:
        """Take the bytes that the link from the leader has received so far. More than before is progress.

        Once NEWLEADER has arrived only the disk can make progress: pings arrive however long it hangs.
        """
        if source == self.leader and moved > self._moved:
            self._moved = moved
            self._progressed = self._progressed or self._adoption is None

    def tick(self, now: Millis) -> None:
        if self._redial_at is not None and now >= self._redial_at:
            self._dial()
        if self.phase is _SYNCHRONIZATION and now >= self._alive_at:
            self._alive_at = now + self._alive_ms
            if self._progressed:
                self._progressed = False
                self._silent_until = now + self._init_ms
                self._out.send(self.leader, ALIVE)
        if now >= self._silent_until:
            self.over = self._why_silent(now)

    def _why_silent(self, now: Millis) -> str:
        said = f"nothing from leader {self.leader} in {self.phase.value}"
        if self.phase is not _SYNCHRONIZATION:
            return said
        took = max(1, now - self._linked_at)
        return (
            f"{said} for {self._init_ms} ms, the limit of init_limit * tick_ms; "
            f"it took {self._moved} bytes in {took} ms, {self._moved * 1_000 // took} bytes/s"
        )

    def saved(self, ticket: Ticket, grew: bool) -> None:
        self._progressed = True
        if self._promise is not None and ticket >= self._promise[0]:
            counts = self._promise[1]
            self._promise = None
            self._ack_epoch(counts)
        if self._adoption is not None and ticket >= self._adoption:
            self._adoption = None
            self._adopted()
        if grew:
            self._ack()

    def barrier(self, token: int) -> None:
        if not self.serving:
            self._out.barriers.append(BarrierDone(token, None))
            return
        self._barrier_number += 1
        self._barriers[self._barrier_number] = (token, None)
        self._out.send(self.leader, BarrierRequest(self._barrier_number))

    def flush(self) -> None:
        """Answer the barriers whose zxid has been applied."""
        if not self._barriers:
            return
        applied = self._log_state.applied
        for number, (token, zxid) in list(self._barriers.items()):
            if zxid is not None and applied >= zxid:
                del self._barriers[number]
                self._out.barriers.append(BarrierDone(token, zxid))

    # -- discovery ---------------------------------------------------------------------------------

    def _on_leader_info(self, message: LeaderInfo) -> None:
        log_state = self._log_state
        self._require(_DISCOVERY, message)
        if self._epoch is not None:
            raise RemoteProtocolError("a second LeaderInfo on one link")
        if message.epoch < log_state.accepted:
            self.over = (
                f"leader {self.leader} proposes epoch {message.epoch}; {log_state.accepted} was promised already"
            )
            return
        # A promise repeated may have been given to somebody else the first time: it must not be counted twice.
        counts = message.epoch > log_state.accepted and not log_state.forgotten
        self._epoch = message.epoch
        log_state.accepted = message.epoch
        self._promise = (log_state.save_epochs(), counts)

    def _ack_epoch(self, counts: bool) -> None:
        log_state = self._log_state
        digest = log_state.history.digest_at(log_state.history.last)
        assert digest is not None, "the end of the history is in memory"
        if self._resumes and log_state.held is not None:
            self._offered = log_state.held
            self._out.send(self.leader, self._offered)
        self._out.send(self.leader, AckEpoch(log_state.epoch, log_state.last, digest, counts, log_state.forgotten))
        self.phase = _SYNCHRONIZATION
        self._progressed = False

    # -- synchronization ---------------------------------------------------------------------------

    def _on_diff(self, message: Diff) -> None:
        self._require(_SYNCHRONIZATION, message)
        if message.common != self._log_state.history.last:
            raise RemoteProtocolError(f"a DIFF from {show(message.common)}, but my history ends elsewhere")
        self._agree(message.common, message.digest)

    def _on_trunc(self, message: Trunc) -> None:
        self._require(_SYNCHRONIZATION, message)
        log_state = self._log_state
        if message.common > log_state.history.last:
            raise RemoteProtocolError(f"a TRUNC to {show(message.common)}, but my history ends before")
        if message.common < log_state.known:
            self._keep(message.common, "asked to truncate what was committed")
            return
        self._agree(message.common, message.digest)
        if self.over is None:
            if log_state.durable > message.common:
                last = log_state.history.last
                count = log_state.history.entries_between(message.common, last)
                self._out.note(
                    "truncated", "warning", leader=self.leader, **{"from": show(last), "to": show(message.common)},
                    count=count, why="the leader lacks them; what was durable here may have been acknowledged"
                )  # fmt: skip
            log_state.truncate(message.common)

    def _keep(self, common: Zxid, why: str) -> None:
        """Leave a leader whose history agrees with mine up to `common` at most, though mine is committed beyond it.

        Every leader has what was committed, unless a majority of the disks lost what was on them. Then an operator
        has to decide which history goes on: this server vetoes, or gives its own up if the settings say so.
        """
        log_state, history = self._log_state, self._log_state.history
        self.over = why
        assert self._epoch is not None
        count = history.entries_between(common, history.last)
        veto = Veto(self.leader, self._epoch, common, log_state.known, history.last, count)
        if not log_state.settings.veto_lost_history:
            log_state.give_up(veto)
            return
        self.veto = veto
        self._out.send(self.leader, veto)
        self._out.note(
            "vetoes",
            "warning",
            leader=self.leader,
            common=show(common),
            committed=show(veto.committed),
            last=show(veto.last),
            count=count,
            why=f"{veto.text()}; this server keeps them and does not follow until an operator decides: give them up by "
            f"the admin command give_up_history or, on the stopped server's directory, by zab log give-up; or keep "
            f"them: stop the others, empty their directories, and start them beside this server",
        )

    def _agree(self, common: Zxid, digest: int | None) -> None:
        """Where both are said to agree, the numbers must agree, and the contents, too."""
        log_state, history = self._log_state, self._log_state.history
        why = "my history and the leader's have diverged"
        if history.floor(common) != common:
            said = f"I do not have {show(common)}, which the leader takes for common"
        else:
            mine = history.digest_at(common)
            if digest is None or mine is None or mine == digest:
                self._began_at = common if self._began_at is None else self._began_at
                return
            said = f"digest at {show(common)} is {mine:08x}, the leader's {digest:08x}"
        if self._began_at is not None and self._began_at < history.last:
            log_state.truncate(self._began_at)  # what has come from this leader meanwhile does not belong there
        if log_state.known == NOTHING:
            log_state.distrust(said)
            self.over = why
        else:
            self._keep(NOTHING, why)

    def _on_snap_begin(self, message: SnapBegin) -> None:
        self._require(_SYNCHRONIZATION, message)
        if self._snapshot is not None or self._received is not None:
            raise RemoteProtocolError("a snapshot within or behind a snapshot")
        self._snapshot = (message.zxid, message.digest)
        self._log_state.begin_snapshot(message.zxid)

    def _on_snap_resume(self, message: SnapResume) -> None:
        """Go on with what the disk holds of a snapshot: the leader has a file with the same beginning.

        So what will be installed is that file, and its digest is the leader's to tell.
        """
        self._require(_SYNCHRONIZATION, message)
        held = self._offered
        if self._snapshot is not None or self._received is not None:
            raise RemoteProtocolError("a snapshot within or behind a snapshot")
        if held is None or (message.zxid, message.size) != (held.zxid, held.size):
            raise RemoteProtocolError(f"the rest of a snapshot at {show(message.zxid)} that is not held here")
        self._snapshot = (message.zxid, message.digest)
        self._log_state.resume_snapshot(held)
        zxid, total = show(message.zxid), message.total
        self._out.note("snapshot_resumed", leader=self.leader, zxid=zxid, resumes_at=held.size, of=total)

    def _on_snap_chunk(self, message: SnapChunk) -> None:
        if self._snapshot is None:
            raise RemoteProtocolError("a snapshot chunk without a snapshot")
        self._log_state.snapshot_chunk(message.data)

    def _on_snap_end(self, message: SnapEnd) -> None:
        if self._snapshot is None:
            raise RemoteProtocolError("the end of a snapshot that never began")
        self._received, self._snapshot = self._snapshot, None
        self._out.note("snapshot_received", zxid=show(self._received[0]))

    def _install(self) -> None:
        """Not before NEWLEADER has told which membership is in force, because a snapshot hides how it came to be.

        A server that went on with the new state and the old membership could help to elect somebody whom the
        members of today have never heard of.
        """
        if self._received is None:
            return
        self._log_state.install_snapshot(*self._received)
        for batch in self._behind_snapshot:
            self._log_state.append(batch)
        self._received = None
        self._behind_snapshot = []

    def _on_new_leader(self, message: NewLeader) -> None:
        self._require(_SYNCHRONIZATION, message)
        if message.epoch != self._epoch or self._snapshot is not None:
            raise RemoteProtocolError(f"NewLeader({message.epoch}) where {self._epoch} was promised, or in a snapshot")
        log_state = self._log_state
        if self._received is not None:
            behind = self._behind_snapshot
            ends = behind[-1].last if behind else self._received[0]
            if ends < log_state.known:
                common = log_state.history.floor(ends)
                self._keep(NOTHING if common is None else common, "asked to replace what was committed")
                return
        else:
            log_state.drop_held()
        self._ensemble = message.ensemble
        if counter_of(message.ensemble.version):
            # In force already. A snapshot may have taken the place of the transaction that would tell me so later.
            # (A first version is not in force before the epoch that gives it is established: see UPTODATE.)
            log_state.activate(message.ensemble)
        self._install()
        log_state.current = message.epoch
        log_state.whole = True
        self._brought = max(message.ensemble.version, log_state.history.last)
        self._acked = log_state.history.last  # the acknowledgement of the epoch is one of all this, too
        self._adoption = log_state.save_epochs()  # behind all of the history: the disk keeps the order

    def _adopted(self) -> None:
        """History and epoch are durable: only now may the leader hear of it."""
        assert self._epoch is not None
        self.phase = _ACKNOWLEDGED
        self._out.send(self.leader, AckNewLeader(self._epoch))
        self._ack()

    def _on_up_to_date(self, message: UpToDate) -> None:
        self._require(_ACKNOWLEDGED, message)
        assert self._ensemble is not None
        self.phase = _BROADCAST
        self._serve_from = message.committed
        self._log_state.activate(self._ensemble)
        self._log_state.commit(max(message.committed, self._commit_seen))
        self._check_readmission()
        self._check_role()
        self._out.note("up_to_date", leader=self.leader, epoch=self._epoch, committed=show(message.committed))

    # -- broadcast ---------------------------------------------------------------------------------

    def _on_propose(self, message: Propose) -> None:
        self._log(message.batch)

    def _log(self, batch: Batch) -> None:
        if self.phase in (_DIALLING, _DISCOVERY) or self._snapshot is not None:
            raise RemoteProtocolError(f"a transaction in {self.phase.value}")
        assert self._epoch is not None
        begun = self._ensemble is not None
        epoch = epoch_of(batch.first)
        if epoch > self._epoch or (begun and epoch != self._epoch):
            raise RemoteProtocolError(f"{show(batch.first)} does not belong into epoch {self._epoch}")
        if self._received is None:
            self._log_state.append(batch)
        else:
            self._behind_snapshot.append(batch)

    def _ack(self) -> None:
        """One Ack for all that one fsync made durable."""
        durable = self._log_state.durable
        if self.phase in (_ACKNOWLEDGED, _BROADCAST) and durable > self._acked and not self.observer:
            self._acked = durable
            self._out.send(self.leader, Ack(durable))

    def _on_commit(self, message: Commit) -> None:
        if self.phase is _BROADCAST:
            self._log_state.commit(message.zxid)
            self._check_readmission()
        elif message.zxid <= self._log_state.history.last:
            # Between NEWLEADER and UPTODATE: it is true, but not yet for me to act upon.
            self._commit_seen = max(self._commit_seen, message.zxid)
            # But before I acknowledge what is proposed behind a change, I know that the change is in force.
            self._log_state.activate_decided(message.zxid)
        else:
            raise RemoteProtocolError(f"{show(message.zxid)} was committed, but never proposed to me")

    def _on_commit_and_activate(self, message: CommitAndActivate) -> None:
        self._on_commit(Commit(message.zxid))
        self._check_role()
        self._designate(message.designated)

    def _on_inform(self, message: Inform) -> None:
        self._log(message.batch)
        self._on_commit(Commit(message.batch.last))

    def _on_inform_and_activate(self, message: InformAndActivate) -> None:
        self._on_inform(Inform(message.batch))
        self._check_role()
        self._designate(message.designated)

    def _check_readmission(self) -> None:
        """A membership proposed after I was healed, and decided without me, voids whatever I once promised.

        A candidate that still holds such a promise needs for its quorum somebody who has that membership in
        its history. It cannot lead over a history newer than its own, so it gives up. One that came with my history may
        be in the candidate's, too; and an observer is not sent all that has been proposed when it is healed.
        """
        log_state = self._log_state
        if log_state.forgotten and log_state.ensemble.version > self._brought and not self.observer:
            log_state.forgotten = False
            log_state.save_epochs()
            self._out.note("readmitted", version=show(log_state.ensemble.version))

    def _check_role(self) -> None:
        """A change of my own role takes a new link: the leader treats observers and voters differently."""
        if self.phase is _BROADCAST and self._log_state.observer != self.observer and self.over is None:
            self.over = "my role has changed"
            self.designated = self.leader

    def _designate(self, designated: ServerId) -> None:
        if designated != self.leader:
            self.over = f"leadership passes to {designated}"
            self.designated = designated

    def _on_ping(self, message: Ping) -> None:
        self._out.send(self.leader, Pong(message.number))

    def _on_barrier_reply(self, message: BarrierReply) -> None:
        if message == RESUMES:
            self._resumes = True
            return
        known = self._barriers.get(message.number)
        if known is not None:
            self._barriers[message.number] = (known[0], message.zxid)

    def _require(self, phase: Phase, message: object) -> None:
        if self.phase is not phase or self._adoption is not None:
            raise RemoteProtocolError(f"{type(message).__name__} in {self.phase.value}")

    _HANDLERS: Final[dict[type, Callable[[Any, Any], None]]] = {
        LeaderInfo: _on_leader_info,
        Diff: _on_diff,
        Trunc: _on_trunc,
        SnapBegin: _on_snap_begin,
        SnapChunk: _on_snap_chunk,
        SnapResume: _on_snap_resume,
        SnapEnd: _on_snap_end,
        NewLeader: _on_new_leader,
        UpToDate: _on_up_to_date,
        Propose: _on_propose,
        Commit: _on_commit,
        CommitAndActivate: _on_commit_and_activate,
        Inform: _on_inform,
        InformAndActivate: _on_inform_and_activate,
        Ping: _on_ping,
        BarrierReply: _on_barrier_reply,
    }
