"""Transactions as bytes: the leader proposes them, the log stores them and every server applies them in this form.

A transaction holds results, not requests: versions are absolute, names are complete, ACLs are final. One unpack reads
all fields of fixed size; the variable ones follow. The first byte is the type: ZooKeeper's number modulo 256, or a
number of our own if ZooKeeper has no such type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, TypeAlias

import msgpack

from zab.core.errors import DamagedError
from zab.core.frozen import frozen
from zab.store.acl import OPEN, Acl, decode_acl, encode_acl
from zab.store.operations import Op

CREATE: Final = Op.CREATE & 0xFF
CREATE2: Final = Op.CREATE2 & 0xFF
CREATE_CONTAINER: Final = Op.CREATE_CONTAINER & 0xFF
CREATE_TTL: Final = Op.CREATE_TTL & 0xFF
DELETE: Final = Op.DELETE & 0xFF
DELETE_CONTAINER: Final = Op.DELETE_CONTAINER & 0xFF
SET_DATA: Final = Op.SET_DATA & 0xFF
RECONFIG: Final = Op.RECONFIG & 0xFF
SET_ACL: Final = Op.SET_ACL & 0xFF
CHECK: Final = Op.CHECK & 0xFF
MULTI: Final = Op.MULTI & 0xFF
ERROR: Final = Op.ERROR & 0xFF
CREATE_SESSION: Final = Op.CREATE_SESSION & 0xFF
CLOSE_SESSION: Final = Op.CLOSE_SESSION & 0xFF
ATTACH_SESSION: Final = Op.ATTACH_SESSION & 0xFF
SET_SECRET: Final = Op.SET_SECRET & 0xFF
FAILED_MULTI: Final = 0x70
CHECKPOINT: Final = 0x71
"""The type of a prefix before a whole transaction: the leader's digest at an earlier zxid."""

HEAD: Final = Struct(">Bqiq")
"""type, session, cxid, time in ms: the beginning of every transaction"""
SET_DATA_HEAD: Final = Struct(">BqiqiIi")
"""..., version, bytes of path, bytes of data (-1: null)"""
CREATE_HEAD: Final = Struct(">BqiqiqIiI")
"""..., parent's cversion, owner, bytes of path, bytes of data (-1: null), bytes of acl (0: `acl.OPEN`)"""
SET_ACL_HEAD: Final = Struct(">BqiqiI")
"""..., version, bytes of path; the acl is the rest"""
CHECK_HEAD: Final = Struct(">Bqiqi")
"""..., version; the path is the rest. For an error: ..., code; there is no rest"""
SERVER_HEAD: Final = Struct(">Bqiqq")
"""..., server"""
CREATE_SESSION_HEAD: Final = Struct(">Bqiqiq")
"""..., timeout in ms, server"""
FAILED_MULTI_HEAD: Final = Struct(">BqiqIIi")
"""..., number of operations, index of the failed one, its error code"""
CHECKPOINT_HEAD: Final = Struct(">BqQ")
"""type, zxid, digest"""
LENGTH: Final = Struct(">I")
"""The length before each transaction inside a multi."""


def set_data(
    session: int, cxid: int, time: int, path: str, data: bytes | None, version: int, kind: int = SET_DATA
) -> bytes:
    raw = path.encode()
    if data is None:
        return SET_DATA_HEAD.pack(kind, session, cxid, time, version, len(raw), -1) + raw
    return SET_DATA_HEAD.pack(kind, session, cxid, time, version, len(raw), len(data)) + raw + data


def create(
    kind: int, session: int, cxid: int, time: int, path: str, data: bytes | None, acl: Acl, owner: int, cversion: int
) -> bytes:
    """Encode a create. `cversion` is that of the parent, with this child counted."""
    raw, listed = path.encode(), b"" if acl is OPEN else encode_acl(acl)
    if data is None:
        return CREATE_HEAD.pack(kind, session, cxid, time, cversion, owner, len(raw), -1, len(listed)) + raw + listed
    head = CREATE_HEAD.pack(kind, session, cxid, time, cversion, owner, len(raw), len(data), len(listed))
    return b"".join((head, raw, data, listed))


def delete(session: int, cxid: int, time: int, path: str, kind: int = DELETE) -> bytes:
    return HEAD.pack(kind, session, cxid, time) + path.encode()


def set_acl(session: int, cxid: int, time: int, path: str, acl: Acl, version: int) -> bytes:
    raw = path.encode()
    return SET_ACL_HEAD.pack(SET_ACL, session, cxid, time, version, len(raw)) + raw + encode_acl(acl)


def check(session: int, cxid: int, time: int, path: str, version: int) -> bytes:
    return CHECK_HEAD.pack(CHECK, session, cxid, time, version) + path.encode()


def error(session: int, cxid: int, time: int, code: int) -> bytes:
    return CHECK_HEAD.pack(ERROR, session, cxid, time, code)


def create_session(session: int, cxid: int, time: int, timeout_ms: int, server: int) -> bytes:
    return CREATE_SESSION_HEAD.pack(CREATE_SESSION, session, cxid, time, timeout_ms, server)


def attach_session(session: int, cxid: int, time: int, server: int) -> bytes:
    return SERVER_HEAD.pack(ATTACH_SESSION, session, cxid, time, server)


def close_session(session: int, cxid: int, time: int, paths: Sequence[str]) -> bytes:
    packed: bytes = msgpack.packb(paths)
    return HEAD.pack(CLOSE_SESSION, session, cxid, time) + packed


