"""The fields of a znode, and the stat that clients receive.

A node is a plain tuple; a change replaces it. The cyclic collector soon untracks a plain tuple of numbers, bytes and an
ACL, so its later passes do not walk a million nodes.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from zab.store.acl import OPEN, Acl

Znode: TypeAlias = tuple[bytes | None, Acl, int, int, int, int, int, int, int, int, int, int]
"""(data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, children)

cversion  the number of children that were ever created
owner     0, the id of the owning session, or a value that marks a container or TTL node: see below
children  the number of children that exist
"""

DATA: Final[Literal[0]] = 0
ACL: Final[Literal[1]] = 1
CZXID: Final[Literal[2]] = 2
MZXID: Final[Literal[3]] = 3
CTIME: Final[Literal[4]] = 4
MTIME: Final[Literal[5]] = 5
VERSION: Final[Literal[6]] = 6
CVERSION: Final[Literal[7]] = 7
AVERSION: Final[Literal[8]] = 8
OWNER: Final[Literal[9]] = 9
PZXID: Final[Literal[10]] = 10
CHILDREN: Final[Literal[11]] = 11

EMPTY_ROOT: Final[Znode] = (b"", OPEN, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

CONTAINER: Final = -(1 << 63)
"""The owner of a container: the sign bit alone, which is not the id of any session."""

TTL_MAX: Final = (1 << 40) - 1
_TTL: Final = -(1 << 56)
"""The owner of a TTL node is this number plus its TTL in ms: 0xff, sixteen zero bits, 40 bits for the TTL.

No session id begins with 0xff.
"""

INT_MAX: Final = 0x7FFF_FFFF
INT_MIN: Final = -0x8000_0000


def int32(value: int) -> int:
    """Wrap around as Java's int does."""
    return value if INT_MIN <= value <= INT_MAX else (value - INT_MIN & 0xFFFF_FFFF) + INT_MIN


def ttl_owner(ttl: int) -> int:
    return _TTL + ttl


def ttl_of(owner: int) -> int | None:
    return owner - _TTL if _TTL < owner <= _TTL + TTL_MAX else None


def is_session(owner: int) -> bool:
    """Return whether this owner makes a node ephemeral."""
    return owner != 0 and owner != CONTAINER and not _TTL < owner <= _TTL + TTL_MAX


class Stat(NamedTuple):
    """The stat that clients receive; the fields are in the protocol's order.

    `cversion` counts the creations and deletions of children, as clients expect, though only creations are stored.

    czxid, mzxid, pzxid  the zxids that created the node, last set its data, and last created or deleted a child
    ctime, mtime         the times of its creation and of the last set, in ms since 1970
    version, aversion    the numbers of changes of its data and of its ACL
    ephemeral_owner      the session of an ephemeral node; for a container or a node with a TTL, a number that says so
    data_length          bytes of data
    num_children         the number of its children
    """

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


def stat_fields(node: Znode) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:
    """Return the values of a `Stat` as a plain tuple, which costs less than a `Stat`."""
    data, _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, children = node
    cversion += cversion - children
    if not INT_MIN <= cversion <= INT_MAX:
        cversion = int32(cversion)
    if owner and not is_session(owner):
        owner = 0
    return (
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner,
        0 if data is None else len(data), children, pzxid,
    )  # fmt: skip


def stat_of(node: Znode) -> Stat:
    return Stat(*stat_fields(node))
