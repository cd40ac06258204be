"""Stories of groups: who has dealt out what, and what members were given of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.shares import Shares
from replica.core.groups.group_messages import GroupIdentity

Deal: TypeAlias = tuple[int, dict[str, bytes]]
"""The generation, and what its leader has dealt out."""
Gift: TypeAlias = tuple[str, int, bytes]
"""A member, its generation, and what it is given."""

FIRST: Final[Deal] = 1, {"m": b"0", "n": b"1"}
SECOND: Final[Deal] = 2, {"m": b"1", "n": b"0"}
AGAIN: Final[Deal] = 2, {"m": b"2"}

STORIES: Final[dict[str, tuple[tuple[Deal, ...], Gift, str]]] = {
    "what was dealt": ((FIRST,), ("n", 1, b"1"), ""),
    "what was dealt to another": ((FIRST,), ("n", 1, b"0"), "1"),
    "what was dealt before": ((FIRST, SECOND), ("m", 2, b"0"), "1"),
    "what was dealt later": ((FIRST, SECOND), ("m", 1, b"1"), "0"),
    "what one of two leaders dealt": ((SECOND, AGAIN), ("m", 2, b"1"), ""),
    "what the other leader dealt": ((SECOND, AGAIN), ("m", 2, b"2"), ""),
    "what none of the two dealt": ((AGAIN, SECOND), ("m", 2, b"0"), "1 or 2"),
    "nothing": ((FIRST,), ("m", 1, b""), ""),
    "though nobody dealt": ((), ("m", 1, b"0"), "nothing"),
}
"""By what somebody is given: what was dealt, what is given, and what should have been, if it is not that."""


def said(deals: tuple[Deal, ...], gift: Gift) -> str:
    shares = Shares()
    for generation, dealt in deals:
        shares.dealt(GroupIdentity("g", "leader", generation), dealt)
    member, generation, share = gift
    try:
        shares.given(GroupIdentity("g", member, generation), share)
    except Violation as violation:
        return violation.what
    return ""


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for name, (deals, gift, _) in STORIES.items():
        yield f"a member is given {name}", lambda deals=deals, gift=gift: said(deals, gift)  # type: ignore[misc]