def set_secret(time: int, secret: bytes) -> bytes:
    return HEAD.pack(SET_SECRET, 0, 0, time) + secret


def multi(session: int, cxid: int, time: int, txns: Sequence[bytes]) -> bytes:
    parts = [HEAD.pack(MULTI, session, cxid, time)]
    for txn in txns:
        parts += LENGTH.pack(len(txn)), txn
    return b"".join(parts)


def failed_multi(session: int, cxid: int, time: int, count: int, failed: int, code: int) -> bytes:
    return FAILED_MULTI_HEAD.pack(FAILED_MULTI, session, cxid, time, count, failed, code)


def checkpoint(zxid: int, digest: int, txn: bytes) -> bytes:
    return CHECKPOINT_HEAD.pack(CHECKPOINT, zxid, digest) + txn


# -- reading -------------------------------------------------------------------------------------------


def parts_of(txn: bytes) -> list[bytes]:
    """Return the transactions inside a multi."""
    parts, position, end = [], HEAD.size, len(txn)
    while position < end:
        (length,) = LENGTH.unpack_from(txn, position)
        position += 4
        parts.append(txn[position : position + length])
        position += length
    return parts


def codes_of(count: int, failed: int, code: int) -> list[int]:
    """Return the error codes of a failed multi: 0 before the failed operation, its code, -2 after it."""
    return [0] * failed + [code] + [-2] * (count - failed - 1)


Body: TypeAlias = tuple[Any, ...]


@frozen
class Transaction:
    """A decoded transaction, for dumps, checks and tests. `Applier` decodes only CLOSE_SESSION in this way.

    The body, by type (`Op`):

        creates                 (path, data, acl, owner, parent's cversion)
        DELETE*                 (path,)
        SET_DATA, RECONFIG      (path, data, version)
        SET_ACL                 (path, acl, version)
        CHECK                   (path, version)
        ERROR                   (code,)
        CREATE_SESSION          (timeout_ms, server)
        ATTACH_SESSION          (server,)
        CLOSE_SESSION           (paths,)
        SET_SECRET              ()
        MULTI                   (Transaction, ...); all of type ERROR if the multi failed
    """

    op: Op
    session: int
    cxid: int
    time: int
    body: Body


def decode(txn: bytes) -> Transaction:
    """Decode a transaction; skip a checkpoint before it. Raise `DamagedError` if the bytes are not a transaction."""
    try:
        if txn[0] == CHECKPOINT:
            txn = txn[CHECKPOINT_HEAD.size :]
        kind, session, cxid, time = HEAD.unpack_from(txn)
        if kind == FAILED_MULTI:
            *_, count, failed, code = FAILED_MULTI_HEAD.unpack(txn)
            errors = tuple(
                Transaction(Op.ERROR, session, cxid, time, (each,)) for each in codes_of(count, failed, code)
            )
            return Transaction(Op.MULTI, session, cxid, time, errors)
        op = Op(kind - 256 if kind > 127 else kind)
        return Transaction(op, session, cxid, time, _BODIES[kind](txn))
    except Exception as wrong:
        raise DamagedError(f"{len(txn)} bytes are not a transaction: {wrong!r}") from wrong


def _create_body(txn: bytes) -> Body:
    *_, cversion, owner, path_bytes, data_bytes, acl_bytes = CREATE_HEAD.unpack_from(txn)
    stop = CREATE_HEAD.size + path_bytes
    path = txn[CREATE_HEAD.size : stop].decode()
    end = stop + max(data_bytes, 0)
    assert end + acl_bytes == len(txn), "lengths do not add up"
    return path, None if data_bytes < 0 else txn[stop:end], decode_acl(txn[end:]), owner, cversion


def _set_data_body(txn: bytes) -> Body:
    *_, version, path_bytes, data_bytes = SET_DATA_HEAD.unpack_from(txn)
    stop = SET_DATA_HEAD.size + path_bytes
    assert stop + max(data_bytes, 0) == len(txn), "lengths do not add up"
    return txn[SET_DATA_HEAD.size : stop].decode(), None if data_bytes < 0 else txn[stop:], version


def _set_acl_body(txn: bytes) -> Body:
    *_, version, path_bytes = SET_ACL_HEAD.unpack_from(txn)
    stop = SET_ACL_HEAD.size + path_bytes
    return txn[SET_ACL_HEAD.size : stop].decode(), decode_acl(txn[stop:]), version


_BODIES: Final[dict[int, Callable[[bytes], Body]]] = {
    **dict.fromkeys((CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL), _create_body),
    **dict.fromkeys((DELETE, DELETE_CONTAINER), lambda txn: (txn[HEAD.size :].decode(),)),
    **dict.fromkeys((SET_DATA, RECONFIG), _set_data_body),
    SET_ACL: _set_acl_body,
    CHECK: lambda txn: (txn[CHECK_HEAD.size :].decode(), CHECK_HEAD.unpack_from(txn)[4]),
    ERROR: lambda txn: (CHECK_HEAD.unpack(txn)[4],),
    CREATE_SESSION: lambda txn: CREATE_SESSION_HEAD.unpack(txn)[4:],
    ATTACH_SESSION: lambda txn: (SERVER_HEAD.unpack(txn)[4],),
    CLOSE_SESSION: lambda txn: (tuple(msgpack.unpackb(txn[HEAD.size :])),),
    SET_SECRET: lambda txn: (),
    MULTI: lambda txn: tuple(map(decode, parts_of(txn))),
}
