"""The refinement check: every step of a server is one that the specification allows at that moment.

The other checkers notice a wrong result. This one notices the wrong step that leads to it, mostly some time earlier,
and reports the guard that does not hold. A step that changes nothing in the specification is an empty sequence of
actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers import specification as actions
from harness.checkers.ghost import Ghost, Known
from harness.checkers.judge import Checker
from harness.checkers.specification import Action, Promise, State
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, UpToDate
from zab.core.messages import State as Role
from zab.core.ready import Recovered, Write
from zab.core.zxid import Epoch, ServerId, Zxid

PAIR: Final = len(Action) + 1

# Plain numbers, because every step of every server is one of these, and members of an enum are looked up slowly.
(
    _START, _SEEK, _PROMISE, _ANNOUNCE, _TELL_PROMISE, _ESTABLISH, _IMPOSE, _CUT, _REPLACE, _ACCEPT, _ADOPT,
    _TELL_ADOPTED, _LET_SERVE, _PROPOSE, _ACKNOWLEDGE, _COMMIT, _LEARN, _DELIVER, _SERVE, _CRASH,
) = map(int, Action)  # fmt: skip
_LEADS: Final = Role.LEADING


class Refinement(Checker):
    invariant = "refinement"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self.state = State(ghost, [ghost.initial_ensemble])
        self.steps = 0
        """So many were held against the specification, and matched."""
        self.pairs: set[int] = set()
        """Which action of a server came right behind which other one of the same: `PAIR` times the first, plus it."""
        self._last = [0] * len(ghost.servers)

    def _step(self, who: Known, action: int, trouble: str | None) -> None:
        if trouble is not None:
            self.fail(f"server {who.id} takes the step {Action(action).name}, which needs that {trouble}")
        last, sid = self._last, who.id
        self.steps += 1
        self.pairs.add(last[sid] * PAIR + action)
        last[sid] = action

    def actions(self) -> set[Action]:
        """Which have occurred."""
        return {Action(pair % PAIR) for pair in self.pairs}

    # -- the process and its disk --------------------------------------------------------------------------

    def started(self, who: Known, recovered: Recovered) -> None:
        if who.went_back or who.impaired:
            actions.forget_promises(self.state, who.id)
        self.state.committed[who.id] = recovered.snapshot
        self._step(who, _START, None)

    def crashed(self, who: Known, unfinished: Sequence[Write]) -> None:
        self._step(who, _CRASH, None)

    def durable_epochs(self, who: Known, accepted: Epoch, current: Epoch) -> None:
        if accepted != who.accepted:
            self._step(who, _PROMISE, actions.promise(self.state, who, accepted))
        if current != who.current:
            self._step(who, _ADOPT, actions.adopt(self.state, who, current))

    # -- discovery -----------------------------------------------------------------------------------------

    def role(self, who: Known, state: Role, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if state == who.state:
            return
        if who.state == Role.LEADING and epoch > who.epoch:
            # Established and over within one turn: it told nobody, but on its way to the disk is what it adopted.
            self._step(who, _ESTABLISH, actions.establish(self.state, who, epoch))
        self._step(who, _SEEK, None)

    def said_leader_info(self, who: Known, to: ServerId, message: LeaderInfo) -> None:
        self._step(who, _ANNOUNCE, actions.announce(self.state, who, message.epoch))

    def said_ack_epoch(self, who: Known, to: ServerId, message: AckEpoch) -> None:
        if who.impaired:
            actions.forget_promises(self.state, who.id)
        told = Promise(message.current_epoch, message.last)
        self._step(who, _TELL_PROMISE, actions.tell_promise(self.state, who, to, told, message.counts))

    def established(self, who: Known, epoch: Epoch) -> None:
        self._step(who, _ESTABLISH, actions.establish(self.state, who, epoch))

    # -- synchronization -----------------------------------------------------------------------------------

    def said_new_leader(self, who: Known, to: ServerId, message: NewLeader) -> None:
        self._step(who, _IMPOSE, actions.impose(self.state, who, message.epoch))

    def truncated(self, who: Known, zxid: Zxid) -> None:
        self._step(who, _CUT, actions.cut(self.state, who, zxid))

    def installed(self, who: Known, zxid: Zxid) -> None:
        self._step(who, _REPLACE, actions.replace(self.state, who, zxid))

    def said_ack_new_leader(self, who: Known, to: ServerId, message: AckNewLeader) -> None:
        self._step(who, _TELL_ADOPTED, actions.tell_adopted(self.state, who, to, message.epoch))

    def said_up_to_date(self, who: Known, to: ServerId, message: UpToDate) -> None:
        self._step(who, _LET_SERVE, actions.let_serve(self.state, who, to, message.committed))

    # -- broadcast -----------------------------------------------------------------------------------------

    def appended(self, who: Known, batch: Batch) -> None:
        if batch.config:
            self.state.memberships += [Ensemble.parse(payload.decode()) for payload in batch.payloads()]
        if who.state == _LEADS and batch.first >> 32 == who.epoch:
            self._step(who, _PROPOSE, actions.propose(self.state, who, batch.first, batch.last))
        else:
            self._step(who, _ACCEPT, actions.accept(self.state, who, batch.first, batch.last))

    def said_ack(self, who: Known, to: ServerId, message: Ack) -> None:
        self._step(who, _ACKNOWLEDGE, actions.acknowledge(self.state, who, to, message.zxid))

    def committed(self, who: Known, zxid: Zxid, path: list[Zxid] | None) -> None:
        if path == []:
            self._step(who, _LEARN, actions.learn(self.state, who, zxid))
        else:
            self._step(who, _COMMIT, actions.commit(self.state, who, zxid))

    def believed(self, who: Known, zxid: Zxid) -> None:
        self._step(who, _LEARN, actions.learn(self.state, who, zxid))

    def applied(self, who: Known, batch: Batch) -> None:
        self._step(who, _DELIVER, actions.deliver(self.state, who, batch.first, batch.last))

    def serves(self, who: Known) -> None:
        self._step(who, _SERVE, actions.serve(self.state, who, who.state == Role.LEADING))
