"""The bodies of requests. Operations with the same fields share a kind of body.

A body is a pair of functions. `decode(body, at)` returns the fields and the offset of their end, because inside a multi
another operation follows. `encode(fields)` is its inverse. The fields are a plain tuple: every request needs one, and
nothing is cheaper to make.

A decoder may raise any of `STRUCT_ERRORS`; `decode_request` returns a `RejectedRequest` instead. Bytes after the last
field are ignored, as in ZooKeeper, so a newer client may append fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from attrs import frozen

from zab.core.errors import WireError
from zab.store.operations import Fields
from zab.wire.client.acl_codec import decode_acl, encode_acl
from zab.wire.jute import FALSE, INT, LONG, TRUE, Reader, buffer, lenient, text, texts

Decode: TypeAlias = Callable[[bytes, int], tuple[Fields, int]]
Encode: TypeAlias = Callable[[Any], bytes]

_unpack_int: Final = INT.unpack_from
_unpack_long: Final = LONG.unpack_from
_pack_int: Final = INT.pack


@frozen
class RequestBody:
    """The decoder and the encoder of one kind of body."""

    decode: Decode
    encode: Encode


def _no_length(length: int) -> WireError:
    return WireError(f"{length} is not a valid length")


# -- bodies with one path and at most one other field --------------------------------------------------


def _decode_nothing(body: bytes, at: int) -> tuple[tuple[()], int]:
    return (), at


def _encode_nothing(fields: Fields) -> bytes:
    return b""


def decode_path(body: bytes, at: int = 0) -> tuple[tuple[str], int]:
    reader = Reader(body, at)
    return (reader.text(),), reader.position


def _encode_path(fields: tuple[str]) -> bytes:
    return text(fields[0])


def _decode_path_or_null(body: bytes, at: int) -> tuple[tuple[str | None], int]:
    reader = Reader(body, at)
    return (reader.text_or_null(),), reader.position


def decode_path_and_flag(body: bytes, at: int = 0) -> tuple[tuple[str, bool], int]:
    (length,) = _unpack_int(body, at)
    if length < 0:
        raise _no_length(length)
    start = at + 4
    stop = start + length
    flag = body[stop] != 0
    try:
        path = body[start:stop].decode()
    except UnicodeDecodeError:
        path = lenient(body[start:stop])
    return (path, flag), stop + 1


def _encode_path_and_flag(fields: tuple[str, bool]) -> bytes:
    raw = fields[0].encode()
    return _pack_int(len(raw)) + raw + (TRUE if fields[1] else FALSE)


def decode_path_and_number(body: bytes, at: int = 0) -> tuple[tuple[str, int], int]:
    (length,) = _unpack_int(body, at)
    if length < 0:
        raise _no_length(length)
    start = at + 4
    stop = start + length
    (number,) = _unpack_int(body, stop)
    try:
        path = body[start:stop].decode()
    except UnicodeDecodeError:
        path = lenient(body[start:stop])
    return (path, number), stop + 4


def _encode_path_and_number(fields: tuple[str, int]) -> bytes:
    raw = fields[0].encode()
    return _pack_int(len(raw)) + raw + _pack_int(fields[1])


# -- data ----------------------------------------------------------------------------------------------


def decode_path_and_data(body: bytes, at: int = 0) -> tuple[str, bytes | None, int]:
    """Decode the common start of create and set.

    The caller decodes the field after the data, which proves that the data is complete.
    """
    (length,) = _unpack_int(body, at)
    if length < 0:
        raise _no_length(length)
    start = at + 4
    stop = start + length
    (length,) = _unpack_int(body, stop)
    try:
        path = body[start:stop].decode()
    except UnicodeDecodeError:
        path = lenient(body[start:stop])
    start = stop + 4
    if length >= 0:
        stop = start + length
        return path, body[start:stop], stop
    if length != -1:
        raise _no_length(length)
    return path, None, start


def decode_set_data(body: bytes, at: int = 0) -> tuple[tuple[str, bytes | None, int], int]:
    """Decode path, data and version. `decode_path_and_data` is inlined, because set is the most frequent write."""
    (length,) = _unpack_int(body, at)
    if length < 0:
        raise _no_length(length)
    start = at + 4
    stop = start + length
    (length,) = _unpack_int(body, stop)
    try:
        path = body[start:stop].decode()
    except UnicodeDecodeError:
        path = lenient(body[start:stop])
    start = stop + 4
    if length < 0:
        if length != -1:
            raise _no_length(length)
        return (path, None, *_unpack_int(body, start)), start + 4
    stop = start + length
    (version,) = _unpack_int(body, stop)
    return (path, body[start:stop], version), stop + 4


def encode_set_data(fields: tuple[str, bytes | None, int]) -> bytes:
    path, data, version = fields
    raw = path.encode()
    return _pack_int(len(raw)) + raw + buffer(data) + _pack_int(version)


def decode_create(body: bytes, at: int = 0) -> tuple[Fields, int]:
    """Decode path, data, ACL and flags."""
    path, data, stop = decode_path_and_data(body, at)
    acl, stop = decode_acl(body, stop)
    (flags,) = _unpack_int(body, stop)
    return (path, data, acl, flags), stop + 4


def encode_create(fields: Fields) -> bytes:
    path, data, acl, flags = fields
    raw: bytes = path.encode()
    return _pack_int(len(raw)) + raw + buffer(data) + encode_acl(acl) + _pack_int(flags)


def _decode_create_ttl(body: bytes, at: int) -> tuple[Fields, int]:
    fields, stop = decode_create(body, at)
    (ttl_ms,) = _unpack_long(body, stop)
    return (*fields, ttl_ms), stop + 8


def _encode_create_ttl(fields: Fields) -> bytes:
    return encode_create(fields[:4]) + LONG.pack(fields[4])


# -- rare requests ------------------------------------------------------------------------------------


def _decode_set_acl(body: bytes, at: int) -> tuple[Fields, int]:
    (path,), stop = decode_path(body, at)
    acl, stop = decode_acl(body, stop)
    (version,) = _unpack_int(body, stop)
    return (path, acl, version), stop + 4


def _encode_set_acl(fields: Fields) -> bytes:
    path, acl, version = fields
    return text(path) + encode_acl(acl) + _pack_int(version)


def _decode_reconfig(body: bytes, at: int) -> tuple[Fields, int]:
    reader = Reader(body, at)
    fields = reader.text_or_null(), reader.text_or_null(), reader.text_or_null(), reader.long()
    return fields, reader.position


def _encode_reconfig(fields: Fields) -> bytes:
    joining, leaving, members, config = fields
    return text(joining) + text(leaving) + text(members) + LONG.pack(config)


def _decode_auth(body: bytes, at: int) -> tuple[Fields, int]:
    reader = Reader(body, at)
    return (reader.number(), reader.text(), reader.buffer_or_null()), reader.position


def _encode_auth(fields: Fields) -> bytes:
    kind, scheme, credentials = fields
    return _pack_int(kind) + text(scheme) + buffer(credentials)


def _decode_token(body: bytes, at: int) -> tuple[Fields, int]:
    reader = Reader(body, at)
    return (reader.buffer_or_null(),), reader.position


def _encode_token(fields: Fields) -> bytes:
    return buffer(fields[0])


def _watches(lists: int) -> RequestBody:
    """Return the body of setWatches or setWatches2: the client's last zxid seen, then `lists` lists of paths."""

    def decode(body: bytes, at: int) -> tuple[Fields, int]:
        reader = Reader(body, at)
        fields = (reader.long(), *[reader.texts() for _ in range(lists)])
        return fields, reader.position

    def encode(fields: Fields) -> bytes:
        assert len(fields) == lists + 1
        return LONG.pack(fields[0]) + b"".join(map(texts, fields[1:]))

    return RequestBody(decode, encode)


NO_BODY: Final = RequestBody(_decode_nothing, _encode_nothing)
PATH: Final = RequestBody(decode_path, _encode_path)
PATH_OR_NULL: Final = RequestBody(_decode_path_or_null, _encode_path)
PATH_AND_FLAG: Final = RequestBody(decode_path_and_flag, _encode_path_and_flag)
PATH_AND_NUMBER: Final = RequestBody(decode_path_and_number, _encode_path_and_number)
SET_DATA: Final = RequestBody(decode_set_data, encode_set_data)
CREATE: Final = RequestBody(decode_create, encode_create)
CREATE_TTL: Final = RequestBody(_decode_create_ttl, _encode_create_ttl)
SET_ACL: Final = RequestBody(_decode_set_acl, _encode_set_acl)
RECONFIG: Final = RequestBody(_decode_reconfig, _encode_reconfig)
AUTH: Final = RequestBody(_decode_auth, _encode_auth)
TOKEN: Final = RequestBody(_decode_token, _encode_token)
WATCHES: Final = _watches(3)
WATCHES2: Final = _watches(5)
