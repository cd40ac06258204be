"""Fast leader election: the voters agree on the server with the newest history before they follow it.

A vote is no promise. A wrong winner only costs time, because discovery refuses a leader that lacks committed history. A
`LeaderElection` lasts until its decision, or until the node replaces it, for example because of another membership. The
node keeps the number of its last round for the next election.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from attrs import frozen

from zab.core.ensemble import Ensemble
from zab.core.messages import Notification, State
from zab.core.ready import Settings
from zab.core.zxid import UNKNOWN, Epoch, Millis, ServerId, Zxid

# Looking up a member of an enum is slow, and these are needed for every notification.
_LOOKING: Final = State.LOOKING
_LEADING: Final = State.LEADING
_OBSERVING: Final = State.OBSERVING


class Vote(NamedTuple):
    """A candidate and the end of its history. The field order *is* the election rule: epoch, then zxid, then id."""

    epoch: Epoch
    zxid: Zxid
    leader: ServerId


NO_VOTE = Vote(Epoch(-1), UNKNOWN, ServerId(-1))
"""The proposal of a server that has no candidate. It is less than every other vote, and no other server counts it."""


@frozen
class ReceivedVote:
    """A server's vote, with the round and the state that the server had when it sent the vote."""

    vote: Vote
    round: int
    state: State

    def agrees_with(self, other: ReceivedVote) -> bool:
        """Return whether both votes count for the same leader.

        Votes of servers that already lead or follow may differ in zxid and round, because they were cast at different
        times. If one of the servers is LOOKING, zxid and round must be equal, too.
        """
        if self.state is _LOOKING or other.state is _LOOKING:
            return self.vote == other.vote and self.round == other.round
        return self.vote.leader == other.vote.leader and self.vote.epoch == other.vote.epoch


def is_voter(sid: ServerId, views: Iterable[Ensemble]) -> bool:
    return any(sid in view.voters for view in views)


def beats(new: Vote, old: Vote, active: Ensemble) -> bool:
    """Return whether `new` is the better vote. A server without weight in the active membership is no candidate.

    Some voters may not know of a pending change of membership. They could neither vote for a server that the change
    adds nor find its address. So until the change is decided, the leader must be a server that all voters know.
    """
    return new > old and active.weight(new.leader) > 0


class Electorate:
    """The voters of the active membership and of pending ones. Each membership needs a quorum of its own."""

    def __init__(self, me: ServerId, views: tuple[Ensemble, ...]) -> None:
        self.active = views[0]
        """The membership in force. The others are pending changes."""
        self.voters = tuple(dict.fromkeys(sid for view in views for sid in view.voters))
        self.peers = tuple(sid for sid in self.voters if sid != me)
        """The voters other than this server."""
        self._views = views

    def is_quorum_of_all(self, servers: Collection[ServerId]) -> bool:
        return all(view.is_quorum(servers) for view in self._views)

    def is_quorum_of_any(self, servers: Collection[ServerId]) -> bool:
        return any(view.is_quorum(servers) for view in self._views)


class ResendTimer:
    """Decides when the proposal is sent to all voters again: in intervals that double up to a limit."""

    def __init__(self, settings: Settings, now: Millis, delay: Millis) -> None:
        """Start the timer. `delay`, unless it is 0, replaces the first interval."""
        self._settings = settings
        self._wait = settings.notification_ms_min
        """The interval between the last resend and the next."""
        self.at = now + (delay or self._wait)

    def resent(self, now: Millis, vetoes: Iterable[Millis]) -> None:
        """Double the interval after a resend. If a veto ends earlier, send again at that time."""
        self._wait = min(2 * self._wait, self._settings.notification_ms_max)
        self.at = min([now + self._wait, *(until for until in vetoes if until > now)])

    def reset(self, now: Millis) -> None:
        """Go back to the shortest interval."""
        if self._wait > self._settings.notification_ms_min:
            self._wait = self._settings.notification_ms_min
            self.at = min(self.at, now + self._wait)


class PendingDecision(NamedTuple):
    """A vote on which a quorum agrees. It wins at the given time, unless a later notification ends the agreement."""

    vote: Vote
    at: Millis


