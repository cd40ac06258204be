"""Records of the topic of transactions, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_controller.core.names import TopicPartition
from replica.core.transactions.transaction_effects import Saved, TxnRecord
from replica.core.transactions.transaction_states import TxnState
from replica.wire.transaction_records import RecordError, decode, encode_key, encode_value

S = TxnState
KEY = "0000 0003 70 61 79"
WHERES = (TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 1))
GOLDEN: list[tuple[Saved | None, str | None]] = [
    (
        Saved(9, 0, 60_000, S.EMPTY, updated_ms=1_700_000_000_000),
        "0000 0000000000000009 0000 0000ea60 00 ffffffff 0000018bcfe56800 ffffffffffffffff",
    ),
    (
        Saved(9, 2, 60_000, S.ONGOING, WHERES, 8, 7),
        (
            "0000 0000000000000009 0002 0000ea60 01 00000002 0001 61 00000002 00000000 00000003"
            "0001 62 00000001 00000001 0000000000000008 0000000000000007"
        ),
    ),
    (
        Saved(9, 2, 60_000, S.PREPARE_COMMIT, WHERES[2:], 8, 7),
        ("0000 0000000000000009 0002 0000ea60 02 00000001 0001 62 00000001 000000010000000000000008 0000000000000007"),
    ),
    (
        Saved(9, 32_767, 60_000, S.COMPLETE_ABORT, (), 8, 7),
        "0000 0000000000000009 7fff 0000ea60 05 00000000 0000000000000008 0000000000000007",
    ),
    (None, None),
]


@pytest.mark.parametrize(("saved", "value"), GOLDEN)
def test_written_and_read(saved: Saved | None, value: str | None) -> None:
    record = TxnRecord("pay", saved)
    assert encode_key(record) == bytes.fromhex(KEY)
    data = encode_value(record)
    assert data == (None if value is None else bytes.fromhex(value))
    assert decode(encode_key(record), data) == record


def test_each_state_has_its_number() -> None:
    written = {
        state: (encode_value(TxnRecord("x", Saved(1, 1, 1, state))) or b"")[16]
        for state in S
        if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)
    }
    assert written == {
        S.EMPTY: 0,
        S.ONGOING: 1,
        S.PREPARE_COMMIT: 2,
        S.PREPARE_ABORT: 3,
        S.COMPLETE_COMMIT: 4,
        S.COMPLETE_ABORT: 5,
    }


def test_unknown_record_types_are_skipped() -> None:
    assert decode(bytes.fromhex("0001 0003 706179"), b"?") is None


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("00", None, "a length of 2 does not fit"),
        ("0000 0004 706179", None, "a length of 4 does not fit"),
        ("0000 0003 706179 00", None, "1 surplus bytes"),
        (KEY, "", "a length of 2 does not fit"),
        (KEY, "0001", "has version 1; version 0 is supported"),
        (KEY, "0000 0000000000000009 0000 0000ea60 06", "unknown transaction state 6"),
        (KEY, "0000 0000000000000009 0000 0000ea60 01 7fffffff", "2147483647 elements"),
        (KEY, "0000 0000000000000009 0000 0000ea60 01 fffffffe", "-2 elements"),
    ],
)
def test_malformed_record_is_refused_with_reason(key: str, value: str | None, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_refused(noise: bytes) -> None:
    try:
        decode(bytes.fromhex(KEY), noise)
    except RecordError:
        pass
