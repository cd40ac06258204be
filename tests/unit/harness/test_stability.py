"""The checker of last stable offsets and of read_committed consumers, with legal and illegal values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Key, Truth, records_of
from harness.checkers.partitions.stability import ONWARDS, STABLE, VISIBLE, Ledger, Stability, visible
from kraft_controller.core.names import TopicPartition
from replica.core.partitions.partition_log import AbortedTxn
from replica.core.replica_messages import Fetched
from replica.wire.batch import TRANSACTIONAL, stamp
from replica.wire.records import ControlType, Record, build, control_batch

WHERE = TopicPartition("t8", 0)


def stored(*batches: bytes) -> bytes:
    """Return the batches as a log stores them, each with one record."""
    found = b""
    for offset, batch in enumerate(batches):
        made = bytearray(batch)
        stamp(made, 0, offset, 0)
        found += bytes(made)
    return found


def written(producer: int, value: str) -> bytes:
    records = [Record(0, 0, None, value.encode())]
    return build(records, producer_id=producer, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL)


DATA = stored(
    written(7, "a"),
    build([Record(0, 0, None, b"plain")]),
    written(8, "b"),
    control_batch(ControlType.COMMIT, 7, 0, 0, 0),
    control_batch(ControlType.ABORT, 8, 0, 0, 0),
)
STABLE_OFFSETS = [0, 0, 0, 0, 2, 5]
"""The last stable offset for each high watermark."""


class Scenario:
    """One replica of a partition of which this number of records is committed."""

    def __init__(self, committed: int = 5) -> None:
        key = Key(WHERE, b"1")
        records = [record for _, record in records_of(DATA)]
        self.truth = Truth(key, committed=records[:committed])
        self.copy = Copy(key, records=records, leads=True, epoch=3)
        world = SimpleNamespace(transacted={WHERE.topic}, counted=lambda _: None)
        replicas: Any = SimpleNamespace(world=world, truths={key: self.truth}, copy=lambda *_: self.copy)
        self.stability = Stability(replicas)
        self.broker: Any = SimpleNamespace(id=1, core=SimpleNamespace(partitions={WHERE: None}))

    def at(self, watermark: int, stable: int) -> None:
        partition: Any = SimpleNamespace(high_watermark=watermark, stable_offset=stable)
        self.stability.check(self.broker, partition, self.copy, self.truth)

    def delivers(self, *aborted: AbortedTxn) -> None:
        self.stability.delivered(self.broker, WHERE, 0, Fetched(WHERE, records=DATA, aborted=aborted))


def test_last_stable_offset_is_computed_for_each_high_watermark() -> None:
    ledger = Ledger(-1)
    ledger.read([record for _, record in records_of(DATA)])
    assert ledger.stable == STABLE_OFFSETS


@pytest.mark.parametrize("watermark", range(6))
def test_only_the_right_last_stable_offset_is_accepted(watermark: int) -> None:
    Scenario(watermark).at(watermark, STABLE_OFFSETS[watermark])
    for wrong in set(range(watermark + 1)) - {STABLE_OFFSETS[watermark]}:
        with pytest.raises(Violation) as error:
            Scenario(watermark).at(watermark, wrong)
        assert error.value.invariant == STABLE


def test_replica_with_an_old_high_watermark_may_pass_a_committed_marker() -> None:
    Scenario(committed=5).at(3, 3)


def test_last_stable_offset_of_a_leader_goes_back_only_with_a_new_epoch() -> None:
    scenario = Scenario()
    scenario.at(5, 5)
    scenario.copy.epoch += 1
    scenario.at(4, 2)
    with pytest.raises(Violation) as error:
        scenario.at(3, 0)
    assert error.value.invariant == ONWARDS


def test_consumer_receives_exactly_the_records_of_committed_transactions() -> None:
    aborted = AbortedTxn(8, 2, 4, 5)
    Scenario().delivers(aborted)
    for wrong in ((), (aborted, AbortedTxn(7, 0, 3, 2))):
        with pytest.raises(Violation) as error:
            Scenario().delivers(*wrong)
        assert error.value.invariant == VISIBLE


def test_client_keeps_records_outside_of_aborted_transactions() -> None:
    seen = visible(Fetched(WHERE, records=DATA, aborted=(AbortedTxn(8, 2, 4, 5),)), 1)
    assert [each.value for each in seen] == ["plain"]


def test_open_transaction_is_reported_at_the_end() -> None:
    for committed, what in ((4, "the transaction of producer 8 in t8-0 is open since offset 2"), (5, None)):
        scenario = Scenario(committed)
        scenario.truth.state = SimpleNamespace()  # type: ignore[assignment]
        assert scenario.stability.unsettled() == what
