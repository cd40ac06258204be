"""What is asked of the servers: by whoever replicates a list, and by clients of the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from attrs import frozen

from harness.script.brokers import BROKER_OPS, BrokerOp
from harness.script.names import LEADER
from harness.script.partitions import PARTITION_OPS, PartitionOp


@frozen
class Write:
    """`count` transactions in one proposal, at every server that believes it leads."""

    at: int
    count: int = 1
    size: int = 8


@frozen
class Invoke:
    """A request to a user's own machine, at this server. One at the end of the script is asked after the healing."""

    at: int
    request: str = ""
    """Its bytes as UTF-8. A byte that is none is a surrogate, as `surrogateescape` has it."""
    server: int = LEADER


@frozen
class Barrier:
    """Asked of one server, whatever it is at that moment."""

    at: int
    server: int = LEADER


@frozen
class Snapshot:
    """The server stores its state and purges what that makes superfluous."""

    at: int
    server: int = LEADER


@frozen
class Reconfigure:
    """A membership change, asked of every server that believes it leads, or by a client of the store."""

    at: int
    change: str
    server: int


# -- what clients of the store do; only where the replicated machine is the store ------------------------


@frozen
class Connect:
    """The client begins a session at this server, or takes the one that it has there."""

    at: int
    client: int = 1
    server: int = 1
    timeout_ms: int = 1_000
    user: int = 0
    """Who it proves to be from this connection on; 0: what it has proved before, if anything."""
    late_ms: int = 0
    """So much later the server hears of the end of the connection that it had; 0: as usual. Else it is a new one in any
    case, also at the same server."""


@frozen
class Step:
    """One operation on the store. `size` is that of the data, which is another one each time."""

    op: str
    path: str = ""
    version: int = -1
    mode: str = ""
    watch: str = ""
    size: int = 8
    acl: str = ""
    """Of a create or a setacl: who may do what, as `harness.lists` reads it."""
    limits: str = ""
    """Of a create or a set: the data is this, which limits a subtree, like `countHardLimit=4`."""


@frozen
class Ask:
    """The client asks, whether or not its last answer has come. Several steps are one multi, and there must be one."""

    at: int
    client: int = 1
    steps: tuple[Step, ...] = ()


@frozen
class Leave:
    """The client closes its session."""

    at: int
    client: int = 1


@frozen
class Vanish:
    """The client's process stands still, its connection breaks, and its session may well expire meanwhile."""

    at: int
    for_ms: int = 500
    client: int = 1


Op: TypeAlias = (
    Write | Invoke | Barrier | Snapshot | Reconfigure | Connect | Ask | Leave | Vanish | BrokerOp | PartitionOp
)
OPS: Final[tuple[type[Op], ...]] = (
    Write, Invoke, Barrier, Snapshot, Reconfigure, Connect, Ask, Leave, Vanish, *BROKER_OPS, *PARTITION_OPS,
)  # fmt: skip


def request_text(request: bytes) -> str:
    return request.decode("utf-8", "surrogateescape")


def request_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def has_lists(ops: Iterable[Op]) -> bool:
    """Whether any of them says who may do what."""
    return any(step.acl for op in ops if isinstance(op, Ask) for step in op.steps)
