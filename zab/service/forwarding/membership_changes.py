"""Changes of the membership under way: from their request, through the leader, to their activation at this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import evolve, frozen

from zab.core import errors
from zab.core.ensemble import Ensemble, parse_server
from zab.core.errors import ChangeLost, ConfigError, OutcomeUnknown, Overloaded, ZabError
from zab.core.zxid import Epoch, Zxid, epoch_of
from zab.wire.peer import REASON_CHARS_MAX
from zab.wire.relay_messages import ReconfigureReply, ReconfigureRequest

ChangeDone: TypeAlias = Callable[[Exception | None], None]

PENDING_MAX: Final = 64

_ERRORS: Final[dict[str, type[ZabError]]] = {
    kind.__name__: kind
    for kind in (
        errors.ConfigError,
        errors.NotLeader,
        errors.Overloaded,
        errors.ReconfigInProgress,
        errors.WrongVersion,
        errors.NewConfigNoQuorum,
    )
}


def requested_ensemble(request: ReconfigureRequest, current: Ensemble) -> Ensemble:
    """Return the requested membership, given the one in force. Raise `ConfigError` if the request is invalid."""
    if request.members is not None:
        if request.joining or request.leaving:
            raise ConfigError("a change must name all members, or those that join and leave, not both")
        return evolve(Ensemble.parse(request.members), version=current.version)
    return current.changed([parse_server(line) for line in request.joining], request.leaving, version=current.version)


def reply_of(number: int, error: ZabError) -> ReconfigureReply:
    kind = type(error).__name__
    return ReconfigureReply(number, None, kind if kind in _ERRORS else "ConfigError", str(error)[:REASON_CHARS_MAX])


@frozen
class _Change:
    request: ReconfigureRequest
    done: ChangeDone


class MembershipChanges:
    """The changes that were requested at this server and have not been answered."""

    def __init__(self) -> None:
        self.waiting: list[_Change] = []
        """Requests that `take` returns next."""
        self._number = 0
        """The number of the last request. Numbers match replies to requests."""
        self._asked: dict[int, _Change] = {}
        """number -> a change that was sent to the leader and has no reply yet"""
        self._proposed: dict[Zxid, ChangeDone] = {}
        """zxid -> the callback of a change that the leader has proposed and that is not active here yet"""

    def add(self, request: ReconfigureRequest, done: ChangeDone) -> None:
        if len(self.waiting) + len(self._asked) + len(self._proposed) >= PENDING_MAX:
            raise Overloaded(f"{PENDING_MAX} changes of membership are pending at this server already: try again later")
        self._number += 1
        self.waiting.append(_Change(evolve(request, number=self._number), done))

    def take(self) -> list[ReconfigureRequest]:
        """Return the requests to send now. Their replies are expected from here on."""
        waiting, self.waiting = self.waiting, []
        self._asked.update((change.request.number, change) for change in waiting)
        return [change.request for change in waiting]

    def replied(self, reply: ReconfigureReply) -> None:
        change = self._asked.pop(reply.number, None)
        if change is None:
            return
        if reply.zxid is not None:
            self._proposed[reply.zxid] = change.done
        else:
            change.done(_ERRORS.get(reply.error, ConfigError)(reply.reason))

    def activated(self, version: Zxid) -> None:
        done = self._proposed.pop(version, None)
        if done is not None:
            done(None)

    def leadership_over(self) -> None:
        for change in self._asked.values():
            change.done(
                OutcomeUnknown(
                    "the leader or its link was lost before the answer; read the membership, then repeat if necessary"
                )
            )
        self._asked.clear()

    def history_reached(self, epoch: Epoch) -> None:
        """Fail the changes of older epochs that are not active.

        Everything that survived into `epoch` is applied here, so these changes are lost.
        """
        for zxid in [zxid for zxid in self._proposed if epoch_of(zxid) < epoch]:
            self._proposed.pop(zxid)(
                ChangeLost(
                    "the leader that proposed the change was lost, and the change with it: repeat it if necessary"
                )
            )

    def jumped(self, zxid: Zxid) -> None:
        """Handle a snapshot that replaced the history up to `zxid`."""
        for version in [version for version in self._proposed if version <= zxid]:
            self._proposed.pop(version)(
                OutcomeUnknown("a snapshot of the leader has replaced this server's state, and may contain the change")
            )

    def stop(self, error: Exception) -> None:
        pending = [change.done for change in (*self.waiting, *self._asked.values())]
        pending += self._proposed.values()
        self.waiting.clear()
        self._asked.clear()
        self._proposed.clear()
        for done in pending:
            done(error)
