"""Requests: read by the server, written by the client.

A request that cannot be read is answered, like any other that fails; only a frame that is none cuts the
connection. So `decode_request` never raises: what is wrong with a request is a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from attrs import frozen

from zab.wire.client import multi, opcodes, shapes
from zab.wire.client.shapes import Fields, Shape
from zab.wire.jute import STRUCT_ERRORS

MARSHALLING_ERROR: Final = -5
UNIMPLEMENTED: Final = -6

_HEAD: Final = Struct(">iii")

PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

SHAPES: Final[Mapping[int, Shape]] = {
    opcodes.CREATE: shapes.CREATE,
    opcodes.DELETE: shapes.PATH_AND_NUMBER,
    opcodes.EXISTS: shapes.PATH_AND_FLAG,
    opcodes.GET_DATA: shapes.PATH_AND_FLAG,
    opcodes.SET_DATA: shapes.SET_DATA,
    opcodes.GET_ACL: shapes.PATH,
    opcodes.SET_ACL: shapes.SET_ACL,
    opcodes.GET_CHILDREN: shapes.PATH_AND_FLAG,
    opcodes.SYNC: shapes.PATH,
    opcodes.PING: shapes.NOTHING,
    opcodes.GET_CHILDREN2: shapes.PATH_AND_FLAG,
    opcodes.MULTI: multi.MULTI,
    opcodes.CREATE2: shapes.CREATE,
    opcodes.RECONFIG: shapes.RECONFIG,
    opcodes.CHECK_WATCHES: shapes.PATH_AND_NUMBER,
    opcodes.REMOVE_WATCHES: shapes.PATH_AND_NUMBER,
    opcodes.CREATE_CONTAINER: shapes.CREATE,
    opcodes.CREATE_TTL: shapes.CREATE_TTL,
    opcodes.MULTI_READ: multi.MULTI_READ,
    opcodes.AUTH: shapes.AUTH,
    opcodes.SET_WATCHES: shapes.WATCHES,
    opcodes.SASL: shapes.TOKEN,
    opcodes.GET_EPHEMERALS: shapes.PATH_OR_NULL,
    opcodes.GET_ALL_CHILDREN_NUMBER: shapes.PATH,
    opcodes.SET_WATCHES2: shapes.WATCHES2,
    opcodes.ADD_WATCH: shapes.PATH_AND_NUMBER,
    opcodes.WHO_AM_I: shapes.NOTHING,
    opcodes.CLOSE_SESSION: shapes.NOTHING,
}
"""What a client may ask for. `check` alone, `deleteContainer` and `createSession` it may not: they have
shapes, but are parts of other requests or a server's own."""

_DECODERS: Final = {opcode: shape.decode for opcode, shape in SHAPES.items()}
_ENCODERS: Final = {opcode: shape.encode for opcode, shape in SHAPES.items()}


@frozen
class Refused:
    """A request that is answered with `code` without being looked at further."""

    code: int
    reason: str


def decode_request(opcode: int, body: bytes) -> Fields | Refused:
    """The fields of a request, in the order in which they travel; or why there are none."""
    decode = _DECODERS.get(opcode)
    if decode is None:
        return Refused(UNIMPLEMENTED, f"no operation {opcode}")
    try:
        return decode(body, 0)[0]
    except STRUCT_ERRORS as error:
        return Refused(MARSHALLING_ERROR, f"operation {opcode}: {error}")


def encode_request(opcode: int, xid: int, fields: Fields = ()) -> bytes:
    body = _ENCODERS[opcode](fields)
    return _HEAD.pack(8 + len(body), xid, opcode) + body


PING: Final = encode_request(opcodes.PING, PING_XID)
"""Always the same eight bytes behind their length."""
