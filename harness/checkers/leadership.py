"""At most one server leads an epoch, it does so once, and only a leader is followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import define, field

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from harness.quorums import is_quorum
from zab.core.ensemble import Ensemble
from zab.core.messages import NewLeader, Notification, State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch, ServerId, Zxid, show

# Members of an enum are looked up slowly, and these are used for every vote.
_LEADING: Final = State.LEADING
_LOOKING: Final = State.LOOKING


class OneLeaderPerEpoch(Checker):
    """Leadership 1 and 2: a server that is established in an epoch is its only leader, in one leadership.

    A server that led an epoch, crashed and led it again would give one zxid to two transactions, although no other
    server was involved.
    """

    invariant = "one leader per epoch"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._ruler: dict[Epoch, tuple[ServerId, int]] = {}

    def established(self, server: ServerState, epoch: Epoch) -> None:
        self._claim(server, epoch)

    def said_new_leader(self, server: ServerState, to: ServerId, message: NewLeader) -> None:
        self._claim(server, message.epoch)

    def role(self, server: ServerState, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if state is State.LEADING and serving:
            self._claim(server, epoch)

    def _claim(self, server: ServerState, epoch: Epoch) -> None:
        claim = (server.id, server.stint)
        ruler = self._ruler.setdefault(epoch, claim)
        if ruler != claim:
            self.fail(
                f"server {server.id} leads epoch {epoch} in its leadership {server.stint}, but server {ruler[0]} led"
                f" it in its leadership {ruler[1]}"
            )


class LeaderCompleteness(Checker):
    """An established leader holds all transactions that were or will be committed in earlier epochs.

    A transaction is committed in the epoch of the leader that commits it, even if it was proposed in an earlier one. A
    deposed leader may learn late that a quorum had acknowledged. Commits of later epochs do not count: no quorum will
    adopt the epoch of a candidate that missed them.
    """

    invariant = "leader completeness"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._until: dict[Epoch, Zxid] = {}
        """The last zxid that was committed in each epoch for the first time."""

    def established(self, server: ServerState, epoch: Epoch) -> None:
        ghost = self.ghost
        committed = max((zxid for within, zxid in self._until.items() if within < epoch), default=ghost.canon[0])
        if not ghost.holds(server.tip, committed):
            told = " and acknowledged to a client" if committed <= ghost.acknowledged else ""
            self.fail(
                f"server {server.id} leads epoch {epoch} with a history that ends at {show(server.tip)},"
                f" without {show(committed)}, which was committed{told}"
            )

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        ghost = self.ghost
        if path:
            self._until[server.epoch] = zxid
        if not path or ghost.newest <= server.epoch:
            return
        if not ghost.holds(ghost.initial[ghost.newest], zxid):
            self.fail(
                f"server {server.id} of epoch {server.epoch} committed {show(zxid)}, which is not in the initial"
                f" history of epoch {ghost.newest}"
            )


class RemovedLeaderEnds(Checker):
    """A leader that has committed something under a membership in which it does not vote proposes nothing more."""

    invariant = "a removed leader proposes nothing"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._left: dict[ServerId, int] = {}
        """The leadership in which each server committed its own removal."""

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        ghost = self.ghost
        if any(server.id not in ghost.governing[each].voters for each in path or ()):
            self._left[server.id] = server.stint

    def proposed(self, server: ServerState, first: Zxid, payloads: Sequence[bytes]) -> None:
        if self._left.get(server.id) == server.stint:
            self.fail(f"server {server.id} proposes {show(first)} after it committed its own removal from the voters")


class FollowsALeader(Checker):
    """A server that begins to follow has a notification of the leader itself, or has taken part in its election: it has
    notifications of a looking server that votes for that leader, and of a quorum that does.

    Votes of followers prove nothing: they may not have noticed yet that their leader is gone, and as long as servers
    follow because others do, none is elected.
    """

    invariant = "only a leader is followed"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._heard: dict[ServerId, _Heard] = {}

    def heard_notification(self, server: ServerState, source: ServerId, message: Notification) -> None:
        heard = self._heard.get(server.id)
        if heard is None:
            heard = self._heard[server.id] = _Heard()
        if message.state is _LEADING:
            heard.leads.add(source)
        elif message.state is _LOOKING:
            heard.searched.add(message.leader)
        votes = heard.votes.get(message.leader)
        if votes is None:
            votes = heard.votes[message.leader] = set()
        votes.add(source)
        for view in (message.ensemble, message.pending):
            if view is not None:
                heard.views[id(view)] = view

    def role(self, server: ServerState, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if server.state != State.LOOKING or state not in (State.FOLLOWING, State.OBSERVING):
            return
        assert leader is not None
        heard = self._heard.pop(server.id, _Heard())
        if leader in heard.leads:
            return
        votes = {server.id, *heard.votes.get(leader, ())}
        if leader not in heard.searched or not self._elected(server, votes, heard):
            self.fail(
                f"server {server.id} follows {leader}, but received no notification of a leading {leader} and no"
                f" quorum of votes for it; it has votes of {sorted(votes - {server.id})}"
            )

    def _elected(self, server: ServerState, votes: set[ServerId], heard: _Heard) -> bool:
        ghost = self.ghost
        known = [ghost.initial_ensemble, ghost.governing[server.tip], ghost.governing[ghost.committed]]
        return any(is_quorum(view, votes) for view in (*known, *heard.views.values()))

    def started(self, server: ServerState, recovered: Recovered) -> None:
        self._heard.pop(server.id, None)


@define
class _Heard:
    """The notifications that one server received since its last election ended."""

    leads: set[ServerId] = field(factory=set)
    searched: set[ServerId] = field(factory=set)
    """The servers for which a looking server votes."""
    votes: dict[ServerId, set[ServerId]] = field(factory=dict)
    views: dict[int, Ensemble] = field(factory=dict)


class StepDown(Checker):
    """A leader that receives nothing from a quorum stops serving within the time limit."""

    invariant = "a leader without a quorum steps down"

    def observed(self, server: ServerState, silent: Sequence[ServerId]) -> None:
        ensemble = self.ghost.governing[server.applied]
        if server.state != State.LEADING or not server.serving:
            return
        heard = [sid for sid in ensemble.voters if sid not in silent]
        if not is_quorum(ensemble, heard):
            self.fail(
                f"server {server.id} still leads epoch {server.epoch}, but has received messages only from {heard}"
                " for too long"
            )
