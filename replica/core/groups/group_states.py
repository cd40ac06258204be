"""The states of a group, the allowed transitions, and the causes of rebalances.

`python -m replica.core.groups.group_states` prints the diagram in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The states, with their names in Kafka's protocol."""

    EMPTY = "Empty"
    """The group has no members. It may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The coordinator waits until the members have joined again."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The members have joined, and wait for the leader's assignment."""
    STABLE = "Stable"
    """All members have an assignment."""
    DEAD = "Dead"
    """The group is deleted, or has moved to another coordinator."""


S = GroupState

GROUP_FROM: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    S.EMPTY: frozenset({S.PREPARING_REBALANCE}),
    S.PREPARING_REBALANCE: frozenset({S.EMPTY, S.COMPLETING_REBALANCE, S.STABLE}),
    S.COMPLETING_REBALANCE: frozenset({S.PREPARING_REBALANCE}),
    S.STABLE: frozenset({S.COMPLETING_REBALANCE}),
    S.DEAD: frozenset({S.EMPTY, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE}),
}
"""The states from which each state may be entered. A new group is Empty; a loaded group may be Stable."""


class Cause(Enum):
    """The cause of a rebalance, for the log and the metrics."""

    MEMBER_JOINED = "member-joined"
    MEMBER_CHANGED = "member-changed"
    """A member joined again with other protocols or metadata, such as another subscription."""
    LEADER_REJOINED = "leader-rejoined"
    """The leader joined again: it wants a new assignment, for example after partitions were added."""
    STATIC_MEMBER_REPLACED = "static-member-replaced"
    """A static member restarted: while the group was CompletingRebalance, or with protocols that change the group's
    choice of a protocol."""
    MEMBER_LEFT = "member-left"
    SESSION_EXPIRED = "session-expired"
    """A member sent no heartbeat within its session timeout, or its first join was not answered in time."""
    SYNC_EXPIRED = "sync-expired"
    """A member joined and did not send SyncGroup in time."""
    NOT_WRITTEN = "not-written"
    """Writing the assignment to the offsets topic failed, so no member receives it."""
    TOO_LARGE = "too-large"
    """The loaded group has more members than `group.max.size` allows."""


def may(before: GroupState, after: GroupState) -> bool:
    return before in GROUP_FROM[after]


def drawn() -> str:
    """Return the transitions as a Mermaid diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {S.EMPTY.value}"]
    for after, froms in GROUP_FROM.items():
        lines += [f"    {before.value} --> {after.value}" for before in GroupState if before in froms]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{drawn()}\n")
