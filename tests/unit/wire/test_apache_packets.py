from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab.core.errors import WireError
from zab.core.zxid import ServerId, Zxid, make
from zab.wire.apache import packet_bodies as bodies
from zab.wire.apache.packet_bodies import LearnerInfo, LearnerRequest, RevalidateReply, RevalidateRequest
from zab.wire.apache.quorum_packets import PacketReader, PacketType, QuorumPacket, encode_packet

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.text(max_size=10)
IDENTITIES = st.one_of(st.none(), st.lists(st.tuples(NAMES, NAMES), max_size=3).map(tuple))
PACKETS = st.builds(
    QuorumPacket, st.sampled_from(PacketType), LONGS, st.one_of(st.none(), st.binary(max_size=30)), IDENTITIES
)


def read(data: bytes, size: int = 1 << 20, bytes_max: int = 1000) -> list[QuorumPacket]:
    reader, found = PacketReader(bytes_max), []
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        while (packet := reader.next()) is not None:
            found.append(packet)
    assert reader.held_bytes == 0
    return found


def test_packets_byte_for_byte() -> None:
    info = LearnerInfo(ServerId(3), make(1, 0))
    hello = QuorumPacket(PacketType.FOLLOWER_INFO, make(4, 0), bodies.encode_info(info))
    assert encode_packet(hello) == bytes.fromhex(
        "0000000b 0000000400000000 00000014 0000000000000003 00010000 0000000100000000 ffffffff"
    )
    who = QuorumPacket(PacketType.REQUEST, -1, b"", (("ip", "::1"),))
    assert encode_packet(who) == bytes.fromhex(
        "00000001 ffffffffffffffff 00000000 00000001 00000002 6970 00000003 3a3a31"
    )


@given(st.lists(PACKETS, max_size=6), st.integers(1, 50))
@settings(max_examples=200)
def test_any_packets_survive(packets: list[QuorumPacket], size: int) -> None:
    assert read(b"".join(map(encode_packet, packets)), size) == packets


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("00000000 0000000000000000 00000000", "unknown type 0"),
        ("00000014 0000000000000000 00000000", "unknown type 20"),
        ("00000002 0000000000000000 fffffffe", "-2 bytes"),
        ("00000002 0000000000000000 000003e9", "1001 bytes"),
        ("00000002 0000000000000000 7fffffff", "2147483647 bytes"),
        ("00000002 0000000000000000 00000000 fffffffe", "-2 identities"),
        ("00000002 0000000000000000 00000000 00000401", "1025 identities"),
        ("00000002 0000000000000000 00000000 00000001 ffffffff", "-1 bytes"),
        ("00000002 0000000000000000 00000000 00000001 00001000", "4096 bytes"),
    ],
)
def test_a_malformed_packet_is_refused(data: str, why: str) -> None:
    reader = PacketReader(1000)
    reader.feed(bytes.fromhex(data))
    with pytest.raises(WireError, match=why):
        reader.next()


@given(st.binary(max_size=100))
@settings(max_examples=300)
def test_noise_raises_the_declared_error_only(data: bytes) -> None:
    reader = PacketReader(1000)
    reader.feed(data)
    try:
        while reader.next() is not None:
            pass
    except WireError:
        pass


def test_a_large_packet_that_arrives_byte_by_byte_is_looked_at_seldom() -> None:
    reader = PacketReader(1 << 20)
    data = encode_packet(QuorumPacket(PacketType.PROPOSAL, 1, bytes(100_000)))
    for at in range(len(data) - 1):
        reader.feed(data[at : at + 1])
        assert reader.next() is None
    reader.feed(data[-1:])
    assert reader.next() is not None


def test_a_packet_that_announces_much_takes_no_memory() -> None:
    reader = PacketReader(1 << 30)
    tracemalloc.start()
    try:
        reader.feed(bytes.fromhex("00000002 0000000000000000 3fffffff") + bytes(100))
        assert reader.next() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000


# -- data ----------------------------------------------------------------------------------------------


def packet(kind: PacketType, zxid: int = 0, data: bytes | None = None) -> QuorumPacket:
    return QuorumPacket(kind, zxid, data)


def test_data_of_packets_survives() -> None:
    info = LearnerInfo(ServerId(3), make(1, 0))
    assert bodies.decode_info(packet(PacketType.FOLLOWER_INFO, 0, bodies.encode_info(info))) == info
    request = LearnerRequest(-5, 7, 1, b"body", (("digest", "a:b"),))
    assert bodies.decode_learner_request(bodies.request_packet(request)) == request
    ask = RevalidateRequest(-5, 4000)
    assert bodies.decode_revalidate_request(bodies.revalidation_packet(ask)) == ask
    for valid in True, False:
        reply = RevalidateReply(-5, valid)
        assert bodies.decode_revalidate_reply(bodies.revalidation_packet(reply)) == reply
    touches = packet(PacketType.PING, 0, bodies.encode_touches({-5: 4000, 6: 1}))
    assert bodies.decode_touches(touches).sessions == ((-5, 4000), (6, 1))


@pytest.mark.parametrize(
    ("decode", "data", "why"),
    [
        (bodies.decode_info, None, "0 bytes of data"),
        (bodies.decode_info, bytes(19), "19 bytes"),
        (bodies.decode_info, bytes.fromhex("0000000000000003 00000001 0000000000000000"), "version 0x1 of the quorum"),
        (bodies.decode_info, bytes.fromhex("0000000000000000 00010000 0000000000000000"), "id 0"),
        (bodies.decode_info, bytes.fromhex("0000000000000001 00010000 ffffffffffffffff"), "version -0x1"),
        (bodies.check_version, b"\0\0\0", "3 bytes"),
        (bodies.check_version, bytes(4), "version 0x0"),
        (bodies.decode_epoch, bytes.fromhex("fffffffe"), "epoch -2"),
        (bodies.decode_designated, bytes(7), "7 bytes"),
        (bodies.decode_designated, bytes(8), "designates server 0"),
        (bodies.decode_learner_request, bytes(15), "15 bytes"),
        (bodies.decode_touches, bytes(13), "13 bytes"),
        (bodies.decode_revalidate_request, bytes(11), "11 bytes"),
        (bodies.decode_revalidate_reply, bytes(8), "8 bytes"),
    ],
)
def test_malformed_data_is_refused(decode: object, data: bytes | None, why: str) -> None:
    assert callable(decode)
    with pytest.raises(WireError, match=why):
        decode(packet(PacketType.PING, 0, data))


@pytest.mark.parametrize("zxid", [0, -1, make(3, 0), 1 << 63 - 1, 1 << 62 | 1 << 63])
def test_zxids_are_checked(zxid: int) -> None:
    with pytest.raises(WireError):
        bodies.zxid_of(packet(PacketType.COMMIT, zxid))


def test_positions_and_epochs_are_checked() -> None:
    assert bodies.position_of(packet(PacketType.ACK_EPOCH, -1)) == Zxid(-1)
    assert bodies.epoch_in(packet(PacketType.LEADER_INFO, make(3, 0))) == 3
    for zxid in make(3, 1), -1, 1 << 63:
        with pytest.raises(WireError):
            bodies.epoch_in(packet(PacketType.LEADER_INFO, zxid))
    with pytest.raises(WireError):
        bodies.position_of(packet(PacketType.ACK_EPOCH, -2))
