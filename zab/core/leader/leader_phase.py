"""The interface between a leader and its current phase: discovery, synchronization or broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from zab.core.ensemble import Ensemble
from zab.core.errors import NotLeader
from zab.core.leader.barriers import Barriers
from zab.core.leader.leader_quorums import LeaderQuorums
from zab.core.leader.learner_handshake import LearnerHandshake
from zab.core.leader.learner_state import LearnerState
from zab.core.log_state import LogState
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid


class LeaderRole(Protocol):
    """The part of a leader that its phases use."""

    log_state: LogState
    learners: dict[ServerId, LearnerState]
    quorums: LeaderQuorums
    handshake: LearnerHandshake
    barriers: Barriers

    def enter(self, phase: LeaderPhase) -> None:
        """Replace the current phase, whose state ends with it."""

    def end(self, why: str, designated: ServerId | None = None) -> None:
        """End the attempt to lead; `designated` is the server that leads next, if that is decided."""


class LeaderPhase:
    """A phase of a leader. By default it ignores events and refuses proposals."""

    name: ClassVar[str]
    synchronizes: ClassVar[bool] = True
    """True if the phase synchronizes learners. False in discovery: the learners wait until it ends."""
    decided: ClassVar[bool] = False
    """True once a quorum has adopted the initial history: older transactions outside of it cannot be committed."""
    HANDLERS: ClassVar[Mapping[type, Callable[[Any, LearnerState, Any, Millis], None]]] = {}
    """The handlers of the messages that only this phase accepts."""

    epoch: Epoch | None
    """The epoch of this leader; None until it is chosen."""
    until: Millis
    """The attempt to lead ends at this time, unless the phase ends or extends the time before."""

    def __init__(self, role: LeaderRole) -> None:
        self._role = role
        self._log_state = role.log_state
        self._learners = role.learners

    @property
    def serving(self) -> bool:
        return False

    def membership(self) -> Ensemble:
        """Return the membership under which this leader leads its epoch."""
        raise NotImplementedError

    def introduced(self, learner: LearnerState, now: Millis) -> None:
        """Handle `FollowerInfo` of a learner."""

    def promised(self, learner: LearnerState, now: Millis) -> None:
        """Handle `AckEpoch` of a learner."""

    def progressed(self, learner: LearnerState, now: Millis) -> None:
        """Handle progress in the synchronization of a learner."""

    def synced(self, learner: LearnerState, now: Millis) -> None:
        """Handle a learner's acknowledgement of NEWLEADER."""

    def saved(self, ticket: Ticket, grew: bool, now: Millis) -> None:
        """Handle the disk's report: writes up to `ticket` are durable.

        `grew` is True if the newly durable writes include transactions or a snapshot.
        """

    def check_quorum(self) -> None:
        """End the attempt to lead if too few learners follow."""

    def flush(self, now: Millis) -> None:
        """Act before `Node.ready` returns the effects."""

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        raise NotLeader("this server is not an established leader")

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = b"") -> Zxid:
        raise NotLeader("this server is not an established leader")
