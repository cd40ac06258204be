"""Transactions as ZooKeeper writes them to its log: session, time, operation, and the digest of the resulting tree.

The types are the opcodes of the requests, but the fields differ: a transaction holds the request's effect. So a set
holds the new version, and a failed request leaves only an error code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, TypeAlias

from attrs import frozen

from zab.core.errors import DamagedError, WireError
from zab.store.operations import Fields, Op
from zab.wire.client import request_bodies
from zab.wire.client.acl_codec import decode_acl, encode_acl
from zab.wire.client.request_bodies import RequestBody
from zab.wire.jute import FALSE, INT, LONG, STRUCT_ERRORS, TRUE, Reader, buffer, text, texts

HEAD: Final = Struct(">qiqqi")
DIGEST: Final = Struct(">iQ")
DIGEST_VERSION: Final = 2


@frozen
class FileTxn:
    """A transaction of ZooKeeper's log. `fields` by kind:

        create session            timeout in ms
        close session             the paths of its ephemeral nodes; `None` in logs of versions without that list
        error                     code; inside a multi it may be followed by bytes: see `_decode_error_part`
        create, create2           path, data, acl, is ephemeral, cversion of the parent (-1: not recorded)
        create container          path, data, acl, cversion of the parent
        create TTL                path, data, acl, cversion of the parent, TTL in ms
        delete, delete container  path
        set data, reconfig        path, data, new version
        set ACL                   path, acl, new aversion
        multi                     its parts, each a kind and fields
        check                     path, version; only as a part of multi

    `digest` is the digest's version and the digest of the tree after the transaction; None if not recorded.
    """

    session: int
    cxid: int
    zxid: int
    time_ms: int
    kind: int
    fields: Fields
    digest: tuple[int, int] | None = None


# -- bodies --------------------------------------------------------------------------------------------


def _decode_number(body: bytes, at: int) -> tuple[Fields, int]:
    return INT.unpack_from(body, at), at + 4


def _encode_number(fields: Fields) -> bytes:
    return INT.pack(*fields)


def _decode_error_part(body: bytes, at: int) -> tuple[Fields, int]:
    """Decode an error inside a multi.

    ZooKeeper makes errors of all operations of a failed multi when it applies the multi. If it writes the multi again
    after that, as it does for a learner, the operations before the failed one have the type of an error, but their own
    fields. Then the code is the first four bytes of those fields and means nothing. The others are kept as they are.
    """
    code, rest = INT.unpack_from(body, at)[0], body[at + 4 :]
    return (code, rest) if rest else (code,), len(body)


def _encode_error_part(fields: Fields) -> bytes:
    code, *rest = fields
    return INT.pack(code) + b"".join(rest)


def _decode_closed(body: bytes, at: int) -> tuple[Fields, int]:
    """Decode the list of paths, which logs of old versions lack.

    In an old log the digest may follow at once. A list is not mistaken for a digest: a list of this size that begins
    with the count 2 would hold two empty paths.
    """
    left = len(body) - at
    if left == 0 or (left == DIGEST.size and body.startswith(INT.pack(DIGEST_VERSION), at)):
        return (None,), at
    reader = Reader(body, at)
    return (reader.texts(),), reader.position


def _encode_closed(fields: Fields) -> bytes:
    (paths,) = fields
    return b"" if paths is None else texts(paths)


def _decode_created(body: bytes, at: int) -> tuple[Fields, int]:
    path, data, at = request_bodies.decode_path_and_data(body, at)
    acl, at = decode_acl(body, at)
    ephemeral = body[at] != 0
    return (path, data, acl, ephemeral, INT.unpack_from(body, at + 1)[0]), at + 5


def _decode_created_maybe_long_ago(body: bytes, at: int) -> tuple[Fields, int]:
    """Decode a create. The earliest versions of ZooKeeper did not log the parent's cversion."""
    path, data, at = request_bodies.decode_path_and_data(body, at)
    acl, at = decode_acl(body, at)
    ephemeral = body[at] != 0
    at += 1
    if at == len(body):
        return (path, data, acl, ephemeral, -1), at
    return (path, data, acl, ephemeral, INT.unpack_from(body, at)[0]), at + 4


