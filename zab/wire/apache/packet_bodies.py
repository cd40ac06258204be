"""The data of packets, and the messages about clients' sessions, which have no equal among our own.

A server of Apache ZooKeeper forwards a client's request with the session and the client's number of the request. It
recognises the reply by these two in the header of the transaction: there is no tag in front of the transaction, and a
request that fails becomes a transaction, too. The leader, not the history, knows at which server a session is.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from attrs import frozen

from zab.core.errors import WireError
from zab.core.zxid import COUNTER_MAX, EPOCH_MAX, UNKNOWN, Epoch, ServerId, Zxid, counter_of, epoch_of
from zab.store.acl import Identity
from zab.wire.apache.quorum_packets import PacketType, QuorumPacket

PROTOCOL_VERSION: Final = 0x10000
"""The version of the quorum protocol since ZooKeeper 3.4: with LEADERINFO and ACKEPOCH."""
NO_ZXID: Final = -1
NOT_COUNTED: Final = -1
"""In place of the epoch in ACKEPOCH: the learner has promised this epoch before."""
ZXID_MAX: Final = (EPOCH_MAX << 32) + COUNTER_MAX
_INFO: Final = Struct(">qiq")
_VERSION: Final = Struct(">i")
_EPOCH: Final = Struct(">i")
_DESIGNATED: Final = Struct(">q")
_REQUEST: Final = Struct(">qii")
_SESSION: Final = Struct(">qi")
_VALID: Final = Struct(">qB")


@frozen
class LearnerInfo:
    """The data of FOLLOWERINFO and OBSERVERINFO: it is also the only greeting on this link."""

    sid: ServerId
    config_version: Zxid
    protocol: int = PROTOCOL_VERSION


@frozen
class LearnerRequest:
    """A request of a client, forwarded to the leader. `body` is in the format of the client protocol."""

    session: int
    cxid: int
    op: int
    body: bytes
    identities: tuple[Identity, ...] = ()


@frozen
class SessionTouches:
    """The sessions that a learner's clients have used since the last answer to a ping, with their timeouts in ms."""

    sessions: tuple[tuple[int, int], ...]


@frozen
class RevalidateRequest:
    """A client has reconnected to the learner: does the session exist, and may it be here from now on?"""

    session: int
    timeout_ms: int


@frozen
class RevalidateReply:
    session: int
    valid: bool


@frozen
class TreeDigests:
    """The digests that the leader's tree has after transactions that have arrived: (zxid, version, digest)."""

    digests: tuple[tuple[Zxid, int, int], ...]


SessionMessage: TypeAlias = LearnerRequest | SessionTouches | RevalidateRequest | RevalidateReply


def zxid_of(packet: QuorumPacket) -> Zxid:
    """Return the zxid of a transaction in the packet, or raise `WireError` if it is none."""
    if not 0 < packet.zxid <= ZXID_MAX or not counter_of(Zxid(packet.zxid)):
        raise WireError(f"{packet.type.name} with {packet.zxid:#x}, which is no transaction's zxid")
    return Zxid(packet.zxid)


def position_of(packet: QuorumPacket) -> Zxid:
    """Return the end of a history, which may be the beginning of an epoch, or UNKNOWN; else raise `WireError`."""
    if not UNKNOWN <= packet.zxid <= ZXID_MAX:
        raise WireError(f"{packet.type.name} with {packet.zxid:#x}, which is no zxid")
    return Zxid(packet.zxid)


def known_position_of(packet: QuorumPacket) -> Zxid:
    """Return the end of a history that is known, or raise `WireError`."""
    zxid = position_of(packet)
    if zxid == UNKNOWN:
        raise WireError(f"{packet.type.name} without a zxid")
    return zxid


def epoch_in(packet: QuorumPacket) -> Epoch:
    """Return the epoch of a packet whose zxid is the beginning of an epoch, or raise `WireError`."""
    if not 0 <= packet.zxid <= ZXID_MAX or counter_of(Zxid(packet.zxid)):
        raise WireError(f"{packet.type.name} with {packet.zxid:#x}, which is not the beginning of an epoch")
    return epoch_of(Zxid(packet.zxid))


