"""Several operations in one request, several results in one reply.

A header with the opcode precedes each operation and each result. A header with the flag `done` ends the list. A multi
succeeds or fails as a whole. A multiRead only reads, and each of its parts succeeds or fails by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, Final, TypeAlias

from zab.core.errors import WireError
from zab.store.operations import Fields, Op
from zab.wire.client import reply_bodies, request_bodies
from zab.wire.client.reply_bodies import ReplyBody
from zab.wire.client.request_bodies import RequestBody

Operation: TypeAlias = tuple[int, Fields]
"""Opcode, fields."""

Result: TypeAlias = tuple[int, Any]
"""Opcode, value; or `Op.ERROR` and the error's code."""

_ERROR: Final = int(Op.ERROR)
_HEADER: Final = Struct(">iBi")
_unpack_header: Final = Struct(">iB4x").unpack_from
"""Read the header of an operation. Its error code is skipped: it has no meaning in a request."""
_END: Final = _HEADER.pack(-1, 1, -1)
_FAILED: Final = Struct(">iBii")
_SET_DATA: Final = int(Op.SET_DATA)
_pack_set: Final = Struct(">iBi" + reply_bodies.STAT_FORMAT).pack
"""Pack the result of a set, which is the most frequent one: header and stat."""

WRITES: Final[Mapping[int, RequestBody]] = {
    Op.CREATE: request_bodies.CREATE,
    Op.CREATE2: request_bodies.CREATE,
    Op.CREATE_CONTAINER: request_bodies.CREATE,
    Op.CREATE_TTL: request_bodies.CREATE_TTL,
    Op.DELETE: request_bodies.PATH_AND_NUMBER,
    Op.SET_DATA: request_bodies.SET_DATA,
    Op.CHECK: request_bodies.PATH_AND_NUMBER,
}
READS: Final[Mapping[int, RequestBody]] = {
    Op.GET_DATA: request_bodies.PATH_AND_FLAG,
    Op.GET_CHILDREN: request_bodies.PATH_AND_FLAG,
}
RESULTS: Final[Mapping[int, ReplyBody]] = {
    Op.CREATE: reply_bodies.PATH,
    Op.CREATE2: reply_bodies.CREATED,
    Op.DELETE: reply_bodies.NO_BODY,
    Op.SET_DATA: reply_bodies.STAT_ONLY,
    Op.CHECK: reply_bodies.NO_BODY,
    Op.GET_DATA: reply_bodies.DATA,
    Op.GET_CHILDREN: reply_bodies.NAMES,
}
_RESULT_OF: Final[Mapping[int, int]] = {
    Op.CREATE_CONTAINER: Op.CREATE2,
    Op.CREATE_TTL: Op.CREATE2,
}
"""For each of these operations, the operation whose result has the same format."""


def of(allowed: Mapping[int, RequestBody]) -> RequestBody:
    """Return the body codec of a multi that allows these operations. Reads and writes do not mix."""

    decoders = {int(opcode): shape.decode for opcode, shape in allowed.items()}

    def decode(body: bytes, at: int) -> tuple[Fields, int]:
        operations: list[Operation] = []
        while True:
            opcode, done = _unpack_header(body, at)
            at += 9
            if done:
                return tuple(operations), at
            decode_fields = decoders.get(opcode)
            if decode_fields is None:
                raise WireError(f"operation {opcode} cannot be part of a multi of this kind")
            fields, at = decode_fields(body, at)
            operations.append((opcode, fields))

    def encode(operations: Iterable[Operation]) -> bytes:
        parts: list[bytes] = []
        for opcode, fields in operations:
            parts += (_HEADER.pack(opcode, 0, -1), allowed[opcode].encode(fields))
        parts.append(_END)
        return b"".join(parts)

    return RequestBody(decode, encode)


_RESULT_ENCODERS: Final = {
    **{opcode: (_HEADER.pack(opcode, 0, 0), body.encode) for opcode, body in RESULTS.items()},
    **{opcode: (_HEADER.pack(of, 0, 0), RESULTS[of].encode) for opcode, of in _RESULT_OF.items()},
}


def encode_results(results: Iterable[Result]) -> bytes:
    parts: list[bytes] = []
    for opcode, value in results:
        if opcode == _SET_DATA:
            parts.append(_pack_set(_SET_DATA, 0, 0, *value))
        elif opcode == _ERROR:
            parts.append(_FAILED.pack(-1, 0, value, value))
        else:
            head, encode = _RESULT_ENCODERS[opcode]
            parts += (head, encode(value))
    parts.append(_END)
    return b"".join(parts)


def decode_results(body: bytes, at: int = 0) -> tuple[list[Result], int]:
    results: list[Result] = []
    while True:
        opcode, done, _ = _HEADER.unpack_from(body, at)
        at += 9
        if done:
            return results, at
        if opcode == Op.ERROR:
            value, at = reply_bodies.NUMBER.decode(body, at)
        else:
            kind = RESULTS.get(opcode)
            if kind is None:
                raise WireError(f"no operation has a result of type {opcode}")
            value, at = kind.decode(body, at)
        results.append((opcode, value))


MULTI: Final = of(WRITES)
MULTI_READ: Final = of(READS)
RESULT_LIST: Final = ReplyBody(encode_results, decode_results)
