"""Replies and events: written by the server, read by the client.

Every function here returns a whole frame, to be joined with the others of its connection and turn. A header
and what is of fixed size behind it are packed in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from zab.core.errors import WireError
from zab.store.operations import Op
from zab.store.znode import INT_MAX, INT_MIN, Znode, int32, is_session
from zab.wire.client import bodies, multi_codec
from zab.wire.client.bodies import STAT_FORMAT, Body, StatFields
from zab.wire.jute import STRUCT_ERRORS

EVENT_XID: Final = -1

_HEAD: Final = Struct(">iiqi")
_HEAD_AND_STAT: Final = Struct(">iiqi" + STAT_FORMAT)
_HEAD_AND_LENGTH: Final = Struct(">iiqii")
_pack_head_and_stat: Final[Callable[..., bytes]] = _HEAD_AND_STAT.pack

BODIES: Final[Mapping[int, Body]] = {
    Op.CREATE: bodies.PATH,
    Op.DELETE: bodies.NOTHING,
    Op.EXISTS: bodies.STAT_ONLY,
    Op.GET_DATA: bodies.DATA,
    Op.SET_DATA: bodies.STAT_ONLY,
    Op.GET_ACL: bodies.ACL,
    Op.SET_ACL: bodies.STAT_ONLY,
    Op.GET_CHILDREN: bodies.NAMES,
    Op.SYNC: bodies.PATH,
    Op.PING: bodies.NOTHING,
    Op.GET_CHILDREN2: bodies.NAMES_AND_STAT,
    Op.MULTI: multi_codec.RESULT_LIST,
    Op.CREATE2: bodies.CREATED,
    Op.RECONFIG: bodies.DATA,
    Op.CHECK_WATCHES: bodies.NOTHING,
    Op.REMOVE_WATCHES: bodies.NOTHING,
    Op.CREATE_CONTAINER: bodies.CREATED,
    Op.CREATE_TTL: bodies.CREATED,
    Op.MULTI_READ: multi_codec.RESULT_LIST,
    Op.AUTH: bodies.NOTHING,
    Op.SET_WATCHES: bodies.NOTHING,
    Op.SASL: bodies.TOKEN,
    Op.GET_EPHEMERALS: bodies.NAMES,
    Op.GET_ALL_CHILDREN_NUMBER: bodies.NUMBER,
    Op.SET_WATCHES2: bodies.NOTHING,
    Op.ADD_WATCH: bodies.NUMBER,
    Op.WHO_AM_I: bodies.IDENTITIES,
    Op.CLOSE_SESSION: bodies.NOTHING,
}
_ENCODERS: Final = {int(opcode): body.encode for opcode, body in BODIES.items()}
_DECODERS: Final = {int(opcode): body.decode for opcode, body in BODIES.items()}


# -- the server writes ---------------------------------------------------------------------------------


def error_reply(xid: int, zxid: int, code: int) -> bytes:
    """A header and nothing behind it."""
    return _HEAD.pack(16, xid, zxid, code)


def body_reply(xid: int, zxid: int, body: bytes = b"", code: int = 0) -> bytes:
    """Encode a reply whose body is encoded already, or empty. Only SASL has a body with an error."""
    return _HEAD.pack(16 + len(body), xid, zxid, code) + body


def stat_reply(xid: int, zxid: int, stat: StatFields) -> bytes:
    return _HEAD_AND_STAT.pack(84, xid, zxid, 0, *stat)


def node_reply(xid: int, zxid: int, node: Znode) -> bytes:
    """`stat_reply` with the stat of this node, as `stat_fields` makes it: without a tuple of it in between."""
    data, _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, children = node
    cversion += cversion - children
    if not INT_MIN <= cversion <= INT_MAX:
        cversion = int32(cversion)
    if owner and not is_session(owner):
        owner = 0
    return _pack_head_and_stat(
        84, xid, zxid, 0, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner,
        0 if data is None else len(data), children, pzxid,
    )  # fmt: skip


def data_reply(xid: int, zxid: int, data: bytes | None, stat: StatFields) -> bytes:
    if data is None:
        return _HEAD_AND_LENGTH.pack(88, xid, zxid, 0, -1) + bodies.STAT.pack(*stat)
    length = len(data)
    return _HEAD_AND_LENGTH.pack(88 + length, xid, zxid, 0, length) + data + bodies.STAT.pack(*stat)


def path_reply(xid: int, zxid: int, path: str) -> bytes:
    raw = path.encode()
    return _HEAD_AND_LENGTH.pack(20 + len(raw), xid, zxid, 0, len(raw)) + raw


def encode_reply(opcode: int, xid: int, zxid: int, value: Any = None) -> bytes:
    """Any reply to a request that succeeded."""
    body = _ENCODERS[opcode](value)
    return _HEAD.pack(16 + len(body), xid, zxid, 0) + body


# -- the client reads ----------------------------------------------------------------------------------


def decode_body(opcode: int, body: bytes) -> Any:
    """Decode the body of a successful reply to this kind of request. A `WireError` is the server's fault."""
    try:
        return _DECODERS[opcode](body, 0)[0]
    except STRUCT_ERRORS as error:
        raise WireError(f"the reply to operation {opcode} is none: {error}") from None
