"""Replies and watch events: the server encodes them, the client decodes them.

Every encoder returns a whole frame. The encoders of frequent replies pack the header and the fields of fixed size after
it in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from zab.core.errors import WireError
from zab.store.operations import Op
from zab.store.znode import INT_MAX, INT_MIN, Znode, int32, is_session
from zab.wire.client import multi_codec, reply_bodies
from zab.wire.client.reply_bodies import STAT_FORMAT, ReplyBody, StatFields
from zab.wire.jute import STRUCT_ERRORS, Reader

EVENT_XID: Final = -1
SYNC_CONNECTED: Final = 3
"""The only state that our server sends. A client derives the others by itself."""

_HEAD: Final = Struct(">iiqi")
_HEAD_AND_LENGTH: Final = Struct(">iiqii")
_EVENT: Final = Struct(">iiqiiii")
_pack_head_and_stat: Final[Callable[..., bytes]] = Struct(">iiqi" + STAT_FORMAT).pack

BODIES: Final[Mapping[int, ReplyBody]] = {
    Op.CREATE: reply_bodies.PATH,
    Op.DELETE: reply_bodies.NO_BODY,
    Op.EXISTS: reply_bodies.STAT_ONLY,
    Op.GET_DATA: reply_bodies.DATA,
    Op.SET_DATA: reply_bodies.STAT_ONLY,
    Op.GET_ACL: reply_bodies.ACL,
    Op.SET_ACL: reply_bodies.STAT_ONLY,
    Op.GET_CHILDREN: reply_bodies.NAMES,
    Op.SYNC: reply_bodies.PATH,
    Op.PING: reply_bodies.NO_BODY,
    Op.GET_CHILDREN2: reply_bodies.NAMES_AND_STAT,
    Op.MULTI: multi_codec.RESULT_LIST,
    Op.CREATE2: reply_bodies.CREATED,
    Op.RECONFIG: reply_bodies.DATA,
    Op.CHECK_WATCHES: reply_bodies.NO_BODY,
    Op.REMOVE_WATCHES: reply_bodies.NO_BODY,
    Op.CREATE_CONTAINER: reply_bodies.CREATED,
    Op.CREATE_TTL: reply_bodies.CREATED,
    Op.MULTI_READ: multi_codec.RESULT_LIST,
    Op.AUTH: reply_bodies.NO_BODY,
    Op.SET_WATCHES: reply_bodies.NO_BODY,
    Op.SASL: reply_bodies.TOKEN,
    Op.GET_EPHEMERALS: reply_bodies.NAMES,
    Op.GET_ALL_CHILDREN_NUMBER: reply_bodies.NUMBER,
    Op.SET_WATCHES2: reply_bodies.NO_BODY,
    Op.ADD_WATCH: reply_bodies.NUMBER,
    Op.WHO_AM_I: reply_bodies.IDENTITIES,
    Op.CLOSE_SESSION: reply_bodies.NO_BODY,
}
_ENCODERS: Final = {int(opcode): body.encode for opcode, body in BODIES.items()}
_DECODERS: Final = {int(opcode): body.decode for opcode, body in BODIES.items()}


# -- the server encodes ---------------------------------------------------------------------------------


def error_reply(xid: int, zxid: int, code: int) -> bytes:
    """Encode a reply that is a header only."""
    return _HEAD.pack(16, xid, zxid, code)


def body_reply(xid: int, zxid: int, body: bytes = b"", code: int = 0) -> bytes:
    """Encode a reply whose body is encoded already, or empty. Only a reply to SASL has both a body and an error."""
    return _HEAD.pack(16 + len(body), xid, zxid, code) + body


def node_reply(xid: int, zxid: int, node: Znode) -> bytes:
    """Encode a reply with the stat of a node: the same bytes as `encode_reply`, without the intermediate tuple."""
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
        return _HEAD_AND_LENGTH.pack(88, xid, zxid, 0, -1) + reply_bodies.STAT.pack(*stat)
    length = len(data)
    return _HEAD_AND_LENGTH.pack(88 + length, xid, zxid, 0, length) + data + reply_bodies.STAT.pack(*stat)


def path_reply(xid: int, zxid: int, path: str) -> bytes:
    raw = path.encode()
    return _HEAD_AND_LENGTH.pack(20 + len(raw), xid, zxid, 0, len(raw)) + raw


def encode_reply(opcode: int, xid: int, zxid: int, value: Any = None) -> bytes:
    """Encode the reply to any successful request."""
    body = _ENCODERS[opcode](value)
    return _HEAD.pack(16 + len(body), xid, zxid, 0) + body


def encode_event(event: int, path: str, zxid: int, state: int = SYNC_CONNECTED) -> bytes:
    """Encode a watch event.

    `zxid` is that of the change. It is no longer known for an event that the client missed: then `zxid` is -1 if the
    client was disconnected meanwhile, and the snapshot's if the server restored a snapshot.
    """
    raw = path.encode()
    return _EVENT.pack(28 + len(raw), EVENT_XID, zxid, 0, event, state, len(raw)) + raw


# -- the client decodes ----------------------------------------------------------------------------------


def decode_body(opcode: int, body: bytes) -> Any:
    """Decode the body of a successful reply to a request `opcode`. Raise `WireError` if the body is malformed."""
    try:
        return _DECODERS[opcode](body, 0)[0]
    except STRUCT_ERRORS as error:
        raise WireError(f"the reply to operation {opcode} cannot be decoded: {error}") from None


def decode_event(body: bytes) -> tuple[int, int, str]:
    """Return the event's type, the state and the path. Raise `WireError` if the body is malformed."""
    reader = Reader(body)
    try:
        return reader.number(), reader.number(), reader.text()
    except STRUCT_ERRORS as error:
        raise WireError(f"a watch event cannot be decoded: {error}") from None
