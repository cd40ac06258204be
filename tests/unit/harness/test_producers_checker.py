"""The checker of idempotent producers: its model of a log's producer state, and the replies and values that it refuses.

More examples are in `tests.histories.partitions.producers`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Key, records_of
from harness.checkers.partitions.producers import BY_VALUE, REPLIES, Expected, ProducerModel, Producers, Sent, headers
from replica.core.errors import ErrorCode
from replica.core.partitions.partition import Partition
from replica.wire.records import ControlType, control_batch
from tests.histories.partitions.led_replica import stored
from tests.histories.partitions.scenario import HERE, ONE, Scenario, records
from tests.unit.replica.storage.logs import MemoryLog, of_producer

NONE, DISORDER = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
KEY = Key(HERE, b"1")
GREATEST = (1 << 31) - 1
"""The greatest sequence. After it comes 0."""
OTHER = of_producer(8, 0, b"a")
MARKER = control_batch(ControlType.COMMIT, 7, 0, 0, 0)


def of_seven(sequence: int, epoch: int = 0) -> bytes:
    return of_producer(7, sequence, b"a", epoch=epoch)


def sent(sequence: int, epoch: int = 0, values: int = 1) -> Sent:
    """Return the header of a batch of producer 7."""
    [header] = headers(of_producer(7, sequence, *[b"a"] * values, epoch=epoch))
    return header


def model(*batches: bytes, start: int = 0) -> ProducerModel:
    """Return the model of a log with these batches, of which the records before `start` were deleted."""
    log = MemoryLog()
    log.append_as_follower(stored(*batches))
    log.increment_start_offset(start)
    made = ProducerModel(Partition(HERE, log, 0), 0, start)
    made.read()
    return made


# -- the model of a log ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batches", "sequence", "expected"),
    [
        ([OTHER], 3, Expected(NONE, 1)),
        ([of_seven(0)], 0, Expected(NONE, 0)),
        ([of_seven(0)], 1, Expected(NONE, 1)),
        ([of_seven(0)], 2, Expected(DISORDER)),
        ([MARKER], 3, Expected(NONE, 1)),
        ([of_seven(0), MARKER], 1, Expected(NONE, 2)),
        ([of_seven(GREATEST)], 0, Expected(NONE, 1)),
        ([of_seven(GREATEST)], 1, Expected(DISORDER)),
        ([of_seven(GREATEST - 1)], 0, Expected(DISORDER)),
        ([of_producer(7, GREATEST, b"a", b"b")], 1, Expected(NONE, 2)),
    ],
)
def test_whole_log_decides_each_reply(batches: list[bytes], sequence: int, expected: Expected) -> None:
    assert model(*batches).expects(sent(sequence)) == expected


@pytest.mark.parametrize(
    ("epoch", "sequence", "expected"),
    [(0, 0, Expected(FENCED)), (2, 0, Expected(NONE, 1)), (2, 1, Expected(DISORDER, 1)), (1, 1, Expected(NONE, 1))],
)
def test_epoch_of_the_producer_decides_first(epoch: int, sequence: int, expected: Expected) -> None:
    assert model(of_seven(0, epoch=1)).expects(sent(sequence, epoch)) == expected


@pytest.mark.parametrize("batches", [[OTHER], [OTHER, OTHER], [OTHER, MARKER], [of_producer(7, 0, b"a", b"b")]])
def test_deleted_batches_leave_a_reply_undecided(batches: list[bytes]) -> None:
    assert model(*batches, start=1).expects(sent(0, values=2)) is None


def test_deleted_batch_may_be_known() -> None:
    assert model(OTHER, of_seven(3), start=1).expects(sent(1)) == Expected(DISORDER, older=True)


@pytest.mark.parametrize(
    ("batches", "epoch"), [([of_seven(3), of_seven(0, epoch=1)], 1), ([of_seven(each) for each in range(3, 8)], 0)]
)
def test_new_epoch_or_five_batches_are_all_that_a_leader_knows(batches: list[bytes], epoch: int) -> None:
    assert model(OTHER, *batches, start=1).expects(sent(9, epoch)) == Expected(DISORDER)


def test_sequences_of_a_batch_begin_again_at_0() -> None:
    batch = of_producer(7, GREATEST - 1, b"a", b"b", b"c")
    assert [record.sequence for _, record in records_of(batch)] == [GREATEST - 1, GREATEST, 0]
    assert [record.sequence for _, record in records_of(MARKER)] == [-1]


# -- replies -----------------------------------------------------------------------------------------------


def violates(invariant: str, act: Callable[[], None]) -> None:
    with pytest.raises(Violation) as found:
        act()
    assert found.value.invariant == invariant


def leader(text: str) -> Scenario:
    """Broker 1 leads, and has replied to a producer with these records in its log."""
    scenario = Scenario()
    scenario.begin(text, 0)
    scenario.replies(ONE, "x1:9/0", offset=len(records(text)))
    scenario.unchecked = True
    return scenario


def test_producer_0_is_judged() -> None:
    violates(REPLIES, lambda: leader("a1:0/0").replies(ONE, "b1:0/1", DISORDER))


def log_closed(scenario: Scenario) -> None:
    scenario.log(ONE).closed = True


def log_deleted(scenario: Scenario) -> None:
    scenario.broker(ONE).disk.logs.logs.clear()


def disk_failed(scenario: Scenario) -> None:
    scenario.broker(ONE).disk.files.errors.failed = "write"


@pytest.mark.parametrize("change", [log_closed, log_deleted, disk_failed])
def test_leader_without_a_usable_log_is_not_judged(change: Callable[[Scenario], None]) -> None:
    scenario = leader("a1:7/0")
    change(scenario)
    scenario.replies(ONE, "b1:7/1", DISORDER)


def truncated(scenario: Scenario) -> None:
    scenario.has(ONE, "a1:7/0 c1:9/0")


def process_restarted(scenario: Scenario) -> None:
    scenario.log(ONE).records = records("a1:7/0 c1:9/0")
    scenario.disk_fails(ONE)
    scenario.leads(ONE, 1)


@pytest.mark.parametrize("change", [truncated, process_restarted])
def test_replaced_batches_are_unknown(change: Callable[[Scenario], None]) -> None:
    scenario = leader("a1:7/0 b1:8/0")
    change(scenario)
    scenario.replies(ONE, "b1:8/0", offset=2)


def test_log_without_records_decides_nothing() -> None:
    scenario = leader("a1:7/0")
    scenario.has(ONE, "", start=1, cut=False)
    scenario.replies(ONE, "b1:7/5", offset=1)
    scenario.replies(ONE, "b1:7/5", DISORDER)


@pytest.mark.parametrize(("text", "error", "offset"), [("a1:7/0", FENCED, -1), ("b1:7/1", NONE, 0)])
def test_deleted_batch_excuses_no_other_reply(text: str, error: ErrorCode, offset: int) -> None:
    scenario = leader("a1:7/0 b1:7/1")
    scenario.has(ONE, "b1:7/1", start=1, cut=False)
    violates(REPLIES, lambda: scenario.replies(ONE, text, error, offset))


# -- values ------------------------------------------------------------------------------------------------


def test_value_of_a_lost_record_may_be_committed_again() -> None:
    producers = Producers()
    producers.committed(KEY, records("a1:7/0"), 0, 0)
    producers.committed(KEY, records("x2:8/0 a2:7/1"), 0, 0)


def test_refused_producer_commits_no_value_twice() -> None:
    scenario = leader("a1:7/0")
    scenario.replies(ONE, "b1:7/5", DISORDER)
    producers = scenario.checkers.producers
    producers.gives_up(7)
    producers.committed(KEY, records("a1:7/0 a1:9/0"), 0, 0)
    violates(BY_VALUE, lambda: producers.committed(KEY, records("a1:7/0 a1:7/1"), 0, 0))
