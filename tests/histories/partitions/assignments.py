"""Assignments that the leaders of a group send, and that its members receive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.assignments import Assignments
from replica.core.groups.group_messages import GroupIdentity

Sent: TypeAlias = tuple[int, dict[str, bytes]]
"""A generation, and the assignments that its leader sent, by member."""
Received: TypeAlias = tuple[str, int, bytes]
"""A member, its generation, and the assignment that it received."""

FIRST: Final[Sent] = 1, {"m": b"0", "n": b"1"}
SECOND: Final[Sent] = 2, {"m": b"1", "n": b"0"}
AGAIN: Final[Sent] = 2, {"m": b"2"}

EXAMPLES: Final[dict[str, tuple[tuple[Sent, ...], Received, str]]] = {
    "the assignment of its generation": ((FIRST,), ("n", 1, b"1"), ""),
    "that of another member": ((FIRST,), ("n", 1, b"0"), "1"),
    "that of the generation before": ((FIRST, SECOND), ("m", 2, b"0"), "1"),
    "that of the next generation": ((FIRST, SECOND), ("m", 1, b"1"), "0"),
    "that of the first of two leaders": ((SECOND, AGAIN), ("m", 2, b"1"), ""),
    "that of the second of two leaders": ((SECOND, AGAIN), ("m", 2, b"2"), ""),
    "that of neither leader": ((AGAIN, SECOND), ("m", 2, b"0"), "1 or 2"),
    "none": ((FIRST,), ("m", 1, b""), ""),
    "one that no leader sent": ((), ("m", 1, b"0"), "no assignment"),
}
"""The assignments sent, the one received, and the expected one if that is another, by the kind of the received one."""


def violation(sent: tuple[Sent, ...], received: Received) -> str:
    checker = Assignments()
    for generation, assignments in sent:
        checker.sent(GroupIdentity("g", "leader", generation), assignments)
    member, generation, assignment = received
    try:
        checker.received(GroupIdentity("g", member, generation), assignment)
    except Violation as violation:
        return violation.what
    return ""


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for name, (sent, received, _) in EXAMPLES.items():
        yield f"a member receives {name}", lambda sent=sent, received=received: violation(sent, received)  # type: ignore[misc]
