"""Assignments of groups: a member receives in a generation what the leader of that generation has assigned to it.

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
class Shares:
    _dealt: dict[tuple[str, int, str], set[bytes]] = field(factory=dict)
    """By group, generation and member; static members by their instance, because their ids change in a generation."""

    def dealt(self, leader: GroupIdentity, shares: Mapping[str, bytes]) -> None:
        """A leader is about to send its assignments. Static members go by their instance."""
        for member, share in shares.items():
            self._dealt.setdefault((leader.group, leader.generation, member), set()).add(share)

    def given(self, who: GroupIdentity, share: bytes) -> None:
        dealt = self._dealt.get((who.group, who.generation, who.instance or who.member), set())
        if share and share not in dealt:
            words = " or ".join(sorted(each.decode() for each in dealt)) or "nothing"
            what = f"{who.member} is given {share.decode()} in generation {who.generation} of {who.group}"
            raise Violation(GIVEN, f"{what}, whose leader has dealt it {words}")
