"""The frames between servers: msgpack of `[tag, field, ...]`, the fields in the order of the message's class.

The table is append-only. A tag, once shipped, is for ever, and so are the fields behind it: a change of
either is a new message with a new tag.
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
from zab.wire.greeting import VERSION, Greeting, Hello, Stranger, Unwelcome, Welcome
from zab.wire.relay import (
    Aside,
    Fence,
    FenceRequest,
    Forward,
    Notice,
    ReconfigureReply,
    ReconfigureRequest,
    Refusals,
    Relay,
    SnapPiece,
)

PeerMessage: TypeAlias = Message | Relay | Greeting

REQUESTS_MAX: Final = 16_384
"""Per `Forward` and per `Refusals`. More requests go into more frames."""
REASON_CHARS_MAX: Final = 2_000
SERVERS_MAX: Final = 1_000
ENVELOPE_BYTES_MAX: Final = 64
"""What a frame holds beside the body, the requests or the chunk that it is sent for."""
ITEM_BYTES_MAX: Final = 5
"""What msgpack puts in front of bytes."""


class Channel(IntEnum):
    """A message has its place. On any other link it is as bad as noise.

    A number, because that is found in a table without a call.
    """

    GREETING = 0
    ELECTION = 1
    TO_LEADER = 2
    TO_LEARNER = 3


@frozen
class Shape:
    tag: int
    type: type[Any]
    kinds: tuple[Kind, ...]


_TEXT: Final = text(REASON_CHARS_MAX)

SHAPES: Final[dict[Channel, tuple[Shape, ...]]] = {
    Channel.GREETING: (
        Shape(1, Hello, (NUMBER, _TEXT, SERVER, _TEXT, _TEXT, whole(0, 65535))),
        Shape(2, Welcome, (NUMBER, SERVER)),
        Shape(3, Unwelcome, (_TEXT,)),
    ),
    Channel.ELECTION: (
        Shape(
            10,
            core.Notification,
            (STATE, SERVER_OR_NOBODY, ZXID_OR_UNKNOWN, EPOCH_OR_NONE, NUMBER, ENSEMBLE, optional(ENSEMBLE)),
        ),
    ),
    Channel.TO_LEADER: (
        Shape(20, core.FollowerInfo, (EPOCH, ZXID, BOOL)),
        Shape(21, core.AckEpoch, (EPOCH, ZXID_OR_UNKNOWN, DIGEST, BOOL, BOOL)),
        Shape(22, core.AckNewLeader, (EPOCH,)),
        Shape(23, core.Ack, (ZXID,)),
        Shape(24, core.Pong, (NUMBER,)),
        Shape(25, core.BarrierRequest, (NUMBER,)),
        Shape(26, Forward, (EPOCH, ORIGIN, NUMBER, listing_of_bytes(REQUESTS_MAX))),
        Shape(27, FenceRequest, (NUMBER,)),
        Shape(
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
        Shape(29, Aside, (BYTES,)),
    ),
    Channel.TO_LEARNER: (
        Shape(40, core.LeaderInfo, (EPOCH,)),
        Shape(41, core.Diff, (ZXID, optional(DIGEST))),
        Shape(42, core.Trunc, (ZXID, optional(DIGEST))),
        Shape(43, core.SnapBegin, (ZXID, DIGEST)),
        Shape(44, core.SnapChunk, (BYTES,)),
        Shape(45, core.SnapEnd, ()),
        Shape(46, core.NewLeader, (EPOCH, ENSEMBLE)),
        Shape(47, core.UpToDate, (ZXID,)),
        Shape(48, core.Propose, (BATCH,)),
        Shape(49, core.Commit, (ZXID,)),
        Shape(50, core.CommitAndActivate, (ZXID, SERVER)),
        Shape(51, core.Inform, (BATCH,)),
        Shape(52, core.InformAndActivate, (BATCH, SERVER)),
        Shape(53, core.Ping, (NUMBER, ZXID)),
        Shape(54, core.BarrierReply, (NUMBER, ZXID)),
        Shape(55, Refusals, (EPOCH, ZXID, listing(row(NUMBER, _TEXT), REQUESTS_MAX))),
        Shape(56, Fence, (NUMBER, ZXID)),
        Shape(57, ReconfigureReply, (NUMBER, optional(ZXID), _TEXT, _TEXT)),
        Shape(58, SnapPiece, (BYTES,)),
        Shape(59, Notice, (BYTES,)),
    ),
}

_BY_TAG: Final = {channel: {shape.tag: shape for shape in shapes} for channel, shapes in SHAPES.items()}
_BY_TYPE: Final = {
    shape.type: (shape.tag, tuple(zip([field.name for field in fields(shape.type)], shape.kinds, strict=True)))
    for shapes in SHAPES.values()
    for shape in shapes
}


def encode(message: PeerMessage) -> bytes:
    """The whole frame, ready to be sent."""
    tag, kinds = _BY_TYPE[type(message)]
    parts: list[Any] = [tag]
    for name, kind in kinds:
        value = getattr(message, name)
        parts.append(value if kind.pack is None else kind.pack(value))
    packed: bytes = msgpack.packb(parts)
    return frame(packed)


def decode(channel: Channel, payload: bytes) -> Any:
    """The message in a frame's payload. Any doubt is a `WireError`.

    The limits on lists and maps are there because msgpack makes room for as many items as a frame claims to
    hold before it has seen one of them.
    """
    try:
        parts = msgpack.unpackb(
            payload, use_list=True, max_array_len=REQUESTS_MAX, max_map_len=0, max_ext_len=0, strict_map_key=True
        )
    except Exception as error:
        raise WireError(f"a frame that does not unpack: {error!r:.200}") from error
    if type(parts) is not list or not parts or type(parts[0]) is not int:
        raise WireError("a frame is a list that begins with a tag")
    shape = _BY_TAG[channel].get(parts[0])
    if shape is None:
        raise WireError(f"tag {parts[0]} has no meaning here ({channel.name.lower()})")
    if shape.type in (Hello, Welcome) and len(parts) > 1 and parts[1] != VERSION:
        raise Stranger(f"it speaks version {parts[1]!r:.40} of the peer protocol, this server {VERSION}")
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
