"""A follower that lags for too long leaves the ISR."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Key, Record
from harness.checkers.partitions.lag import LEAVES, MARGIN_MS, PAUSED_MS, Lag
from kraft_controller.core.names import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, Version
from replica.core.partitions.isr import Isr
from replica.core.partitions.leader_role import LeaderRole
from replica.core.replica_settings import ReplicaSettings

HERE = TopicPartition("t1", 0)
KEY = Key(HERE, b"id")
ONE, TWO = BrokerId(1), BrokerId(2)
SETTINGS = ReplicaSettings(lag_time_max_ms=200)
LIMIT_MS = 300 + MARGIN_MS
"""The lag time, the period of the leader's check, and the margin."""
STEP_MS = 50
RECORD = Record(0, b"v", -1, -1)


class Observed:
    """Broker 1 leads, with a log that ends at 5. Broker 2 is in the ISR, and has 4 records."""

    def __init__(self) -> None:
        self.now = 1_000
        self.requested = False
        self.state: Any = SimpleNamespace(isr=(ONE, TWO), leader=ONE, leader_epoch=1)
        self.log = SimpleNamespace(end_offset=5)
        self.partition = SimpleNamespace(where=HERE, log=self.log)
        self.elected()
        self.copy = Copy(KEY, [RECORD] * 4)
        self.damage: dict[Any, Any] = {}
        self.lag = Lag(self._replicas())
        self.broker: Any = SimpleNamespace(
            id=ONE,
            core=SimpleNamespace(partitions={HERE: self.partition}),
            clock=lambda: self.now,
            ident=lambda partition: KEY.ident,
        )

    def _replicas(self) -> Any:
        return SimpleNamespace(
            world=SimpleNamespace(replication=SimpleNamespace(settings=SETTINGS)),
            truth_of=lambda key: SimpleNamespace(key=key, state=self.state),
            copy=lambda broker, where: self.copy,
            damage=self.damage,
        )

    def elected(self) -> None:
        """Give the leader a new role, as in a new leader epoch or a new process."""
        self.partition.role = LeaderRole(ONE, LeaderEpoch(1), ControllerEpoch(1), 0, Isr((ONE, TWO), Version(0)))

    def reported(self, for_ms: int) -> bool:
        """Let time pass, and return whether a violation is reported."""
        for _ in range(for_ms // STEP_MS):
            self.now += STEP_MS
            try:
                self.lag.check(self.broker, [HERE] if self.requested else [])
            except Violation as violation:
                return violation.invariant == LEAVES
        return False


def test_follower_that_lags_is_reported_after_the_limit() -> None:
    observed = Observed()
    assert not observed.reported(LIMIT_MS)
    assert observed.reported(2 * STEP_MS)


def test_follower_with_all_records_is_not_reported() -> None:
    observed = Observed()
    observed.log.end_offset = 4
    assert not observed.reported(3 * LIMIT_MS)
    observed.log.end_offset = 5
    assert not observed.reported(LIMIT_MS)
    assert observed.reported(2 * STEP_MS)


def test_follower_that_is_always_a_little_behind_is_not_reported() -> None:
    observed = Observed()
    for _ in range(20):
        assert not observed.reported(LIMIT_MS // 2)
        observed.copy.records.append(RECORD)
        observed.log.end_offset += 1


def test_follower_that_falls_back_steadily_is_reported() -> None:
    observed = Observed()
    for _ in range(4):
        observed.log.end_offset += 4
        observed.copy.records.append(RECORD)
        if observed.reported(LIMIT_MS // 2):
            return
    raise AssertionError("not reported")


def test_follower_that_has_left_or_returns_is_not_reported() -> None:
    observed = Observed()
    assert not observed.reported(LIMIT_MS)
    observed.state.isr = (ONE,)
    assert not observed.reported(LIMIT_MS)
    observed.state.isr = (ONE, TWO)
    assert not observed.reported(LIMIT_MS)
    assert observed.reported(2 * STEP_MS)


def test_follower_without_a_replica_is_reported() -> None:
    observed = Observed()
    observed.log.end_offset = 1
    observed.copy = None  # type: ignore[assignment]
    assert observed.reported(2 * LIMIT_MS)


def test_follower_with_a_replica_of_a_deleted_topic_is_reported() -> None:
    observed = Observed()
    observed.copy = Copy(Key(HERE, b"former id"), [RECORD] * 5)
    assert observed.reported(2 * LIMIT_MS)


def test_short_pause_counts() -> None:
    observed = Observed()
    assert not observed.reported(LIMIT_MS)
    observed.now += PAUSED_MS - STEP_MS
    assert observed.reported(STEP_MS)


def test_follower_whose_disk_lost_records_is_not_reported() -> None:
    observed = Observed()
    observed.damage[TWO, KEY] = 0, 5
    assert not observed.reported(3 * LIMIT_MS)


def test_time_without_a_serving_leader_does_not_count() -> None:
    observed = Observed()
    changes: list[Any] = [
        lambda: setattr(observed, "requested", True),
        lambda: setattr(observed, "requested", False),
        lambda: setattr(observed.state, "leader_epoch", 2),
        lambda: setattr(observed.state, "leader_epoch", 1),
        lambda: setattr(observed, "now", observed.now + PAUSED_MS),
        observed.elected,
    ]
    for change in changes:
        assert not observed.reported(LIMIT_MS)
        change()
    assert not observed.reported(LIMIT_MS)
    assert observed.reported(2 * STEP_MS)


def test_deleted_partition_is_not_judged() -> None:
    observed = Observed()
    observed.state = None
    assert not observed.reported(3 * LIMIT_MS)
