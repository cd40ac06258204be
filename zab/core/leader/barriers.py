"""A leader's barriers. A barrier is a zxid at or after every write that was acknowledged before the request for it.

A leader that was deposed without noticing must not answer. So the leader first proves its leadership: it sends a ping
after the request, and a quorum has to answer the ping. All requests of one turn share a ping.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from attrs import define

from zab.core.leader.leader_quorums import LeaderQuorums
from zab.core.leader.learner_state import LearnerState, LearnerStep
from zab.core.log_state import LogState
from zab.core.messages import BarrierReply, Ping
from zab.core.ready import BarrierDone
from zab.core.zxid import ServerId, Zxid

_SYNCHRONIZING: Final = LearnerStep.SYNCHRONIZING


@define
class PendingBarrier:
    """A barrier that server `origin` requested under its own `number`.

    `zxid` is the committed zxid at the arrival of the request.
    """

    origin: ServerId
    number: int
    zxid: Zxid
    ping: int | None = None
    """The number of the ping that was sent after the request; None until it is sent."""


class Barriers:
    """The pending barriers of one leader, and the pings that prove its leadership."""

    def __init__(self, log_state: LogState, learners: Mapping[ServerId, LearnerState], quorums: LeaderQuorums) -> None:
        self.ping = 0
        """The number of the last ping."""
        self._log_state = log_state
        self._out = log_state.out
        self._learners = learners
        """The learners that are linked to the leader, with the last ping that each has answered."""
        self._quorums = quorums
        self._waiting: deque[PendingBarrier] = deque()
        """The pending barriers in the order of the requests, so their zxids and pings never decrease."""

    def ask(self, origin: ServerId, number: int) -> None:
        self._waiting.append(PendingBarrier(origin, number, self._log_state.committed))

    def forget(self, origin: ServerId) -> None:
        """Drop the barriers of a learner whose link is gone."""
        if self._waiting:
            self._waiting = deque(barrier for barrier in self._waiting if barrier.origin != origin)

    def give_up(self) -> None:
        """Fail this server's own barriers and drop those of the learners: this server does not lead any more."""
        for barrier in self._waiting:
            self._answer(barrier, None)
        self._waiting.clear()

    def send_pings(self) -> None:
        self.ping += 1
        message = Ping(self.ping, self._log_state.committed)
        for learner in self._learners.values():
            if learner.step >= _SYNCHRONIZING:
                self._out.send(learner.sid, message)

    def ask_all(self) -> None:
        """Ping each learner once for all barriers of this turn, then answer the barriers that wait for nothing more."""
        if not self._waiting:
            return
        if self._waiting[-1].ping is None:
            self.send_pings()
            for barrier in self._waiting:
                if barrier.ping is None:
                    barrier.ping = self.ping
        self.release()

    def release(self) -> None:
        """Answer the barriers in order: each needs a quorum of pongs, and the leader's own also needs its zxid applied.

        The leader counts in the quorum without a pong.

        A pong proves that its sender still followed this leader after the request. A newer leader can commit only after
        a quorum has promised its epoch, and a server that has promised it answers no ping of this leader any more.
        """
        while self._waiting:
            ping = self._waiting[0].ping
            if ping is None:
                return
            answered = [sid for sid, each in self._learners.items() if each.counts and each.pong >= ping]
            if not self._quorums.has(answered):
                return
            if self._waiting[0].origin == self._log_state.me and self._log_state.applied < self._waiting[0].zxid:
                return
            barrier = self._waiting.popleft()
            self._answer(barrier, barrier.zxid)

    def _answer(self, barrier: PendingBarrier, zxid: Zxid | None) -> None:
        if barrier.origin == self._log_state.me:
            self._out.barriers.append(BarrierDone(barrier.number, zxid))
        elif zxid is not None:
            self._out.send(barrier.origin, BarrierReply(barrier.number, zxid))
