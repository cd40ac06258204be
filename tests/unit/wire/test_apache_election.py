from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.ensemble import Ensemble
from zab.core.errors import WireError
from zab.core.leader_election import NO_VOTE
from zab.core.messages import Notification, State
from zab.core.zxid import UNKNOWN, Epoch, ServerId, Zxid, make
from zab.wire.apache.election_messages import (
    ADDRESS_BYTES_MAX,
    ElectionOpening,
    ElectionOpeningReader,
    decode_notification,
    encode_notification,
    encode_opening,
)

ENSEMBLE = Ensemble.parse("server.1=a:1:2;3\nserver.2=b:1:2\nserver.9=c:1:2:observer\nversion=100000000")
LOOKING = Notification(State.LOOKING, ServerId(2), make(5, 7), Epoch(5), 4, ENSEMBLE)
OPENING = ElectionOpening(ServerId(2), (("b", 3888),))


def test_notification_byte_for_byte() -> None:
    config = (
        b"server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant\nserver.9=c:1:2:observer\nversion=100000000"
    )
    assert (
        encode_notification(LOOKING)
        == (44 + len(config)).to_bytes(4, "big")
        + bytes.fromhex(
            f"00000000 0000000000000002 0000000500000007 0000000000000004 0000000000000005 00000002 {len(config):08x}"
        )
        + config
    )


@pytest.mark.parametrize("state", State)
def test_notification_survives(state: State) -> None:
    notification = Notification(state, ServerId(1), UNKNOWN, Epoch(0), 0, ENSEMBLE)
    assert decode_notification(encode_notification(notification)[4:]) == notification


def test_a_server_without_a_vote_names_the_least_numbers() -> None:
    notification = Notification(State.LOOKING, NO_VOTE.leader, NO_VOTE.zxid, NO_VOTE.epoch, 1, ENSEMBLE)
    frame = encode_notification(notification)
    assert frame[8:24] == bytes.fromhex("8000000000000000" * 2)
    assert decode_notification(frame[4:]) == notification


def test_a_pending_membership_is_not_sent() -> None:
    pending = Notification(State.LOOKING, ServerId(2), make(5, 7), Epoch(5), 4, ENSEMBLE, ENSEMBLE)
    assert encode_notification(pending) == encode_notification(LOOKING)


def changed(at: int, value: int, size: int) -> bytes:
    payload = bytearray(encode_notification(LOOKING)[4:])
    payload[at : at + size] = value.to_bytes(size, "big", signed=True)
    return bytes(payload)


def test_follower_without_a_vote_has_a_zxid_but_no_candidate() -> None:
    found = decode_notification(changed(4, -(1 << 63), 8))
    assert (found.leader, found.zxid, found.epoch) == (-1, UNKNOWN, -1)
    assert found.state is State.LOOKING


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "0 bytes"),
        (encode_notification(LOOKING)[4:47], "43 bytes"),
        (changed(0, 4, 4), "4 is not the state"),
        (changed(0, -1, 4), "-1 is not the state"),
        (changed(4, 0, 8), "leader 0"),
        (changed(12, -2, 8), "out of range"),
        (changed(20, -1, 8), "-1 is not a number"),
        (changed(28, 1 << 31, 8), "out of range"),
        (changed(36, 1, 4), "version 1"),
        (changed(40, 1 << 30, 4), "1073741824 bytes"),
        (changed(40, -1, 4), "-1 bytes"),
        (encode_notification(LOOKING)[4:] + b"x", "bytes in"),
        (changed(44, 0x20, 1)[:-1] + b"!", "not a configuration"),
        (changed(44, -1, 1), "not a configuration"),
        (encode_notification(LOOKING)[4:].replace(b"version=100000000", b"version=-00000001"), "no zxid"),
    ],
)
def test_a_malformed_notification_is_refused(payload: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode_notification(payload)


@pytest.mark.parametrize(
    "opening",
    [
        OPENING,
        ElectionOpening(ServerId(1), (("::1", 1), ("b", 65535)), True),
        ElectionOpening(ServerId((1 << 63) - 1), (("b", 1),), True),
    ],
)
@pytest.mark.parametrize("size", [1, 9, 1000])
def test_opening_survives(opening: ElectionOpening, size: int) -> None:
    reader = ElectionOpeningReader()
    data = encode_opening(opening)
    found = [reader.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert found == [None] * (len(found) - 1) + [opening]
    assert reader.rest == b""


def test_the_bytes_after_an_opening_are_kept() -> None:
    reader = ElectionOpeningReader()
    assert reader.feed(encode_opening(OPENING) + b"more") == OPENING
    assert reader.rest == b"more"


def opened(address: bytes, version: int = -65536, sid: int = 2, length: int | None = None) -> bytes:
    head = version.to_bytes(8, "big", signed=True) + sid.to_bytes(8, "big", signed=True)
    return head + (len(address) if length is None else length).to_bytes(4, "big", signed=True) + address


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ((3).to_bytes(8, "big"), "older than ZooKeeper 3.5"),
        (opened(b"b:1", version=-65534), "version -65534"),
        (opened(b"b:1", sid=0), "0 is not a server id"),
        (opened(b"b:1", length=0), "0 bytes"),
        (opened(b"b:1", length=-1), "-1 bytes"),
        (opened(b"b:1", length=ADDRESS_BYTES_MAX + 1), "2049 bytes"),
        (opened(b"b"), "not an address"),
        (opened(b":1"), "not an address"),
        (opened(b"b:0"), "not an address"),
        (opened(b"b:65536"), "not an address"),
        (opened(b"b:" + b"1" * 2000), "not an address"),
        (opened(b"b:1|c:2"), "not an address"),
        (opened(b"b:1|", version=-65535), "not an address"),
        (opened(b"\xff:1"), "not text"),
    ],
)
def test_a_malformed_opening_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        ElectionOpeningReader().feed(data)


@given(st.binary(max_size=60))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_notification(data)


def test_zxid_of_a_vote_may_be_the_beginning_of_an_epoch() -> None:
    notification = Notification(State.FOLLOWING, ServerId(1), Zxid(5 << 32), Epoch(5), 3, ENSEMBLE)
    assert decode_notification(encode_notification(notification)[4:]) == notification
