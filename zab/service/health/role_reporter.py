"""The role of a member, as the rest of the process sees it. A change is reported once, at the end of its turn."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from zab.core.messages import State
from zab.core.node import Node
from zab.service.connection.ports import EventLog
from zab.service.health.status import RoleChange


class RoleReporter:
    """Compares the node's role with the one that was reported last, and logs and reports a difference."""

    def __init__(
        self,
        node: Node,
        discard_votes: Callable[[], None],
        log: EventLog,
        on_role: Callable[[RoleChange], None],
    ) -> None:
        """`discard_votes` drops the votes that are not sent yet."""
        self.role = RoleChange(node.state, node.epoch, node.leader, node.serving)
        """The role that was reported last. Within a turn, the node may be ahead of it."""
        self._node = node
        self._discard_votes = discard_votes
        self._log = log
        self._on_role = on_role
        self._voting = node.voting
        """`Node.voting` at the last report."""

    def discard_old_votes(self) -> None:
        """Drop unsent votes if the node has left LOOKING in this turn: they are out of date."""
        if self.role.state is State.LOOKING and self._node.state is not State.LOOKING:
            self._discard_votes()

    def report(self) -> None:
        """Report the role if it or the veto has changed. Log a new role, and `healed` once `Node.voting` is true."""
        node, role = self._node, self.role
        _, state, epoch, leader, serving = node.status()
        if state is not role.state or serving is not role.serving or epoch != role.epoch or leader != role.leader:
            self.role = RoleChange(state, epoch, leader, serving, node.veto)
            self._log.say("role", state=state.name, leader=leader, serving=serving)
            self._on_role(self.role)
        elif node.veto is not role.veto:
            self.role = evolve(role, veto=node.veto)
            self._on_role(self.role)
        if node.voting is not self._voting:
            self._voting = node.voting
            if node.voting:
                self._log.say(
                    "healed",
                    why="this server has the leader's history, and lacks no promise: it votes again if it is a voter",
                )
