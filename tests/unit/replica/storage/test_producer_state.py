"""Producer state: retries are stored once, and gaps are refused."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import AbortedTxn
from replica.storage.producer_state import SEQUENCE_RANGE, ProducerStateManager
from replica.wire.batch import CONTROL, TRANSACTIONAL, Header, parse_header
from replica.wire.records import ControlType
from tests.unit.replica.storage.logs import NOW, of_producer


def header(sequence: int, offset: int, count: int = 1, epoch: int = 0, flags: int = 0, time: int = NOW) -> Header:
    made = parse_header(of_producer(7, sequence, *[b"v"] * count, epoch=epoch, time=time))
    return made._replace(base_offset=offset, attributes=flags)


def code_of(producers: ProducerStateManager, asked: Header) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        producers.check(asked)
    return caught.value.code


def after(*headers: Header) -> ProducerStateManager:
    producers = ProducerStateManager()
    for each in headers:
        producers.update(each)
    return producers


def test_sequences_must_continue() -> None:
    producers = after(header(0, 10, 3))
    assert producers.check(header(3, 0)) is None
    assert code_of(producers, header(4, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(producers, header(2, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_last_five_batches_are_recognized() -> None:
    producers = after(*(header(2 * n, 100 + 2 * n, 2) for n in range(6)))
    for n in range(1, 6):
        written = producers.check(header(2 * n, 0, 2))
        assert written is not None
        assert (written.first_offset, written.last_offset) == (100 + 2 * n, 101 + 2 * n)
    assert code_of(producers, header(0, 0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(producers, header(10, 0, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "another cut is no duplicate"


def test_sequences_wrap_around() -> None:
    producers = after(header(SEQUENCE_RANGE - 1, 0, 2))
    assert producers.check(header(1, 0)) is None
    again = producers.check(header(SEQUENCE_RANGE - 1, 0, 2))
    assert again is not None
    assert again.last_sequence == 0


def test_newer_epoch_starts_at_zero_and_fences_older() -> None:
    producers = after(header(0, 0, 5))
    assert code_of(producers, header(5, 0, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(0, 0, epoch=1)) is None
    producers.update(header(0, 5, epoch=1))
    assert code_of(producers, header(5, 0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.check(header(1, 0, epoch=1)) is None


def test_unknown_producer_may_start_anywhere() -> None:
    assert ProducerStateManager().check(header(17, 0)) is None


def test_transactions() -> None:
    producers = after(header(0, 10, flags=TRANSACTIONAL), header(1, 11, flags=TRANSACTIONAL))
    assert producers.first_open_offset == 10
    marker = header(-1, 12, flags=TRANSACTIONAL | CONTROL)
    assert producers.complete_transaction(marker, ControlType.ABORT, 4) == AbortedTxn(7, 10, 12, 13)
    assert producers.last_stable_offset(13) == 13
    known = producers.last_entry(7)
    assert known is not None
    assert (known.txn_start, known.coordinator_epoch, known.last_sequence) == (-1, 4, 1)


def test_idle_producer_expires_unless_transaction_is_open() -> None:
    producers = after(header(0, 10))
    producers.remove_expired(50)
    producers.remove_expired(86_400_050)
    assert len(producers) == 1
    producers.remove_expired(86_400_051)
    assert len(producers) == 0
    producers = after(header(0, 10, flags=TRANSACTIONAL))
    producers.remove_expired(0)
    producers.remove_expired(99_999_999)
    assert len(producers) == 1


def test_timestamps_of_records_do_not_expire_producer() -> None:
    """A mirror writes what was written elsewhere long ago. `expire` looks by another clock altogether."""
    producers = after(header(0, 10))
    for now in range(10 * NOW, 10 * NOW + 10 * 86_400_000, 86_400_000):
        producers.remove_expired(now)
        producers.update(header(5, 20))
    producers.remove_expired(10 * NOW + 10 * 86_400_000)
    assert len(producers) == 1
    again = ProducerStateManager.decode(producers.encode())
    again.remove_expired(10 * NOW + 20 * 86_400_000)
    assert len(again) == 1, "nobody knows how long it was silent before"


def test_layout_of_snapshot() -> None:
    data = after(header(0, 10, 3), header(3, 13, 2)).encode()
    assert data[:2].hex() == "0001"
    assert data[6:10] == (1).to_bytes(4, "big")
    entry = data[10 : 10 + 46]
    assert entry.hex() == (
        "0000000000000007"  # producer id
        "0000"  # epoch
        "00000004"  # last sequence
        "000000000000000e"  # last offset
        "00000001"  # offset delta
        + NOW.to_bytes(8, "big").hex()
        + "ffffffff"  # coordinator epoch
        + "ffffffffffffffff"  # start of the open transaction
    )


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.booleans()), max_size=20))
def test_snapshot_holds_everything(steps: list[tuple[int, int, bool]]) -> None:
    producers, offset = ProducerStateManager(), 0
    for count, epoch, transactional in steps:
        made = header(offset % 50, offset, count, epoch, TRANSACTIONAL if transactional else 0)
        producers.update(made._replace(producer_id=count))
        offset += count
    assert ProducerStateManager.decode(producers.encode()) == producers


def test_snapshot_keeps_transactions_with_uncommitted_markers() -> None:
    producers = after(header(0, 10, flags=TRANSACTIONAL))
    producers.complete_transaction(header(-1, 11, flags=TRANSACTIONAL | CONTROL), ControlType.COMMIT, 4)
    again = ProducerStateManager.decode(producers.encode())
    assert [again.last_stable_offset(committed) for committed in (11, 12)] == [10, 12]


def test_snapshot_of_an_earlier_release_is_decoded() -> None:
    data = after(header(0, 10, 3), header(3, 13, 2)).encode()
    body = data[6:-4]
    earlier = data[:2] + google_crc32c.value(body).to_bytes(4, "big") + body
    assert ProducerStateManager.decode(earlier) == ProducerStateManager.decode(data)


def test_harmed_snapshot_is_refused() -> None:
    data = after(header(0, 10, 3), header(3, 13, 2)).encode()
    for end in range(len(data)):
        with pytest.raises(ValueError, match="snapshot"):
            ProducerStateManager.decode(data[:end])
    for at in range(len(data)):
        harmed = bytearray(data)
        harmed[at] ^= 1
        with pytest.raises(ValueError, match="snapshot"):
            ProducerStateManager.decode(bytes(harmed))
