"""Recorded conversations between servers of Apache ZooKeeper, and checks that our codec loses nothing of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from attrs import evolve, frozen

from zab.core.messages import (
    AckEpoch,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    FollowerInfo,
    Inform,
    InformAndActivate,
    Propose,
    SnapBegin,
    SnapChunk,
    SnapEnd,
)
from zab.core.zxid import ServerId
from zab.store.operations import Op
from zab.store.store import Store
from zab.wire.apache import packet_bodies as bodies
from zab.wire.apache.election_messages import (
    NOTIFICATION_BYTES_MAX,
    ElectionOpeningReader,
    decode_ensemble,
    decode_notification,
    encode_notification,
    encode_opening,
)
from zab.wire.apache.link_to_leader import FromLeader, LinkToLeader
from zab.wire.apache.link_to_learner import LinkToLearner
from zab.wire.apache.quorum_packets import PacketReader, PacketType, QuorumPacket, encode_packet
from zab.wire.apache.snapshot_stream import SIGNATURE, SnapshotStream
from zab.wire.client import requests
from zab.wire.disk_snapshot import SnapshotReader, state_parts
from zab.wire.disk_txn import decode_txn, encode_txn
from zab.wire.frames import FrameReader
from zab.wire.relay_messages import TAG_BYTES

CAPTURES: Final = Path(__file__).parent / "apache_captures"
_LENGTHS: Final = Struct(">II")
_FILE_HEAD: Final = b"ZKSN" + (2).to_bytes(4, "big") + (-1).to_bytes(8, "big", signed=True)


@frozen
class Conversation:
    """One connection between two servers: everything that each side sent.

    `channel` is "election" or "quorum", `stage` the part of the scenario in which the connection began.
    """

    channel: str
    listener: int
    stage: str
    from_dialler: bytes
    from_listener: bytes

    @property
    def name(self) -> str:
        return f"{self.channel}-{self.stage}-{self.listener}"

    def encode(self) -> bytes:
        return _LENGTHS.pack(len(self.from_dialler), len(self.from_listener)) + self.from_dialler + self.from_listener

    @classmethod
    def decode(cls, name: str, data: bytes) -> Conversation:
        channel, stage, listener = name.split("-")[:3]
        first, second = _LENGTHS.unpack_from(data)
        assert _LENGTHS.size + first + second == len(data)
        start = _LENGTHS.size
        return cls(channel, int(listener), stage, data[start : start + first], data[start + first :])


def stored(channel: str) -> list[Conversation]:
    paths = sorted(CAPTURES.glob(f"{channel}-*"))
    return [Conversation.decode(path.name, path.read_bytes()) for path in paths]


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


# -- the same bytes again ------------------------------------------------------------------------------


def check_election(conversation: Conversation) -> None:
    """Decode every byte of an election link, encode it again, and compare."""
    if not conversation.from_dialler:
        return  # the server was not there: the proxy accepted the connection in its place
    reader = ElectionOpeningReader()
    opening = None
    for piece in pieces(conversation.from_dialler, 7):
        opening = opening or reader.feed(piece)
    reader = ElectionOpeningReader()
    opening = reader.feed(conversation.from_dialler)
    assert opening is not None
    assert encode_opening(opening) + reader.rest == conversation.from_dialler
    for data in reader.rest, conversation.from_listener:
        frames = FrameReader(NOTIFICATION_BYTES_MAX)
        notifications = [decode_notification(each) for each in frames.feed(data)] if data else []
        tail = len(data) - frames.held_bytes
        assert b"".join(map(encode_notification, notifications)) == data[:tail]


def check_quorum(conversation: Conversation) -> set[PacketType]:
    """Decode every byte of a learner link, encode it again, and compare. Return the types of its packets."""
    seen: set[PacketType] = set()
    for data in conversation.from_dialler, conversation.from_listener:
        reader, again = PacketReader(), bytearray()
        reader.feed(data)
        while (packet := reader.next()) is not None:
            seen.add(packet.type)
            again += encode_packet(_again(packet))
            if packet.type is PacketType.SNAP:
                rest = reader.take_rest()
                stream = SnapshotStream(bodies.position_of(packet))
                stream.feed(rest)
                if stream.rest is None:
                    again += rest  # the connection ended in the middle of the state
                    break
                again += _state_again(rest[: len(rest) - len(stream.rest)])
                reader.feed(stream.rest)
        assert bytes(again) == data[: len(data) - reader.held_bytes]
    return seen


def _again(packet: QuorumPacket) -> QuorumPacket:
    """Return the packet with its data decoded and encoded again."""
    match packet.type:
        case PacketType.FOLLOWER_INFO | PacketType.OBSERVER_INFO:
            return evolve(packet, data=bodies.encode_info(bodies.decode_info(packet)))
        case PacketType.LEADER_INFO:
            bodies.check_version(packet)
            return evolve(packet, data=bodies.encode_version())
        case PacketType.ACK_EPOCH:
            return evolve(packet, data=bodies.encode_epoch(bodies.decode_epoch(packet)))
        case PacketType.PROPOSAL | PacketType.INFORM:
            return evolve(packet, data=encode_txn(decode_txn(packet.body())))
        case PacketType.INFORM_AND_ACTIVATE:
            designated, data = bodies.decode_designated(packet)
            return evolve(packet, data=bodies.encode_designated(designated) + encode_txn(decode_txn(data)))
        case PacketType.COMMIT_AND_ACTIVATE:
            designated, data = bodies.decode_designated(packet)
            assert data == b""
            return evolve(packet, data=bodies.encode_designated(designated))
        case PacketType.NEW_LEADER:
            return evolve(packet, data=decode_ensemble(packet.body()).text().encode())
        case PacketType.PING if packet.data is not None:
            return evolve(packet, data=bodies.encode_touches(dict(bodies.decode_touches(packet).sessions)))
        case PacketType.REQUEST:
            request = bodies.decode_learner_request(packet)
            if request.op in requests.SHAPES and request.op != Op.CLOSE_SESSION:
                fields = requests.decode_request(request.op, request.body)
                assert not isinstance(fields, requests.RejectedRequest)
                request = evolve(request, body=requests.encode_request(request.op, 0, fields)[12:])
            return bodies.request_packet(request)
        case PacketType.REVALIDATE if len(packet.body()) == 12:
            return bodies.revalidation_packet(bodies.decode_revalidate_request(packet))
        case PacketType.REVALIDATE:
            return bodies.revalidation_packet(bodies.decode_revalidate_reply(packet))
        case _:
            assert packet.data is None, packet
            return packet


def _state_again(data: bytes) -> bytes:
    state = SnapshotReader([_FILE_HEAD, data.removesuffix(SIGNATURE)])
    return b"".join(state_parts(state.sessions, state.acls, state.nodes())) + SIGNATURE


# -- through the translators ---------------------------------------------------------------------------


@frozen
class Followed:
    """A conversation as one server of ours would have seen it at either end."""

    from_learner: list[object]
    from_leader: list[FromLeader]
    digests: dict[int, int]


def follow(conversation: Conversation, piece_bytes: int = 1000) -> Followed:
    """Pass a conversation through the translators of both ends. Ours must introduce itself with the same bytes."""
    at_leader = LinkToLearner()
    dialled = conversation.from_dialler
    hello = PacketReader()
    hello.feed(dialled)
    assert hello.next() is not None
    start = len(dialled) - hello.held_bytes
    (info,) = at_leader.feed(dialled[:start])
    assert isinstance(info, FollowerInfo)
    assert at_leader.sid is not None
    at_learner = LinkToLeader(ServerId(at_leader.sid))
    assert at_learner.encode(info) == dialled[:start]
    assert hello.next() is not None
    stop = len(dialled) - hello.held_bytes
    (ack,) = at_leader.feed(dialled[start:stop])
    assert isinstance(ack, AckEpoch)
    assert at_learner.encode(ack) == dialled[start:stop]
    hello = PacketReader()
    hello.feed(conversation.from_listener)
    announcement = hello.next()
    assert announcement is not None
    at_leader._epoch = bodies.epoch_in(announcement)  # as if it had been sent on this link
    learners: list[object] = [info, ack]
    for piece in pieces(dialled[stop:], piece_bytes):
        learners += at_leader.feed(piece)
    for message in learners:
        if isinstance(message, BarrierRequest):
            at_learner.encode(message)
    digests: dict[int, int] = {}
    messages: list[FromLeader] = []
    for piece in pieces(conversation.from_listener, piece_bytes):
        messages += at_learner.feed(piece)
        digests.update((zxid, digest) for zxid, _, digest in at_learner.digests)
    return Followed(learners, messages, digests)


def applied(followed: Followed, store: Store) -> int:
    """Apply the history of a conversation to a store, compare the tree's digests, and return how many were compared."""
    chunks: list[bytes] = []
    compared = 0
    for message in followed.from_leader:
        match message:
            case SnapBegin():
                chunks.clear()
            case SnapChunk():
                chunks.append(message.data)
            case SnapEnd():
                store.restore(chunks)
                store.tree.check()
            case Propose() | Inform() | InformAndActivate():
                batch = message.batch
                for zxid, payload in zip(batch.zxids, batch.payloads(), strict=True):
                    if batch.config:
                        store.configure(zxid, payload, applied=True)
                        continue
                    store.apply(zxid, payload[TAG_BYTES:])
                    if zxid in followed.digests:
                        assert store.digest.value == followed.digests[zxid], f"{zxid:#x}"
                        compared += 1
            case Commit() | CommitAndActivate():
                assert message.zxid <= store.zxid
            case _:
                pass
    return compared


def zxids(messages: Iterable[object]) -> list[int]:
    return [
        zxid for each in messages if isinstance(each, Propose | Inform | InformAndActivate) for zxid in each.batch.zxids
    ]
