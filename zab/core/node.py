"""The node: one server's whole part in the protocol, turned by inputs, drained by `ready`.

It computes, and does nothing else. Whoever drives it hands `Ready.save` to a disk that keeps the order,
reports back with `saved`, delivers what it hears with `step`, and calls `tick` when `deadline` has come.
A run is a function of these calls.

The driver's side of the contract:
- one caller at a time; `now` in whole milliseconds of any origin, never backwards;
- after `LinkDown`, `HangUp` or a replacing `LinkUp` nothing of the old link is delivered or sent any more;
- a crash is the loss of the node and of whatever the disk had not reported: start a new one from `Recovered`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError, NotLeader, RemoteProtocolError
from zab.core.leader.leader import Leader
from zab.core.leader_election import NO_VOTE, LeaderElection, Vote, is_voter
from zab.core.learner.learner import Learner
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
from zab.core.ready import BarrierDone, FindSnapshot, FoundSnapshot, HangUp, Ready, Recovered, Settings
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid, show

# A member of an enum is looked up slowly, and these with every word that is heard.
_LOOKING: Final = State.LOOKING


class Node:
    # The parts, named here so that a test can put a broken one in the place of a good one.
    election_class: type[LeaderElection] = LeaderElection
    leader_class: type[Leader] = Leader
    learner_class: type[Learner] = Learner
    log_state_class: type[LogState] = LogState

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
        self.elections = 0
        self.has_ready = True
        """Since `ready` was asked last, something was told or asked. Else there is nothing that it could say."""
        self.serving_role: Leader | Learner | None = None
        """One and the same for as long as this serves in one role, and so are then epoch and leader. Else None."""
        self.veto: Veto | None = None
        """The last one against a leader, until this server serves again or an operator decides."""
        self._vetoed: dict[ServerId, Millis] = {}
        """Until when this server neither votes for nor follows a leader that it has vetoed."""
        self._jitter = jitter
        self._now = now
        self._log_state = self.log_state_class(me, ensemble, recovered, settings)
        self._out = self._log_state.out
        self._round = 0
        self._vote = NO_VOTE
        self._role: LeaderElection | Leader | Learner
        self._invited: Ensemble | None = None
        """A change that would give me a vote, and that somebody who needs mine told me of. For one LOOKING."""
        self._early_links: dict[ServerId, tuple[Millis, tuple[Message, ...]]] = {}
        """Who dialled while this is LOOKING: until when it is kept on the line, and its first words, one of a kind."""
        for line in recovered.damage:
            self._out.note("damage", "warning", what=line)
        self._start_election(now)
        self._settle(now)  # the first vote is not for the first tick to send

    # -- what can be asked ---------------------------------------------------------------------------

    @property
    def leader(self) -> ServerId | None:
        """Whom I follow or observe, or myself; None while LOOKING."""
        return None if self.state is _LOOKING else self._vote.leader

    @property
    def serving(self) -> bool:
        """In broadcast, and everything that the leader called committed when I joined is applied here."""
        role = self._role
        return not isinstance(role, LeaderElection) and role.serving

    def status(self) -> tuple[Zxid, State, Epoch, ServerId | None, bool]:
        """`committed`, `state`, `epoch`, `leader` and `serving` at once, for who looks after every turn."""
        role, log_state = self._role, self._log_state
        if isinstance(role, LeaderElection):
            return log_state.committed, _LOOKING, log_state.current, None, False
        serving = self.serving_role is not None or role.serving
        return log_state.committed, self.state, log_state.current, self._vote.leader, serving

    @property
    def cut_off_since(self) -> Millis | None:
        """The time since which this server looks for a leader and hears from no quorum, or None."""
        role = self._role
        return role.began if isinstance(role, LeaderElection) and not role.sees_quorum else None

    @property
    def responsive_voters(self) -> frozenset[ServerId]:
        """The voters that have sent a notification since this server began to look for a leader, and itself."""
        role = self._role
        return frozenset(role.sources if isinstance(role, LeaderElection) else ())

    @property
    def phase(self) -> str:
        role = self._role
        return "election" if isinstance(role, LeaderElection) else role.phase.value

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
        """A membership change that is under way as far as this server knows."""
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
        """False while the history on this disk may be incomplete: heard, not counted."""
        return self._log_state.voting

    @property
    def synced(self) -> tuple[ServerId, ...]:
        """At a leader: who follows and has this epoch's history."""
        role = self._role
        if not isinstance(role, Leader):
            return ()
        return tuple(sorted(sid for sid, learner in role.learners.items() if learner.synced))

    @property
    def deadline(self) -> Millis:
        deadline = self._role.deadline
        if self._early_links:
            return min(deadline, *(until for until, _ in self._early_links.values()))
        return deadline

    def digest(self) -> int:
        """Of the history up to `applied`."""
        digest = self._log_state.history.digest_at(self._log_state.applied)
        assert digest is not None, "what is applied last is in memory"
        return digest

    # -- inputs --------------------------------------------------------------------------------------

    def step(self, source: ServerId, message: Message | LinkEvent, now: Millis) -> None:
        """Something was heard. A peer that breaks the rules loses its link; nothing else is disturbed."""
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
                until, said = self._early_links[source]
                others = tuple(each for each in said if type(each) is not kind)
                self._early_links[source] = (until, (*others, message))
            else:
                self._out.note("ignored", "debug", source=source, message=kind.__name__)
        except RemoteProtocolError as error:
            self._out.note("protocol_error", "warning", source=source, message=kind.__name__, error=str(error))
            self._cut(source, now)
        self._settle(now)

    def saved(self, ticket: Ticket, now: Millis) -> None:
        """Everything handed over up to `ticket` is durable."""
        grew = self._log_state.saved(ticket)
        role = self._role
        if isinstance(role, Leader):
            role.saved(ticket, grew, now)
        elif isinstance(role, Learner):
            role.saved(ticket, grew)
        self._settle(now)

    def holds(self, held: SnapHeld | None) -> None:
        """Take what the disk holds of a snapshot of which no more arrives. Call it before `saved`.

        Only a server that does not serve needs to hear of it.
        """
        self._log_state.held = held

    def found(self, question: FindSnapshot, found: FoundSnapshot | None, now: Millis) -> None:
        """Take the disk's answer to a question of `Ready.finds`: None if there is no such file."""
        role = self._role
        if isinstance(role, Leader):
            role.found(question, found)
            self._settle(now)

    def progress(self, peer: ServerId, moved: int, now: Millis) -> None:
        """Take the bytes that a synchronization has moved over the link to or from `peer` since the link is open.

        Call it before `tick`: a synchronization that is slow and goes on is not given up.
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
        """Give these transactions their places in history. Returns the first one's zxid; the rest follow it."""
        role = self._role
        if not isinstance(role, Leader):
            raise NotLeader(f"server {self.me} is {self.state.name}")
        try:
            return role.propose(payloads, now)
        finally:
            self._settle(now)

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis) -> Zxid:
        """Propose another membership; `expect` is the version that it is meant to replace."""
        role = self._role
        if not isinstance(role, Leader):
            raise NotLeader(f"server {self.me} is {self.state.name}")
        try:
            return role.reconfigure(ensemble, expect, now)
        finally:
            self._settle(now)

    def barrier(self, token: int, now: Millis) -> None:
        """Ask for a point in history behind every write acknowledged anywhere before this call."""
        role = self._role
        self.has_ready = True
        if isinstance(role, LeaderElection):
            self._out.barriers.append(BarrierDone(token, None))
        else:
            role.barrier(token)

    def give_up_history(self, now: Millis) -> Veto:
        """End the veto and have this history replaced by a snapshot of the leader. Only an operator may decide so."""
        veto = self.veto
        if veto is None:
            raise LocalProtocolError(f"server {self.me} vetoes no leader: there is nothing to give up")
        self.veto = None
        self._vetoed.clear()
        role = self._role
        if not isinstance(role, LeaderElection):
            role.leave()
        self._log_state.give_up(veto)
        self._start_election(now)
        self._settle(now)
        return veto

    def log_starts(self, zxid: Zxid) -> None:
        """The driver purged the log, which now begins behind `zxid`."""
        self._log_state.history.purged(zxid)

    def ready(self) -> Ready:
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
        log_state = self._log_state
        role = self._role
        if isinstance(role, LeaderElection) and notification.ensemble.version > log_state.ensemble.version:
            # It is in force somewhere, so a quorum has it: looking for a leader in an older one is in vain.
            changed = not notification.ensemble.same_members(log_state.ensemble)
            log_state.activate(notification.ensemble)
            if changed:
                self._start_election(now)
                role = self._role
        if isinstance(role, LeaderElection) and self._is_invitation(notification):
            self._round = (
                notification.round - 1
            )  # theirs: whoever has nobody to propose cannot call others into his own
            self._start_election(now, notification.pending)
            role = self._role
        if not is_voter(source, self._views):
            # An observer, or somebody who wants to join: it does not count, but is told when it looks for a
            # leader. Not by a server that looks, too, and has nobody to propose: whatever it says is a question, and
            # those who know it as a voter answer it, so that the two would answer each other for ever.
            knows = not isinstance(role, LeaderElection) or role.proposal != NO_VOTE
            if notification.state is _LOOKING and knows:
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
        """Whether somebody needs my vote of whom I do not know that I have one.

        A leader may be the only one that has logged a change. It is not elected again without a quorum of what
        the change would make, and those whom the change adds have never heard of it. To vote is always safe: who
        counts decides whose votes count.
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
        said = Notification(self.state, vote.leader, vote.zxid, vote.epoch, turn, log_state.ensemble, log_state.pending)
        self._out.send(peer, said)

    def _start_election(self, now: Millis, invited: Ensemble | None = None) -> None:
        """Back to LOOKING: what was true of the last role is not carried over."""
        log_state = self._log_state
        self.state = _LOOKING
        self.elections += 1
        self._invited = invited
        votes = is_voter(self.me, self._views) and log_state.voting
        is_candidate = votes and log_state.ensemble.weight(self.me) > 0
        own = Vote(log_state.epoch, log_state.last, self.me) if is_candidate else NO_VOTE
        delay = 0 if votes else self._jitter(self.settings.observer_delay_ms_max)
        self._vote = own
        self._vetoed = {sid: until for sid, until in self._vetoed.items() if until > now}
        self._role = self.election_class(
            self.me, own, self._round, self._views, self.settings, now, delay, votes, self._vetoed
        )
        self._round = self._role.round
        self._out.note("looking", round=self._round, epoch=log_state.epoch, last=show(log_state.last))

    # -- roles -----------------------------------------------------------------------------------------

    def _settle(self, now: Millis) -> None:
        """Act on what the role concluded, until nothing is left to conclude."""
        self._now = now
        self.has_ready = True
        serving_role = self.serving_role
        if serving_role is not None and serving_role.over is None:
            return
        while True:
            role = self._role
            if isinstance(role, LeaderElection):
                for peer in role.outgoing:
                    self._notify(peer)
                role.outgoing.clear()
                self._round = role.round
                if role.decision is None:
                    return
                self._vote = role.decision
                self._out.note("elected", leader=self._vote.leader, round=self._round, zxid=show(self._vote.zxid))
                self._enter_role(now)
            elif role.over is not None:
                self._out.note("role_over", state=self.state.name, why=role.over)
                self.serving_role = None
                if isinstance(role, Learner) and role.veto is not None:
                    self.veto = role.veto
                    self._vetoed[role.leader] = now + self.settings.veto_retry_ms
                role.leave()
                if role.designated is None:
                    self._start_election(now)
                else:
                    self._vote = Vote(self._log_state.epoch, self._log_state.last, role.designated)
                    self._enter_role(now)
            else:
                if role.serving:
                    self.serving_role = role
                    if self.veto is not None:
                        self.veto = None
                        self._vetoed.clear()
                    if self._vote.epoch != self._log_state.current:
                        # What LOOKING servers are told must agree among all who follow one leader.
                        self._vote = Vote(self._log_state.current, self._vote.zxid, self._vote.leader)
                return

    def _enter_role(self, now: Millis) -> None:
        log_state = self._log_state
        if self._vote.leader == self.me:
            self.state = State.LEADING
            self._role = leader = self.leader_class(log_state, now)
            for sid, (_, said) in self._early_links.items():
                leader.link_up(sid, now)
                for message in said:
                    leader.handle(sid, message, now)
            self._early_links.clear()
        else:
            observer = log_state.observer and self._invited is None
            self.state = State.OBSERVING if observer else State.FOLLOWING
            self._role = self.learner_class(log_state, self._vote.leader, now, observer)
            for sid in list(self._early_links):
                self._drop_early_link(sid)
        # The invitation was for this one search. Kept, it would have a server that is made an observer later on come
        # as a follower again and again.
        self._invited = None

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
            # It decided before me, perhaps for me. Keep it on the line for as long as it would redial.
            self._early_links[source] = (now + 5 * self.settings.dial_retry_ms, ())
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
        """End the link to a peer that broke the rules, as if it had broken by itself."""
        role = self._role
        if isinstance(role, Leader):
            if source in role.learners:
                role.hang_up(source, "broke the protocol")
        elif isinstance(role, Learner) and role.leader == source and role.over is None:
            role.over = f"leader {source} broke the protocol"
