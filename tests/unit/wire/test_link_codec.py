"""The codecs of learner links."""

from __future__ import annotations

from attrs import define

from zab.core.messages import Commit, Pong, SnapChunk, UpToDate
from zab.core.zxid import ServerId, make
from zab.wire.apache.link_to_leader import LinkToLeader
from zab.wire.apache.packet_bodies import encode_version
from zab.wire.apache.quorum_packets import PacketType, QuorumPacket, encode_packet
from zab.wire.link_codec import FrameCodec, LinkCodec, PacketCodec
from zab.wire.peer import encode
from zab.wire.relay_messages import SnapPiece


@define
class SmallLimits:
    frame_bytes_max: int = 100
    snapshot_chunk_bytes_max: int = 1_000


def test_frames_are_the_same_on_every_link() -> None:
    codec: LinkCodec = FrameCodec(SmallLimits(), dialled=True)
    assert codec.shares_frames
    assert codec.encode(Pong(3)) == encode(Pong(3))
    data = encode(Commit(make(1, 2))) + encode(UpToDate(make(1, 1)))
    assert codec.feed(data[:-1]) == ([Commit(make(1, 2))], len(data) - 1)
    assert codec.held_bytes > 0
    assert codec.feed(data[-1:]) == ([UpToDate(make(1, 1))], 1)
    assert codec.held_bytes == 0


def test_size_of_a_joined_chunk_includes_its_pieces() -> None:
    codec = FrameCodec(SmallLimits(), dialled=True)
    piece, last = encode(SnapPiece(b"a" * 50)), encode(SnapChunk(b"b" * 10))
    assert codec.feed(piece) == ([], len(piece))
    assert codec.feed(last) == ([SnapChunk(b"a" * 50 + b"b" * 10)], len(last) + 50)


def test_size_of_a_packet_includes_what_arrived_before() -> None:
    codec: LinkCodec = PacketCodec(LinkToLeader(ServerId(4)))
    data = encode_packet(QuorumPacket(PacketType.LEADER_INFO, make(7, 0), encode_version()))
    assert codec.feed(data[:5]) == ([], 0)
    messages, size = codec.feed(data[5:])
    assert len(messages) == 1
    assert size == len(data)
    assert not codec.shares_frames


def test_notices_precede_the_messages() -> None:
    notices = [["notice"], []]
    codec = PacketCodec(LinkToLeader(ServerId(4)), lambda: list(notices.pop(0)))
    data = encode_packet(QuorumPacket(PacketType.LEADER_INFO, make(7, 0), encode_version()))
    messages, _ = codec.feed(data)
    assert messages[0] == "notice"
    assert len(messages) == 2
