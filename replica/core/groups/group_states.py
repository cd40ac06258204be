"""The states of a group, the only ways from one to another, and the reasons for which a group begins to rebalance.

`python -m replica.core.groups.group_states` draws the table, as the documentation shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """As they are called on the wire."""

    EMPTY = "Empty"
    """Nobody is in it; what was committed may be there."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Everybody is asked to join anew, and is waited for."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """They have joined, and wait for what their leader assigns."""
    STABLE = "Stable"
    """Everybody has an assignment."""
    DEAD = "Dead"
    """Deleted, or at another coordinator."""


S = GroupState

GROUP_FROM: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    S.EMPTY: frozenset({S.PREPARING_REBALANCE}),
    S.PREPARING_REBALANCE: frozenset({S.EMPTY, S.COMPLETING_REBALANCE, S.STABLE}),
    S.COMPLETING_REBALANCE: frozenset({S.PREPARING_REBALANCE}),
    S.STABLE: frozenset({S.COMPLETING_REBALANCE}),
    S.DEAD: frozenset({S.EMPTY, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE}),
}
"""To each state, from which others it may be reached. A new group is Empty, one that is loaded may be Stable."""


class Cause(Enum):
    """Why a group rebalances: one line of the log and one count for each."""

    MEMBER_JOINED = "member-joined"
    MEMBER_CHANGED = "member-changed"
    """It joined again, with other protocols or other metadata: a subscription that grew, say."""
    LEADER_REJOINED = "leader-rejoined"
    """A leader joins again when it saw something that wants another assignment: partitions that were added, say."""
    STATIC_MEMBER_REPLACED = "static-member-replaced"
    """The same instance under a new id, and the group's protocol changes with it."""
    MEMBER_LEFT = "member-left"
    SESSION_EXPIRED = "session-expired"
    """No heartbeat for as long as the session timeout. The member is dead, cut off, or its process stands still."""
    SYNC_EXPIRED = "sync-expired"
    """It joined, and then did not ask for its assignment."""
    NOT_WRITTEN = "not-written"
    """The assignment could not be written to the offsets topic, so nobody may have it."""
    TOO_LARGE = "too-large"
    """More members were loaded than `group.max.size` allows now."""


def may(before: GroupState, after: GroupState) -> bool:
    return before in GROUP_FROM[after]


def drawn() -> str:
    """As a diagram in the language that Markdown viewers draw."""
    lines = ["stateDiagram-v2", f"    [*] --> {S.EMPTY.value}"]
    for after, froms in GROUP_FROM.items():
        lines += [f"    {before.value} --> {after.value}" for before in GroupState if before in froms]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{drawn()}\n")
