"""The states of partitions and replicas, and the only ways from one to another.

`python -m kraft_controller.core.transitions` draws both tables, as the documentation shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar


class PartitionPhase(Enum):
    NON_EXISTENT = "NonExistentPartition"
    """Never made, or deleted."""
    NEW = "NewPartition"
    """Assigned to brokers; nobody has led it yet."""
    ONLINE = "OnlinePartition"
    """Somebody leads it."""
    OFFLINE = "OfflinePartition"
    """Its leader is gone, and no other is there yet."""


class ReplicaPhase(Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Told to begin, as a follower."""
    ONLINE = "OnlineReplica"
    """Its broker lives and has been told what it is."""
    OFFLINE = "OfflineReplica"
    """Its broker is dead, or was told to stop it."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """Cannot be deleted now: its broker is dead, or said that it failed."""


P, R = PartitionPhase, ReplicaPhase

PARTITION_FROM: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    P.NEW: frozenset({P.NON_EXISTENT}),
    P.ONLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.OFFLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.NON_EXISTENT: frozenset({P.OFFLINE}),
}
"""To each phase, from which others it may be reached."""

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
    """As a diagram in the language that Markdown viewers draw."""
    lines = ["stateDiagram-v2"]
    for after, froms in table.items():
        lines += [f"    {before.value} --> {after.value}" for before in type(after) if before in froms]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{drawn(PARTITION_FROM)}\n\n{drawn(REPLICA_FROM)}\n")
