"""ZAB as an executable specification: the actions that servers may take, each with its guards and its effect.

`harness.checkers.refinement` compares every step of the real servers with it. An action whose guards hold changes the
state and returns None. Otherwise it changes nothing and returns the guard that does not hold. Elections are abstracted:
any server may try to lead, but an epoch is established only over a quorum in which no member has a newer history.
Crashes, losses and starts belong to the environment and are always enabled.

The variables of a server (its epochs, its history, the durable part of the history) are those of the oracle state: this
is the abstraction. The zxid of its last transaction names a history. The state records that a message was sent, not
where it is: a server may not act on a promise that no server has sent, whatever the network does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, auto

from attrs import define, field, frozen

from harness.checkers.oracle_state import OracleState, ServerState
from harness.quorums import is_quorum, meets_every_quorum
from zab.core.ensemble import Ensemble
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, epoch_of, follows, show


class Action(IntEnum):
    """The actions, in the order in which a server takes them first."""

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
    """The content of a promise to a candidate: the current epoch of the server, and the end of its history."""

    epoch: Epoch
    last: Zxid


@define
class Leadership:
    """The state of one epoch, from the first promise on."""

    promises: dict[ServerId, dict[ServerId, Promise]] = field(factory=dict)
    """The promises that count, by candidate and by server."""
    bound: dict[ServerId, ServerId] = field(factory=dict)
    """The candidate to which each server has promised the epoch: it may promise it to one only."""
    leader: ServerId | None = None
    """The established leader: a quorum has promised it the epoch."""
    initial: Zxid = NOTHING
    """The end of the history with which the epoch begins."""
    end: Zxid = NOTHING
    """The end of the leader's history now."""
    acked: dict[ServerId, Zxid] = field(factory=dict)
    """The servers that have acknowledged the epoch, and the last zxid that each has acknowledged."""
    begun: bool = False
    """A quorum has adopted the epoch, and the leader has acted on it."""
    up_to_date: dict[ServerId, Zxid] = field(factory=dict)
    """The learners to which the leader sent UPTODATE, and the zxid in it."""


@define
class State:
    histories: OracleState
    memberships: list[Ensemble]
    """All memberships that were ever proposed. A quorum of any of them is accepted: the specification does not model
    which of them a server uses."""
    leaderships: dict[Epoch, Leadership] = field(factory=dict)
    committed: dict[ServerId, Zxid] = field(factory=dict)
    """The last zxid that each running server knows to be committed."""

    def leadership(self, epoch: Epoch) -> Leadership:
        found = self.leaderships.get(epoch)
        if found is None:
            found = self.leaderships[epoch] = Leadership()
        return found

    def is_quorum(self, sids: Sequence[ServerId]) -> bool:
        return any(is_quorum(membership, sids) for membership in self.memberships)

    def meets_every_quorum(self, sids: Sequence[ServerId]) -> bool:
        return any(meets_every_quorum(membership, sids) for membership in self.memberships)


# -- discovery -------------------------------------------------------------------------------------------


def promise(state: State, s: ServerState, epoch: Epoch) -> str | None:
    """The promise is on the disk: the server follows no leader of an older epoch any more."""
    return None if epoch > s.accepted else f"epoch {epoch} is newer than the promised epoch {s.accepted}"


def announce(state: State, s: ServerState, epoch: Epoch) -> str | None:
    """A candidate announces the epoch that it wants to lead."""
    if s.accepted != epoch:
        return f"it has promised epoch {epoch} to itself; it has promised {s.accepted}"
    return None


def tell_promise(state: State, s: ServerState, to: ServerId, told: Promise, counts: bool) -> str | None:
    """A server sends a promise. The promise reports the state of the server, and only one candidate gets it."""
    epoch = s.promised
    if s.accepted < epoch:
        return f"the promise of epoch {epoch} is durable; the disk has {s.accepted}"
    if told.last != UNKNOWN:
        if told.last != s.tip:
            return f"the promise reports the end of the history, {show(s.tip)}, not {show(told.last)}"
        if told.epoch != max(s.current, epoch_of(s.tip)):
            return f"the promise reports the epoch of the history, {max(s.current, epoch_of(s.tip))}, not {told.epoch}"
    if not counts:
        return None
    leadership = state.leadership(epoch)
    other = leadership.bound.get(s.id)
    if other is not None:
        return f"it has promised epoch {epoch} to no other server; it has promised it to {other}"
    leadership.bound[s.id] = to
    leadership.promises.setdefault(to, {})[s.id] = told
    return None


