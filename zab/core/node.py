"""The node: one server's part in the protocol, as a state machine. Inputs change it, and `ready` returns its effects.

A node only computes. Its driver hands `Ready.save` to a disk that keeps the order, reports durable writes with `saved`,
delivers messages with `step`, and calls `tick` when `deadline` has come. The same calls have the same effects, if
`jitter` returns the same delays.

The driver's side of the contract:
- There is one caller at a time. `now` is in whole milliseconds of any origin, and never goes back.
- After `LinkDown`, `HangUp` or a replacing `LinkUp`, no message of the old link is delivered, and none is queued on it.
- A crash loses the node, and may lose every write that the disk had not reported. A new node starts from `Recovered`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError, NotLeader, RemoteProtocolError
from zab.core.leader.leader import Leader
from zab.core.leader.learner_state import LearnerStep
from zab.core.leader_election import NO_VOTE, LeaderElection, Vote, is_voter
from zab.core.learner.learner import DIAL_ATTEMPTS, Learner
from zab.core.log_state import LogState
from zab.core.messages import (
    ALIVE,
    ON_LINKS,
    FollowerInfo,
    LinkDown,
    LinkEvent,
    LinkUp,
    Message,
    Notification,
    Reachable,
    SnapHeld,
    State,
    Veto,
)
from zab.core.ready import BarrierDone, Envelope, FindSnapshot, FoundSnapshot, HangUp, Ready, Recovered, Settings
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid, show

# Looking up a member of an enum is slow, and each turn needs this one.
_LOOKING: Final = State.LOOKING


class Vetoes:
    """The leaders that this server has vetoed, because they lack its committed history. Each veto ends after a time."""

    def __init__(self) -> None:
        self.last: Veto | None = None
        """The last veto; None if no decision of an operator is pending."""
        self._until: dict[ServerId, Millis] = {}
        """Vetoed leaders, and the times until which this server neither votes for nor follows them."""

    def add(self, leader: ServerId, veto: Veto, until: Millis) -> None:
        self.last = veto
        self._until[leader] = until

    def running(self, now: Millis) -> Mapping[ServerId, Millis]:
        """Return the leaders whose veto has not ended, each with the time at which it ends."""
        self._until = {sid: until for sid, until in self._until.items() if until > now}
        return self._until

    def end(self) -> None:
        """Forget all vetoes, because this server serves or an operator has decided."""
        self.last = None
        self._until.clear()


class Node:
    """One server: its role (election, leader or learner) and the state that outlives its roles."""

    # Tests replace these parts.
    leader_class: ClassVar[type[Leader]] = Leader
    learner_class: ClassVar[type[Learner]] = Learner
    log_state_class: ClassVar[type[LogState]] = LogState

    def __init__(
        self,
        me: ServerId,
        ensemble: Ensemble,
        recovered: Recovered,
        settings: Settings,
        jitter: Callable[[Millis], Millis],
        now: Millis,
    ) -> None:
        self.me = me
        self.settings = settings
        self.state = _LOOKING
        """The kind of `_role`: LOOKING in an election, LEADING as a leader, FOLLOWING or OBSERVING as a learner."""
        self.elections = 0
        """The number of elections that this server has begun."""
        self.has_ready = True
        """True if an input since the last `ready` may have had effects. Otherwise `ready` need not be called."""
        self.serving_role: Leader | Learner | None = None
        """The role while it serves, else None. Epoch and leader do not change while this is the same object."""
        self._vetoes = Vetoes()
        self._jitter = jitter
        self._now = now
        """The time at the last `_settle`."""
        self._log_state = self.log_state_class(me, ensemble, recovered, settings)
        self._out = self._log_state.out
        self._round = 0
        """The round of the current or last election.

        The next election begins with the next round, or with the round of an invitation.
        """
        self._vote = NO_VOTE
        """The vote for the current leader, sent to LOOKING servers. While LOOKING: this server's own vote."""
        self._role: LeaderElection | Leader | Learner
        self._invited: Ensemble | None = None
        """A membership change, pending elsewhere, that gives this server a vote; or None. Kept for one election."""
        self._early_links: dict[ServerId, tuple[Millis, tuple[Message, ...]]] = {}
        """Servers that dialled this one while it is LOOKING: the time at which each link is dropped, and the messages
        kept from it, at most one of each type. Empty in every other state."""
        for line in recovered.damage:
            self._out.note("damage", "warning", what=line)
        self._start_election(now)
        self._settle(now)  # send the first vote now, not with the first tick

    # -- queries -------------------------------------------------------------------------------------

    @property
    def leader(self) -> ServerId | None:
        """The leader that this server follows or observes, or this server itself. None while LOOKING."""
        return None if self.state is _LOOKING else self._vote.leader

    @property
    def serving(self) -> bool:
        """True in broadcast, once this server has applied everything that was committed when its broadcast began."""
        role = self._role
        return not isinstance(role, LeaderElection) and role.serving

    def status(self) -> tuple[Zxid, State, Epoch, ServerId | None, bool]:
        """Return `committed`, `state`, `epoch`, `leader` and `serving` in one call, because each turn needs them."""
        role, log_state = self._role, self._log_state
        if isinstance(role, LeaderElection):
            return log_state.committed, _LOOKING, log_state.current, None, False
        serving = self.serving_role is not None or role.serving
        return log_state.committed, self.state, log_state.current, self._vote.leader, serving

    @property
    def cut_off_since(self) -> Millis | None:
        """The time at which the current election began; None if this server sees a quorum, or outside of elections."""
        role = self._role
        return role.began if isinstance(role, LeaderElection) and not role.sees_quorum else None

    def silent_voters(self, now: Millis) -> frozenset[ServerId]:
        """Return the other voters that have sent no notification since this server's election began.

        The result is empty outside of elections, and until the election has lasted for init_limit.
        """
        role = self._role
        return role.silent_peers(now) if isinstance(role, LeaderElection) else frozenset()

    @property
    def responsive_voters(self) -> frozenset[ServerId]:
        """This server and the voters that have sent a notification since its election began.

        Empty outside of elections.
        """
        role = self._role
        return frozenset(role.sources if isinstance(role, LeaderElection) else ())

    @property
    def veto(self) -> Veto | None:
        """The last veto against a leader, until this server serves again or an operator decides."""
        return self._vetoes.last

    @property
    def phase(self) -> str:
        role = self._role
        return "election" if isinstance(role, LeaderElection) else role.phase.name

    @property
    def epoch(self) -> Epoch:
        return self._log_state.current

    @property
    def accepted(self) -> Epoch:
        return self._log_state.accepted

    @property
    def ensemble(self) -> Ensemble:
        return self._log_state.ensemble

    @property
    def pending(self) -> Ensemble | None:
        """The membership change that is logged here but not known to be committed, or None."""
        return self._log_state.pending

    @property
    def last(self) -> Zxid:
        return self._log_state.history.last

    @property
    def durable(self) -> Zxid:
        return self._log_state.durable

    @property
    def committed(self) -> Zxid:
        return self._log_state.committed

    @property
    def applied(self) -> Zxid:
        return self._log_state.applied

    @property
    def voting(self) -> bool:
        """False while history or promises of this server may be incomplete: it is not counted in quorums."""
        return self._log_state.voting

    @property
    def synced(self) -> tuple[ServerId, ...]:
        """The learners that have the initial history of this leader's epoch; empty unless this server leads."""
        role = self._role
        return role.synced if isinstance(role, Leader) else ()

    def synchronizes_with(self, peer: ServerId) -> bool:
        """Return whether a synchronization is under way, from here to `peer` or from `peer` to here."""
        role = self._role
        if isinstance(role, Leader):
            learner = role.learners.get(peer)
            return learner is not None and learner.step is LearnerStep.SYNCHRONIZING
        return isinstance(role, Learner) and role.leader == peer and role.phase.synchronizes

    def keep_alives(self) -> tuple[Envelope, ...]:
        """Return the messages to send every `report_ms` during a `Restore`, while the node takes no input."""
        role = self._role
        return (Envelope(role.leader, ALIVE),) if isinstance(role, Learner) else ()

    @property
    def deadline(self) -> Millis:
        deadline = self._role.deadline
        if self._early_links:
            return min(deadline, *(until for until, _ in self._early_links.values()))
        return deadline

    def digest(self) -> int | None:
        """Return the digest of the history up to `applied`, or None if it is not known."""
        return self._log_state.history.digest_at(self._log_state.applied)

    # -- inputs --------------------------------------------------------------------------------------

    def step(self, source: ServerId, message: Message | LinkEvent, now: Millis) -> None:
        """Handle a message or an event of a link.

        If a peer breaks the protocol, its link is closed; if that peer is this server's leader, an election follows.

        The role of a leader or a learner handles the messages on links. While LOOKING, the first messages of an early
        link are kept in case this server becomes the leader.
        """
        role = self._role
        kind = type(message)
        try:
            if kind in ON_LINKS and not isinstance(role, LeaderElection):
                role.handle(source, message, now)
            elif isinstance(message, Notification):
                self._on_notification(source, message, now)
            elif isinstance(message, Reachable):
                if isinstance(role, LeaderElection):
                    role.reachable(source, now)
            elif isinstance(message, LinkUp):
                self._on_link_up(source, message.dialled, now)
            elif isinstance(message, LinkDown):
                self._on_link_down(source, message.dialled, now)
            elif source in self._early_links and (isinstance(message, FollowerInfo) or message == ALIVE):
                until, kept = self._early_links[source]
                others = tuple(each for each in kept if type(each) is not kind)
                self._early_links[source] = (until, (*others, message))
            else:
                self._out.note("ignored", "debug", source=source, message=kind.__name__)
        except RemoteProtocolError as error:
            self._out.note("protocol_error", "warning", source=source, message=kind.__name__, error=str(error))
            self._cut(source, now)
        self._settle(now)

    def saved(self, ticket: Ticket, now: Millis) -> None:
        """Record that all writes handed to the disk up to `ticket` are durable."""
        grew = self._log_state.saved(ticket)
        role = self._role
        if isinstance(role, Leader):
            role.saved(ticket, grew, now)
        elif isinstance(role, Learner):
            role.saved(ticket, grew)
        self._settle(now)

    def holds(self, held: SnapHeld | None) -> None:
        """Record which part of a leader's snapshot the disk keeps; None if it keeps none.

        Call it before each `saved`, unless this server serves.
        """
        self._log_state.partial.held = held

    def found(self, question: FindSnapshot, found: FoundSnapshot | None, now: Millis) -> None:
        """Take the disk's answer to a question of `Ready.finds`: None if there is no such file."""
        role = self._role
        if isinstance(role, Leader):
            role.found(question, found)
            self._settle(now)

    def progress(self, peer: ServerId, moved: int, now: Millis) -> None:
        """Record the bytes that a synchronization has moved to or from `peer` since the link opened.

        Call it before `tick`, so that a slow synchronization that still moves bytes is not given up.
        """
        role = self._role
        if not isinstance(role, LeaderElection):
            role.progress(peer, moved, now)

    def tick(self, now: Millis) -> None:
        if now >= self._role.deadline:
            self._role.tick(now)
        for sid, (until, _) in list(self._early_links.items()):
            if now >= until:
                self._drop_early_link(sid)
        self._settle(now)

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        """Propose these transactions. Return the zxid of the first one; the others follow it without a gap.

        Raise `NotLeader` or `Overloaded` if they cannot be proposed now, and `LocalProtocolError` without payloads.
        """
        role = self._role
        if not isinstance(role, Leader):
            raise NotLeader(f"server {self.me} does not lead: it is {self.state.name}")
        try:
            return role.propose(payloads, now)
        finally:
            self._settle(now)

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = b"") -> Zxid:
        """Propose another membership and return its zxid, or raise `NotLeader`, `ConfigError` or a subclass of it.

        `expect` is the version that it must replace, or None for any version. `attached` is a payload that the machine
        applies together with the change.
        """
        role = self._role
        if not isinstance(role, Leader):
            raise NotLeader(f"server {self.me} does not lead: it is {self.state.name}")
        try:
            return role.reconfigure(ensemble, expect, now, attached)
        finally:
            self._settle(now)

    def barrier(self, token: int, now: Millis) -> None:
        """Request a barrier: a zxid at or after every write that any server acknowledged before this call.

        A later `Ready` has its `BarrierDone` with the same token.
        """
        role = self._role
        self.has_ready = True
        if isinstance(role, LeaderElection):
            self._out.barriers.append(BarrierDone(token, None))
        else:
            role.barrier(token)

    def give_up_history(self, now: Millis) -> Veto:
        """End and return the veto, and have this history replaced by a snapshot of the next leader.

        Only an operator may decide this. Raise `LocalProtocolError` if no veto is pending.
        """
        veto = self.veto
        if veto is None:
            raise LocalProtocolError(f"server {self.me} vetoes no leader: there is nothing to give up")
        self._vetoes.end()
        role = self._role
        if not isinstance(role, LeaderElection):
            role.leave()
        self._log_state.give_up(veto)
        self._start_election(now)
        self._settle(now)
        return veto

    def log_starts(self, zxid: Zxid) -> None:
        """Record that the log was purged and now begins after `zxid`."""
        self._log_state.history.purged(zxid)

    def ready(self) -> Ready:
        """Return all effects of the inputs since the last call."""
        role = self._role
        if isinstance(role, Leader):
            role.flush(self._now)
            self._settle(self._now)
        elif isinstance(role, Learner):
            role.flush()
        self.has_ready = False
        return self._out.drain()

    # -- election ------------------------------------------------------------------------------------

    def _on_notification(self, source: ServerId, notification: Notification, now: Millis) -> None:
        """Count the notification of a voter while LOOKING; otherwise answer a sender that is LOOKING.

        This is the rule of ZooKeeper's FastLeaderElection. But first, a server that is LOOKING adopts the sender's
        active membership if it is newer, and begins another election if more than the version has changed. It also
        begins another election if only the sender's pending change gives it a vote.
        """
        log_state = self._log_state
        role = self._role
        theirs = log_state.without_first_version(notification.ensemble)
        if isinstance(role, LeaderElection) and theirs.version > log_state.ensemble.version:
            # A server has activated this membership, so a quorum has it, and no older membership can elect a leader.
            changed = not theirs.same_members(log_state.ensemble)
            log_state.activate(theirs)
            if changed:
                self._start_election(now)
                role = self._role
        if isinstance(role, LeaderElection) and self._is_invitation(notification):
            # Join the sender's round: a server without a proposal cannot call others into its own.
            self._round = notification.round - 1
            self._start_election(now, notification.pending)
            role = self._role
        if not is_voter(source, self._views):
            # The sender is an observer or wants to join: answer if it is LOOKING, but do not count it. If this server
            # is LOOKING without a proposal, do not answer either: the sender may take this server for a voter and would
            # answer back, and the two would answer each other for ever.
            answers = not isinstance(role, LeaderElection) or role.proposal != NO_VOTE
            if notification.state is _LOOKING and answers:
                self._notify(source)
        elif isinstance(role, LeaderElection):
            role.handle(source, notification, now)
        elif notification.state is _LOOKING:
            self._notify(source)

    @property
    def _views(self) -> tuple[Ensemble, ...]:
        views = self._log_state.views
        return views if self._invited is None else (*views, self._invited)

    def _is_invitation(self, notification: Notification) -> bool:
        """Return whether a pending change, unknown here, gives this server a vote that the sender may need.

        A former leader may be the only server that has logged a membership change. Its election then needs a quorum of
        the changed membership, too, and a server that the change adds may not know of the change. It is always safe to
        vote, because the receiver decides which votes count.
        """
        pending = notification.pending
        return (
            notification.state is _LOOKING
            and pending is not None
            and self.me in pending.voters
            and not is_voter(self.me, self._views)
            and pending.version > max(view.version for view in self._views)
        )

    def _notify(self, peer: ServerId) -> None:
        log_state = self._log_state
        role = self._role
        vote, turn = (role.proposal, role.round) if isinstance(role, LeaderElection) else (self._vote, self._round)
        memberships = log_state.ensemble, log_state.pending
        self._out.send(peer, Notification(self.state, vote.leader, vote.zxid, vote.epoch, turn, *memberships))

    def _start_election(self, now: Millis, invited: Ensemble | None = None) -> None:
        """Go back to LOOKING, and discard the state of the last role."""
        log_state = self._log_state
        self.state = _LOOKING
        self.elections += 1
        self._invited = invited
        votes = is_voter(self.me, self._views) and log_state.voting
        is_candidate = votes and log_state.ensemble.weight(self.me) > 0
        own = Vote(log_state.epoch, log_state.last, self.me) if is_candidate else NO_VOTE
        delay = 0 if votes else self._jitter(self.settings.observer_delay_ms_max)
        self._vote = own
        self._role = LeaderElection(
            self.me, own, self._round, self._views, self.settings, now, delay, votes, self._vetoes.running(now)
        )
        self._round = self._role.round
        self._out.note("looking", round=self._round, epoch=log_state.epoch, last=show(log_state.last))

    # -- roles -----------------------------------------------------------------------------------------

    def _settle(self, now: Millis) -> None:
        """Change roles until the current role does not end at once."""
        self._now = now
        self.has_ready = True
        serving_role = self.serving_role
        if serving_role is not None and serving_role.over is None:
            return
        while self._change_role(now):
            pass

    def _change_role(self, now: Millis) -> bool:
        """Enter the next role if the current one has ended. Return whether it had.

        An election ends with a decision; the roles of a leader or a learner end when they are `over`. A membership
        change may have designated the next leader, otherwise an election follows.
        """
        role = self._role
        if isinstance(role, LeaderElection):
            for peer in role.outgoing:
                self._notify(peer)
            role.outgoing.clear()
            self._round = role.round
            if role.decision is None:
                return False
            self._vote = role.decision
            self._out.note("elected", leader=self._vote.leader, round=self._round, zxid=show(self._vote.zxid))
            self._enter_role(now)
            return True
        if role.over is None:
            if role.serving:
                self._begin_serving(role)
            return False
        # No warning if the next leader is designated: a membership change ends the role, which is planned.
        is_lost = role.serving or (isinstance(role, Learner) and role.phase.synchronizes)
        level = "warning" if is_lost and role.designated is None else "info"
        self._out.note("role_over", level, state=self.state.name, why=role.over)
        self.serving_role = None
        if isinstance(role, Learner) and role.veto is not None:
            self._vetoes.add(role.leader, role.veto, now + self.settings.veto_retry_ms)
        role.leave()
        if role.designated is None:
            self._start_election(now)
        else:
            self._vote = Vote(self._log_state.epoch, self._log_state.last, role.designated)
            self._enter_role(now)
        return True

    def _enter_role(self, now: Millis) -> None:
        """Lead if the vote names this server, else follow or observe the leader that it names."""
        log_state = self._log_state
        if self._vote.leader == self.me:
            self.state = State.LEADING
            self._role = leader = self.leader_class(log_state, now)
            for sid, (_, messages) in self._early_links.items():
                leader.link_up(sid, now)
                for message in messages:
                    leader.handle(sid, message, now)
            self._early_links.clear()
        else:
            observer = log_state.observer and self._invited is None
            self.state = State.OBSERVING if observer else State.FOLLOWING
            self._role = self.learner_class(log_state, self._vote.leader, now, observer)
            for sid in list(self._early_links):
                self._drop_early_link(sid)
        # An invitation is valid for one election. If it were kept, a server that later becomes an observer would join
        # as a follower again and again.
        self._invited = None

    def _begin_serving(self, role: Leader | Learner) -> None:
        self.serving_role = role
        self._vetoes.end()
        if self._vote.epoch != self._log_state.current:
            # All servers that follow one leader must send the same epoch to LOOKING servers.
            self._vote = Vote(self._log_state.current, self._vote.zxid, self._vote.leader)

    # -- links ---------------------------------------------------------------------------------------

    def _on_link_up(self, source: ServerId, dialled: bool, now: Millis) -> None:
        role = self._role
        self._out.forget_link(source, dialled)
        if dialled:
            if isinstance(role, Learner) and role.leader == source:
                role.link_up(now)
            else:
                self._out.links.append(HangUp(source, dialled=True))
        elif isinstance(role, Leader):
            role.link_up(source, now)
        elif isinstance(role, LeaderElection):
            # The sender has ended its election earlier, perhaps with this server as leader. Keep the link about as long
            # as the sender would go on dialling.
            settings = self.settings
            most = settings.init_ms if settings.dial_for_init_limit else DIAL_ATTEMPTS * settings.dial_retry_ms
            self._early_links[source] = (now + most, ())
        else:
            self._out.links.append(HangUp(source, dialled=False))

    def _on_link_down(self, source: ServerId, dialled: bool, now: Millis) -> None:
        role = self._role
        self._out.forget_link(source, dialled)
        if dialled:
            if isinstance(role, Learner) and role.leader == source:
                role.link_down(now)
        else:
            self._early_links.pop(source, None)
            if isinstance(role, Leader):
                role.link_down(source, now)

    def _drop_early_link(self, sid: ServerId) -> None:
        del self._early_links[sid]
        self._out.links.append(HangUp(sid, dialled=False))

    def _cut(self, source: ServerId, now: Millis) -> None:
        """Close the link to a peer that broke the protocol. If the peer is the leader, end the attempt to follow it."""
        role = self._role
        if isinstance(role, Leader):
            if source in role.learners:
                role.hang_up(source, "broke the protocol")
        elif isinstance(role, Learner) and role.leader == source and role.over is None:
            role.end(f"leader {source} broke the protocol")
