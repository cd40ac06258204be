"""A session that works under a root: its `/` is another node to the server (ZooKeeper calls it chroot).

Requests are moved below the root before they are sent; what comes back is moved out of it again.
"""

from __future__ import annotations

from typing import Any, Final

from zab.store.operations import CREATES, CreateFlag, Fields, Op
from zab.store.paths import ROOT

_NUMBERED: Final = frozenset({
    CreateFlag.PERSISTENT_SEQUENTIAL, CreateFlag.EPHEMERAL_SEQUENTIAL, CreateFlag.PERSISTENT_SEQUENTIAL_TTL,
})  # fmt: skip
_CREATED: Final = frozenset({Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL})


def path_below(root: str, path: str) -> str:
    return root if path == ROOT else root + path


def path_out_of(root: str, path: str) -> str:
    """Return the path as the client sees it. A path outside the root stays as it is: the configuration node is one for
    all.
    """
    if path == root:
        return ROOT
    return path[len(root) :] if path.startswith(f"{root}/") else path


def fields_below(root: str, op: int, fields: Fields) -> Fields:
    if op in (Op.MULTI, Op.MULTI_READ):
        return tuple((each, fields_below(root, each, parts)) for each, parts in fields)
    if op in (Op.RECONFIG, Op.WHO_AM_I, Op.CLOSE_SESSION):
        return fields
    if op == Op.GET_EPHEMERALS:
        return (root + fields[0],)  # a prefix, not a path: "/" must stand for all that is below
    if op in CREATES and fields[0] == ROOT and fields[3] in _NUMBERED:
        return (f"{root}/", *fields[1:])  # a child without a name but its number, not a sibling of the root
    return path_below(root, fields[0]), *fields[1:]


def value_out_of(root: str, op: int, value: Any) -> Any:
    if op in (Op.CREATE, Op.SYNC):
        return path_out_of(root, value)
    if op in _CREATED:
        return path_out_of(root, value[0]), value[1]
    if op == Op.GET_EPHEMERALS:
        return [path_out_of(root, path) for path in value]
    if op == Op.MULTI:
        return [(each, value_out_of(root, each, part)) for each, part in value]
    return value
