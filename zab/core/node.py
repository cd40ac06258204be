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

from zab.core.election import NOBODY, Election, Vote, is_voter
from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError, NotLeader, RemoteProtocolError
from zab.core.leading import Leading
from zab.core.learning import Learning
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
from zab.core.replica import Replica
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid, show

# A member of an enum is looked up slowly, and these with every word that is heard.
_LOOKING: Final = State.LOOKING


class Node:
    # The parts, named here so that a test can put a broken one in the place of a good one.
    election_class: type[Election] = Election
    leading_class: type[Leading] = Leading
    learning_class: type[Learning] = Learning
    replica_class: type[Replica] = Replica

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
        self.stirred = True
        """Since `ready` was asked last, something was told or asked. Else there is nothing that it could say."""
        self.stretch: Leading | Learning | None = None
        """One and the same for as long as this serves in one role, and so are then epoch and leader. Else None."""
        self.veto: Veto | None = None
        """The last one against a leader, until this server serves again or an operator decides."""
        self._vetoed: dict[ServerId, Millis] = {}
        """Until when this server neither votes for nor follows a leader that it has vetoed."""
        self._jitter = jitter
        self._now = now
        self._replica = self.replica_class(me, ensemble, recovered, settings)
        self._out = self._replica.out
        self._round = 0
        self._vote = NOBODY
        self._role: Election | Leading | Learning
        self._invited: Ensemble | None = None
        """A change that would give me a vote, and that somebody who needs mine told me of. For one LOOKING."""
        self._parked: dict[ServerId, tuple[Millis, tuple[Message, ...]]] = {}
        """Who dialled while this is LOOKING: until when it is kept on the line, and its first words, one of a kind."""
        for line in recovered.damage:
            self._out.note("damage", "warning", what=line)
        self._look(now)
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
        return not isinstance(role, Election) and role.serving

    def standing(self) -> tuple[Zxid, State, Epoch, ServerId | None, bool]:
        """`committed`, `state`, `epoch`, `leader` and `serving` at once, for who looks after every turn."""
        role, replica = self._role, self._replica
        if isinstance(role, Election):
            return replica.committed, _LOOKING, replica.current, None, False
        serving = self.stretch is not None or role.serving
        return replica.committed, self.state, replica.current, self._vote.leader, serving

    @property
    def cut_off_since(self) -> Millis | None:
        """The time since which this server looks for a leader and hears from no quorum, or None."""
        role = self._role
        return role.began if isinstance(role, Election) and not role.sees_quorum else None

    @property
    def heard(self) -> frozenset[ServerId]:
        """The voters that have sent a notification since this server began to look for a leader, and itself."""
        role = self._role
        return frozenset(role.sources if isinstance(role, Election) else ())

    @property
    def phase(self) -> str:
        role = self._role
        return "election" if isinstance(role, Election) else role.phase.value

    @property
    def epoch(self) -> Epoch:
        return self._replica.current

    @property
    def accepted(self) -> Epoch:
        return self._replica.accepted

    @property
    def ensemble(self) -> Ensemble:
        return self._replica.ensemble

    @property
    def pending(self) -> Ensemble | None:
        """A membership change that is under way as far as this server knows."""
        return self._replica.pending

    @property
    def last(self) -> Zxid:
        return self._replica.history.last

    @property
    def durable(self) -> Zxid:
        return self._replica.durable

    @property
    def committed(self) -> Zxid:
        return self._replica.committed

    @property
    def applied(self) -> Zxid:
        return self._replica.applied

    @property
    def voting(self) -> bool:
        """False while the history on this disk may be incomplete: heard, not counted."""
        return self._replica.voting

    @property
    def synced(self) -> tuple[ServerId, ...]:
        """At a leader: who follows and has this epoch's history."""
        role = self._role
        if not isinstance(role, Leading):
            return ()
        return tuple(sorted(sid for sid, learner in role.learners.items() if learner.synced))

    @property
    def deadline(self) -> Millis:
        deadline = self._role.deadline
        if self._parked:
            return min(deadline, *(until for until, _ in self._parked.values()))
        return deadline

    def digest(self) -> int:
        """Of the history up to `applied`."""
        digest = self._replica.history.digest_at(self._replica.applied)
        assert digest is not None, "what is applied last is in memory"
        return digest

    # -- inputs --------------------------------------------------------------------------------------

    def step(self, source: ServerId, message: Message | LinkEvent, now: Millis) -> None:
        """Something was heard. A peer that breaks the rules loses its link; nothing else is disturbed."""
        role = self._role
        kind = type(message)
        try:
            if kind in ON_LINKS and not isinstance(role, Election):
                role.heard(source, message, now)
            elif isinstance(message, Notification):
                self._on_notification(source, message, now)
            elif isinstance(message, Reachable):
                if isinstance(role, Election):
                    role.reachable(source, now)
            elif isinstance(message, LinkUp):
                self._on_link_up(source, message.dialled, now)
            elif isinstance(message, LinkDown):
                self._on_link_down(source, message.dialled, now)
            elif source in self._parked and (isinstance(message, FollowerInfo) or message == ALIVE):
                until, said = self._parked[source]
                others = tuple(each for each in said if type(each) is not kind)
                self._parked[source] = (until, (*others, message))
            else:
                self._out.note("ignored", "debug", source=source, message=kind.__name__)
        except RemoteProtocolError as error:
            self._out.note("protocol_error", "warning", source=source, message=kind.__name__, error=str(error))
            self._cut(source, now)
        self._settle(now)

    def saved(self, ticket: Ticket, now: Millis) -> None:
        """Everything handed over up to `ticket` is durable."""
        grew = self._replica.saved(ticket)
        role = self._role
        if isinstance(role, Leading):
            role.saved(ticket, grew, now)
        elif isinstance(role, Learning):
            role.saved(ticket, grew)
        self._settle(now)

    def holds(self, held: SnapHeld | None) -> None:
        """Take what the disk holds of a snapshot of which no more arrives. Call it before `saved`.

        Only a server that does not serve needs to hear of it.
        """
        self._replica.held = held

    def found(self, question: FindSnapshot, found: FoundSnapshot | None, now: Millis) -> None:
        """Take the disk's answer to a question of `Ready.finds`: None if there is no such file."""
        role = self._role
        if isinstance(role, Leading):
            role.found(question, found)
            self._settle(now)

    def progress(self, peer: ServerId, moved: int, now: Millis) -> None:
        """Take the bytes that a synchronization has moved over the link to or from `peer` since the link is open.

        Call it before `tick`: a synchronization that is slow and goes on is not given up.
        """
        role = self._role
        if not isinstance(role, Election):
            role.progress(peer, moved, now)

    def tick(self, now: Millis) -> None:
        if now >= self._role.deadline:
            self._role.tick(now)
        for sid, (until, _) in list(self._parked.items()):
            if now >= until:
                self._unpark(sid)
        self._settle(now)

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        """Give these transactions their places in history. Returns the first one's zxid; the rest follow it."""
        role = self._role
        if not isinstance(role, Leading):
            raise NotLeader(f"server {self.me} is {self.state.name}")
        try:
            return role.propose(payloads, now)
        finally:
            self._settle(now)

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis) -> Zxid:
        """Propose another membership; `expect` is the version that it is meant to replace."""
        role = self._role
        if not isinstance(role, Leading):
            raise NotLeader(f"server {self.me} is {self.state.name}")
        try:
            return role.reconfigure(ensemble, expect, now)
        finally:
            self._settle(now)

    def barrier(self, token: int, now: Millis) -> None:
        """Ask for a point in history behind every write acknowledged anywhere before this call."""
        role = self._role
        self.stirred = True
        if isinstance(role, Election):
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
        if not isinstance(role, Election):
            role.leave()
        self._replica.give_up(veto)
        self._look(now)
        self._settle(now)
        return veto

    def log_starts(self, zxid: Zxid) -> None:
        """The driver purged the log, which now begins behind `zxid`."""
        self._replica.history.purged(zxid)

    def ready(self) -> Ready:
        role = self._role
        if isinstance(role, Leading):
            role.flush(self._now)
            self._settle(self._now)
        elif isinstance(role, Learning):
            role.flush()
        self.stirred = False
        return self._out.drain()

    # -- election ------------------------------------------------------------------------------------

    def _on_notification(self, source: ServerId, notification: Notification, now: Millis) -> None:
        replica = self._replica
        role = self._role
        if isinstance(role, Election) and notification.ensemble.version > replica.ensemble.version:
            # It is in force somewhere, so a quorum has it: looking for a leader in an older one is in vain.
            changed = not notification.ensemble.same_members(replica.ensemble)
            replica.activate(notification.ensemble)
            if changed:
                self._look(now)
                role = self._role
        if isinstance(role, Election) and self._invites(notification):
            self._round = (
                notification.round - 1
            )  # theirs: whoever has nobody to propose cannot call others into his own
            self._look(now, notification.pending)
            role = self._role
        if not is_voter(source, self._views):
            # An observer, or somebody who wants to join: it does not count, but is told when it looks for a
            # leader. Not by a server that looks, too, and has nobody to propose: whatever it says is a question, and
            # those who know it as a voter answer it, so that the two would answer each other for ever.
            knows = not isinstance(role, Election) or role.proposal != NOBODY
            if notification.state is _LOOKING and knows:
                self._tell(source)
        elif isinstance(role, Election):
            role.heard(source, notification, now)
        elif notification.state is _LOOKING:
            self._tell(source)

    @property
    def _views(self) -> tuple[Ensemble, ...]:
        views = self._replica.views
        return views if self._invited is None else (*views, self._invited)

    def _invites(self, notification: Notification) -> bool:
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

    def _tell(self, peer: ServerId) -> None:
        replica = self._replica
        role = self._role
        vote, turn = (role.proposal, role.round) if isinstance(role, Election) else (self._vote, self._round)
        said = Notification(self.state, vote.leader, vote.zxid, vote.epoch, turn, replica.ensemble, replica.pending)
        self._out.send(peer, said)

    def _look(self, now: Millis, invited: Ensemble | None = None) -> None:
        """Back to LOOKING: what was true of the last role is not carried over."""
        replica = self._replica
        self.state = _LOOKING
        self.elections += 1
        self._invited = invited
        votes = is_voter(self.me, self._views) and replica.voting
        stands = votes and replica.ensemble.weight(self.me) > 0
        own = Vote(replica.epoch, replica.last, self.me) if stands else NOBODY
        delay = 0 if votes else self._jitter(self.settings.observer_delay_ms_max)
        self._vote = own
        self._vetoed = {sid: until for sid, until in self._vetoed.items() if until > now}
        self._role = self.election_class(
            self.me, own, self._round, self._views, self.settings, now, delay, votes, self._vetoed
        )
        self._round = self._role.round
        self._out.note("looking", round=self._round, epoch=replica.epoch, last=show(replica.last))

    # -- roles -----------------------------------------------------------------------------------------

    def _settle(self, now: Millis) -> None:
        """Act on what the role concluded, until nothing is left to conclude."""
        self._now = now
        self.stirred = True
        stretch = self.stretch
        if stretch is not None and stretch.over is None:
            return
        while True:
            role = self._role
            if isinstance(role, Election):
                for peer in role.outgoing:
                    self._tell(peer)
                role.outgoing.clear()
                self._round = role.round
                if role.decision is None:
                    return
                self._vote = role.decision
                self._out.note("elected", leader=self._vote.leader, round=self._round, zxid=show(self._vote.zxid))
                self._take_role(now)
            elif role.over is not None:
                self._out.note("role_over", state=self.state.name, why=role.over)
                self.stretch = None
                if isinstance(role, Learning) and role.veto is not None:
                    self.veto = role.veto
                    self._vetoed[role.leader] = now + self.settings.veto_retry_ms
                role.leave()
                if role.designated is None:
                    self._look(now)
                else:
                    self._vote = Vote(self._replica.epoch, self._replica.last, role.designated)
                    self._take_role(now)
            else:
                if role.serving:
                    self.stretch = role
                    if self.veto is not None:
                        self.veto = None
                        self._vetoed.clear()
                    if self._vote.epoch != self._replica.current:
                        # What LOOKING servers are told must agree among all who follow one leader.
                        self._vote = Vote(self._replica.current, self._vote.zxid, self._vote.leader)
                return

    def _take_role(self, now: Millis) -> None:
        replica = self._replica
        if self._vote.leader == self.me:
            self.state = State.LEADING
            self._role = leading = self.leading_class(replica, now)
            for sid, (_, said) in self._parked.items():
                leading.link_up(sid, now)
                for message in said:
                    leading.heard(sid, message, now)
            self._parked.clear()
        else:
            observer = replica.observer and self._invited is None
            self.state = State.OBSERVING if observer else State.FOLLOWING
            self._role = self.learning_class(replica, self._vote.leader, now, observer)
            for sid in list(self._parked):
                self._unpark(sid)
        # The invitation was for this one search. Kept, it would have a server that is made an observer later on come
        # as a follower again and again.
        self._invited = None

    # -- links ---------------------------------------------------------------------------------------

    def _on_link_up(self, source: ServerId, dialled: bool, now: Millis) -> None:
        role = self._role
        self._out.forget_link(source, dialled)
        if dialled:
            if isinstance(role, Learning) and role.leader == source:
                role.link_up(now)
            else:
                self._out.links.append(HangUp(source, dialled=True))
        elif isinstance(role, Leading):
            role.link_up(source, now)
        elif isinstance(role, Election):
            # It decided before me, perhaps for me. Keep it on the line for as long as it would redial.
            self._parked[source] = (now + 5 * self.settings.dial_retry_ms, ())
        else:
            self._out.links.append(HangUp(source, dialled=False))

    def _on_link_down(self, source: ServerId, dialled: bool, now: Millis) -> None:
        role = self._role
        self._out.forget_link(source, dialled)
        if dialled:
            if isinstance(role, Learning) and role.leader == source:
                role.link_down(now)
        else:
            self._parked.pop(source, None)
            if isinstance(role, Leading):
                role.link_down(source, now)

    def _unpark(self, sid: ServerId) -> None:
        del self._parked[sid]
        self._out.links.append(HangUp(sid, dialled=False))

    def _cut(self, source: ServerId, now: Millis) -> None:
        """End the link to a peer that broke the rules, as if it had broken by itself."""
        role = self._role
        if isinstance(role, Leading):
            if source in role.learners:
                role.hang_up(source, "broke the protocol")
        elif isinstance(role, Learning) and role.leader == source and role.over is None:
            role.over = f"leader {source} broke the protocol"
