"""What the clients of a run did and were told: the record that the checkers judge and the pipeline stores.

The same record comes out of every world. It is one list, in the order in which things were seen from outside: for
any one client that order is the truth (it saw the event before the reply); between clients only the times count.
What the servers decided stands beside it, in the order of zxids: a lost reply is explained by what was committed,
and an expired session by the transaction that closed it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

OPERATIONS: Final = (
    "create",
    "set",
    "delete",
    "get",
    "exists",
    "children",
    "sync",
    "check",
    "multi",
    "watch",
    "unwatch",
)
MODES: Final = ("", "sequential", "ephemeral", "ephemeral sequential", "container", "ttl")
"""How a node is created; the empty one is persistent."""
WATCHES: Final = ("", "once", "persistent", "recursive")


@frozen
class Request:
    op: str
    path: str = ""
    data: bytes | None = None
    version: int = -1
    mode: str = ""
    watch: str = ""
    """What watch a read leaves behind, or which one `watch` and `unwatch` are about."""
    parts: tuple[Request, ...] = ()


@frozen
class Stat:
    czxid: int
    mzxid: int
    pzxid: int
    version: int
    cversion: int
    aversion: int
    owner: int
    length: int
    children: int


@frozen
class Reply:
    """`error` is ZooKeeper's name for it, and empty when it was done. Of the rest, what that operation answers."""

    error: str = ""
    zxid: int = 0
    """As in the reply's header: for a write its own, for a read that of the state from which it was answered."""
    path: str = ""
    data: bytes | None = None
    stat: Stat | None = None
    children: tuple[str, ...] | None = None
    parts: tuple[Reply, ...] = ()


# -- what was seen -------------------------------------------------------------------------------------


@frozen
class Asked:
    at: int
    """Microseconds since the run began."""
    client: int
    session: int
    call: int
    """Its number, another one for each call of the run."""
    server: int
    request: Request


@frozen
class Told:
    at: int
    client: int
    session: int
    call: int
    reply: Reply


@frozen
class Lost:
    """No reply will come: whether it was carried out is unknown."""

    at: int
    client: int
    session: int
    call: int


@frozen
class Fired:
    """A watch's event reached the client."""

    at: int
    client: int
    session: int
    event: str
    """created, deleted, data or children"""
    path: str
    zxid: int


STATES: Final = ("connected", "disconnected", "expired", "closed")


@frozen
class Became:
    """The client learned what its session is now. A session that is connected again has been taken to `server`."""

    at: int
    client: int
    session: int
    state: str
    server: int
    timeout_ms: int


Event: TypeAlias = Asked | Told | Lost | Fired | Became
EVENTS: Final[tuple[type[Event], ...]] = (Asked, Told, Lost, Fired, Became)


# -- what was decided ----------------------------------------------------------------------------------


@frozen
class Change:
    """One committed transaction, or one part of a multi, as the log of the servers has it.

    kind: create, set, delete, open (a session), close (a session), attach (a session moved), other, or error (refused).
    """

    zxid: int
    session: int
    kind: str
    path: str = ""
    data: bytes | None = None
    version: int = 0
    owner: int = 0
    """create: the session that an ephemeral node belongs to"""
    gone: tuple[str, ...] = ()
    """close: the ephemeral nodes that went with it"""
    part: int = 0
    """Its place in a multi."""


@frozen
class History:
    events: tuple[Event, ...] = ()
    changes: tuple[Change, ...] = ()
    """In the order of zxids; all that were ever committed, up to the end of the run."""
