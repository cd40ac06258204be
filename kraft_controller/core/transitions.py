"""The phases of partitions and replicas, and the allowed transitions.

`python -m kraft_controller.core.transitions` prints the state diagrams in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar


class PartitionPhase(Enum):
    NON_EXISTENT = "NonExistentPartition"
    """Not created yet, being deleted, or deleted."""
    NEW = "NewPartition"
    """Assigned to brokers, but without a known state so far."""
    ONLINE = "OnlinePartition"
    """The partition has a leader."""
    OFFLINE = "OfflinePartition"
    """The leader failed, and no other one is elected yet. A deletion also passes through this phase."""


class ReplicaPhase(Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Newly assigned to the broker, by the creation of the partition or by a reassignment."""
    ONLINE = "OnlineReplica"
    """The broker is live and was sent the replica's role."""
    OFFLINE = "OfflineReplica"
    """The broker failed, or was ordered to stop the replica."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """The replica cannot be deleted at present: its broker or log directory failed, or the broker could not delete
    it."""


P, R = PartitionPhase, ReplicaPhase

PARTITION_FROM: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    P.NEW: frozenset({P.NON_EXISTENT}),
    P.ONLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.OFFLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.NON_EXISTENT: frozenset({P.OFFLINE}),
}
"""The phases from which each phase may be entered."""

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
    """Return a transition table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for after, froms in table.items():
        lines += [f"    {before.value} --> {after.value}" for before in type(after) if before in froms]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{drawn(PARTITION_FROM)}\n\n{drawn(REPLICA_FROM)}\n")
