"""Records of the offsets topic, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_controller.core.names import TopicPartition
from replica.core.groups.group_effects import GroupRecord, OffsetRecord, Record, SavedGroup, SavedMember
from replica.core.groups.group_messages import OffsetAndMetadata
from replica.wire.group_records import RecordError, assigned_in, decode, encode_key, encode_value, topics_of

WHERE = TopicPartition("t", 3)
GOLDEN: list[tuple[Record, str, str | None]] = [
    (
        OffsetRecord("g", WHERE, OffsetAndMetadata(9, 2, "m", 1_700_000_000_000)),
        "0001 0001 67 0001 74 00000003",
        "0003 0000000000000009 00000002 0001 6d 0000018bcfe56800",
    ),
    (
        OffsetRecord("g", WHERE, OffsetAndMetadata(9, -1, "", 1, 5)),
        "0001 0001 67 0001 74 00000003",
        "0001 0000000000000009 0000 0000000000000001 0000000000000005",
    ),
    (OffsetRecord("g", WHERE, None), "0001 0001 67 0001 74 00000003", None),
    (
        GroupRecord(
            "g",
            SavedGroup("consumer", 4, "range", "a-1", 7, (SavedMember("a-1", None, "a", "/h", 60, 10, b"S", b"AA"),)),
        ),
        "0002 0001 67",
        (
            "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0003 612d31 0000000000000007 00000001"
            "0003 612d31 ffff 0001 61 0002 2f68 0000003c 0000000a 00000001 53 00000002 4141"
        ),
    ),
    (
        GroupRecord("g", SavedGroup("", 0, None, None, 7)),
        "0002 0001 67",
        "0003 0000 00000000 ffff ffff 0000000000000007 00000000",
    ),
    (GroupRecord("g", None), "0002 0001 67", None),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_written_and_read(record: Record, key: str, value: str | None) -> None:
    assert encode_key(record) == bytes.fromhex(key)
    data = encode_value(record)
    assert data == (None if value is None else bytes.fromhex(value))
    assert decode(encode_key(record), data) == record


@pytest.mark.parametrize(
    ("value", "position"),
    [
        ("0000 0000000000000009 0001 6d 0000000000000007", OffsetAndMetadata(9, -1, "m", 7)),
        ("0001 0000000000000009 0001 6d 0000000000000007 ffffffffffffffff", OffsetAndMetadata(9, -1, "m", 7)),
        ("0002 0000000000000009 0001 6d 0000000000000007", OffsetAndMetadata(9, -1, "m", 7)),
    ],
)
def test_positions_as_older_brokers_wrote_them(value: str, position: OffsetAndMetadata) -> None:
    key = bytes.fromhex("0000 0001 67 0001 74 00000003")
    assert decode(key, bytes.fromhex(value)) == OffsetRecord("g", WHERE, position)


@pytest.mark.parametrize(
    ("head", "rebalance", "instance", "since"),
    [
        ("0000", "", "", -1),
        ("0001", "0000003c", "", -1),
        ("0002", "0000003c", "", 7),
        ("0003", "0000003c", "0001 69", 7),
    ],
)
def test_groups_as_older_brokers_wrote_them(head: str, rebalance: str, instance: str, since: int) -> None:
    at = "0000000000000007" if since >= 0 else ""
    value = (
        f"{head} 0001 63 00000004 0001 72 0001 61 {at} 00000001"
        f"0001 61 {instance} 0001 61 0001 68 {rebalance} 0000000a 00000000 00000000"
    )
    member = SavedMember("a", "i" if instance else None, "a", "h", 60 if rebalance else 10, 10, b"", b"")
    saved = SavedGroup("c", 4, "r", "a", since, (member,))
    assert decode(bytes.fromhex("0002 0001 67"), bytes.fromhex(value)) == GroupRecord("g", saved)


def test_records_of_newer_brokers_are_skipped_or_refused() -> None:
    assert decode(bytes.fromhex("0003 0001 67"), b"whatever") is None
    with pytest.raises(RecordError, match="version 4"):
        decode(bytes.fromhex("0002 0001 67"), bytes.fromhex("0004 00"))
    with pytest.raises(RecordError, match="version 9"):
        decode(bytes.fromhex("0001 0001 67 0001 74 00000003"), bytes.fromhex("0009 00"))


@given(st.binary(max_size=80), st.none() | st.binary(max_size=80), st.integers(0, 2))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_noise_is_an_error_of_ours_or_nothing(key: bytes, value: bytes | None, version: int) -> None:
    for start in (key, version.to_bytes(2, "big") + key, b"\0\2\0\1g"):
        try:
            decode(start, value)
        except RecordError:
            pass
    topics_of(key)
    assigned_in(key)


def test_assignment_of_a_consumer_is_decoded() -> None:
    data = bytes.fromhex("0001 00000002 0001 61 00000002 00000000 00000003 0001 62 00000001 00000001 ffffffff")
    assert assigned_in(data) == (TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 1))
    assert assigned_in(b"") == assigned_in(data[:12]) == ()


def test_topics_that_a_consumer_wants() -> None:
    assert topics_of(bytes.fromhex("0000 00000002 0001 61 0001 62 ffffffff")) == frozenset({"a", "b"})
    assert topics_of(bytes.fromhex("0003 00000001 0001 61 ffffffff 00000000 ffffffff ffff")) == frozenset({"a"})
    for noise in (b"", b"\0", bytes.fromhex("0000 7fffffff"), bytes.fromhex("ffff 00000000")):
        assert topics_of(noise) is None
