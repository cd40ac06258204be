"""Kafka's messages, against frames that were taken from the wire, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.errors import WireError
from replica.wire.api import ApiKey
from replica.wire.decoding import uvarint as read_uvarint
from replica.wire.encoding import Unwritable, uvarint
from replica.wire.messages import ELEMENTS_MAX, LENGTH_BYTES, UnknownApi, decode_request
from tests.kafka_bodies import request_frame, response_frame, response_values, values_of

VERSIONS = {
    "api_keys": [
        {"api_key": 3, "min_version": 0, "max_version": 12},
        {"api_key": 18, "min_version": 0, "max_version": 4},
    ]
}
METADATA = {
    "brokers": [{"node_id": 1, "host": "h", "port": 9092}],
    "cluster_id": "c",
    "controller_id": 1,
    "topics": [
        {
            "name": "t",
            "topic_id": "AQIDBAUGBwgJCgsMDQ4PEA",
            "partitions": [
                {"partition_index": 0, "leader_id": 1, "leader_epoch": 5, "replica_nodes": [1], "isr_nodes": [1]}
            ],
        }
    ],
}
FOUND = {"node_id": 1, "host": "h", "port": 9092}

GOLDEN: list[tuple[ApiKey, int, dict[str, Any], str]] = [
    (ApiKey.API_VERSIONS, 0, VERSIONS, "00000016 00000007 0000 00000002 0003 0000 000c 0012 0000 0004"),
    (ApiKey.API_VERSIONS, 1, VERSIONS, "0000001a 00000007 0000 00000002 0003 0000 000c 0012 0000 0004 00000000"),
    (ApiKey.API_VERSIONS, 3, VERSIONS, "0000001a 00000007 0000 03 0003 0000 000c 00 0012 0000 0004 00 00000000 00"),
    (
        ApiKey.METADATA,
        1,
        METADATA,
        (
            "00000041 00000007 00000001 00000001 0001 68 00002384 ffff 00000001 00000001 0000 0001 74 00"
            "00000001 0000 00000000 00000001 00000001 00000001 00000001 00000001"
        ),
    ),
    (
        ApiKey.METADATA,
        9,
        METADATA,
        (
            "00000047 00000007 00 00000000 02 00000001 02 68 00002384 00 00 02 63 00000001 02 0000 02 74 00"
            "02 0000 00000000 00000001 00000005 02 00000001 02 00000001 01 00 80000000 00 80000000 00"
        ),
    ),
    (
        ApiKey.METADATA,
        12,
        METADATA,
        (
            "00000053 00000007 00 00000000 02 00000001 02 68 00002384 00 00 02 63 00000001 02 0000 02 74"
            "0102030405060708090a0b0c0d0e0f10 00 02 0000 00000000 00000001 00000005 02 00000001 02 00000001 "
            "01 00 80000000 00 00"
        ),
    ),
    (
        ApiKey.FIND_COORDINATOR,
        1,
        FOUND,
        "00000017 00000007 00000000 0000 ffff 00000001 0001 68 00002384",
    ),
    (
        ApiKey.FIND_COORDINATOR,
        4,
        {"coordinators": [{"key": "g", **FOUND}]},
        "0000001b 00000007 00 00000000 02 02 67 00000001 02 68 00002384 0000 00 00 00",
    ),
]


@pytest.mark.parametrize(("api", "version", "body", "frame"), GOLDEN)
def test_replies_as_they_are_on_the_wire(api: ApiKey, version: int, body: dict[str, Any], frame: str) -> None:
    assert response_frame(api, version, 7, body) == bytes.fromhex(frame)


def test_an_empty_fetch() -> None:
    body = {
        "responses": [
            {
                "topic": "t",
                "partitions": [
                    {
                        "partition_index": 0,
                        "high_watermark": 9,
                        "last_stable_offset": 9,
                        "aborted_transactions": None,
                        "log_start_offset": 0,
                    }
                ],
            }
        ]
    }
    assert response_frame(ApiKey.FETCH, 4, 7, body) == bytes.fromhex(
        "00000031 00000007 00000000 00000001 0001 74 00000001 00000000 0000 0000000000000009 0000000000000009"
        "ffffffff 00000000"
    )
    assert response_frame(ApiKey.FETCH, 12, 7, body) == bytes.fromhex(
        "0000003a 00000007 00 00000000 0000 00000000 02 02 74 02 00000000 0000 0000000000000009 0000000000000009"
        "0000000000000000 00 ffffffff 01 00 00 00"
    )


def test_a_request_with_its_own_words_for_itself() -> None:
    frame = bytes.fromhex("0000001e 0012 0003 00000001 0001 63 00 0d 6b61666b612d707974686f6e 04 332e30 00")
    read = decode_request(frame[LENGTH_BYTES:])
    assert (read.api, read.version, read.correlation, read.client_id) == (ApiKey.API_VERSIONS, 3, 1, "c")
    assert values_of(read.body) == {"client_software_name": "kafka-python", "client_software_version": "3.0"}
    assert request_frame(ApiKey.API_VERSIONS, 3, 1, "c", values_of(read.body)) == frame


def test_versions_that_are_not_spoken_are_refused_in_the_oldest() -> None:
    frame = bytes.fromhex("0012 0009 00000007 0001 63 00 01 01 00")
    with pytest.raises(UnknownApi) as error:
        decode_request(frame)
    assert error.value.head.correlation == 7
    values = {"error_code": 35, "api_keys": VERSIONS["api_keys"][1:]}
    assert response_frame(ApiKey.API_VERSIONS, 0, 7, values) == bytes.fromhex(
        "00000010 00000007 0023 00000001 0012 0000 0004"
    )


def test_all_topics_as_librdkafka_asks_for_them_has_three_bytes_too_many() -> None:
    frame = bytes.fromhex("0003 000c 00000007 ffff 00 00000000 00 00")
    read = decode_request(frame)
    assert read.body.topics is None
    assert read.body.allow_auto_topic_creation is False


def test_missing_fields_of_a_version_have_defaults() -> None:
    frame = request_frame(ApiKey.METADATA, 0, 7, None, {"topics": [{"name": "t"}]})
    read = decode_request(frame[LENGTH_BYTES:])
    assert read.client_id is None
    assert values_of(read.body) == {
        "topics": [{"name": "t", "topic_id": None}],
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def test_unknown_tag_is_skipped() -> None:
    plain = request_frame(ApiKey.HEARTBEAT, 4, 7, "c", {"group_id": "g", "generation_id": 1, "member_id": "m"})
    frame = plain[LENGTH_BYTES:-1] + bytes.fromhex("01 63 03 010203")
    assert decode_request(frame).body == decode_request(plain[LENGTH_BYTES:]).body


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        ("0003 0001", "the header alone"),
        ("7fff 0001 00000007 ffff", "API 32767 v1 is unknown"),
        ("0003 0063 00000007 ffff", "METADATA v99: versions 0 to 12"),
        ("0003 0001 00000007 0063 61", "the client id declares 99 bytes"),
        ("0003 0001 00000007 fffe", "the client id declares -2 bytes"),
        ("0003 0001 00000007 ffff 7fffffff", "2147483647 elements declared, but only 0 bytes"),
        ("0003 0001 00000007 ffff fffffffe", "invalid length -2"),
        ("0003 0001 00000007 ffff 00000001 ffff", "null in a field that is not nullable"),
        ("0003 0001 00000007 ffff 00000001 0009 61", "9 bytes declared, but 1 are left"),
        ("0003 0001 00000007 ffff 00000001 0001 ff", "utf-8"),
        ("0003 0009 00000007 ffff 00 ffffffffff7f", "more than 5 bytes"),
        ("0003 0009 00000007 ffff 01 00 7f", "tag 0 has 127 bytes"),
        ("0003 0009 00000007 ffff 02 01 00 01 00", "tag 1 comes after tag 1"),
        ("0003 0009 00000007 ffff 02 05 00 03 00", "tag 3 comes after tag 5"),
        ("0003 0009 00000007 ffff 7f", "more than 100 list elements and tagged fields"),
        ("0001 000c 00000007 ffff 00" + 25 * "00" + "010101 01 00 02 0000", "tag 0 has 2 bytes, but its value takes 1"),
        ("0003 0009 00000007 ffff 00", "truncated or malformed"),
        ("0000 0003 00000007 ffff ffff 0001", "truncated or malformed"),
    ],
)
def test_malformed_request_is_refused_with_reason(frame: str, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode_request(bytes.fromhex(frame))


def test_a_request_may_not_name_more_than_can_be_done_in_one_piece() -> None:
    """Anew for each request, and in all of its lists together."""

    def named(topics: int, partitions: int) -> bytes:
        part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": 0, "committed_metadata": ""}
        body = {"group_id": "g", "topics": [{"name": "t", "partitions": [part] * partitions}] * topics}
        return request_frame(ApiKey.OFFSET_COMMIT, 6, 1, None, body)[4:]

    most = named(100, ELEMENTS_MAX // 100 - 1)
    for _ in range(2):
        assert len(decode_request(most).body.topics) == 100
    with pytest.raises(WireError, match=f"more than {ELEMENTS_MAX} list elements"):
        decode_request(named(100, ELEMENTS_MAX // 100))


def test_a_reply_ends_where_it_ends() -> None:
    frame = response_frame(ApiKey.HEARTBEAT, 1, 7, {"error_code": 27})
    assert response_values(ApiKey.HEARTBEAT, 1, frame[LENGTH_BYTES:]) == (7, {"throttle_time_ms": 0, "error_code": 27})
    with pytest.raises(WireError, match="1 surplus bytes at its end"):
        response_values(ApiKey.HEARTBEAT, 1, frame[LENGTH_BYTES:] + b"\0")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"error_code": 70_000}, "error_code = 70000"),
        ({"error_code": "x"}, "error_code = 'x'"),
        ({"topics": None}, "topics: null in a field"),
        ({"topics": [{"name": 7}]}, "topics: name: "),
        ({"topics": [{"name": "x" * 40_000}]}, "the text has 40000 bytes"),
        ({"topics": [{"topic_id": "short"}]}, "topic_id: 'short' is not a valid id"),
    ],
)
def test_internal_errors_are_named(body: dict[str, Any], why: str) -> None:
    api = ApiKey.METADATA if "topics" in body else ApiKey.HEARTBEAT
    with pytest.raises(Unwritable, match=why):
        response_frame(api, 12 if "topics" in body else 4, 7, body)


@pytest.mark.parametrize(
    ("number", "raw"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**32, "8080808010")]
)
def test_numbers_that_are_as_long_as_they_must_be(number: int, raw: str) -> None:
    assert uvarint(number) == bytes.fromhex(raw)
    assert read_uvarint(bytes.fromhex(raw), 0) == (number, len(raw) // 2)
