"""The role of a leader: its links, its current phase, and the end of its attempt to lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from zab.core.ensemble import Ensemble
from zab.core.errors import NotLeader, RemoteProtocolError
from zab.core.leader.barriers import Barriers
from zab.core.leader.leader_discovery import LeaderDiscovery
from zab.core.leader.leader_phase import LeaderPhase
from zab.core.leader.leader_quorums import LeaderQuorums
from zab.core.leader.learner_handshake import LearnerHandshake
from zab.core.leader.learner_state import LearnerState, LearnerStep
from zab.core.log_state import LogState
from zab.core.messages import ALIVE, TO_LEADER, AckEpoch, AckNewLeader, FollowerInfo, Pong, SnapHeld, Veto
from zab.core.plurals import counted
from zab.core.ready import BarrierDone, FindSnapshot, FoundSnapshot, HangUp
from zab.core.zxid import UNKNOWN, Epoch, Millis, ServerId, Ticket, Zxid, epoch_of, show


class Leader:
    """One attempt to lead. The leader counts itself for a write only once its own disk has reported that write."""

    phase: LeaderPhase
    """The current phase: discovery, then synchronization, then broadcast; never back."""

    def __init__(self, log_state: LogState, now: Millis) -> None:
        self.log_state = log_state
        self.over: str | None = None
        """The reason why the attempt has ended, or None. Once it is set, the node leaves the role at once."""
        self.designated: ServerId | None = None
        """The server to lead next, if that is decided. Set with `over`."""
        self.learners: dict[ServerId, LearnerState] = {}
        """The learners whose links are up."""
        self.quorums = LeaderQuorums(log_state, self.learners)
        self.handshake = LearnerHandshake(log_state)
        self.barriers = Barriers(log_state, self.learners, self.quorums)
        self._out = log_state.out
        self._settings = log_state.settings
        self._sync_ms = log_state.settings.sync_ms
        self._vote = log_state.epoch, log_state.last
        """`LogState.epoch` and `LogState.last` when the attempt began, to compare with the learners' histories."""
        self._tick_at = now + self._settings.tick_ms // 2
        """The time of the next periodic ping and check of time limits. Barriers send further pings."""
        self._odd_tick = False
        """Toggled whenever `_tick_at` is reached. When it becomes False, the phase's `check_quorum` is called."""
        self.enter(LeaderDiscovery(self, now))

    @property
    def epoch(self) -> Epoch | None:
        return self.phase.epoch

    @property
    def serving(self) -> bool:
        return self.phase.serving

    @property
    def synced(self) -> tuple[ServerId, ...]:
        """The learners that have acknowledged NEWLEADER, in the order of their ids."""
        return tuple(sorted(sid for sid, each in self.learners.items() if each.step is LearnerStep.SYNCED))

    @property
    def deadline(self) -> Millis:
        tick_at, until = self._tick_at, self.phase.until
        return tick_at if tick_at < until else until

    def enter(self, phase: LeaderPhase) -> None:
        self.phase = phase

    def end(self, why: str, designated: ServerId | None = None) -> None:
        self.over, self.designated = why, designated

    # -- links -------------------------------------------------------------------------------------

    def link_up(self, source: ServerId, now: Millis) -> None:
        # If this link replaces an older one, drop the state of the older one: its barriers, and the disk's answers to
        # questions asked for it, must not count for the new link.
        self.link_down(source, now)
        self.learners[source] = LearnerState(source, now + self._settings.init_ms + self._sync_ms)

    def link_down(self, source: ServerId, now: Millis) -> None:
        self.learners.pop(source, None)
        self.barriers.forget(source)

    def hang_up(self, source: ServerId, why: str) -> None:
        self._out.note("learner_dropped", peer=source, why=why)
        self._out.links.append(HangUp(source, dialled=False))
        self.learners.pop(source, None)
        self.barriers.forget(source)

    def leave(self) -> None:
        """Hang up on all learners and end all barriers, because this attempt to lead is over."""
        for sid in self.learners:
            self._out.links.append(HangUp(sid, dialled=False))
        self.learners.clear()
        self.barriers.give_up()

    # -- inputs ------------------------------------------------------------------------------------

    def handle(self, source: ServerId, message: object, now: Millis) -> None:
        """Handle a message from a learner with the current phase's handler, or else with the one that all phases share.

        Without a handler, a message of a type that learners send to leaders raises `RemoteProtocolError`, and any other
        is ignored. Every message from a server without a link is ignored.
        """
        kind = type(message)
        learner = self.learners.get(source)
        taker: Leader | LeaderPhase = self.phase
        handler = taker.HANDLERS.get(kind)
        if handler is None:
            taker, handler = self, self.HANDLERS.get(kind)
        if learner is None or (handler is None and kind not in TO_LEADER):
            self._out.note("ignored", "debug", source=source, message=kind.__name__)
            return
        if handler is None:
            raise RemoteProtocolError(f"{kind.__name__} is not allowed in {self.phase.name}")
        until = now + self._sync_ms
        if until > learner.silent_until:
            learner.silent_until = until
        handler(taker, learner, message, now)

    def saved(self, ticket: Ticket, grew: bool, now: Millis) -> None:
        self.phase.saved(ticket, grew, now)

    def found(self, question: FindSnapshot, found: FoundSnapshot | None) -> None:
        """Take the disk's answer to a question of this leader."""
        learner = self.learners.get(question.peer)
        if learner is not None:
            self.handshake.take_found(learner, question, found)

    def progress(self, source: ServerId, moved: int, now: Millis) -> None:
        """Record the bytes of a synchronization that a link has sent so far. Newly sent bytes are progress."""
        learner = self.learners.get(source)
        if learner is not None and moved > learner.moved:
            learner.moved = moved
            self._progressed(learner, now)
            sync = learner.sync_progress
            if learner.step is LearnerStep.SYNCHRONIZING and sync is not None and (fields := sync.fields(moved, now)):
                self._out.note("synchronizing", peer=source, **fields)

    def tick(self, now: Millis) -> None:
        if now >= self.phase.until:
            self.end(f"no quorum in {self.phase.name}")
            return
        if now < self._tick_at:
            return
        self._tick_at = now + max(1, self._settings.tick_ms // 2)
        self._odd_tick = not self._odd_tick
        self.barriers.send_pings()
        for learner in list(self.learners.values()):
            behind = learner.behind
            if now >= learner.silent_until:
                self.hang_up(learner.sid, self._why_silent(learner, now))
            elif behind is not None and now - behind[1] > self._sync_ms:
                self.hang_up(
                    learner.sid,
                    f"has not acknowledged {show(behind[0])} within {self._sync_ms} ms, the limit of sync_limit * "
                    "tick_ms",
                )
        if not self._odd_tick:
            self.phase.check_quorum()

    def _why_silent(self, learner: LearnerState, now: Millis) -> str:
        if learner.step is not LearnerStep.SYNCHRONIZING:
            return f"sent nothing for at least {self._sync_ms} ms (sync_limit * tick_ms)"
        settings, took = self._settings, max(1, now - learner.sync_began)
        return (
            f"its synchronization made no progress for {settings.init_ms + settings.sync_ms} ms, the limit of "
            f"(init_limit + sync_limit) * tick_ms; {learner.moved} bytes were sent in {took} ms, "
            f"{learner.moved * 1_000 // took} bytes/s"
        )

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        return self._open_phase().propose(payloads, now)

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = b"") -> Zxid:
        return self._open_phase().reconfigure(ensemble, expect, now, attached)

    def _open_phase(self) -> LeaderPhase:
        if self.over is not None:
            raise NotLeader("this server is not an established leader")
        return self.phase

    def barrier(self, token: int) -> None:
        if not self.phase.serving or self.over is not None:
            self._out.barriers.append(BarrierDone(token, None))
            return
        self.barriers.ask(self.log_state.me, token)

    def flush(self, now: Millis) -> None:
        """Complete the effects of a Ready.

        Begin the waiting synchronizations, let the phase act, ping for new barriers, and answer barriers that are due.
        """
        phase, handshake = self.phase, self.handshake
        if handshake.has_waiting and phase.synchronizes:
            assert phase.epoch is not None
            handshake.synchronize_waiting(self.learners.values(), phase.epoch, phase.membership(), now)
        if self.over is None:
            phase.flush(now)
        self.barriers.ask_all()

    # -- the handshake with each learner, the same in every phase --------------------------------------

    def _on_follower_info(self, learner: LearnerState, message: FollowerInfo, now: Millis) -> None:
        """Accept a learner, unless its promised epoch or its membership is too new.

        Once this leader has chosen its epoch, a member that has promised a newer epoch can never follow it, but a
        quorum may need that member. So the attempt to lead ends, and the next leader chooses a still newer epoch. A
        membership whose version has a newer epoch proves that a newer epoch was promised.

        A learner with a newer membership is refused until the initial history is decided. From then on, the initial
        history contains every membership that was in force before the epoch, unless a majority of the disks lost their
        data. In that case the learner must compare the histories and can veto, so it is accepted, unless it has
        promised a newer epoch.
        """
        learner.require(LearnerStep.CONNECTED, message)
        log_state, phase, membership = self.log_state, self.phase, message.ensemble_version
        promised = max(message.accepted_epoch, epoch_of(membership))
        log_state.newest_promise = max(log_state.newest_promise, promised)
        if phase.epoch is not None and promised > phase.epoch and any(learner.sid in v.by_id for v in log_state.views):
            self.end(f"server {learner.sid} has a promise or a membership of the newer epoch {promised}")
            return
        version = max(view.version for view in (*log_state.views, phase.membership()))
        if membership > version and not (phase.decided and promised <= (phase.epoch or 0)):
            self.hang_up(learner.sid, f"has a newer membership, of version {show(membership)}")
            return
        learner.step = LearnerStep.INTRODUCED
        learner.info, learner.observer = message, message.observer
        phase.introduced(learner, now)

    def _on_snap_held(self, learner: LearnerState, message: SnapHeld, now: Millis) -> None:
        self.handshake.take_held(learner, message)

    def _on_ack_epoch(self, learner: LearnerState, message: AckEpoch, now: Millis) -> None:
        """Take a promise, or end the attempt to lead if the learner has a newer history that may be committed.

        A leader must have the newest history of a quorum (Zab, discovery). A learner ends the attempt only if its
        promise counts, or if it can have lost neither promises nor history.

        Once a quorum has adopted the initial history, older transactions outside of it cannot be committed, unless
        disks were lost. From then on a newer history does not end the attempt. The leader only logs that it overrules
        the learner, if the promise counts and the learner's current epoch is newer than the one in `_vote`.
        """
        learner.require(LearnerStep.ASKED, message)
        theirs = message.current_epoch, message.last
        if theirs > self._vote and self.quorums.may_know_more(learner):
            known = message.counts or (message.last != UNKNOWN and not message.forgotten)
            if known and not self.phase.decided:
                self.end(
                    f"server {learner.sid} has a newer history: epoch {message.current_epoch}, last zxid "
                    f"{show(message.last)}"
                )
                return
            if message.counts and message.current_epoch > self._vote[0]:
                self._out.note(
                    "overrules",
                    "warning",
                    peer=learner.sid,
                    theirs=f"{message.current_epoch}:{show(message.last)}",
                    mine=f"{self._vote[0]}:{show(self._vote[1])}",
                    why="this epoch began with an older history; were the disks of a majority lost or emptied?",
                )
        self.handshake.take_promise(learner, message)
        self.phase.promised(learner, now)

    def _on_ack_new_leader(self, learner: LearnerState, message: AckNewLeader, now: Millis) -> None:
        self.handshake.take_adoption(learner, message, self.phase.epoch, now)
        self.phase.synced(learner, now)

    def _on_veto(self, learner: LearnerState, message: Veto, now: Millis) -> None:
        """Hang up on a learner that keeps committed transactions which this server lacks, or end the attempt to lead.

        The attempt ends if the learner has a vote and the initial history is not decided. This server can lack
        committed transactions only if a majority of the disks lost their data.
        """
        committed = show(message.committed)
        self._out.note(
            "vetoed",
            "warning",
            peer=learner.sid,
            epoch=self.phase.epoch,
            common=show(message.common),
            committed=committed,
            last=show(message.last),
            count=message.count,
            why=f"this server lacks committed transactions: server {learner.sid} keeps "
            f"{counted(message.count, 'transaction')} after {show(message.common)}, committed up to {committed}, and "
            "does not follow this server unless an operator makes it give them up; were the disks of a majority lost "
            "or emptied?",
        )
        if not self.phase.decided and self.quorums.may_vote(learner.sid):
            self.end(f"server {learner.sid} vetoes this history: {committed} was committed there")
        else:
            self.hang_up(learner.sid, "it vetoes this history")

    def _on_pong(self, learner: LearnerState, message: Pong, now: Millis) -> None:
        if message.number > self.barriers.ping:
            raise RemoteProtocolError(f"Pong({message.number}), but the last ping was {self.barriers.ping}")
        if message == ALIVE:
            learner.resumes = learner.resumes or learner.info is None
            self._progressed(learner, now)
            return
        learner.pong = max(learner.pong, message.number)
        self.barriers.release()

    def _progressed(self, learner: LearnerState, now: Millis) -> None:
        if learner.step is LearnerStep.SYNCHRONIZING:
            self.handshake.extend(learner, now)
            self.phase.progressed(learner, now)

    HANDLERS: ClassVar[Mapping[type, Callable[[Any, LearnerState, Any, Millis], None]]] = {
        FollowerInfo: _on_follower_info,
        SnapHeld: _on_snap_held,
        AckEpoch: _on_ack_epoch,
        AckNewLeader: _on_ack_new_leader,
        Veto: _on_veto,
        Pong: _on_pong,
    }
