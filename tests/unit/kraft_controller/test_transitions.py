from __future__ import annotations

import itertools

from kraft_controller.core.transitions import PARTITION_FROM, REPLICA_FROM, PartitionPhase, ReplicaPhase, drawn, may

PARTITIONS = {
    ("NON_EXISTENT", "NEW"), ("NEW", "ONLINE"), ("ONLINE", "ONLINE"), ("OFFLINE", "ONLINE"), ("NEW", "OFFLINE"),
    ("ONLINE", "OFFLINE"), ("OFFLINE", "OFFLINE"), ("OFFLINE", "NON_EXISTENT"),
}  # fmt: skip
REPLICAS = {
    ("NON_EXISTENT", "NEW"), ("NEW", "ONLINE"), ("ONLINE", "ONLINE"), ("OFFLINE", "ONLINE"),
    ("DELETION_INELIGIBLE", "ONLINE"), ("NEW", "OFFLINE"), ("ONLINE", "OFFLINE"), ("OFFLINE", "OFFLINE"),
    ("DELETION_INELIGIBLE", "OFFLINE"), ("OFFLINE", "DELETION_STARTED"), ("DELETION_STARTED", "DELETION_SUCCESSFUL"),
    ("OFFLINE", "DELETION_INELIGIBLE"), ("DELETION_STARTED", "DELETION_INELIGIBLE"),
    ("DELETION_SUCCESSFUL", "NON_EXISTENT"),
}  # fmt: skip


def test_partition_transitions() -> None:
    for before, after in itertools.product(PartitionPhase, repeat=2):
        assert may(PARTITION_FROM, before, after) is ((before.name, after.name) in PARTITIONS)


def test_replica_transitions() -> None:
    for before, after in itertools.product(ReplicaPhase, repeat=2):
        assert may(REPLICA_FROM, before, after) is ((before.name, after.name) in REPLICAS)


def test_state_diagram_shows_every_transition() -> None:
    assert len(drawn(PARTITION_FROM).splitlines()) == 1 + len(PARTITIONS)
    assert "    OfflineReplica --> ReplicaDeletionStarted" in drawn(REPLICA_FROM).splitlines()
