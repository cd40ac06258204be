"""The decoders of the protocol between ZooKeeper's servers: elections, packets, both ends of a link, the state."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tests.fuzz.target import FRAME_BYTES_MAX, Target, in_pieces
from tests.unit.wire.apache_conversations import Conversation, stored
from zab.core.errors import WireError
from zab.core.messages import AckEpoch, BarrierRequest, FollowerInfo, Message
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid
from zab.wire.apache.election_messages import ElectionOpeningReader, decode_notification, encode_notification
from zab.wire.apache.link_to_leader import LinkToLeader
from zab.wire.apache.link_to_learner import LinkToLearner
from zab.wire.apache.quorum_packets import PacketReader, PacketType, encode_packet
from zab.wire.apache.snapshot_stream import SnapshotStream
from zab.wire.frames import FrameReader

_HELLO: Final[list[Message]] = [FollowerInfo(Epoch(0), NOTHING), AckEpoch(Epoch(0), NOTHING, 0)]


def _notification(data: bytes) -> bool:
    with suppress(WireError):
        notification = decode_notification(data)
        assert decode_notification(encode_notification(notification)[4:]) == notification
        return True
    return False


def _opening(data: bytes) -> bool:
    reader = ElectionOpeningReader()
    with suppress(WireError):
        return any(reader.feed(piece) is not None for piece in in_pieces(data, 7))
    return False


def _packets(data: bytes) -> bool:
    reader, found = PacketReader(FRAME_BYTES_MAX), []
    with suppress(WireError):
        for piece in in_pieces(data, 7):
            reader.feed(piece)
            while (packet := reader.next()) is not None:
                found.append(packet)
            assert reader.held_bytes <= 2 * FRAME_BYTES_MAX
        again = PacketReader(FRAME_BYTES_MAX)
        again.feed(b"".join(map(encode_packet, found)))
        assert [again.next() for _ in found] == found
        return bool(found)
    return False


def _from_leader(data: bytes) -> bool:
    link = LinkToLeader(ServerId(1), FRAME_BYTES_MAX)
    for message in _HELLO:
        link.encode(message)
    for number in range(4):
        link.encode(BarrierRequest(number))
    found = False
    with suppress(WireError):
        for piece in in_pieces(data, 7):
            found = bool(link.feed(piece)) or found
            assert link.held_bytes <= 2 * FRAME_BYTES_MAX
        return found
    return False


def _from_learner(data: bytes) -> bool:
    link = LinkToLearner(FRAME_BYTES_MAX)
    link._epoch = Epoch(1)
    found = False
    with suppress(WireError):
        for piece in in_pieces(data, 7):
            found = bool(link.feed(piece)) or found
            assert link.held_bytes <= 2 * FRAME_BYTES_MAX
        return found
    return False


def _state(data: bytes) -> bool:
    stream = SnapshotStream(Zxid(5), FRAME_BYTES_MAX)
    with suppress(WireError):
        for piece in in_pieces(data, 7):
            stream.feed(piece)
            assert stream.held_bytes <= 2 * FRAME_BYTES_MAX
            if stream.rest is not None:
                break
        return stream.rest is not None
    return False


def _state_of(conversation: Conversation) -> bytes:
    reader = PacketReader()
    reader.feed(conversation.from_listener)
    while (packet := reader.next()) is not None:
        if packet.type is PacketType.SNAP:
            return reader.take_rest()
    raise AssertionError("there is no snapshot")


def _notifications(conversation: Conversation) -> list[bytes]:
    opening = ElectionOpeningReader()
    opening.feed(conversation.from_dialler)
    return FrameReader(1 << 19).feed(opening.rest) if opening.rest else []


_QUORUMS: Final = {each.stage: each for each in stored("quorum") if each.stage != "start"}
_ELECTIONS: Final = stored("election")
TARGETS: Final = {
    "election opening": Target(_opening, [each.from_dialler[:40] for each in _ELECTIONS]),
    "notification": Target(_notification, [frame for each in _ELECTIONS for frame in _notifications(each)[:2]]),
    "packets": Target(_packets, [each.from_dialler for each in _QUORUMS.values()]),
    "from a leader": Target(_from_leader, [each.from_listener for each in _QUORUMS.values()]),
    "from a learner": Target(_from_learner, [each.from_dialler for each in _QUORUMS.values()]),
    "state": Target(_state, [_state_of(_QUORUMS["snap"])]),
}
