"""Check the arguments of operations, and combine several operations in one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Self, TypeAlias

from zab.core.errors import RemoteProtocolError
from zab.session.session_errors import SHOWN_MAX, BadArguments, StoreError, as_shown, refused
from zab.store.acl import OPEN, Acl, is_encodable, is_text
from zab.store.error_codes import ErrorCode
from zab.store.operations import ANY_VERSION, CreateFlag, Fields, Op
from zab.store.znode import INT_MAX, INT_MIN, Stat

Parts: TypeAlias = Iterable[tuple[int, Any]]
"""The parts of a reply, one for each operation: (op, value), or (`Op.ERROR`, code) without a result."""

_WITH_STAT: Final = frozenset({Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL})
LONG: Final = 1 << 63
_ROLLED_BACK: Final = (0, ErrorCode.RUNTIME_INCONSISTENCY)


def path_of(path: str) -> str:
    """Return the path if it is text, can be encoded and begins with /; raise otherwise. The store checks the rest."""
    if not isinstance(path, str):
        raise TypeError(f"a path must be text, not {type(path).__name__}")
    if not is_text(path):
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, as_shown(path), "it contains a lone surrogate")
    if not path.startswith("/"):
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, repr(path[:SHOWN_MAX]), "a path must begin with /")
    return path


def data_of(data: bytes | None) -> bytes | None:
    if data is not None and type(data) is not bytes:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes or None, not {type(data).__name__}")
        return bytes(data)
    return data


def ttl_of(ttl_ms: int) -> int:
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int):
        raise TypeError(f"ttl_ms must be a whole number of milliseconds, not {type(ttl_ms).__name__}")
    if not -LONG <= ttl_ms < LONG:
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, f"ttl_ms {ttl_ms}", "it does not fit into 64 bits")
    return ttl_ms


def config_version_of(version: int) -> int:
    """Return the version of a membership, which is a zxid; raise if it is invalid."""
    if not isinstance(version, int):
        raise TypeError(f"a version must be a whole number, not {type(version).__name__}")
    if not -LONG <= version < LONG:
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, f"version {version}", "it does not fit into 64 bits")
    return version


def version_of(version: int) -> int:
    if not isinstance(version, int):
        raise TypeError(f"a version must be a whole number, not {type(version).__name__}")
    if not INT_MIN <= version <= INT_MAX:
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, f"version {version}", "it does not fit into 32 bits")
    return version


def acl_of(acl: Acl) -> Acl:
    if acl is OPEN:
        return acl
    try:
        entries: tuple[Any, ...] = tuple(acl)
        for permissions, scheme, identity in entries:
            if not (isinstance(permissions, int) and isinstance(scheme, str) and isinstance(identity, str)):
                raise ValueError
    except (TypeError, ValueError):
        raise TypeError(
            f"acl must be a sequence of (permissions, scheme, identity), like zab.OPEN_ACL, not {acl!r}"
        ) from None
    for entry in entries:
        if not is_encodable(entry):
            why = "its permissions do not fit into 32 bits, or its text contains a lone surrogate"
            raise BadArguments(ErrorCode.BAD_ARGUMENTS, f"the ACL entry {entry!r}", why)
    return entries


def create_request(
    path: str,
    data: bytes | None,
    acl: Acl,
    *,
    ephemeral: bool = False,
    sequential: bool = False,
    container: bool = False,
    ttl_ms: int | None = None,
    stat: bool = False,
) -> tuple[Op, Fields]:
    if container + (ttl_ms is not None) + ephemeral > 1 or (container and sequential):
        why = "a node can be only one of ephemeral, container and TTL; and a container cannot be sequential"
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, as_shown(path_of(path)), why)
    path, data, acl = path_of(path), data_of(data), acl_of(acl)
    if container:
        return Op.CREATE_CONTAINER, (path, data, acl, int(CreateFlag.CONTAINER))
    if ttl_ms is not None:
        flags = CreateFlag.PERSISTENT_SEQUENTIAL_TTL if sequential else CreateFlag.PERSISTENT_TTL
        return Op.CREATE_TTL, (path, data, acl, int(flags), ttl_of(ttl_ms))
    return Op.CREATE2 if stat else Op.CREATE, (path, data, acl, ephemeral + 2 * sequential)


class Multi:
    """Operations that succeed or fail together, for `Session.multi`. Each one sees the effects of those before it.

    The methods add an operation and return this object, so that calls can be chained. They check their arguments at
    once: an invalid one raises `BadArguments`, or `TypeError` if its type is wrong.
    """

    def __init__(self) -> None:
        self.operations: list[tuple[int, Fields]] = []

    def __len__(self) -> int:
        return len(self.operations)

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
        acl: Acl = OPEN,
    ) -> Self:
        """Add the creation of a node. The arguments are those of `Session.create`; the result is the path."""
        self.operations.append(
            create_request(
                path, data, acl, ephemeral=ephemeral, sequential=sequential, container=container, ttl_ms=ttl_ms
            )
        )
        return self

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Self:
        """Add a replacement of a node's data. The node must be at `version` (-1: any). The result is the new `Stat`."""
        self.operations.append((Op.SET_DATA, (path_of(path), data_of(data), version_of(version))))
        return self

    def delete(self, path: str, version: int = ANY_VERSION) -> Self:
        """Add a deletion of a node without children. The node must be at `version` (-1: any). The result is None."""
        self.operations.append((Op.DELETE, (path_of(path), version_of(version))))
        return self

    def check(self, path: str, version: int) -> Self:
        """Add the condition that a node exists and is at `version` (-1: any). The result is None."""
        self.operations.append((Op.CHECK, (path_of(path), version_of(version))))
        return self


