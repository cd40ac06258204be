"""Requests: read by the server, written by the client.

A request that cannot be read is answered, like any other that fails; only a frame that is none cuts the
connection. So `decode_request` never raises: what is wrong with a request is a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from attrs import frozen

from zab.store.error_codes import ErrorCode
from zab.store.operations import CREATES, CreateFlag, Fields, Op
from zab.wire.client import multi_codec, shapes
from zab.wire.client.shapes import Shape
from zab.wire.jute import STRUCT_ERRORS

_HEAD: Final = Struct(">iii")

PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

SHAPES: Final[Mapping[int, Shape]] = {
    Op.CREATE: shapes.CREATE,
    Op.DELETE: shapes.PATH_AND_NUMBER,
    Op.EXISTS: shapes.PATH_AND_FLAG,
    Op.GET_DATA: shapes.PATH_AND_FLAG,
    Op.SET_DATA: shapes.SET_DATA,
    Op.GET_ACL: shapes.PATH,
    Op.SET_ACL: shapes.SET_ACL,
    Op.GET_CHILDREN: shapes.PATH_AND_FLAG,
    Op.SYNC: shapes.PATH,
    Op.PING: shapes.NOTHING,
    Op.GET_CHILDREN2: shapes.PATH_AND_FLAG,
    Op.MULTI: multi_codec.MULTI,
    Op.CREATE2: shapes.CREATE,
    Op.RECONFIG: shapes.RECONFIG,
    Op.CHECK_WATCHES: shapes.PATH_AND_NUMBER,
    Op.REMOVE_WATCHES: shapes.PATH_AND_NUMBER,
    Op.CREATE_CONTAINER: shapes.CREATE,
    Op.CREATE_TTL: shapes.CREATE_TTL,
    Op.MULTI_READ: multi_codec.MULTI_READ,
    Op.AUTH: shapes.AUTH,
    Op.SET_WATCHES: shapes.WATCHES,
    Op.SASL: shapes.TOKEN,
    Op.GET_EPHEMERALS: shapes.PATH_OR_NULL,
    Op.GET_ALL_CHILDREN_NUMBER: shapes.PATH,
    Op.SET_WATCHES2: shapes.WATCHES2,
    Op.ADD_WATCH: shapes.PATH_AND_NUMBER,
    Op.WHO_AM_I: shapes.NOTHING,
    Op.CLOSE_SESSION: shapes.NOTHING,
}
"""The operations that a client may send. `check` alone, `deleteContainer` and `createSession` have shapes but are not
among them: they are parts of other requests, or a server's own.
"""

_DECODERS: Final = {int(opcode): shape.decode for opcode, shape in SHAPES.items()}
_ENCODERS: Final = {int(opcode): shape.encode for opcode, shape in SHAPES.items()}

_MAY_MAKE_EPHEMERALS: Final = frozenset(map(int, CREATES | {Op.MULTI}))
_EPHEMERAL: Final = frozenset({CreateFlag.EPHEMERAL, CreateFlag.EPHEMERAL_SEQUENTIAL})


@frozen
class Refused:
    """A request that is answered with `code` without being looked at further."""

    code: ErrorCode
    reason: str


def decode_request(opcode: int, body: bytes) -> Fields | Refused:
    """The fields of a request, in the order in which they travel; or why there are none."""
    decode = _DECODERS.get(opcode)
    if decode is None:
        return Refused(ErrorCode.UNIMPLEMENTED, f"no operation {opcode}")
    try:
        return decode(body, 0)[0]
    except STRUCT_ERRORS as error:
        return Refused(ErrorCode.MARSHALLING_ERROR, f"operation {opcode}: {error}")


def decode_fields(op: int, request: bytes, start: int) -> Fields:
    """Decode a forwarded request for the leader's store, from the start of its body.

    Raise `KeyError` for an unknown operation, and any of `STRUCT_ERRORS` for a malformed body.
    """
    return _DECODERS[op](request, start)[0]


def makes_ephemeral(op: int, body: bytes) -> bool:
    """Return whether the request asks for an ephemeral node. A request that cannot be read asks for nothing."""
    if op not in _MAY_MAKE_EPHEMERALS:
        return False
    fields = decode_request(op, body)
    if isinstance(fields, Refused):
        return False
    parts = fields if op == Op.MULTI else ((op, fields),)
    return any(part in CREATES and values[3] in _EPHEMERAL for part, values in parts)


def encode_request(opcode: int, xid: int, fields: Fields = ()) -> bytes:
    body = _ENCODERS[opcode](fields)
    return _HEAD.pack(8 + len(body), xid, opcode) + body


PING: Final = encode_request(Op.PING, PING_XID)
"""Always the same eight bytes behind their length."""
