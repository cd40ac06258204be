"""Operations of the list and of the store, and the steps of requests of the store's clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from harness.script.names import LEADER
from harness.script.values import Among, Kind, Short, Value


@frozen
class Op:
    at: int


@frozen
class Write(Op):
    """Submit `count` transactions in one proposal, at every server that considers itself the leader."""

    count: int = 1
    size: int = 8


@frozen
class Invoke(Op):
    """Send a request to a user's machine, at this server. One at the end of the script is sent after all faults."""

    request: str = ""
    """The bytes as UTF-8. Other bytes are surrogates, as in `surrogateescape`."""
    server: int = LEADER


@frozen
class Barrier(Op):
    """Request a barrier of one server, in any role."""

    server: int = LEADER


@frozen
class Snapshot(Op):
    """The server stores its state, and purges the logs before it."""

    server: int = LEADER


@frozen
class Reconfigure(Op):
    """Request a membership change of every server that considers itself the leader, or by a client of the store."""

    change: str
    server: int


# -- clients of the store --------------------------------------------------------------------------------


@frozen
class Connect(Op):
    """The client begins a session at this server, or moves its session there."""

    client: int = 1
    server: int = 1
    timeout_ms: int = 1_000
    user: int = 0
    """The user as which the client authenticates; 0: the client keeps its identity."""
    late_ms: int = 0
    """The delay until the last server notices the end of the old connection. If it is not 0, the client makes a new
    connection even to the same server."""


@frozen
class Step:
    """One operation on the store. The data has `size` bytes, and is different each time."""

    op: str
    path: str = ""
    version: int = -1
    mode: str = ""
    watch: str = ""
    size: int = 8
    acl: str = ""
    """The ACL of a create or a setacl, as in `harness.lists`."""
    limits: str = ""
    """The quota that is the data of a create or a set, like `countHardLimit=4`."""


@frozen
class Ask(Op):
    """The client sends a request, also while others are outstanding. Several steps are one multi."""

    client: int = 1
    steps: tuple[Step, ...] = ()


@frozen
class Leave(Op):
    """The client closes its session."""

    client: int = 1


@frozen
class Vanish(Op):
    """The client's process is suspended and its connection breaks. Its session may expire meanwhile."""

    for_ms: int = 500
    client: int = 1


STORE_OPS: Final[tuple[type[Op], ...]] = (Write, Invoke, Barrier, Snapshot, Reconfigure, Connect, Ask, Leave, Vanish)


def request_text(request: bytes) -> str:
    return request.decode("utf-8", "surrogateescape")


def request_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def has_lists(ops: Iterable[Op]) -> bool:
    """Return True if a step sets an ACL."""
    return any(step.acl for op in ops if isinstance(op, Ask) for step in op.steps)


# -- the steps that generators draw ----------------------------------------------------------------------

CLIENTS_MAX: Final = 4
PARENTS: Final = ("/a", "/b")
CHILDREN: Final = ("/a/x", "/a/y", "/b/x", "/b/x/z")
PATHS: Final = (*PARENTS, *CHILDREN)
VERSION: Final = Among((-1, -1, -1, 0, 0, 1, 1, 2, 3))
"""Versions of nodes. Nodes change seldom, so a request often has the right version, and often a wrong one."""
SIZE: Final = Short(0, 60)


def _kind(weight: float, op: str | tuple[str, ...], paths: tuple[str, ...], **fields: Value | tuple[str, ...]) -> Kind:
    ops = (op,) if isinstance(op, str) else op
    values = {name: Among(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return Kind(weight, Step, {"op": Among(ops), "path": Among(paths), **values})


_CHANGES: Final = (
    _kind(2.0, "create", PATHS, size=SIZE),
    _kind(1.5, "create", CHILDREN, mode=("ephemeral",), size=SIZE),
    _kind(1.0, "create", ("/a/s-", "/b/s-"), mode=("sequential", "ephemeral sequential"), size=SIZE),
    _kind(3.0, "set", PATHS, version=VERSION, size=SIZE),
    _kind(1.0, "delete", (*CHILDREN, *CHILDREN, *PARENTS), version=VERSION),
)
STEPS: Final = (
    *_CHANGES,
    _kind(3.0, "get", PATHS, watch=("", "", "once")),
    _kind(1.0, "exists", PATHS, watch=("", "once")),
    _kind(1.2, "children", (*PARENTS, *PATHS), watch=("", "once")),
    _kind(0.5, "watch", PATHS, watch=("persistent", "recursive")),
    _kind(0.6, "unwatch", PATHS, watch=("", "data", "children", "persistent", "recursive")),
    _kind(0.7, "sync", PARENTS),
)
MULTI_STEPS: Final = (*_CHANGES, _kind(2.0, "check", PATHS, version=VERSION))
MULTI_MAX: Final = 4

FAMILIES: Final = tuple(
    (
        _kind(2.0, "create", (child,), size=SIZE),
        _kind(1.0, "create", (parent,), size=SIZE),
        _kind(2.0, "delete", (parent, parent, child)),
        _kind(1.0, "set", (parent, child), size=SIZE),
        _kind(1.0, ("children", "get", "exists"), (parent, child), watch=("once",)),
    )
    for parent, child in (("/a", "/a/x"), ("/b", "/b/x"), ("/b/x", "/b/x/z"))
)
"""Steps on a node and its child that are sent together, so that the check of each depends on the earlier ones."""
AT_ONCE_MAX: Final = 8

FLOODS: Final = {
    parent: (
        _kind(6.0, "set", tuple(path for path in PATHS if path.startswith(parent))),
        _kind(2.0, "create", (f"{parent}/s-",), mode=("sequential",)),
        _kind(1.0, ("create", "delete"), (f"{parent}/x",)),
    )
    for parent in PARENTS
}
"""Steps below a parent. Many are sent at one time, so that a server that is away needs a snapshot."""
FLOOD_MAX: Final = 40

BURSTS: Final = (
    *STEPS,
    _kind(1.0, "children", PARENTS),
    _kind(1.0, "children", ("/",)),
)
"""The kinds of requests of bursts; each burst has one kind. Listings are listed several times."""
BURST_WRITES: Final = (
    _kind(3.0, "set", PARENTS, size=SIZE),
    _kind(1.0, "create", ("/a/s-", "/b/s-"), mode=("sequential",), size=SIZE),
)