class MultiRead:
    """Reads that are answered together, at one zxid, for `Session.read_many`. Each of them may fail alone.

    The methods add a read and return this object, so that calls can be chained.
    """

    def __init__(self) -> None:
        self.operations: list[tuple[int, Fields]] = []

    def __len__(self) -> int:
        return len(self.operations)

    def get(self, path: str) -> Self:
        """Add the reading of a node. The result is its data and its `Stat`."""
        self.operations.append((Op.GET_DATA, (path_of(path), False)))
        return self

    def children(self, path: str) -> Self:
        """Add the listing of a node's children. The result is their names, in no particular order."""
        self.operations.append((Op.GET_CHILDREN, (path_of(path), False)))
        return self


def done_by_multi(operations: Multi, parts: Parts) -> list[str | Stat | None]:
    """Return each operation's result: the created path, the new stat, or None. Raise the error of the failed one."""
    found: list[str | Stat | None] = []
    for index, (op, value) in enumerate(parts):
        if op == Op.ERROR:
            if value not in _ROLLED_BACK:
                asked, fields = operations.operations[index]
                raise refused(value, asked, fields, fields[0], index=index)
            continue
        found.append(value[0] if op in _WITH_STAT else value)
    return found


def read_by_multi(reads: MultiRead, parts: Parts) -> list[tuple[bytes | None, Stat] | list[str] | StoreError]:
    found = list(parts)
    if len(found) != len(reads):
        raise RemoteProtocolError(f"the server sent {len(found)} answers to {len(reads)} reads")
    return [
        refused(value, asked, fields, fields[0]) if op == Op.ERROR else value
        for (asked, fields), (op, value) in zip(reads.operations, found, strict=True)
    ]


_CREATES: Final = frozenset({Op.CREATE, Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL})


def with_acls(op: int, fields: Fields, acl: Callable[[str], Acl]) -> Fields:
    """Return the fields, with `acl(path)` in place of the default ACL of each node that the request creates."""
    if op == Op.MULTI:
        return tuple((one, with_acls(one, of, acl)) for one, of in fields)
    if op in _CREATES and fields[2] is OPEN:
        path, data, _, *rest = fields
        return (path, data, acl_of(acl(path)), *rest)
    return fields
