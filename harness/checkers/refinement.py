"""The refinement check: the specification allows every step of every server at its moment.

The other checkers notice a wrong result. This one notices the wrong step that leads to it, mostly some time earlier,
and reports the guard that does not hold. A step that changes nothing in the specification is an empty sequence of
actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers import specification as actions
from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
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

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self.state = State(ghost, [ghost.initial_ensemble])
        self.steps = 0
        """The number of steps that matched an action of the specification."""
        self.pairs: set[int] = set()
        """Pairs of consecutive actions of one server, each as `PAIR` times the first plus the second."""
        self._last = [0] * len(ghost.servers)

    def _step(self, server: ServerState, action: int, trouble: str | None) -> None:
        if trouble is not None:
            self.fail(f"server {server.id} takes the step {Action(action).name}, which requires that {trouble}")
        last, sid = self._last, server.id
        self.steps += 1
        self.pairs.add(last[sid] * PAIR + action)
        last[sid] = action

    def actions(self) -> set[Action]:
        """Return the actions that have occurred."""
        return {Action(pair % PAIR) for pair in self.pairs}

    # -- the process and its disk --------------------------------------------------------------------------

    def started(self, server: ServerState, recovered: Recovered) -> None:
        if server.went_back or server.impaired:
            actions.forget_promises(self.state, server.id)
        self.state.committed[server.id] = recovered.snapshot
        self._step(server, _START, None)

    def crashed(self, server: ServerState, unfinished: Sequence[Write]) -> None:
        self._step(server, _CRASH, None)

    def durable_epochs(self, server: ServerState, accepted: Epoch, current: Epoch) -> None:
        if accepted != server.accepted:
            self._step(server, _PROMISE, actions.promise(self.state, server, accepted))
        if current != server.current:
            self._step(server, _ADOPT, actions.adopt(self.state, server, current))

    # -- discovery -----------------------------------------------------------------------------------------

    def role(self, server: ServerState, state: Role, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if state == server.state:
            return
        if server.state == Role.LEADING and epoch > server.epoch:
            # Established and deposed within one turn: it sent nothing, but its disk may already have the epoch.
            self._step(server, _ESTABLISH, actions.establish(self.state, server, epoch))
        self._step(server, _SEEK, None)

    def said_leader_info(self, server: ServerState, to: ServerId, message: LeaderInfo) -> None:
        self._step(server, _ANNOUNCE, actions.announce(self.state, server, message.epoch))

    def said_ack_epoch(self, server: ServerState, to: ServerId, message: AckEpoch) -> None:
        if server.impaired:
            actions.forget_promises(self.state, server.id)
        told = Promise(message.current_epoch, message.last)
        self._step(server, _TELL_PROMISE, actions.tell_promise(self.state, server, to, told, message.counts))

    def established(self, server: ServerState, epoch: Epoch) -> None:
        self._step(server, _ESTABLISH, actions.establish(self.state, server, epoch))

    # -- synchronization -----------------------------------------------------------------------------------

    def said_new_leader(self, server: ServerState, to: ServerId, message: NewLeader) -> None:
        self._step(server, _IMPOSE, actions.impose(self.state, server, message.epoch))

    def truncated(self, server: ServerState, zxid: Zxid) -> None:
        self._step(server, _CUT, actions.cut(self.state, server, zxid))

    def installed(self, server: ServerState, zxid: Zxid) -> None:
        self._step(server, _REPLACE, actions.replace(self.state, server, zxid))

    def said_ack_new_leader(self, server: ServerState, to: ServerId, message: AckNewLeader) -> None:
        self._step(server, _TELL_ADOPTED, actions.tell_adopted(self.state, server, to, message.epoch))

    def said_up_to_date(self, server: ServerState, to: ServerId, message: UpToDate) -> None:
        self._step(server, _LET_SERVE, actions.let_serve(self.state, server, to, message.committed))

    # -- broadcast -----------------------------------------------------------------------------------------

    def appended(self, server: ServerState, batch: Batch) -> None:
        if batch.config:
            self.state.memberships += [Ensemble.parse(payload.decode()) for payload in batch.payloads()]
        if server.state == _LEADS and batch.first >> 32 == server.epoch:
            self._step(server, _PROPOSE, actions.propose(self.state, server, batch.first, batch.last))
        else:
            self._step(server, _ACCEPT, actions.accept(self.state, server, batch.first, batch.last))

    def said_ack(self, server: ServerState, to: ServerId, message: Ack) -> None:
        self._step(server, _ACKNOWLEDGE, actions.acknowledge(self.state, server, to, message.zxid))

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        if path == []:
            self._step(server, _LEARN, actions.learn(self.state, server, zxid))
        else:
            self._step(server, _COMMIT, actions.commit(self.state, server, zxid))

    def believed(self, server: ServerState, zxid: Zxid) -> None:
        self._step(server, _LEARN, actions.learn(self.state, server, zxid))

    def applied(self, server: ServerState, batch: Batch) -> None:
        self._step(server, _DELIVER, actions.deliver(self.state, server, batch.first, batch.last))

    def serves(self, server: ServerState) -> None:
        self._step(server, _SERVE, actions.serve(self.state, server, server.state == Role.LEADING))
