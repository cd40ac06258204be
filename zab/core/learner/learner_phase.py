"""The interface between a learner and its current phase, from dialling to broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from zab.core.errors import RemoteProtocolError
from zab.core.log_state import LogState
from zab.core.messages import Commit, Inform, InformAndActivate, Propose, Veto
from zab.core.zxid import NEVER, Millis, ServerId, Ticket


class LearnerRole(Protocol):
    """The part of a learner that its phases use."""

    leader: ServerId
    observer: bool
    log_state: LogState
    over: str | None

    def dial(self) -> None:
        """Open the link to the leader."""

    def enter(self, phase: LearnerPhase) -> None:
        """Replace the current phase, whose state ends with it."""

    def end(self, why: str, *, designated: ServerId | None = None, veto: Veto | None = None) -> None:
        """End the attempt to follow.

        `designated` is the server to lead next, if that is decided; `veto` is the veto against the leader, if any.
        """


class LearnerPhase:
    """A phase of a learner. By default it ignores events, and takes a transaction or a commit for a protocol error."""

    name: ClassVar[str]
    HANDLERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {}
    """The handlers of the messages that this phase accepts, apart from those that every phase accepts."""
    synchronizes: ClassVar[bool] = False
    """True in the phase in which the leader's history arrives."""
    may_redial: bool = False
    """True if the learner may dial again after a broken link, because the leader has not asked for a promise yet."""
    receiving: bool = False
    """True if messages and bytes from the leader count as progress of a synchronization."""
    progressed: bool = False
    """True if the synchronization has made progress that is not reported to the leader yet."""
    due: Millis = NEVER
    """The time of the next `tick`."""
    silence_ms: Millis
    """The time without a message or progress after which the learner leaves its leader."""

    def __init__(self, role: LearnerRole) -> None:
        self._role = role
        self._log_state = role.log_state
        self._out = role.log_state.out
        self.silence_ms = role.log_state.settings.init_ms

    @property
    def serving(self) -> bool:
        return False

    def tick(self, now: Millis) -> bool:
        """Act at `due`. Return True to restart the time limit of the leader's silence."""
        return False

    def on_progress(self, moved: int, now: Millis) -> None:
        """Handle the arrival of bytes from the leader; `moved` counts them since the link opened."""

    def saved(self, ticket: Ticket, grew: bool) -> None:
        """Handle the disk's report: writes up to `ticket` are durable.

        `grew` is True if the newly durable writes include transactions or a snapshot.
        """

    def on_propose(self, message: Propose | Inform | InformAndActivate) -> None:
        raise RemoteProtocolError(f"unexpected transaction in {self.name}")

    def on_commit(self, message: Commit) -> None:
        raise RemoteProtocolError(f"unexpected commit in {self.name}")

    def check_role(self) -> None:
        """Leave the leader if a membership that is now in force has changed the role of this server."""
