"""At most one server leads an epoch, it does so once, and only a leader is followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import define, field

from harness.checkers.ghost import Ghost, Known
from harness.checkers.judge import Checker
from harness.quorums import is_quorum
from zab.core.ensemble import Ensemble
from zab.core.messages import NewLeader, Notification, State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch, ServerId, Zxid, show

# A member of an enum is looked up slowly, and these with every vote that is heard.
_LEADING: Final = State.LEADING
_LOOKING: Final = State.LOOKING


class OneLeaderPerEpoch(Checker):
    """Leadership 1 and 2: a server that is established in an epoch is its only leader, in one leadership.

    A server that led an epoch, crashed and led it again would give one zxid to two transactions, although no other
    server was involved.
    """

    invariant = "one leader per epoch"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._ruler: dict[Epoch, tuple[ServerId, int]] = {}

    def established(self, who: Known, epoch: Epoch) -> None:
        self._claim(who, epoch)

    def said_new_leader(self, who: Known, to: ServerId, message: NewLeader) -> None:
        self._claim(who, message.epoch)

    def role(self, who: Known, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if state is State.LEADING and serving:
            self._claim(who, epoch)

    def _claim(self, who: Known, epoch: Epoch) -> None:
        claim = (who.id, who.stint)
        ruler = self._ruler.setdefault(epoch, claim)
        if ruler != claim:
            self.fail(
                f"server {who.id} leads epoch {epoch}, which server {ruler[0]} led (stints {who.stint}, {ruler[1]})"
            )


class LeaderCompleteness(Checker):
    """An established leader holds all transactions that were or will be committed in earlier epochs.

    A transaction is committed in the epoch of the leader that commits it, even if it was proposed in an earlier one. A
    deposed leader may learn late that a quorum had acknowledged. Commits of later epochs do not count: no quorum will
    adopt the epoch of a candidate that missed them.
    """

    invariant = "leader completeness"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._until: dict[Epoch, Zxid] = {}
        """The last zxid that was committed in each epoch for the first time."""

    def established(self, who: Known, epoch: Epoch) -> None:
        ghost = self.ghost
        committed = max((zxid for within, zxid in self._until.items() if within < epoch), default=ghost.canon[0])
        if not ghost.holds(who.tip, committed):
            told = ", and a client was told" if committed <= ghost.acknowledged else ""
            self.fail(
                f"server {who.id} leads epoch {epoch} with a history that ends at {show(who.tip)},"
                f" without {show(committed)}, which was committed{told}"
            )

    def committed(self, who: Known, zxid: Zxid, path: list[Zxid] | None) -> None:
        ghost = self.ghost
        if path:
            self._until[who.epoch] = zxid
        if not path or ghost.newest <= who.epoch:
            return
        if not ghost.holds(ghost.initial[ghost.newest], zxid):
            self.fail(
                f"server {who.id} of epoch {who.epoch} committed {show(zxid)}, but epoch {ghost.newest} began without"
                f" it"
            )


class RemovedLeaderEnds(Checker):
    """A leader that has committed something under a membership in which it does not vote proposes nothing more."""

    invariant = "a removed leader proposes nothing"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._left: dict[ServerId, int] = {}
        """The leadership in which each server committed its own removal."""

    def committed(self, who: Known, zxid: Zxid, path: list[Zxid] | None) -> None:
        ghost = self.ghost
        if any(who.id not in ghost.governing[each].voters for each in path or ()):
            self._left[who.id] = who.stint

    def proposed(self, who: Known, first: Zxid, payloads: Sequence[bytes]) -> None:
        if self._left.get(who.id) == who.stint:
            self.fail(f"server {who.id} proposes {show(first)}, and has committed that it does not vote any more")


class FollowsALeader(Checker):
    """A server that begins to follow has a notification of the leader itself, or has taken part in its election: it has
    notifications of a looking server that votes for that leader, and of a quorum that does.

    Votes of followers prove nothing: they may not have noticed yet that their leader is gone, and as long as servers
    follow because others do, none is elected.
    """

    invariant = "only a leader is followed"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._heard: dict[ServerId, _Heard] = {}

    def heard_notification(self, who: Known, source: ServerId, message: Notification) -> None:
        heard = self._heard.get(who.id)
        if heard is None:
            heard = self._heard[who.id] = _Heard()
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

    def role(self, who: Known, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if who.state != State.LOOKING or state not in (State.FOLLOWING, State.OBSERVING):
            return
        assert leader is not None
        heard = self._heard.pop(who.id, _Heard())
        if leader in heard.leads:
            return
        votes = {who.id, *heard.votes.get(leader, ())}
        if leader not in heard.searched or not self._elected(who, votes, heard):
            self.fail(
                f"server {who.id} follows {leader}, which it has not heard to lead, nor to be elected: of it speak"
                f" {sorted(votes - {who.id})}"
            )

    def _elected(self, who: Known, votes: set[ServerId], heard: _Heard) -> bool:
        ghost = self.ghost
        known = [ghost.initial_ensemble, ghost.governing[who.tip], ghost.governing[ghost.committed]]
        return any(is_quorum(view, votes) for view in (*known, *heard.views.values()))

    def started(self, who: Known, recovered: Recovered) -> None:
        self._heard.pop(who.id, None)


@define
class _Heard:
    """The notifications that one server received since its last election ended."""

    leads: set[ServerId] = field(factory=set)
    searched: set[ServerId] = field(factory=set)
    """The servers for which a looking server votes."""
    votes: dict[ServerId, set[ServerId]] = field(factory=dict)
    views: dict[int, Ensemble] = field(factory=dict)


class StepDown(Checker):
    """A leader that cannot hear a quorum stops serving in good time."""

    invariant = "a leader without a quorum steps down"

    def observed(self, who: Known, silent: Sequence[ServerId]) -> None:
        ensemble = self.ghost.governing[who.applied]
        if who.state != State.LEADING or not who.serving:
            return
        heard = [sid for sid in ensemble.voters if sid not in silent]
        if not is_quorum(ensemble, heard):
            self.fail(f"server {who.id} still leads epoch {who.epoch}, but has long heard only {heard}")
