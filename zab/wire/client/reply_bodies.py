"""The bodies of replies, and the 68 bytes of a stat that many of them hold.

Each body is a pair of functions: `encode(value)` for the server and `decode(body, at)` for our client. `decode` also
returns the offset of the value's end. A reply is a header followed by the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final, TypeAlias

from attrs import frozen

from zab.core.errors import WireError
from zab.store.acl import Acl
from zab.store.znode import Stat
from zab.wire.client.acl_codec import decode_acl, encode_acl
from zab.wire.jute import INT, Reader, buffer, lenient, text, texts, vector

StatFields: TypeAlias = Sequence[int]
"""A `Stat`, or its eleven values as a tuple, which is cheaper to make."""

STAT_FORMAT: Final = "qqqqiiiqiiq"
STAT: Final = Struct(">" + STAT_FORMAT)


@frozen
class ReplyBody:
    """The encoder and the decoder of one kind of body."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, int], tuple[Any, int]]


# -- bodies with one field, or none --------------------------------------------------------------------


def _encode_nothing(value: None) -> bytes:
    return b""


def _decode_nothing(body: bytes, at: int) -> tuple[None, int]:
    return None, at


def _decode_number(body: bytes, at: int) -> tuple[int, int]:
    (number,) = INT.unpack_from(body, at)
    return number, at + 4


def decode_path(body: bytes, at: int = 0) -> tuple[str, int]:
    reader = Reader(body, at)
    return reader.text(), reader.position


def _decode_token(body: bytes, at: int) -> tuple[bytes | None, int]:
    reader = Reader(body, at)
    return reader.buffer_or_null(), reader.position


# -- bodies with a stat --------------------------------------------------------------------------------


def encode_stat(stat: StatFields) -> bytes:
    return STAT.pack(*stat)


def decode_stat(body: bytes, at: int = 0) -> tuple[Stat, int]:
    return tuple.__new__(Stat, STAT.unpack_from(body, at)), at + 68


def encode_data(value: tuple[bytes | None, StatFields]) -> bytes:
    data, stat = value
    return buffer(data) + STAT.pack(*stat)


def decode_data(body: bytes, at: int = 0) -> tuple[tuple[bytes | None, Stat], int]:
    (length,) = INT.unpack_from(body, at)
    start = at + 4
    if length < -1:
        raise WireError(f"{length} is not a valid length")
    stop = start + length if length > 0 else start
    # The stat follows the data: if it can be read, the data is complete.
    stat = tuple.__new__(Stat, STAT.unpack_from(body, stop))
    return (None if length < 0 else body[start:stop], stat), stop + 68


def _encode_created(value: tuple[str, StatFields]) -> bytes:
    return text(value[0]) + STAT.pack(*value[1])


def _decode_created(body: bytes, at: int) -> tuple[tuple[str, Stat], int]:
    path, stop = decode_path(body, at)
    stat, stop = decode_stat(body, stop)
    return (path, stat), stop


def _encode_acl(value: tuple[Acl | None, StatFields]) -> bytes:
    return encode_acl(value[0]) + STAT.pack(*value[1])


def _decode_acl(body: bytes, at: int) -> tuple[tuple[Acl | None, Stat], int]:
    acl, stop = decode_acl(body, at)
    stat, stop = decode_stat(body, stop)
    return (acl, stat), stop


# -- lists ---------------------------------------------------------------------------------------------


def decode_names(body: bytes, at: int = 0) -> tuple[list[str], int]:
    (count,) = INT.unpack_from(body, at)
    at += 4
    if not 0 <= count <= (len(body) - at) // 4:
        raise WireError(f"{count} names do not fit into {len(body) - at} bytes")
    names: list[str] = []
    append, unpack, end = names.append, INT.unpack_from, len(body)
    for _ in range(count):
        (length,) = unpack(body, at)
        start = at + 4
        at = start + length
        if length < 0 or at > end:
            raise WireError(f"{length} is not a valid length of a name: {end - start} bytes remain")
        try:
            append(body[start:at].decode())
        except UnicodeDecodeError:
            append(lenient(body[start:at]))
    return names, at


def _encode_names_and_stat(value: tuple[Iterable[str], StatFields]) -> bytes:
    return texts(value[0]) + STAT.pack(*value[1])


def _decode_names_and_stat(body: bytes, at: int) -> tuple[tuple[list[str], Stat], int]:
    names, stop = decode_names(body, at)
    stat, stop = decode_stat(body, stop)
    return (names, stat), stop


def _encode_identities(value: Iterable[tuple[str, str]]) -> bytes:
    return vector(text(scheme) + text(identity) for scheme, identity in value)


def _decode_identities(body: bytes, at: int) -> tuple[tuple[tuple[str, str], ...], int]:
    reader = Reader(body, at)
    return reader.vector(lambda: (reader.text(), reader.text()), 8), reader.position


NO_BODY: Final = ReplyBody(_encode_nothing, _decode_nothing)
NUMBER: Final = ReplyBody(INT.pack, _decode_number)
PATH: Final = ReplyBody(text, decode_path)
TOKEN: Final = ReplyBody(buffer, _decode_token)
STAT_ONLY: Final = ReplyBody(encode_stat, decode_stat)
DATA: Final = ReplyBody(encode_data, decode_data)
CREATED: Final = ReplyBody(_encode_created, _decode_created)
ACL: Final = ReplyBody(_encode_acl, _decode_acl)
NAMES: Final = ReplyBody(texts, decode_names)
NAMES_AND_STAT: Final = ReplyBody(_encode_names_and_stat, _decode_names_and_stat)
IDENTITIES: Final = ReplyBody(_encode_identities, _decode_identities)
