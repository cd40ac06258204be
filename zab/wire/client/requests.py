"""Requests: the server decodes them, the client encodes them.

A malformed frame ends the connection. A malformed request in a valid frame is answered with an error code, like any
other request that fails, so `decode_request` never raises: it returns the error as a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from attrs import frozen

from zab.store.error_codes import ErrorCode
from zab.store.operations import CREATES, CreateFlag, Fields, Op
from zab.wire.client import multi_codec, request_bodies
from zab.wire.client.request_bodies import RequestBody
from zab.wire.jute import STRUCT_ERRORS

_HEAD: Final = Struct(">iii")

PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

SHAPES: Final[Mapping[int, RequestBody]] = {
    Op.CREATE: request_bodies.CREATE,
    Op.DELETE: request_bodies.PATH_AND_NUMBER,
    Op.EXISTS: request_bodies.PATH_AND_FLAG,
    Op.GET_DATA: request_bodies.PATH_AND_FLAG,
    Op.SET_DATA: request_bodies.SET_DATA,
    Op.GET_ACL: request_bodies.PATH,
    Op.SET_ACL: request_bodies.SET_ACL,
    Op.GET_CHILDREN: request_bodies.PATH_AND_FLAG,
    Op.SYNC: request_bodies.PATH,
    Op.PING: request_bodies.NO_BODY,
    Op.GET_CHILDREN2: request_bodies.PATH_AND_FLAG,
    Op.MULTI: multi_codec.MULTI,
    Op.CREATE2: request_bodies.CREATE,
    Op.RECONFIG: request_bodies.RECONFIG,
    Op.CHECK_WATCHES: request_bodies.PATH_AND_NUMBER,
    Op.REMOVE_WATCHES: request_bodies.PATH_AND_NUMBER,
    Op.CREATE_CONTAINER: request_bodies.CREATE,
    Op.CREATE_TTL: request_bodies.CREATE_TTL,
    Op.MULTI_READ: multi_codec.MULTI_READ,
    Op.AUTH: request_bodies.AUTH,
    Op.SET_WATCHES: request_bodies.WATCHES,
    Op.SASL: request_bodies.TOKEN,
    Op.GET_EPHEMERALS: request_bodies.PATH_OR_NULL,
    Op.GET_ALL_CHILDREN_NUMBER: request_bodies.PATH,
    Op.SET_WATCHES2: request_bodies.WATCHES2,
    Op.ADD_WATCH: request_bodies.PATH_AND_NUMBER,
    Op.WHO_AM_I: request_bodies.NO_BODY,
    Op.CLOSE_SESSION: request_bodies.NO_BODY,
}
"""The operations that a client may send, with their bodies.

`check` is allowed in a multi only. Only servers send `deleteContainer` and `createSession`.
"""

_DECODERS: Final = {int(opcode): shape.decode for opcode, shape in SHAPES.items()}
_ENCODERS: Final = {int(opcode): shape.encode for opcode, shape in SHAPES.items()}

_MAY_MAKE_EPHEMERALS: Final = frozenset(map(int, CREATES | {Op.MULTI}))
_EPHEMERAL: Final = frozenset({CreateFlag.EPHEMERAL, CreateFlag.EPHEMERAL_SEQUENTIAL})


@frozen
class RejectedRequest:
    """A request that cannot be decoded. It is answered with `code`."""

    code: ErrorCode
    reason: str


def decode_request(opcode: int, body: bytes) -> Fields | RejectedRequest:
    """Return the fields of a request in the order of the protocol, or a `RejectedRequest` with the reason."""
    decode = _DECODERS.get(opcode)
    if decode is None:
        return RejectedRequest(ErrorCode.UNIMPLEMENTED, f"unknown operation {opcode}")
    try:
        return decode(body, 0)[0]
    except STRUCT_ERRORS as error:
        return RejectedRequest(ErrorCode.MARSHALLING_ERROR, f"operation {opcode}: {error}")


def decode_fields(op: int, request: bytes, start: int) -> Fields:
    """Decode a client's request for the leader's store. Its body begins at `start`.

    Raise `KeyError` for an unknown operation, and any of `STRUCT_ERRORS` for a malformed body.
    """
    return _DECODERS[op](request, start)[0]


def makes_ephemeral(op: int, body: bytes) -> bool:
    """Return whether the request would create an ephemeral node. False for a request that cannot be decoded."""
    if op not in _MAY_MAKE_EPHEMERALS:
        return False
    fields = decode_request(op, body)
    if isinstance(fields, RejectedRequest):
        return False
    parts = fields if op == Op.MULTI else ((op, fields),)
    return any(part in CREATES and values[3] in _EPHEMERAL for part, values in parts)


def encode_request(opcode: int, xid: int, fields: Fields = ()) -> bytes:
    body = _ENCODERS[opcode](fields)
    return _HEAD.pack(8 + len(body), xid, opcode) + body


PING: Final = encode_request(Op.PING, PING_XID)
"""The frame of a ping, which is always the same."""
