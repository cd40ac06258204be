"""The root of a session, as ZooKeeper's chroot: the session's `/` is another node at the server.

The root is put before the paths of requests, and is removed from the paths of replies and events.
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
    """Return the path as the session sees it. A path outside of the root, like `/zookeeper/config`, is unchanged."""
    if path == root:
        return ROOT
    return path[len(root) :] if path.startswith(f"{root}/") else path


def fields_below(root: str, op: int, fields: Fields) -> Fields:
    """Return the fields of a request with the root in front of its paths."""
    if op in (Op.MULTI, Op.MULTI_READ):
        return tuple((each, fields_below(root, each, parts)) for each, parts in fields)
    if op in (Op.RECONFIG, Op.WHO_AM_I, Op.CLOSE_SESSION):
        return fields
    if op == Op.GET_EPHEMERALS:
        return (root + fields[0],)  # a prefix, not a path: "/" stands for every path below the root
    if op in CREATES and fields[0] == ROOT and fields[3] in _NUMBERED:
        return (
            f"{root}/",
            *fields[1:],
        )  # a child of the root: "/app" and a sequence number would name a sibling of the root
    return path_below(root, fields[0]), *fields[1:]


def value_out_of(root: str, op: int, value: Any) -> Any:
    """Return the value of a reply without the root in front of its paths."""
    if op in (Op.CREATE, Op.SYNC):
        return path_out_of(root, value)
    if op in _CREATED:
        return path_out_of(root, value[0]), value[1]
    if op == Op.GET_EPHEMERALS:
        return [path_out_of(root, path) for path in value]
    if op == Op.MULTI:
        return [(each, value_out_of(root, each, part)) for each, part in value]
    return value