def forget_promises(state: State, sid: ServerId) -> None:
    """The environment has destroyed the record. Sent promises still count, but the server may promise again."""
    for leadership in state.leaderships.values():
        leadership.bound.pop(sid, None)


def establish(state: State, s: ServerState, epoch: Epoch) -> str | None:
    """A leader is established: a quorum has promised, and everything that a quorum may have decided is in its
    history."""
    leadership = state.leadership(epoch)
    if leadership.leader is not None:
        return f"no server leads epoch {epoch}; server {leadership.leader} does"
    if s.accepted != epoch:
        return f"it has promised epoch {epoch} to itself; it has promised {s.accepted}"
    mine = (max(s.current, s.epoch, epoch_of(s.tip)), s.tip)
    told = leadership.promises.get(s.id, {})
    promised = [*told, s.id]
    if not state.is_quorum(promised):
        return f"a quorum has promised it epoch {epoch}; only {sorted(promised)} have"
    older = [sid for sid, what in told.items() if what.last != UNKNOWN and (what.epoch, what.last) <= mine]
    if not state.meets_every_quorum([*older, s.id]):
        what = f"every quorum has a member without a newer history than {show(s.tip)}"
        return f"{what}; only {sorted([*older, s.id])} have none"
    leadership.leader = s.id
    leadership.initial = leadership.end = s.tip
    return None


# -- synchronization -------------------------------------------------------------------------------------


def impose(state: State, s: ServerState, epoch: Epoch) -> str | None:
    """A leader sends NEWLEADER: the learner has received the whole initial history."""
    leader = state.leadership(epoch).leader
    return None if leader == s.id else f"it leads epoch {epoch}; the leader is {leader}"


def cut(state: State, s: ServerState, zxid: Zxid) -> str | None:
    """A learner truncates what its leader does not have, and nothing else."""
    histories, leadership = state.histories, state.leadership(s.promised)
    if leadership.leader is None:
        return f"epoch {s.promised}, in which it follows, is established"
    if not histories.holds(leadership.end, zxid):
        return f"its leader has {show(zxid)}, the new end of the log"
    if not histories.holds(s.tip, zxid):
        return f"its own history has {show(zxid)}, the new end of the log"
    behind = s.tip
    while behind != zxid:
        if histories.holds(leadership.end, behind):
            return f"its leader does not have {show(behind)}, which it truncates"
        behind = histories.parent[behind]
    return None


def replace(state: State, s: ServerState, zxid: Zxid) -> str | None:
    """A learner installs a snapshot of its leader, which contains only committed transactions."""
    leadership = state.leadership(s.promised)
    if leadership.leader is None:
        return f"epoch {s.promised}, in which it follows, is established"
    if not state.histories.holds(leadership.end, zxid):
        return f"its leader has {show(zxid)}, the zxid of the snapshot"
    if zxid not in state.histories.place:
        return f"{show(zxid)}, the zxid of the snapshot, is committed"
    return None


def accept(state: State, s: ServerState, first: Zxid, last: Zxid) -> str | None:
    """A learner logs what its leader has, behind the same transaction."""
    histories, leadership = state.histories, state.leadership(s.promised)
    if leadership.leader is None:
        return f"epoch {s.promised}, in which it follows, is established"
    if histories.parent.get(first) != s.tip:
        return f"{show(first)} follows {show(s.tip)} at its leader, too"
    if not histories.holds(leadership.end, last):
        return f"its leader of epoch {s.promised}, server {leadership.leader}, has {show(last)}"
    return None


def adopt(state: State, s: ServerState, epoch: Epoch) -> str | None:
    """A server saves the epoch as current. The initial history of the epoch is on the disk already."""
    leadership = state.leadership(epoch)
    if leadership.leader is None:
        return f"epoch {epoch} is established"
    if not state.histories.holds(s.durable, leadership.initial):
        return _initial_history(s, epoch, leadership.initial)
    return None


def _initial_history(s: ServerState, epoch: Epoch, initial: Zxid) -> str:
    return (
        f"its disk has {show(initial)}, the end of the initial history of epoch {epoch}; it ends at {show(s.durable)}"
    )


def tell_adopted(state: State, s: ServerState, to: ServerId, epoch: Epoch) -> str | None:
    leadership = state.leadership(epoch)
    if leadership.leader != to:
        return f"server {to} leads epoch {epoch}; the leader is {leadership.leader}"
    if s.current < epoch:
        return f"it has adopted epoch {epoch}; its current epoch is {s.current}"
    if not state.histories.holds(s.durable, leadership.initial):
        return _initial_history(s, epoch, leadership.initial)
    leadership.acked[s.id] = max(leadership.acked.get(s.id, leadership.initial), s.durable)
    return None


