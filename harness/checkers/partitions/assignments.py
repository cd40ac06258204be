"""Assignments of groups: each member receives the assignment that the leader of its generation has sent for it.

An assignment is valid in its generation only: a member that joins gives up its former one, and the next leader may give
it to another member. A generation may have two leaders, one after the other: a coordinator that was deposed before it
wrote the first assignment has raised the generation in vain, and the next one raises it to the same number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import define, field

from harness.checkers.oracle_state import Violation
from replica.core.groups.group_messages import GroupIdentity

GIVEN: Final = "a member receives its assignment by the leader of its generation"


@define(eq=False)
class Assignments:
    _sent: dict[tuple[str, int, str], set[bytes]] = field(factory=dict)
    """The assignments that leaders sent, by group, generation and member. Static members go by their instance, because
    their ids change in a generation."""

    def sent(self, leader: GroupIdentity, assignments: Mapping[str, bytes]) -> None:
        """Record the assignments that a leader is about to send, by member, or by instance for static members."""
        for member, assignment in assignments.items():
            self._sent.setdefault((leader.group, leader.generation, member), set()).add(assignment)

    def received(self, member: GroupIdentity, assignment: bytes) -> None:
        sent = self._sent.get((member.group, member.generation, member.instance or member.member), set())
        if assignment and assignment not in sent:
            expected = " or ".join(sorted(each.decode() for each in sent)) or "no assignment"
            where = f"generation {member.generation} of group {member.group}"
            text = f"{member.member} received assignment {assignment.decode()} in {where}"
            raise Violation(GIVEN, f"{text}, whose leader sent {expected}")
