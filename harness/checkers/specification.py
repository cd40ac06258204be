"""ZAB as an executable specification: the actions that servers may take, each with its guards and its effect.

`harness.checkers.refinement` compares every step of the real servers with it. An action returns None and has had its
effect, or it returns the guard that does not hold and has had none. Election is abstracted: any server may try to lead,
but an epoch is established only over a quorum of which no member has a newer history. Crashes, losses and starts are
the environment's, and always enabled.

A server's own variables (its epochs, its history, the durable part of it) are those of the oracle state: that is the
abstraction. A history is named by the zxid of its end. Messages are not kept, only that they were sent: no network
excuses a server that acts upon a promise that was never made.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, auto

from attrs import define, field, frozen

from harness.checkers.ghost import Ghost, Known
from harness.quorums import is_quorum, meets_every_quorum
from zab.core.ensemble import Ensemble
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, epoch_of, follows, show


class Action(IntEnum):
    """By name, in the order of a server's life."""

    START = auto()
    SEEK = auto()
    PROMISE = auto()
    ANNOUNCE = auto()
    TELL_PROMISE = auto()
    ESTABLISH = auto()
    IMPOSE = auto()
    CUT = auto()
    REPLACE = auto()
    ACCEPT = auto()
    ADOPT = auto()
    TELL_ADOPTED = auto()
    LET_SERVE = auto()
    PROPOSE = auto()
    ACKNOWLEDGE = auto()
    COMMIT = auto()
    LEARN = auto()
    DELIVER = auto()
    SERVE = auto()
    CRASH = auto()


@frozen
class Promise:
    """What a server told the leader whose epoch it promised: the epoch that it had, and where its history ended."""

    epoch: Epoch
    last: Zxid


@define
class Reign:
    """An epoch that somebody wants to lead, or leads."""

    promises: dict[ServerId, dict[ServerId, Promise]] = field(factory=dict)
    """To whom, by whom. Only those that count."""
    bound: dict[ServerId, ServerId] = field(factory=dict)
    """By whom, to whom: nobody promises an epoch to two."""
    leader: ServerId | None = None
    """Since a quorum has promised."""
    initial: Zxid = NOTHING
    """What the epoch begins with."""
    end: Zxid = NOTHING
    """Where the leader's history ends by now."""
    acked: dict[ServerId, Zxid] = field(factory=dict)
    """Who has adopted the epoch and said so, and up to where it said to have the leader's history."""
    begun: bool = False
    """A quorum has adopted it."""
    up_to_date: dict[ServerId, Zxid] = field(factory=dict)
    """Whom the leader let serve, from where on."""


@define
class State:
    histories: Ghost
    memberships: list[Ensemble]
    """All there ever were. Which of them a server goes by, it may know better than those who look on."""
    reigns: dict[Epoch, Reign] = field(factory=dict)
    committed: dict[ServerId, Zxid] = field(factory=dict)
    """Up to where each running server knows its history to be committed."""

    def reign(self, epoch: Epoch) -> Reign:
        found = self.reigns.get(epoch)
        if found is None:
            found = self.reigns[epoch] = Reign()
        return found

    def is_quorum(self, sids: Sequence[ServerId]) -> bool:
        return any(is_quorum(membership, sids) for membership in self.memberships)

    def meets_every_quorum(self, sids: Sequence[ServerId]) -> bool:
        return any(meets_every_quorum(membership, sids) for membership in self.memberships)


# -- discovery -------------------------------------------------------------------------------------------


def promise(state: State, s: Known, epoch: Epoch) -> str | None:
    """It is on the disk now: no older leader will be followed."""
    return None if epoch > s.accepted else f"epoch {epoch} is newer than any promised ({s.accepted})"


def announce(state: State, s: Known, epoch: Epoch) -> str | None:
    """To lead this epoch."""
    if s.accepted != epoch:
        return f"whoever announces epoch {epoch} has promised it ({s.accepted}) to itself"
    return None


def tell_promise(state: State, s: Known, to: ServerId, told: Promise, counts: bool) -> str | None:
    """What it told is what it has; and a promise is made to one candidate only."""
    epoch = s.promised
    if s.accepted < epoch:
        return f"epoch {epoch} is promised ({s.accepted}) before that is told"
    if told.last != UNKNOWN:
        if told.last != s.tip:
            return f"the history that is told ends where it ends, at {show(s.tip)}, not at {show(told.last)}"
        if told.epoch != max(s.current, epoch_of(s.tip)):
            return f"the epoch that is told is that of the history, {max(s.current, epoch_of(s.tip))}, not {told.epoch}"
    if not counts:
        return None
    reign = state.reign(epoch)
    other = reign.bound.get(s.id)
    if other is not None:
        return f"epoch {epoch} has been promised to nobody before, and it was to server {other}"
    reign.bound[s.id] = to
    reign.promises.setdefault(to, {})[s.id] = told
    return None


