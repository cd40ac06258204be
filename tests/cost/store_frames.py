"""Hostile requests of the client protocol, drawn from a schema of every request type.

A request has one large field, which takes the rest of its size, and small ones at the edges of their types. Paths
are those that a hostile client has built before: see `LANDMARKS`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from random import Random
from typing import Final, TypeAlias

from attrs import frozen

from zab.store.operations import Op

LANDMARKS: Final = (
    "/", "/wide", "/wide/n00000001", "/inner", "/inner/n00000001", "/deep", "/owned", "/limited", "/limited/below",
    "/guarded", "/large", "/watched", "/zookeeper", "/zookeeper/quota", "/zookeeper/quota/wide/zookeeper_stats",
    "/zookeeper/quota/limited/zookeeper_limits", "/zookeeper/quota/limited/zookeeper_stats", "/zookeeper/config",
)  # fmt: skip
"""Nodes that `store_states` makes."""

INTS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 31, -1, -2, 255, (1 << 31) - 1, -(1 << 31))
LONGS: Final = (0, 1, -1, 1000, 1 << 32, (1 << 40) - 1, (1 << 63) - 1, -(1 << 63))
SCHEMES: Final = ("world", "auth", "digest", "ip", "sasl", "x509", "super", "", "ensemble", "no-such-scheme")


class Kind(Enum):
    INT = "int"
    LONG = "long"
    FLAG = "flag"
    PATH = "path"
    TEXT = "text"
    BUFFER = "buffer"
    PATHS = "paths"
    ACL = "acl"
    WRITES = "parts of a multi"
    READS = "parts of a multiRead"


_CREATE: Final = (Kind.PATH, Kind.BUFFER, Kind.ACL, Kind.INT)
SCHEMA: Final[dict[int, tuple[Kind, ...]]] = {
    Op.CREATE: _CREATE,
    Op.CREATE2: _CREATE,
    Op.CREATE_CONTAINER: _CREATE,
    Op.CREATE_TTL: (*_CREATE, Kind.LONG),
    Op.DELETE: (Kind.PATH, Kind.INT),
    Op.EXISTS: (Kind.PATH, Kind.FLAG),
    Op.GET_DATA: (Kind.PATH, Kind.FLAG),
    Op.SET_DATA: (Kind.PATH, Kind.BUFFER, Kind.INT),
    Op.GET_ACL: (Kind.PATH,),
    Op.SET_ACL: (Kind.PATH, Kind.ACL, Kind.INT),
    Op.GET_CHILDREN: (Kind.PATH, Kind.FLAG),
    Op.GET_CHILDREN2: (Kind.PATH, Kind.FLAG),
    Op.SYNC: (Kind.PATH,),
    Op.PING: (),
    Op.MULTI: (Kind.WRITES,),
    Op.MULTI_READ: (Kind.READS,),
    Op.RECONFIG: (Kind.TEXT, Kind.TEXT, Kind.TEXT, Kind.LONG),
    Op.CHECK_WATCHES: (Kind.PATH, Kind.INT),
    Op.REMOVE_WATCHES: (Kind.PATH, Kind.INT),
    Op.ADD_WATCH: (Kind.PATH, Kind.INT),
    Op.SET_WATCHES: (Kind.LONG, Kind.PATHS, Kind.PATHS, Kind.PATHS),
    Op.SET_WATCHES2: (Kind.LONG, *[Kind.PATHS] * 5),
    Op.AUTH: (Kind.INT, Kind.TEXT, Kind.BUFFER),
    Op.SASL: (Kind.BUFFER,),
    Op.GET_EPHEMERALS: (Kind.PATH,),
    Op.GET_ALL_CHILDREN_NUMBER: (Kind.PATH,),
    Op.WHO_AM_I: (),
}
"""All that a client may ask for, but CLOSE_SESSION."""
NOT_FOR_CLIENTS: Final = (Op.CHECK, Op.DELETE_CONTAINER, Op.CREATE_SESSION, Op.ATTACH_SESSION, Op.SET_SECRET, 0, 4711)

_WRITE_PARTS: Final = (Op.CREATE, Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL, Op.DELETE, Op.SET_DATA, Op.CHECK)
_READ_PARTS: Final = (Op.GET_DATA, Op.GET_CHILDREN)
_END: Final = struct.pack(">iBi", -1, 1, -1)

Draw: TypeAlias = Callable[[Random, int], bytes]
"""(chance, bytes that it may take) -> a field as it travels."""


@frozen
class Hostile:
    name: str
    op: int
    body: bytes

    @property
    def frame(self) -> bytes:
        return struct.pack(">iii", 8 + len(self.body), 1, self.op) + self.body


def int_of(value: int) -> bytes:
    return struct.pack(">i", value)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return int_of(len(raw)) + raw


def filled(unit: bytes, size: int) -> bytes:
    """Whole units, as many as fit."""
    return unit * max(1, size // len(unit))


def vector(units: Sequence[bytes]) -> bytes:
    return int_of(len(units)) + b"".join(units)


def _as_many(make: Callable[[int], bytes], size: int) -> list[bytes]:
    found: list[bytes] = []
    while size > 0:
        found.append(make(len(found)))
        size -= len(found[-1])
    return found[:-1] or found


# -- large fields, by the name of what is wrong with them ----------------------------------------------

_LIE: Final = int_of((1 << 31) - 1)
TEXTS: Final[dict[str, Draw]] = {
    "deep path": lambda chance, size: text(filled(b"/a", size)),
    "slashes": lambda chance, size: text(b"/" * size),
    "long name": lambda chance, size: text(b"/" + b"n" * size),
    "dots": lambda chance, size: text(filled(b"/..", size)),
    "no UTF-8": lambda chance, size: text(b"/" + b"\xff" * size),
    "surrogates": lambda chance, size: text(filled(b"\xed\xa0\x80", size)),
    "nulls": lambda chance, size: text(b"/" + bytes(size)),
    "spaces": lambda chance, size: text(b"CN=" + b" " * size + b'"'),
    "quotes": lambda chance, size: text(b'CN="' + b'\\"' * (size // 2)),
    "commas": lambda chance, size: text(b"," * size),
    "servers": lambda chance, size: text(filled(b"server.1=127.0.0.1:1:2;3,", size)),
    "digits": lambda chance, size: text(b"9" * size),
    "length lies": lambda chance, size: _LIE + b"a" * size,
    "negative length": lambda chance, size: int_of(-2) + b"a" * size,
    "null": lambda chance, size: int_of(-1),
}
BUFFERS: Final[dict[str, Draw]] = {
    "data": lambda chance, size: text(chance.randbytes(size)),
    "quota": lambda chance, size: text(b",".join(_as_many(lambda n: b"%d=1" % n, size))),
    "user": lambda chance, size: text(b"u" * size + b":p"),
    "colons": lambda chance, size: text(b":" * size),
    "directives": lambda chance, size: text(filled(b'a="\\', size)),
    "blanks": lambda chance, size: text(b"username" + b" " * size),
    "length lies": lambda chance, size: _LIE + b"a" * size,
}
PATH_LISTS: Final[dict[str, Draw]] = {
    "empty paths": lambda chance, size: vector([int_of(0)] * (size // 4)),
    "one path": lambda chance, size: vector([text(chance.choice(LANDMARKS))] * (size // 16)),
    "relative paths": lambda chance, size: vector(_as_many(lambda n: text(f"{n}"), size)),
    "children": lambda chance, size: vector(_as_many(lambda n: text(f"/wide/n{n:08d}"), size)),
    "missing paths": lambda chance, size: vector(_as_many(lambda n: text(f"/{n}"), size)),
    "deep paths": lambda chance, size: vector([text(b"/a" * (size // 40))] * 20),
    "count lies": lambda chance, size: _LIE + bytes(size),
    "negative count": lambda chance, size: int_of(-2) + bytes(size),
}
ACLS: Final[dict[str, Draw]] = {
    "world": lambda chance, size: _acl(size, lambda n: (31, "world", "anyone")),
    "permissions": lambda chance, size: _acl(size, lambda n: (n, "world", "anyone")),
    "auth": lambda chance, size: _acl(size, lambda n: (n, "auth", "")),
    "networks": lambda chance, size: _acl(
        size, lambda n: (31, "ip", f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}/31")
    ),
    "users": lambda chance, size: _acl(size, lambda n: (31, "digest", f"{n}:x")),
    "no scheme": lambda chance, size: _acl(size, lambda n: (31, "", "")),
    "a long id": lambda chance, size: vector(
        [int_of(31) + text(chance.choice(SCHEMES)) + chance.choice(list(TEXTS.values()))(chance, size)]
    ),
    "null": lambda chance, size: int_of(-1),
    "count lies": lambda chance, size: _LIE + bytes(size),
}


def _acl(size: int, entry: Callable[[int], tuple[int, str, str]]) -> bytes:
    def one(number: int) -> bytes:
        perms, scheme, name = entry(number)
        return int_of(perms) + text(scheme) + text(name)

    return vector(_as_many(one, size))


def _parts(ops: Sequence[int]) -> dict[str, Draw]:
    def of_one(op: int) -> Draw:
        def draw(chance: Random, size: int) -> bytes:
            part = struct.pack(">iBi", op, 0, -1) + b"".join(_small(chance, kind) for kind in SCHEMA_OF_PARTS[op])
            return filled(part, size) + _END

        return draw

    def mixed(chance: Random, size: int) -> bytes:
        parts = [of_one(chance.choice(ops))(chance, 1)[: -len(_END)] for _ in range(20)]
        return b"".join(_as_many(lambda n: parts[n % len(parts)], size)) + _END

    def endless(chance: Random, size: int) -> bytes:
        return of_one(chance.choice(ops))(chance, size)[: -len(_END)]

    return {**{Op(op).name.lower(): of_one(op) for op in ops}, "mixed": mixed, "no end": endless}


SCHEMA_OF_PARTS: Final = {**SCHEMA, Op.CHECK: (Kind.PATH, Kind.INT)}
LARGE: Final[dict[Kind, dict[str, Draw]]] = {
    Kind.PATH: TEXTS,
    Kind.TEXT: TEXTS,
    Kind.BUFFER: BUFFERS,
    Kind.PATHS: PATH_LISTS,
    Kind.ACL: ACLS,
    Kind.WRITES: _parts(_WRITE_PARTS),
    Kind.READS: _parts(_READ_PARTS),
}


# -- small fields --------------------------------------------------------------------------------------


def _small(chance: Random, kind: Kind) -> bytes:
    match kind:
        case Kind.INT:
            return int_of(chance.choice(INTS))
        case Kind.LONG:
            return struct.pack(">q", chance.choice(LONGS))
        case Kind.FLAG:
            return chance.choice((b"\0", b"\1"))
        case Kind.PATH:
            return text(chance.choice(LANDMARKS))
        case Kind.TEXT:
            return text(chance.choice(SCHEMES))
        case Kind.BUFFER:
            return chance.choice((int_of(-1), int_of(0), text(b"u:p")))
        case Kind.ACL:
            return vector([int_of(31) + text("world") + text("anyone")])
        case Kind.PATHS:
            return int_of(0)
        case _:
            return _END


# -- requests ------------------------------------------------------------------------------------------


def drawn(chance: Random, op: int, size: int) -> Iterator[Hostile]:
    """Yield one request for each large field of `op` and each of its faults, all of about this size."""
    kinds = SCHEMA[op]
    for place, kind in enumerate(kinds):
        for wrong, draw in LARGE.get(kind, {}).items():
            fields = [draw(chance, size) if at == place else _small(chance, each) for at, each in enumerate(kinds)]
            yield Hostile(f"{Op(op).name} with {wrong} in field {place}", op, b"".join(fields))
    yield Hostile(f"{Op(op).name} with small fields", op, b"".join(_small(chance, kind) for kind in kinds))
    yield Hostile(f"{Op(op).name} with nothing", op, b"")
    yield Hostile(f"{Op(op).name} with noise", op, chance.randbytes(min(size, 1_000)))


def every(seed: int, size: int) -> Iterator[Hostile]:
    """Yield the hostile requests of every type."""
    chance = Random(seed)
    for op in SCHEMA:
        yield from drawn(chance, op, size)
    for op in NOT_FOR_CLIENTS:
        yield Hostile(f"operation {int(op)}", int(op), chance.randbytes(min(size, 1_000)))


def small(seed: int, op: int, count: int) -> bytes:
    """A pipeline: many requests of one type with small fields, as frames."""
    chance = Random(seed)
    found = []
    for _ in range(count):
        found.append(Hostile("", op, b"".join(_small(chance, kind) for kind in SCHEMA[op])).frame)
    return b"".join(found)
