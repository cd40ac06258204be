"""The packets on a link between a learner and a leader of Apache ZooKeeper.

A packet is a jute record: type, zxid, data, identities. Packets follow each other without a length in front. There is
one exception: after a SNAP the leader writes its state and a signature, in no packet (`snapshot_stream`). So the reader
hands out one packet at a time, and gives up its remaining bytes when the state follows.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error
from typing import Final, TypeAlias

from attrs import frozen

from zab.core.errors import WireError
from zab.store.acl import Identity
from zab.wire.jute import INT, NULL, buffer, text, text_of, vector

_HEAD: Final = Struct(">iqi")
PACKET_BYTES_MAX: Final = 4 << 20
"""The default for the largest packet. A proposal is somewhat larger than the request of a client (`jute.maxbuffer`)."""
IDENTITIES_MAX: Final = 1024
_FIELD_BYTES: Final = 4


class PacketType(IntEnum):
    REQUEST = 1
    PROPOSAL = 2
    ACK = 3
    COMMIT = 4
    PING = 5
    REVALIDATE = 6
    SYNC = 7
    INFORM = 8
    COMMIT_AND_ACTIVATE = 9
    NEW_LEADER = 10
    FOLLOWER_INFO = 11
    UP_TO_DATE = 12
    DIFF = 13
    TRUNC = 14
    SNAP = 15
    OBSERVER_INFO = 16
    LEADER_INFO = 17
    ACK_EPOCH = 18
    INFORM_AND_ACTIVATE = 19


_TYPES: Final = {int(each): each for each in PacketType}
Identities: TypeAlias = tuple[Identity, ...]


@frozen
class QuorumPacket:
    """One packet. `data` and `identities` are None if they are null, which differs from empty.

    `zxid` is what the type says; -1 in most packets that are about no transaction.
    """

    type: PacketType
    zxid: int
    data: bytes | None = None
    identities: Identities | None = None

    def body(self, bytes_min: int = 1) -> bytes:
        """Return the data, or raise `WireError` if there are fewer bytes than the type needs."""
        data = self.data or b""
        if len(data) < bytes_min:
            raise WireError(f"{self.type.name} with {len(data)} bytes of data; at least {bytes_min} are needed")
        return data


def encode_packet(packet: QuorumPacket) -> bytes:
    identities = packet.identities
    who = NULL if identities is None else vector(text(scheme) + text(name) for scheme, name in identities)
    data = buffer(packet.data)
    return _HEAD.pack(packet.type, packet.zxid, 0)[:-_FIELD_BYTES] + data + who


class PacketReader:
    """Split a stream into packets. After a `WireError` nothing more can be read from the stream.

    It holds at most one incomplete packet and one receive.
    """

    __slots__ = ("_at", "_bytes_max", "_held", "_needed")

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX) -> None:
        self._bytes_max = packet_bytes_max
        self._held = bytearray()
        self._at = 0
        """The offset in `_held` of the first packet that `next` has not returned."""
        self._needed = _HEAD.size
        """A lower bound for the bytes of that packet. It saves looking at it again for each byte that arrives."""

    @property
    def held_bytes(self) -> int:
        return len(self._held) - self._at

    def feed(self, data: bytes) -> None:
        if self._at:
            del self._held[: self._at]
            self._at = 0
        self._held += data

    def take_rest(self) -> bytes:
        """Return all bytes that no packet has used, and forget them."""
        rest = bytes(self._held[self._at :])
        self._held.clear()
        self._at, self._needed = 0, _HEAD.size
        return rest

    def next(self) -> QuorumPacket | None:
        """Return the next packet, or None if it is not complete yet."""
        held, start = self._held, self._at
        if len(held) - start < self._needed:
            return None
        kind, zxid, length = _HEAD.unpack_from(held, start)
        known = _TYPES.get(kind)
        if known is None:
            raise WireError(f"a packet of the unknown type {kind}")
        if not -1 <= length <= self._bytes_max:
            raise WireError(f"{known.name} with {length} bytes of data: at most {self._bytes_max} are allowed")
        data_at = start + _HEAD.size
        at = data_at + max(length, 0)
        try:
            (count,) = INT.unpack_from(held, at)
            identities, stop = None if count == -1 else self._identities(count, at + _FIELD_BYTES), at + _FIELD_BYTES
        except error:
            self._lacks(at + _FIELD_BYTES)
            return None
        if identities is not None:
            found, stop = identities
            if found is None:
                self._lacks(stop)
                return None
        who = None if identities is None else identities[0]
        self._at, self._needed = stop, _HEAD.size
        return QuorumPacket(known, zxid, None if length < 0 else bytes(held[data_at:at]), who)

    def _identities(self, count: int, at: int) -> tuple[Identities | None, int]:
        """Return the identities at `at` and their end; None and the least end if they are not complete yet."""
        held, limit = self._held, self._at + self._bytes_max
        if not 0 <= count <= IDENTITIES_MAX:
            raise WireError(f"a packet with {count} identities: at most {IDENTITIES_MAX} are allowed")
        fields: list[str] = []
        for _ in range(2 * count):
            start = at + _FIELD_BYTES
            if start > len(held):
                return None, start
            (length,) = INT.unpack_from(held, at)
            at = start + length
            if length < 0 or at > limit:
                raise WireError(f"an identity with a text of {length} bytes, which is negative or exceeds the packet")
            if at > len(held):
                return None, at
            fields.append(text_of(bytes(held[start:at])))
        return tuple(zip(fields[::2], fields[1::2], strict=True)), at

    def _lacks(self, stop: int) -> None:
        self._needed = stop - self._at
