"""The role of a learner: its one link, its current phase, and the end of its attempt to follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from zab.core.errors import RemoteProtocolError
from zab.core.learner.learner_discovery import LearnerDialling, LearnerDiscovery
from zab.core.learner.learner_phase import LearnerPhase
from zab.core.log_state import LogState
from zab.core.messages import (
    ALIVE,
    TO_LEARNER,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    FollowerInfo,
    Inform,
    InformAndActivate,
    Ping,
    Pong,
    Veto,
)
from zab.core.ready import BarrierDone, Dial, HangUp
from zab.core.zxid import Millis, ServerId, Ticket, Zxid

DIAL_ATTEMPTS: Final = 5
"""The number of times that a learner dials its leader, unless it has to dial for longer (`dial_for_init_limit`)."""


class Learner:
    """One attempt to follow or observe one leader."""

    phase: LearnerPhase
    """The current phase, from dialling to broadcast. Only discovery may go back, to dialling."""

    def __init__(self, log_state: LogState, leader: ServerId, now: Millis, observer: bool) -> None:
        self.leader = leader
        self.observer = observer
        """True if this server joins as an observer: it has no vote, and acknowledges no proposals."""
        self.log_state = log_state
        self.over: str | None = None
        """The reason why the attempt has ended, or None. Once it is set, the node leaves the role at once."""
        self.veto: Veto | None = None
        """The veto with which this server keeps its history and leaves the leader. Set with `over`."""
        self.designated: ServerId | None = None
        """The server to lead next, if that is decided. Set with `over`."""
        self._out = log_state.out
        self._attempts = 0
        """The number of times that the leader was dialled. Beyond DIAL_ATTEMPTS, it is dialled until `_dial_until`."""
        self._dialled = False
        """True if there is a link to hang up: a dial is under way, or the link is up."""
        self._linked_at: Millis | None = None
        """The time at which the link came up. None while it is down."""
        self._moved = 0
        """The number of bytes that the link has received, as the driver reported."""
        self._init_ms = log_state.settings.init_ms
        votes = any(log_state.me in view.voters for view in log_state.views)
        self._dial_until = now + self._init_ms if votes and log_state.settings.dial_for_init_limit else now
        """The leader is dialled again until this time, also after DIAL_ATTEMPTS."""
        self._silent_until = now + self._init_ms
        """The learner leaves the leader at this time, unless a message or progress extends it."""
        self._barriers: dict[int, tuple[int, Zxid | None]] = {}
        """The pending barriers by number: the token of the caller, and the zxid once the leader has replied."""
        self._barrier_number = 0
        """The number of the last barrier."""
        self.enter(LearnerDialling(self))
        self.dial()

    @property
    def serving(self) -> bool:
        return self.phase.serving

    @property
    def deadline(self) -> Millis:
        due, until = self.phase.due, self._silent_until
        return due if due < until else until

    def enter(self, phase: LearnerPhase) -> None:
        self.phase = phase

    def end(self, why: str, *, designated: ServerId | None = None, veto: Veto | None = None) -> None:
        self.over, self.designated, self.veto = why, designated, veto

    # -- the link ----------------------------------------------------------------------------------

    def dial(self) -> None:
        self._attempts += 1
        self._dialled = True
        self._out.links.append(Dial(self.leader))

    def link_up(self, now: Millis) -> None:
        log_state = self.log_state
        self._linked_at = now
        self._silent_until = now + self._init_ms
        self.enter(LearnerDiscovery(self))
        if log_state.partial.is_held:
            self._out.send(self.leader, ALIVE)
        self._out.send(self.leader, FollowerInfo(log_state.accepted, log_state.ensemble.version, self.observer))

    def link_down(self, now: Millis) -> None:
        self._dialled = False
        self._linked_at = None
        if (self._attempts < DIAL_ATTEMPTS or now < self._dial_until) and self.phase.may_redial:
            # The elected server may not be reachable yet, or may not have begun to lead.
            self.enter(LearnerDialling(self, now + self.log_state.settings.dial_retry_ms))
        else:
            lost = f"link to leader {self.leader} lost in {self.phase.name}"
            self.end(f"{lost}, after {self._attempts} attempts" if self.phase.may_redial else lost)

    def leave(self) -> None:
        """Hang up, keep a partly received snapshot on the disk, and fail all barriers, because this attempt is over."""
        self.log_state.partial.keep()
        if self._dialled:
            self._out.links.append(HangUp(self.leader, dialled=True))
        for token, _ in self._barriers.values():
            self._out.barriers.append(BarrierDone(token, None))
        self._barriers.clear()

    # -- inputs ------------------------------------------------------------------------------------

    def handle(self, source: ServerId, message: object, now: Millis) -> None:
        """Handle a message of the leader with the current phase's handler, or else with the one that all phases share.

        Without a handler, a message of a type that leaders send to learners raises `RemoteProtocolError`, and any other
        is ignored. Every message from another server, or without a link, is ignored.
        """
        kind = type(message)
        phase = self.phase
        taker: Learner | LearnerPhase = phase
        handler = phase.HANDLERS.get(kind)
        if handler is None:
            taker, handler = self, self.HANDLERS.get(kind)
        if source != self.leader or self._linked_at is None or (handler is None and kind not in TO_LEARNER):
            self._out.note("ignored", "debug", source=source, message=kind.__name__)
            return
        if handler is None:
            raise RemoteProtocolError(f"{kind.__name__} is not allowed in {phase.name}")
        self._silent_until = now + phase.silence_ms
        if phase.receiving:
            phase.progressed = True
        handler(taker, message)

    def progress(self, source: ServerId, moved: int, now: Millis) -> None:
        """Record the bytes that came from the leader so far. While its history arrives, new bytes are progress."""
        if source == self.leader and moved > self._moved:
            self._moved = moved
            if self.phase.receiving:
                self.phase.progressed = True
                self.phase.on_progress(moved, now)

    def tick(self, now: Millis) -> None:
        phase = self.phase
        if now >= phase.due and phase.tick(now):
            self._silent_until = now + self._init_ms
        if now >= self._silent_until:
            self.end(self._why_silent(now))

    def _why_silent(self, now: Millis) -> str:
        silence = f"nothing from leader {self.leader} in {self.phase.name} for {self.phase.silence_ms} ms"
        if not self.phase.synchronizes or self._linked_at is None:
            return silence
        took = max(1, now - self._linked_at)
        return (
            f"{silence}, the limit of init_limit * tick_ms; "
            f"{self._moved} bytes were received in {took} ms, {self._moved * 1_000 // took} bytes/s"
        )

    def saved(self, ticket: Ticket, grew: bool) -> None:
        self.phase.saved(ticket, grew)

    # -- messages that every phase accepts, and combined proposals and commits -------------------------

    def _on_commit_and_activate(self, message: CommitAndActivate) -> None:
        self.phase.on_commit(Commit(message.zxid))
        self.phase.check_role()
        self._follow_designated(message.designated)

    def _on_inform(self, message: Inform) -> None:
        self.phase.on_propose(message)
        self.phase.on_commit(Commit(message.batch.last))

    def _on_inform_and_activate(self, message: InformAndActivate) -> None:
        self.phase.on_propose(message)
        self.phase.on_commit(Commit(message.batch.last))
        self.phase.check_role()
        self._follow_designated(message.designated)

    def _follow_designated(self, designated: ServerId) -> None:
        if designated != self.leader:
            self.end(f"leadership passes to server {designated}", designated=designated)

    def _on_ping(self, message: Ping) -> None:
        self._out.send(self.leader, Pong(message.number))

    # -- barriers ----------------------------------------------------------------------------------

    def barrier(self, token: int) -> None:
        if not self.phase.serving:
            self._out.barriers.append(BarrierDone(token, None))
            return
        self._barrier_number += 1
        self._barriers[self._barrier_number] = (token, None)
        self._out.send(self.leader, BarrierRequest(self._barrier_number))

    def _on_barrier_reply(self, message: BarrierReply) -> None:
        known = self._barriers.get(message.number)
        if known is not None:
            self._barriers[message.number] = (known[0], message.zxid)

    def flush(self) -> None:
        """Complete the barriers whose zxid has been applied."""
        if not self._barriers:
            return
        applied = self.log_state.applied
        for number, (token, zxid) in list(self._barriers.items()):
            if zxid is not None and applied >= zxid:
                del self._barriers[number]
                self._out.barriers.append(BarrierDone(token, zxid))

    HANDLERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        CommitAndActivate: _on_commit_and_activate,
        Inform: _on_inform,
        InformAndActivate: _on_inform_and_activate,
        Ping: _on_ping,
        BarrierReply: _on_barrier_reply,
    }