def encode_info(info: LearnerInfo) -> bytes:
    return _INFO.pack(info.sid, info.protocol, info.config_version)


def decode_info(packet: QuorumPacket) -> LearnerInfo:
    sid, protocol, config_version = _INFO.unpack_from(packet.body(_INFO.size))
    if protocol < PROTOCOL_VERSION:
        raise WireError(f"version {protocol:#x} of the quorum protocol; {PROTOCOL_VERSION:#x} is the least supported")
    if sid <= 0 or not 0 <= config_version <= ZXID_MAX:
        raise WireError(f"a learner with id {sid} and version {config_version:#x} of the configuration")
    return LearnerInfo(ServerId(sid), Zxid(config_version), protocol)


def encode_version() -> bytes:
    return _VERSION.pack(PROTOCOL_VERSION)


def check_version(packet: QuorumPacket) -> None:
    (version,) = _VERSION.unpack_from(packet.body(_VERSION.size))
    if version < PROTOCOL_VERSION:
        raise WireError(f"version {version:#x} of the quorum protocol; {PROTOCOL_VERSION:#x} is the least supported")


def encode_epoch(epoch: int) -> bytes:
    return _EPOCH.pack(epoch)


def decode_epoch(packet: QuorumPacket) -> int:
    """Return the epoch in ACKEPOCH, or `NOT_COUNTED`."""
    (epoch,) = _EPOCH.unpack_from(packet.body(_EPOCH.size))
    if epoch < NOT_COUNTED:
        raise WireError(f"ACKEPOCH with the epoch {epoch}")
    return int(epoch)


def encode_designated(designated: ServerId) -> bytes:
    return _DESIGNATED.pack(designated)


def decode_designated(packet: QuorumPacket) -> tuple[ServerId, bytes]:
    """Return the server that should lead, and the bytes that follow it."""
    data = packet.body(_DESIGNATED.size)
    (designated,) = _DESIGNATED.unpack_from(data)
    if designated <= 0:
        raise WireError(f"{packet.type.name} designates server {designated}")
    return ServerId(designated), data[_DESIGNATED.size :]


def request_packet(request: LearnerRequest) -> QuorumPacket:
    data = _REQUEST.pack(request.session, request.cxid, request.op) + request.body
    return QuorumPacket(PacketType.REQUEST, NO_ZXID, data, request.identities or None)


def decode_learner_request(packet: QuorumPacket) -> LearnerRequest:
    data = packet.body(_REQUEST.size)
    session, cxid, op = _REQUEST.unpack_from(data)
    return LearnerRequest(session, cxid, op, data[_REQUEST.size :], packet.identities or ())


def encode_touches(sessions: dict[int, int]) -> bytes:
    return b"".join(_SESSION.pack(session, timeout_ms) for session, timeout_ms in sessions.items())


def decode_touches(packet: QuorumPacket) -> SessionTouches:
    data = packet.data or b""
    if len(data) % _SESSION.size:
        raise WireError(f"PING with {len(data)} bytes of sessions, not a multiple of {_SESSION.size}")
    return SessionTouches(tuple(_SESSION.iter_unpack(data)))


def revalidation_packet(message: RevalidateRequest | RevalidateReply) -> QuorumPacket:
    if isinstance(message, RevalidateRequest):
        data = _SESSION.pack(message.session, message.timeout_ms)
    else:
        data = _VALID.pack(message.session, message.valid)
    return QuorumPacket(PacketType.REVALIDATE, NO_ZXID, data)


def decode_revalidate_request(packet: QuorumPacket) -> RevalidateRequest:
    return RevalidateRequest(*_SESSION.unpack_from(packet.body(_SESSION.size)))


def decode_revalidate_reply(packet: QuorumPacket) -> RevalidateReply:
    session, valid = _VALID.unpack_from(packet.body(_VALID.size))
    return RevalidateReply(session, valid != 0)
