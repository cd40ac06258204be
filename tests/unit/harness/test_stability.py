"""The checker of last stable offsets and of read_committed consumers, with legal and illegal values."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import GONE, records_of
from harness.checkers.partitions.ledger import Ledger
from harness.checkers.partitions.stability import ONWARDS, STABLE, VISIBLE, Stability, visible
from harness.checkers.transactions import Seen
from kraft_controller.core.names import TRANSACTIONS_TOPIC, TopicPartition
from replica.core.partitions.partition_log import AbortedTxn
from replica.core.replica_messages import Fetched
from replica.wire.batch import TRANSACTIONAL
from replica.wire.records import ControlType, Record, build, control_batch
from tests.histories.partitions.led_replica import LedReplica, stored

WHERE = TopicPartition("t8", 0)


def written(producer: int, value: str, flags: int = TRANSACTIONAL) -> bytes:
    records = [Record(0, 0, None, value.encode())]
    return build(records, producer_id=producer, producer_epoch=0, base_sequence=0, flags=flags)


def marker(kind: ControlType, producer: int) -> bytes:
    return control_batch(kind, producer, 0, 0, 0)


DATA = stored(
    written(7, "a"),
    build([Record(0, 0, None, b"plain")]),
    written(8, "b"),
    marker(ControlType.COMMIT, 7),
    marker(ControlType.ABORT, 8),
)
RECORDS = [record for _, record in records_of(DATA)]
STABLE_OFFSETS = [0, 0, 0, 0, 2, 5]
"""The last stable offset for each high watermark."""
ABORTED = AbortedTxn(8, 2, 4, 5)


class Scenario(LedReplica):
    """One replica of a partition of which this number of records is committed."""

    def __init__(self, committed: int = 5) -> None:
        super().__init__(WHERE, RECORDS, committed)
        self.stability = Stability(self.replicas)

    def at(self, watermark: int, stable: int) -> None:
        partition: Any = SimpleNamespace(high_watermark=watermark, stable_offset=stable)
        self.stability.check(self.broker, partition, self.copy, self.truth)

    def delivers(self, *aborted: AbortedTxn, data: bytes = DATA) -> None:
        self.stability.delivered(self.broker, WHERE, 0, Fetched(WHERE, records=data, aborted=aborted))


# -- the last stable offset --------------------------------------------------------------------------------


def test_last_stable_offset_is_computed_for_each_high_watermark() -> None:
    ledger = Ledger(-1)
    ledger.read(RECORDS)
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


def test_open_transaction_is_counted() -> None:
    scenario = Scenario()
    scenario.at(5, 5)
    assert scenario.counts == []
    scenario = Scenario()
    scenario.at(4, 2)
    assert scenario.counts == ["transaction open"]


def test_deleted_record_may_have_begun_a_transaction() -> None:
    scenario = Scenario()
    scenario.truth.committed[0] = GONE
    scenario.at(4, 0)


def test_replica_that_lacks_the_begin_of_a_transaction_may_pass_it() -> None:
    scenario = Scenario(3)
    scenario.copy.start = 1
    scenario.at(3, 2)


def test_high_watermark_above_the_committed_records_is_not_judged() -> None:
    Scenario(committed=2).at(3, 3)


def test_topic_without_transactions_is_not_judged() -> None:
    scenario = Scenario()
    not_transacted(scenario)
    scenario.at(5, 0)


def test_records_after_an_unclean_election_are_read_again() -> None:
    scenario = Scenario(3)
    scenario.at(3, 0)
    scenario.truth.committed, scenario.truth.fork, scenario.copy.epoch = [RECORDS[1]] * 3, 4, 4
    scenario.copy.records = [RECORDS[1]] * 3
    scenario.at(3, 3)


def test_follower_may_have_other_records_after_an_unclean_election_until_it_truncates_them() -> None:
    scenario = Scenario(3)
    scenario.truth.committed, scenario.truth.fork, scenario.copy.epoch = [RECORDS[1]] * 3, 4, 4
    scenario.at(3, 0)


def test_last_stable_offset_of_a_leader_goes_back_only_with_a_new_epoch() -> None:
    scenario = Scenario()
    scenario.at(5, 5)
    scenario.at(5, 5)
    scenario.copy.epoch += 1
    scenario.at(4, 2)
    with pytest.raises(Violation) as error:
        scenario.at(3, 0)
    assert error.value.invariant == ONWARDS


def test_last_stable_offset_of_a_follower_may_go_back() -> None:
    scenario = Scenario()
    scenario.at(5, 5)
    scenario.copy.leads = False
    scenario.at(4, 2)
    scenario.at(3, 0)
    scenario.copy.leads = True
    scenario.at(3, 0)


# -- read_committed consumers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aborted", "what"),
    [
        ((), "a read_committed consumer of broker 1 receives Seen(offset=2, value='b') between 0 and 5"),
        ((ABORTED, AbortedTxn(7, 0, 3, 2)), "broker 1 does not receive Seen(offset=0, value='a') between 0 and 5"),
    ],
)
def test_consumer_receives_exactly_the_records_of_committed_transactions(
    aborted: tuple[AbortedTxn, ...], what: str
) -> None:
    Scenario().delivers(ABORTED)
    with pytest.raises(Violation) as error:
        Scenario().delivers(*aborted)
    assert error.value.invariant == VISIBLE
    assert str(error.value).endswith(what)


def test_consumer_may_receive_a_part_of_the_records() -> None:
    Scenario().delivers(data=stored(written(7, "a"), build([Record(0, 0, None, b"plain")])))


def no_replica(scenario: Scenario) -> None:
    scenario.replicas.copies.clear()


def disk_failed(scenario: Scenario) -> None:
    scenario.loses_replica()


def led_before_an_unclean_election(scenario: Scenario) -> None:
    scenario.truth.fork = scenario.copy.epoch + 1


def committed_records_were_lost(scenario: Scenario) -> None:
    scenario.truth.lost[4] = RECORDS[4]


def record_was_deleted(scenario: Scenario) -> None:
    scenario.truth.committed[0] = GONE


def record_is_not_committed(scenario: Scenario) -> None:
    scenario.truth.committed.pop()


@pytest.mark.parametrize(
    "change",
    [
        no_replica,
        disk_failed,
        led_before_an_unclean_election,
        committed_records_were_lost,
        record_was_deleted,
        record_is_not_committed,
    ],
)
def test_uncertain_delivery_is_not_judged(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario()
    change(scenario)
    scenario.delivers()


def test_delivery_by_the_leader_of_an_unclean_election_is_judged() -> None:
    scenario = Scenario()
    scenario.truth.fork = scenario.copy.epoch
    with pytest.raises(Violation):
        scenario.delivers()


def values(*aborted: AbortedTxn, data: bytes, offset: int = 0) -> list[str]:
    return [each.value for each in visible(Fetched(WHERE, records=data, aborted=aborted), offset)]


def test_client_keeps_records_outside_of_aborted_transactions() -> None:
    assert values(ABORTED, data=DATA, offset=1) == ["plain"]


def test_client_keeps_other_transactions_of_the_same_producer() -> None:
    commit, abort = marker(ControlType.COMMIT, 8), marker(ControlType.ABORT, 8)
    data = stored(written(8, "a"), commit, written(8, "b"), abort, written(8, "c"), commit)
    assert values(AbortedTxn(8, 2, 3, 4), data=data) == ["a", "c"]


def test_client_keeps_a_record_outside_of_transactions_of_the_same_producer() -> None:
    data = stored(written(8, "a"), written(8, "b", flags=0), marker(ControlType.ABORT, 8))
    assert values(AbortedTxn(8, 0, 2, 3), data=data) == ["b"]


# -- after the run -----------------------------------------------------------------------------------------


def other_partition_lost_records(scenario: Scenario) -> None:
    scenario.adds(TopicPartition("other", 0)).fork = 1


def partition_lost_records(scenario: Scenario) -> None:
    scenario.truth.fork = 1


def coordinator_lost_records(scenario: Scenario) -> None:
    scenario.adds(TopicPartition(TRANSACTIONS_TOPIC, 0)).fork = 1


@pytest.mark.parametrize(
    ("change", "doubtful"),
    [
        (other_partition_lost_records, False),
        (partition_lost_records, True),
        (coordinator_lost_records, True),
        (record_was_deleted, True),
    ],
)
def test_transactions_are_doubtful_after_lost_records(change: Callable[[Scenario], None], doubtful: bool) -> None:
    scenario = Scenario(4)
    scenario.adds(TopicPartition(WHERE.topic, 1))
    change(scenario)
    scenario.stability.final()
    assert scenario.stability.doubtful() is doubtful
    assert (scenario.stability.unsettled() is None) is doubtful


def test_open_transaction_is_reported_at_the_end() -> None:
    for committed, what in ((4, "the transaction of producer 8 in t8-0 is open since offset 2"), (5, None)):
        assert Scenario(committed).stability.unsettled() == what


def deleted(scenario: Scenario) -> None:
    scenario.truth.state = None


def not_transacted(scenario: Scenario) -> None:
    scenario.world.transacted = frozenset({"other"})


@pytest.mark.parametrize("change", [deleted, not_transacted, record_was_deleted])
def test_deleted_and_other_partitions_are_not_read_at_the_end(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario(4)
    change(scenario)
    assert scenario.stability.final() == {}
    assert scenario.stability.unsettled() is None


def test_records_of_committed_transactions_are_readable_at_the_end() -> None:
    assert Scenario().stability.final() == {"t8-0": (Seen(0, "a"), Seen(1, "plain"))}


def test_isolation_level_decides_the_end_offset() -> None:
    stability = Scenario(4).stability
    assert stability.readable(WHERE, committed=False) == 4
    assert stability.readable(WHERE, committed=True) == 2


def test_end_offset_of_a_partition_with_deleted_records_is_the_high_watermark() -> None:
    scenario = Scenario(4)
    record_was_deleted(scenario)
    assert scenario.stability.readable(WHERE, committed=True) == 4