def forget_promises(state: State, sid: ServerId) -> None:
    """The environment has taken them away. They were heard, but their maker is not bound by what it cannot know."""
    for reign in state.reigns.values():
        reign.bound.pop(sid, None)


def establish(state: State, s: Known, epoch: Epoch) -> str | None:
    """A quorum has promised, and whatever a quorum may ever have decided is in this history."""
    reign = state.reign(epoch)
    if reign.leader is not None:
        return f"nobody leads epoch {epoch}, but server {reign.leader} does"
    if s.accepted != epoch:
        return f"it has promised epoch {epoch} ({s.accepted}) to itself"
    mine = (max(s.current, s.epoch, epoch_of(s.tip)), s.tip)
    told = reign.promises.get(s.id, {})
    promised = [*told, s.id]
    if not state.is_quorum(promised):
        return f"a quorum has promised it epoch {epoch}, not only {sorted(promised)}"
    older = [sid for sid, what in told.items() if what.last != UNKNOWN and (what.epoch, what.last) <= mine]
    if not state.meets_every_quorum([*older, s.id]):
        return f"of every quorum somebody has no newer history than {show(s.tip)}, not only {sorted([*older, s.id])}"
    reign.leader = s.id
    reign.initial = reign.end = s.tip
    return None


# -- synchronization -------------------------------------------------------------------------------------


def impose(state: State, s: Known, epoch: Epoch) -> str | None:
    """Tell a learner that it has the whole initial history now."""
    return None if state.reign(epoch).leader == s.id else f"it leads epoch {epoch}, and not {state.reign(epoch).leader}"


def cut(state: State, s: Known, zxid: Zxid) -> str | None:
    """A learner discards what its leader has not, and nothing else."""
    histories, reign = state.histories, state.reign(s.promised)
    if reign.leader is None:
        return f"epoch {s.promised}, in which it follows, is established"
    if not histories.holds(reign.end, zxid):
        return f"its leader has {show(zxid)}, where it cuts"
    if not histories.holds(s.tip, zxid):
        return f"its own history has {show(zxid)}, where it cuts"
    behind = s.tip
    while behind != zxid:
        if histories.holds(reign.end, behind):
            return f"its leader has not {show(behind)}, which is cut away"
        behind = histories.parent[behind]
    return None


def replace(state: State, s: Known, zxid: Zxid) -> str | None:
    """A learner takes over a state of its leader's, which holds only what is committed."""
    reign = state.reign(s.promised)
    if reign.leader is None:
        return f"epoch {s.promised}, in which it follows, is established"
    if not state.histories.holds(reign.end, zxid):
        return f"its leader has {show(zxid)}, of which the state is"
    if zxid not in state.histories.place:
        return f"{show(zxid)}, of which the state is, is committed"
    return None


def accept(state: State, s: Known, first: Zxid, last: Zxid) -> str | None:
    """A learner logs what its leader has, in the same place."""
    histories, reign = state.histories, state.reign(s.promised)
    if reign.leader is None:
        return f"epoch {s.promised}, in which it follows, is established"
    if histories.parent.get(first) != s.tip:
        return f"{show(first)} stands behind {show(s.tip)} at its leader, too"
    if not histories.holds(reign.end, last):
        return f"its leader of epoch {s.promised}, server {reign.leader}, has {show(last)}"
    return None


def adopt(state: State, s: Known, epoch: Epoch) -> str | None:
    """It is on the disk now, behind the history that the epoch begins with."""
    reign = state.reign(epoch)
    if reign.leader is None:
        return f"epoch {epoch} is established"
    if not state.histories.holds(s.durable, reign.initial):
        return f"its disk, which ends at {show(s.durable)}, has {show(reign.initial)}, with which epoch {epoch} begins"
    return None


def tell_adopted(state: State, s: Known, to: ServerId, epoch: Epoch) -> str | None:
    reign = state.reign(epoch)
    if reign.leader != to:
        return f"server {to} leads epoch {epoch}, and not {reign.leader}"
    if s.current < epoch:
        return f"it has adopted epoch {epoch} ({s.current})"
    if not state.histories.holds(s.durable, reign.initial):
        return f"its disk, which ends at {show(s.durable)}, has {show(reign.initial)}, with which epoch {epoch} begins"
    reign.acked[s.id] = max(reign.acked.get(s.id, reign.initial), s.durable)
    return None


