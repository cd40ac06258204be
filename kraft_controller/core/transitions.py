"""The states of partitions and replicas, and their legal transitions.

`python -m kraft_controller.core.transitions` prints the state diagrams of the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar


class PartitionPhase(Enum):
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""
    NEW = "NewPartition"
    """Assigned to brokers, without a leader so far."""
    ONLINE = "OnlinePartition"
    """The partition has a leader."""
    OFFLINE = "OfflinePartition"
    """Its leader failed, and no other is elected yet."""


class ReplicaPhase(Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Ordered to start, as a follower."""
    ONLINE = "OnlineReplica"
    """Its broker is live and has received its role."""
    OFFLINE = "OfflineReplica"
    """Its broker failed, or was ordered to stop it."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """Cannot be deleted now: its broker or log directory failed, or the broker could not delete it."""


P, R = PartitionPhase, ReplicaPhase

PARTITION_FROM: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    P.NEW: frozenset({P.NON_EXISTENT}),
    P.ONLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.OFFLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.NON_EXISTENT: frozenset({P.OFFLINE}),
}
"""The states from which each state may be reached."""

REPLICA_FROM: Final[Mapping[ReplicaPhase, frozenset[ReplicaPhase]]] = {
    R.NEW: frozenset({R.NON_EXISTENT}),
    R.ONLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.OFFLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.DELETION_STARTED: frozenset({R.OFFLINE}),
    R.DELETION_SUCCESSFUL: frozenset({R.DELETION_STARTED}),
    R.DELETION_INELIGIBLE: frozenset({R.OFFLINE, R.DELETION_STARTED}),
    R.NON_EXISTENT: frozenset({R.DELETION_SUCCESSFUL}),
}

Phase = TypeVar("Phase", PartitionPhase, ReplicaPhase)


def may(table: Mapping[Phase, frozenset[Phase]], before: Phase, after: Phase) -> bool:
    return before in table[after]


def drawn(table: Mapping[Phase, frozenset[Phase]]) -> str:
    """Draw a transition table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for after, froms in table.items():
        lines += [f"    {before.value} --> {after.value}" for before in type(after) if before in froms]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{drawn(PARTITION_FROM)}\n\n{drawn(REPLICA_FROM)}\n")