def let_serve(state: State, s: ServerState, to: ServerId, zxid: Zxid) -> str | None:
    """A leader sends UPTODATE to a learner: a quorum has adopted the epoch, and `zxid` is committed."""
    leadership = state.leadership(s.epoch)
    trouble = _begins(state, s)
    if trouble is not None:
        return trouble
    if to not in leadership.acked:
        return f"server {to} has adopted epoch {s.epoch}"
    if zxid not in state.histories.place or not state.histories.holds(zxid, leadership.initial):
        return f"{show(zxid)} is committed, and the initial history of epoch {s.epoch} with it"
    leadership.up_to_date[to] = zxid
    return None


# -- broadcast -------------------------------------------------------------------------------------------


def _begins(state: State, s: ServerState) -> str | None:
    """The guard of all actions of an established leader: a quorum has adopted its epoch. It holds for good once it
    holds."""
    leadership = state.leadership(s.epoch)
    if leadership.begun and leadership.leader == s.id:
        return None
    if leadership.leader != s.id:
        return f"it leads epoch {s.epoch}; the leader is {leadership.leader}"
    adopted = [*leadership.acked, s.id] if s.current >= s.epoch else list(leadership.acked)
    if not state.is_quorum(adopted):
        return f"a quorum has adopted epoch {s.epoch}; only {sorted(adopted)} have"
    leadership.begun = True
    return None


def propose(state: State, s: ServerState, first: Zxid, last: Zxid) -> str | None:
    """A leader logs a new batch."""
    trouble = _begins(state, s)
    if trouble is not None:
        return trouble
    leadership = state.leadership(s.epoch)
    if not follows(first, s.tip) or leadership.end != s.tip:
        return f"{show(first)} is the next zxid after {show(s.tip)}, the end of its history"
    leadership.end = last
    return None


def acknowledge(state: State, s: ServerState, to: ServerId, zxid: Zxid) -> str | None:
    leadership = state.leadership(s.promised)
    if leadership.leader != to:
        return f"server {to} leads epoch {s.promised}; the leader is {leadership.leader}"
    if s.id not in leadership.acked:
        return f"it has adopted epoch {s.promised}"
    if not state.histories.holds(s.durable, zxid):
        return f"its disk has {show(zxid)}; the disk ends at {show(s.durable)}"
    if not state.histories.holds(leadership.end, zxid):
        return f"its leader has {show(zxid)}"
    leadership.acked[s.id] = zxid
    return None


def commit(state: State, s: ServerState, zxid: Zxid) -> str | None:
    """A leader commits: a quorum has acknowledged `zxid`, or has adopted an epoch that begins with it."""
    trouble = _begins(state, s)
    if trouble is not None:
        return trouble
    leadership = state.leadership(s.epoch)
    if zxid > leadership.end or (zxid != leadership.initial and epoch_of(zxid) != s.epoch):
        return f"{show(zxid)} is of its own epoch, or the end of the initial history"
    have = [sid for sid, acked in leadership.acked.items() if acked >= zxid]
    if s.durable >= zxid:
        have.append(s.id)
    if not is_quorum(state.histories.governing[zxid], have):
        return f"a quorum has acknowledged {show(zxid)}; only {sorted(have)} have"
    state.committed[s.id] = zxid
    return None


def learn(state: State, s: ServerState, zxid: Zxid) -> str | None:
    """A learner receives that `zxid` is committed."""
    if zxid not in state.histories.place:
        return f"a leader has committed {show(zxid)}"
    if not state.histories.holds(s.tip, zxid):
        return f"its history has {show(zxid)}; the history ends at {show(s.tip)}"
    state.committed[s.id] = zxid
    return None


def deliver(state: State, s: ServerState, first: Zxid, last: Zxid) -> str | None:
    if last > state.committed[s.id]:
        return f"it knows {show(last)} to be committed"
    if state.histories.parent[first] != s.applied:
        return f"{show(first)} is the next after {show(s.applied)}, which it applied last"
    return None


def serve(state: State, s: ServerState, leads: bool) -> str | None:
    """A server begins to serve clients."""
    if leads:
        trouble = _begins(state, s)
        if trouble is not None:
            return trouble
        floor = state.leadership(s.epoch).initial
    else:
        told = state.leadership(s.promised).up_to_date.get(s.id)
        if told is None:
            return f"the leader of epoch {s.promised} has sent it UPTODATE"
        floor = told
    return None if s.applied >= floor else f"it has applied {show(floor)}; it has applied {show(s.applied)}"