def let_serve(state: State, s: Known, to: ServerId, zxid: Zxid) -> str | None:
    """Tell a learner that the epoch is adopted, and what is committed."""
    reign = state.reign(s.epoch)
    trouble = _begins(state, s)
    if trouble is not None:
        return trouble
    if to not in reign.acked:
        return f"server {to} has adopted epoch {s.epoch}"
    if zxid not in state.histories.place or not state.histories.holds(zxid, reign.initial):
        return f"{show(zxid)} is committed, with all that epoch {s.epoch} began with"
    reign.up_to_date[to] = zxid
    return None


# -- broadcast -------------------------------------------------------------------------------------------


def _begins(state: State, s: Known) -> str | None:
    """What must hold before a leader does anything else: once it does, it does for ever."""
    reign = state.reign(s.epoch)
    if reign.begun and reign.leader == s.id:
        return None
    if reign.leader != s.id:
        return f"it leads epoch {s.epoch}, and not {reign.leader}"
    adopted = [*reign.acked, s.id] if s.current >= s.epoch else list(reign.acked)
    if not state.is_quorum(adopted):
        return f"a quorum has adopted epoch {s.epoch}, not only {sorted(adopted)}"
    reign.begun = True
    return None


def propose(state: State, s: Known, first: Zxid, last: Zxid) -> str | None:
    """A leader logs something new."""
    trouble = _begins(state, s)
    if trouble is not None:
        return trouble
    reign = state.reign(s.epoch)
    if not follows(first, s.tip) or reign.end != s.tip:
        return f"{show(first)} is the next after all that it has, {show(s.tip)}"
    reign.end = last
    return None


def acknowledge(state: State, s: Known, to: ServerId, zxid: Zxid) -> str | None:
    reign = state.reign(s.promised)
    if reign.leader != to:
        return f"server {to} leads epoch {s.promised}, and not {reign.leader}"
    if s.id not in reign.acked:
        return f"it has adopted epoch {s.promised}"
    if not state.histories.holds(s.durable, zxid):
        return f"its disk, which ends at {show(s.durable)}, has {show(zxid)}"
    if not state.histories.holds(reign.end, zxid):
        return f"its leader has {show(zxid)}"
    reign.acked[s.id] = zxid
    return None


def commit(state: State, s: Known, zxid: Zxid) -> str | None:
    """A leader decides: a quorum has said that it has this, or has adopted an epoch that begins with it."""
    trouble = _begins(state, s)
    if trouble is not None:
        return trouble
    reign = state.reign(s.epoch)
    if zxid > reign.end or (zxid != reign.initial and epoch_of(zxid) != s.epoch):
        return f"{show(zxid)} is of its own epoch, or what that began with"
    have = [sid for sid, acked in reign.acked.items() if acked >= zxid]
    if s.durable >= zxid:
        have.append(s.id)
    if not is_quorum(state.histories.governing[zxid], have):
        return f"a quorum has said that it has {show(zxid)}, not only {sorted(have)}"
    state.committed[s.id] = zxid
    return None


def learn(state: State, s: Known, zxid: Zxid) -> str | None:
    """Somebody else has decided."""
    if zxid not in state.histories.place:
        return f"a leader has committed {show(zxid)}"
    if not state.histories.holds(s.tip, zxid):
        return f"its own history, which ends at {show(s.tip)}, has {show(zxid)}"
    state.committed[s.id] = zxid
    return None


def deliver(state: State, s: Known, first: Zxid, last: Zxid) -> str | None:
    if last > state.committed[s.id]:
        return f"it knows {show(last)} to be committed"
    if state.histories.parent[first] != s.applied:
        return f"{show(first)} is next behind {show(s.applied)}"
    return None


def serve(state: State, s: Known, leads: bool) -> str | None:
    """Let clients read."""
    if leads:
        trouble = _begins(state, s)
        if trouble is not None:
            return trouble
        floor = state.reign(s.epoch).initial
    else:
        told = state.reign(s.promised).up_to_date.get(s.id)
        if told is None:
            return f"the leader of epoch {s.promised} let it serve"
        floor = told
    return None if s.applied >= floor else f"it has applied {show(floor)}, not only {show(s.applied)}"
