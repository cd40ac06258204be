"""The frames between servers: msgpack of `[tag, field, ...]`, the fields in the order of the message's class.

The table `SHAPES` is append-only. A tag and its fields never change once they are shipped: a changed message gets a new
tag. A field may become optional, because the frames with a value stay the same.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, TypeAlias

import msgpack
from attrs import fields, frozen

from zab.core import messages as core
from zab.core.errors import WireError
from zab.core.messages import Message
from zab.wire.fields import (
    BATCH,
    BOOL,
    BYTES,
    CHECKSUM,
    DIGEST,
    ENSEMBLE,
    EPOCH,
    EPOCH_OR_NONE,
    NUMBER,
    ORIGIN,
    SERVER,
    SERVER_OR_NOBODY,
    STATE,
    ZXID,
    ZXID_OR_UNKNOWN,
    Kind,
    listing,
    listing_of_bytes,
    optional,
    row,
    text,
    whole,
)
from zab.wire.frames import frame
from zab.wire.greeting import VERSION, Greeting, Hello, Unwelcome, Welcome, WrongPeer
from zab.wire.relay_messages import (
    CatchUpPoint,
    CatchUpRequest,
    Forward,
    LeaderMessage,
    MemberMessage,
    ReconfigureReply,
    ReconfigureRequest,
    Refusals,
    Relay,
    SnapPiece,
)

PeerMessage: TypeAlias = Message | Relay | Greeting

REQUESTS_MAX: Final = 16_384
"""The maximum number of requests in one `Forward` or `Refusals`. More requests are divided among several frames."""
REASON_CHARS_MAX: Final = 2_000
SERVERS_MAX: Final = 1_000
ENVELOPE_BYTES_MAX: Final = 64
"""An upper bound for the bytes of a frame without its requests, refusals, transactions or chunk."""
ITEM_BYTES_MAX: Final = 5
"""The size of the largest header that msgpack puts before a bytes value."""


class Channel(IntEnum):
    """Where a message is allowed: in a handshake, on an election link, or in one direction of a learner link.

    `decode` raises `WireError` for a message of another channel.

    The members are integers, because a table lookup by integer needs no call.
    """

    GREETING = 0
    ELECTION = 1
    TO_LEADER = 2
    TO_LEARNER = 3


@frozen
class FrameShape:
    """One row of the table: a tag, the class of its message, and the kinds of the fields in their order."""

    tag: int
    type: type[Any]
    kinds: tuple[Kind, ...]


_TEXT: Final = text(REASON_CHARS_MAX)

SHAPES: Final[dict[Channel, tuple[FrameShape, ...]]] = {
    Channel.GREETING: (
        FrameShape(1, Hello, (NUMBER, _TEXT, SERVER, _TEXT, _TEXT, whole(0, 65535))),
        FrameShape(2, Welcome, (NUMBER, SERVER)),
        FrameShape(3, Unwelcome, (_TEXT,)),
    ),
    Channel.ELECTION: (
        FrameShape(
            10,
            core.Notification,
            (STATE, SERVER_OR_NOBODY, ZXID_OR_UNKNOWN, EPOCH_OR_NONE, NUMBER, ENSEMBLE, optional(ENSEMBLE)),
        ),
    ),
    Channel.TO_LEADER: (
        FrameShape(20, core.FollowerInfo, (EPOCH, ZXID, BOOL)),
        FrameShape(21, core.AckEpoch, (EPOCH, ZXID_OR_UNKNOWN, optional(DIGEST), BOOL, BOOL)),
        FrameShape(22, core.AckNewLeader, (EPOCH,)),
        FrameShape(23, core.Ack, (ZXID,)),
        FrameShape(24, core.Pong, (NUMBER,)),
        FrameShape(25, core.BarrierRequest, (NUMBER,)),
        FrameShape(26, Forward, (EPOCH, ORIGIN, NUMBER, listing_of_bytes(REQUESTS_MAX))),
        FrameShape(27, CatchUpRequest, (NUMBER,)),
        FrameShape(
            28,
            ReconfigureRequest,
            (
                NUMBER,
                listing(_TEXT, SERVERS_MAX),
                listing(SERVER, SERVERS_MAX),
                optional(text(SERVERS_MAX * 200)),
                optional(ZXID),
            ),
        ),
        FrameShape(29, LeaderMessage, (BYTES,)),
        FrameShape(30, core.Veto, (SERVER_OR_NOBODY, EPOCH, ZXID, ZXID, ZXID_OR_UNKNOWN, NUMBER)),
        FrameShape(31, core.SnapHeld, (ZXID, NUMBER, CHECKSUM)),
    ),
    Channel.TO_LEARNER: (
        FrameShape(40, core.LeaderInfo, (EPOCH,)),
        FrameShape(41, core.Diff, (ZXID, optional(DIGEST))),
        FrameShape(42, core.Trunc, (ZXID, optional(DIGEST))),
        FrameShape(43, core.SnapBegin, (ZXID, optional(DIGEST))),
        FrameShape(44, core.SnapChunk, (BYTES,)),
        FrameShape(45, core.SnapEnd, ()),
        FrameShape(46, core.NewLeader, (EPOCH, ENSEMBLE)),
        FrameShape(47, core.UpToDate, (ZXID,)),
        FrameShape(48, core.Propose, (BATCH,)),
        FrameShape(49, core.Commit, (ZXID,)),
        FrameShape(50, core.CommitAndActivate, (ZXID, SERVER)),
        FrameShape(51, core.Inform, (BATCH,)),
        FrameShape(52, core.InformAndActivate, (BATCH, SERVER)),
        FrameShape(53, core.Ping, (NUMBER, ZXID)),
        FrameShape(54, core.BarrierReply, (NUMBER, ZXID)),
        FrameShape(55, Refusals, (EPOCH, ZXID, listing(row(NUMBER, _TEXT), REQUESTS_MAX))),
        FrameShape(56, CatchUpPoint, (NUMBER, ZXID)),
        FrameShape(57, ReconfigureReply, (NUMBER, optional(ZXID), _TEXT, _TEXT)),
        FrameShape(58, SnapPiece, (BYTES,)),
        FrameShape(59, MemberMessage, (BYTES,)),
        FrameShape(60, core.SnapResume, (ZXID, optional(DIGEST), NUMBER, NUMBER)),
    ),
}

_BY_TAG: Final = {channel: {shape.tag: shape for shape in shapes} for channel, shapes in SHAPES.items()}
_BY_TYPE: Final = {
    shape.type: (shape.tag, tuple(zip([field.name for field in fields(shape.type)], shape.kinds, strict=True)))
    for shapes in SHAPES.values()
    for shape in shapes
}


def encode(message: PeerMessage) -> bytes:
    """Return the whole frame of a message."""
    tag, kinds = _BY_TYPE[type(message)]
    parts: list[Any] = [tag]
    for name, kind in kinds:
        value = getattr(message, name)
        parts.append(value if kind.pack is None else kind.pack(value))
    packed: bytes = msgpack.packb(parts)
    return frame(packed)


def decode(channel: Channel, payload: bytes) -> Any:
    """Return the message in a frame's payload. Raise `WireError` if anything in it is malformed.

    Lists are limited and maps are refused: msgpack allocates as many items as a frame announces before it reads one.
    """
    try:
        parts = msgpack.unpackb(
            payload, use_list=True, max_array_len=REQUESTS_MAX, max_map_len=0, max_ext_len=0, strict_map_key=True
        )
    except Exception as error:
        raise WireError(f"a frame does not unpack: {error!r:.200}") from error
    if type(parts) is not list or not parts or type(parts[0]) is not int:
        raise WireError("a frame must be a list that begins with a tag")
    shape = _BY_TAG[channel].get(parts[0])
    if shape is None:
        raise WireError(f"tag {parts[0]} is not allowed on this link ({channel.name.lower()})")
    if shape.type in (Hello, Welcome) and len(parts) > 1 and parts[1] != VERSION:
        raise WrongPeer(f"it speaks version {parts[1]!r:.40} of the peer protocol, and this server version {VERSION}")
    kinds = shape.kinds
    if len(parts) != len(kinds) + 1:
        raise WireError(f"{shape.type.__name__} has {len(kinds)} fields, not {len(parts) - 1}")
    values: list[Any] = []
    try:
        for kind, value in zip(kinds, parts[1:], strict=True):
            values.append(kind.unpack(value))
    except ValueError as error:
        name = fields(shape.type)[len(values)].name
        raise WireError(f"{shape.type.__name__}.{name}: {error}") from error
    return shape.type(*values)