def _encode_created(fields: Fields) -> bytes:
    path, data, acl, ephemeral, cversion = fields
    flag = TRUE if ephemeral else FALSE
    return text(path) + buffer(data) + encode_acl(acl) + flag + INT.pack(cversion)


def _decode_container(body: bytes, at: int) -> tuple[Fields, int]:
    return request_bodies.decode_create(body, at)


def _decode_ttl(body: bytes, at: int) -> tuple[Fields, int]:
    fields, at = request_bodies.decode_create(body, at)
    return (*fields, LONG.unpack_from(body, at)[0]), at + 8


def _encode_ttl(fields: Fields) -> bytes:
    return request_bodies.encode_create(fields[:4]) + LONG.pack(fields[4])


Body: TypeAlias = tuple[Callable[[bytes, int], tuple[Fields, int]], Callable[[Any], bytes]]


def _same(shape: RequestBody) -> Body:
    return shape.decode, shape.encode


_PARTS: Final[Mapping[int, Body]] = {
    Op.ERROR: (_decode_error_part, _encode_error_part),
    Op.CREATE: (_decode_created_maybe_long_ago, _encode_created),
    Op.CREATE2: (_decode_created, _encode_created),
    Op.CREATE_CONTAINER: (_decode_container, request_bodies.encode_create),
    Op.CREATE_TTL: (_decode_ttl, _encode_ttl),
    Op.DELETE: _same(request_bodies.PATH),
    Op.DELETE_CONTAINER: _same(request_bodies.PATH),
    Op.SET_DATA: _same(request_bodies.SET_DATA),
    Op.CHECK: _same(request_bodies.PATH_AND_NUMBER),
}


def _decode_multi(body: bytes, at: int) -> tuple[Fields, int]:
    reader = Reader(body, at)

    def part() -> tuple[int, Fields]:
        kind, inner = reader.number(), reader.buffer()
        return kind, _body_of(_PARTS, kind)[0](inner, 0)[0]

    return reader.vector(part, 8), reader.position


def _encode_multi(fields: Fields) -> bytes:
    parts = [INT.pack(kind) + buffer(_PARTS[kind][1](inner)) for kind, inner in fields]
    return INT.pack(len(parts)) + b"".join(parts)


_BODIES: Final[Mapping[int, Body]] = {
    **{kind: body for kind, body in _PARTS.items() if kind != Op.CHECK},
    Op.ERROR: (_decode_number, _encode_number),
    Op.CREATE_SESSION: (_decode_number, _encode_number),
    Op.CLOSE_SESSION: (_decode_closed, _encode_closed),
    Op.RECONFIG: _same(request_bodies.SET_DATA),
    Op.SET_ACL: _same(request_bodies.SET_ACL),
    Op.MULTI: (_decode_multi, _encode_multi),
}
KINDS: Final = frozenset(_BODIES)


def _body_of(bodies: Mapping[int, Body], kind: int) -> Body:
    body = bodies.get(kind)
    if body is None:
        raise WireError(f"unknown transaction type {kind}")
    return body


# -- whole records -------------------------------------------------------------------------------------


def decode_txn(payload: bytes) -> FileTxn:
    try:
        session, cxid, zxid, time_ms, kind = HEAD.unpack_from(payload)
        fields, at = _body_of(_BODIES, kind)[0](payload, HEAD.size)
        left = len(payload) - at
        digest = None
        if left == DIGEST.size:
            version, value = DIGEST.unpack_from(payload, at)
            digest = version, value
        elif left:
            raise WireError(f"{left} bytes follow the last field")
    except STRUCT_ERRORS as error:
        raise DamagedError(f"not a valid transaction: {error}") from error
    return FileTxn(session, cxid, zxid, time_ms, kind, fields, digest)


def encode_txn(txn: FileTxn) -> bytes:
    head = HEAD.pack(txn.session, txn.cxid, txn.zxid, txn.time_ms, txn.kind)
    body = _BODIES[txn.kind][1](txn.fields)
    return head + body + (b"" if txn.digest is None else DIGEST.pack(*txn.digest))