class LeaderElection:
    """One election. The node calls its methods; they fill `outgoing`, and finally set `decision`."""

    def __init__(
        self,
        me: ServerId,
        own: Vote,
        last_round: int,
        views: tuple[Ensemble, ...],
        settings: Settings,
        now: Millis,
        delay: Millis = 0,
        votes: bool = True,
        vetoed: Mapping[ServerId, Millis] = MappingProxyType({}),
    ) -> None:
        self.began = now
        """The time at which this election began."""
        self.round = last_round + 1
        """The round of this election. It changes when this server joins the round of another voter."""
        self.proposal = own
        """The best vote of the round so far, except for vetoed leaders; `NO_VOTE` without one, or without `_votes`."""
        self.outgoing: list[ServerId] = []
        """Servers to which the node sends the current proposal; it then empties the list."""
        self.decision: Vote | None = None
        """The vote that has won, which ends the election; None until then."""
        self._me = me
        self._own = own
        """The vote for this server itself; `NO_VOTE` if it is no candidate."""
        self._electorate = Electorate(me, views)
        self._settings = settings
        self._received: dict[ServerId, ReceivedVote] = {}
        """The last vote of each voter in this round, in any state but OBSERVING. Includes this server's if `_votes`.

        Without `_votes`, the votes may be of any round.
        """
        self._established: dict[ServerId, ReceivedVote] = {}
        """The last vote that each voter sent while it was LEADING or FOLLOWING, of any round."""
        self._answered_behind: dict[ServerId, tuple[int, int]] = {}
        """Voters of earlier rounds that this server has answered: the voter's round and this server's round at that
        time.
        """
        self._resend = ResendTimer(settings, now, delay)
        self._pending: PendingDecision | None = None
        """Set while a quorum agrees on a vote and better votes may still arrive; else None."""
        self._votes = votes
        """False if this server is no voter, or may lack history or promises. It then joins the leader of the others."""
        self._vetoed = vetoed
        """Leaders that this server neither votes for nor follows, with the time at which each veto ends."""
        self.sources = {me}
        """Voters that have sent a notification since this election began, and this server."""
        if not delay:
            self._propose(own, now)

    @property
    def deadline(self) -> Millis:
        return self._resend.at if self._pending is None else self._pending.at

    @property
    def sees_quorum(self) -> bool:
        """True if the voters that have sent a notification since this election began form a quorum with this server."""
        return self._electorate.is_quorum_of_all(self.sources)

    def silent_peers(self, now: Millis) -> frozenset[ServerId]:
        """Return the other voters that have sent no notification since this election began.

        The result is empty until the election has lasted for init_limit. A reachable voter answers much sooner.
        """
        lasts = now - self.began >= self._settings.init_ms
        return frozenset(self._electorate.peers) - self.sources if lasts else frozenset()

    # -- inputs ------------------------------------------------------------------------------------

    def handle(self, source: ServerId, notification: Notification, now: Millis) -> None:
        """Handle a notification from a voter: take a vote that names a voter, or answer a request for a vote.

        A notification from any other server is ignored.
        """
        voters = self._electorate.voters
        if source not in voters:
            return
        self.sources.add(source)
        if notification.leader not in voters:
            if notification.leader == NO_VOTE.leader and self.proposal != NO_VOTE:
                self._notify(source)  # the sender asks for a vote: answer it if there is one
            return
        vetoed = self._has_vetoed(notification.leader, now)
        if self._settings.notification_backoff_reset and not vetoed:
            self._resend.reset(now)
        vote = Vote(notification.epoch, notification.zxid, notification.leader)
        received = ReceivedVote(vote, notification.round, notification.state)
        if notification.state is _LOOKING:
            self._handle_looking(source, received, now)
        elif notification.state is not _OBSERVING and not vetoed:
            self._handle_established(source, received)

    def reachable(self, source: ServerId, now: Millis) -> None:
        """Resend the proposal to a voter whose connection has opened: earlier notifications may have been lost."""
        if self._settings.notification_backoff_reset:
            self._resend.reset(now)
        if source in self._electorate.peers:
            self._notify(source)

    def tick(self, now: Millis) -> None:
        if self._pending is not None:
            if now >= self._pending.at:
                self.decision = self._pending.vote
        elif now >= self._resend.at:
            self._notify(*self._electorate.peers)
            self._resend.resent(now, self._vetoed.values())

    # -- the algorithm -----------------------------------------------------------------------------

    def _handle_looking(self, source: ServerId, received: ReceivedVote, now: Millis) -> None:
        """Count the vote of a server that is LOOKING, as ZooKeeper's FastLeaderElection does.

        - A vote of an earlier round is not counted if this server has a proposal; the sender is answered, so that it
          catches up.
        - This server joins a later round with the better of the received vote and its initial vote, `_own`.
        - In the same round a better vote is adopted and sent to all voters.
        """
        if received.vote.zxid == UNKNOWN:
            return  # never vote for a history that may be incomplete
        if not self._votes:
            self._handle_without_vote(source, received, now)
            return
        if received.round < self.round and self.proposal != NO_VOTE:
            # Answer once per pair of rounds, so that the sender catches up. If it takes this server for a non-voter, it
            # answers every notification, and the two would answer each other for ever.
            rounds = received.round, self.round
            if self._answered_behind.get(source) != rounds:
                self._answered_behind[source] = rounds
                self._notify(source)
            return
        # A server without a proposal cannot call others into a later round, so it also joins an earlier one.
        if received.round != self.round:
            self.round = received.round
            self._received.clear()
            self._propose(received.vote if self._prefers(received.vote, self._own, now) else self._own, now)
        elif self._prefers(received.vote, self.proposal, now):
            self._propose(received.vote, now)
        elif received.vote != self.proposal and self._received.get(source) != received:
            self._notify(source)  # the sender may have missed this proposal: otherwise its vote would be the same
        self._received[source] = received
        self._count(now)

    def _prefers(self, new: Vote, old: Vote, now: Millis) -> bool:
        return beats(new, old, self._electorate.active) and not self._has_vetoed(new.leader, now)

    def _has_vetoed(self, leader: ServerId, now: Millis) -> bool:
        return self._vetoed.get(leader, now) > now

    def _handle_without_vote(self, source: ServerId, received: ReceivedVote, now: Millis) -> None:
        """Count a LOOKING server's vote of any round. If a quorum agrees with it, decide for it after a short wait."""
        self._received[source] = received
        if self._pending is not None and self._pending.vote != received.vote:
            self._pending = None
        if self._has_vetoed(received.vote.leader, now):
            return
        if self._pending is None and self._has_quorum(self._received, received):
            self._pending = PendingDecision(received.vote, now + self._settings.finalize_wait_ms)

    def _handle_established(self, source: ServerId, received: ReceivedVote) -> None:
        if received.round == self.round:
            self._received[source] = received
            if self._is_followed(self._received, received):
                self.decision = received.vote
                return
        self._established[source] = received
        if self._is_followed(self._established, received):
            self.round = received.round
            self.decision = received.vote

    def _propose(self, vote: Vote, now: Millis) -> None:
        self.proposal = vote
        self._pending = None
        if self._votes:
            self._received[self._me] = ReceivedVote(vote, self.round, _LOOKING)
        self._notify(*self._electorate.peers)
        self._count(now)

    def _count(self, now: Millis) -> None:
        """Decide if all voters agree with the proposal. If only a quorum agrees, wait a little for a better vote.

        Deciding at once would be safe, too, but may cost a round.
        """
        if not self._votes:
            return
        mine = ReceivedVote(self.proposal, self.round, _LOOKING)
        if not self._has_quorum(self._received, mine):
            self._pending = None
        elif all(sid in self._received and self._received[sid].agrees_with(mine) for sid in self._electorate.voters):
            self.decision = self.proposal  # no other server could send a better vote
        elif self._pending is None:
            self._pending = PendingDecision(self.proposal, now + self._settings.finalize_wait_ms)

    def _has_quorum(self, votes: Mapping[ServerId, ReceivedVote], wanted: ReceivedVote) -> bool:
        agreeing = [sid for sid, received in votes.items() if received.agrees_with(wanted)]
        return self._electorate.is_quorum_of_all(agreeing)

    def _is_followed(self, votes: Mapping[ServerId, ReceivedVote], received: ReceivedVote) -> bool:
        """Return whether a quorum of one known membership agrees with this vote, and its leader confirms that it leads.

        One membership is enough: a change that only this server has logged must not keep it from following that leader.
        """
        agreeing = [sid for sid, each in votes.items() if each.agrees_with(received)]
        return self._electorate.is_quorum_of_any(agreeing) and self._leader_confirms(votes, received)

    def _leader_confirms(self, votes: Mapping[ServerId, ReceivedVote], received: ReceivedVote) -> bool:
        """Return whether the leader itself has reported that it leads.

        Without this condition, servers would follow a dead leader because others still do. If the leader is this
        server, the vote must be of this round.
        """
        leader = received.vote.leader
        if leader == self._me:
            return received.round == self.round
        return leader in votes and votes[leader].state is _LEADING

    # -- outputs -----------------------------------------------------------------------------------

    def _notify(self, *peers: ServerId) -> None:
        self.outgoing.extend(sid for sid in peers if sid not in self.outgoing)
