"""Shares of a group: what a member is given in a generation is what the leader of that generation has dealt out to it.

A share is of its generation alone: whoever joins gives up all that he had before, and the next leader may deal it to
somebody else. A generation may have two leaders, one after the other: a coordinator that was deposed before it could
write down what the first had dealt has counted up in vain, and the next one counts up to the same number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import define, field

from harness.checkers.ghost import Violation
from replica.core.groups.group_messages import GroupIdentity

GIVEN: Final = "a member receives its assignment by the leader of its generation"


@define(eq=False)
class Shares:
    _dealt: dict[tuple[str, int, str], set[bytes]] = field(factory=dict)
    """By group, generation and member; of one that has a name, that, for its ids change in a generation."""

    def dealt(self, leader: GroupIdentity, shares: Mapping[str, bytes]) -> None:
        """It is about to tell its coordinator. Members that have names go by them."""
        for member, share in shares.items():
            self._dealt.setdefault((leader.group, leader.generation, member), set()).add(share)

    def given(self, who: GroupIdentity, share: bytes) -> None:
        dealt = self._dealt.get((who.group, who.generation, who.instance or who.member), set())
        if share and share not in dealt:
            words = " or ".join(sorted(each.decode() for each in dealt)) or "nothing"
            what = f"{who.member} is given {share.decode()} in generation {who.generation} of {who.group}"
            raise Violation(GIVEN, f"{what}, whose leader has dealt it {words}")
