"""The codecs of learner links: what the bytes of a link mean to one of its ends.

A link of our own protocol is a sequence of frames (`FrameCodec`). A link of ZooKeeper's protocol is a sequence of
packets whose meaning depends on the packets before it, so its translators have state (`PacketCodec`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from zab.wire.frames import FrameReader
from zab.wire.peer import Channel, decode, encode
from zab.wire.relay_messages import SnapPiece
from zab.wire.snapshot_pieces import SnapshotPieces


class LinkCodec(Protocol):
    """One end of one learner link. After a `WireError` of `feed` the link cannot be used any more."""

    @property
    def shares_frames(self) -> bool:
        """True if a message has the same bytes on every link, at any time."""
        ...

    @property
    def held_bytes(self) -> int:
        """The bytes of a message that has not arrived as a whole. They are bounded."""
        ...

    def feed(self, data: bytes | bytearray) -> tuple[list[Any], int]:
        """Return the messages that are complete now, and an estimate of the bytes that they keep in memory."""
        ...

    def encode(self, message: Any) -> bytes:
        """Return the bytes of a message, perhaps none. Messages must be encoded in the order in which they are sent.

        Raise `LocalProtocolError` if the protocol has no such message.
        """
        ...


class FrameLimits(Protocol):
    @property
    def frame_bytes_max(self) -> int: ...
    @property
    def snapshot_chunk_bytes_max(self) -> int: ...


class FrameCodec:
    """The codec of our own protocol. It joins the pieces of a snapshot's chunk to one message."""

    shares_frames: Final = True

    def __init__(self, limits: FrameLimits, *, dialled: bool) -> None:
        """`dialled`: this end is the learner."""
        self._reader = FrameReader(limits.frame_bytes_max)
        self._pieces = SnapshotPieces(limits.snapshot_chunk_bytes_max)
        self._from_leader = dialled
        self._channel = Channel.TO_LEARNER if dialled else Channel.TO_LEADER
        self.encode = encode

    @property
    def held_bytes(self) -> int:
        return self._reader.held_bytes

    def feed(self, data: bytes | bytearray) -> tuple[list[Any], int]:
        channel, pieces, size = self._channel, self._pieces, len(data)
        messages = [decode(channel, payload) for payload in self._reader.feed(data)]
        if self._from_leader and (pieces.held or SnapPiece in map(type, messages)):
            held = pieces.held_bytes
            messages = pieces.join(messages)
            size += max(0, held - pieces.held_bytes)  # earlier pieces of a chunk that is complete now
        return messages, size


class PacketTranslator(Protocol):
    """`LinkToLeader` or `LinkToLearner` of `zab.wire.apache`."""

    @property
    def held_bytes(self) -> int: ...
    def feed(self, data: bytes) -> Sequence[Any]: ...
    def encode(self, message: Any) -> bytes: ...


class PacketCodec:
    """The codec of ZooKeeper's protocol."""

    shares_frames: Final = False

    def __init__(self, translator: PacketTranslator, beside: Callable[[], list[Any]] = list) -> None:
        """`beside` returns messages that precede those of each `feed`."""
        self._translator = translator
        self._beside = beside
        self.encode = translator.encode

    @property
    def held_bytes(self) -> int:
        return self._translator.held_bytes

    def feed(self, data: bytes | bytearray) -> tuple[list[Any], int]:
        held = self._translator.held_bytes
        messages = self._translator.feed(bytes(data))
        return [*self._beside(), *messages], max(0, len(data) + held - self._translator.held_bytes)
