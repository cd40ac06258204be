"""The calls of the clients of a run and their replies: the record that the checkers judge and the pipeline stores.

The same record comes out of every world. It is one list, in the order in which things were seen from outside: for
any one client that order is the truth (it saw the event before the reply); between clients only the times count.
What the servers decided stands beside it, in the order of zxids: a lost reply is explained by what was committed,
and an expired session by the transaction that closed it.

`harness.checkers.store` relies on what is said here, and so does whoever stores or draws a history.
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
    "setacl",
    "getacl",
)
MODES: Final = ("", "sequential", "ephemeral", "ephemeral sequential", "container", "ttl")
"""How a node is created; the empty one is persistent."""
WATCHES: Final = ("", "once", "persistent", "recursive", "data", "children")
"""The last two are of `unwatch` alone: watches for once, of which the protocol has two kinds. One that is said to be of
those for `once` was of one of both."""


@frozen
class Request:
    op: str
    path: str = ""
    data: bytes | None = None
    version: int = -1
    mode: str = ""
    watch: str = ""
    """What watch a read leaves behind (`once`), or which one `watch` and `unwatch` are about (`unwatch` of an empty
    one is about all)."""
    parts: tuple[Request, ...] = ()
    """Of a multi."""
    acl: str = ""
    """create, setacl: the list in words, as `harness.lists` has them; empty is open to all."""
    user: str = ""
    """Who the connection had proved to be on which it was asked."""


@frozen
class Stat:
    """As clients are shown it: `cversion` counts creations and deletions, `owner` is a session or 0."""

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
    """`error` is its name in `zab.store.error_codes.ErrorCode`, and empty when it was done. Of the rest, what that
    operation answers: `stat` of a set, setacl, get, getacl or exists, `data` of a get, `acl` of a getacl (in words),
    `children` in any order, and `path` as it was created.

    A multi that was refused says so in its `parts`, each with an error of its own or none (the header has none).
    """

    error: str = ""
    zxid: int = 0
    """As in the reply's header: for a write its own (also when it was refused: that is a transaction, too), for a read
    that of the state from which it was answered. 0: not known."""
    path: str = ""
    data: bytes | None = None
    stat: Stat | None = None
    children: tuple[str, ...] | None = None
    parts: tuple[Reply, ...] = ()
    acl: str | None = None


# -- what was seen -------------------------------------------------------------------------------------


@frozen
class Invoke:
    """Right before the request left. What was asked first on a connection stands first."""

    at: int
    """Microseconds since the run began."""
    client: int
    session: int
    call: int
    """Its number, another one for each call of the run."""
    server: int
    request: Request


@frozen
class Response:
    at: int
    client: int
    session: int
    call: int
    reply: Reply


@frozen
class Info:
    """No reply will come: whether it was carried out is unknown."""

    at: int
    client: int
    session: int
    call: int


@frozen
class WatchFired:
    """A watch's event reached the client: one for each that came over the connection, however many wait for it."""

    at: int
    client: int
    session: int
    event: str
    """One of `FIRED`."""
    path: str
    zxid: int
    """Of the change; below 1 if it is not said, as of what was missed and is told after a reconnection."""


FIRED: Final = ("created", "deleted", "data", "children")
STATES: Final = ("connected", "disconnected", "expired", "closed")
SERVED: Final = ("", "local", "read-only")
"""How a server serves a session. Of a local one, and of one that only reads, other servers may know nothing."""


@frozen
class SessionEvent:
    """The client learned what its session is now.

    A session is `connected` before anything is asked on a connection, and once for each. One that is connected again
    has been taken to `server`, and sends the watches that it still has (SetWatches) before anything else.
    """

    at: int
    client: int
    session: int
    state: str
    server: int
    timeout_ms: int
    watches: tuple[tuple[str, str], ...] | None = None
    """connected: what it watches still, as (data, exist, child, persistent or recursive, path), where that is not all
    that it was told: somebody may have lost interest while there was no connection. None: all of it."""
    user: str = ""
    """connected: who it proves to be there, before anything else."""
    served: str = ""
    """connected: one of `SERVED`. A local session may be one of the whole ensemble by now; a transaction says so."""


Event: TypeAlias = Invoke | Response | Info | WatchFired | SessionEvent
EVENTS: Final[tuple[type[Event], ...]] = (Invoke, Response, Info, WatchFired, SessionEvent)


# -- what was decided ----------------------------------------------------------------------------------


CHANGES: Final = ("create", "set", "delete", "open", "close", "attach", "setacl", "other", "error")


@frozen
class Change:
    """One committed transaction, or one part of a multi, as the log of the servers has it.

    create, set, delete
    setacl                a list takes the place of another one
    open, close, attach   a session begins, ends, or comes back, perhaps at another server
    error                 a request that was refused: one change, also for a multi
    other                 whatever else has a zxid, a `check` in a multi or a change of the membership among it
    """

    zxid: int
    session: int
    """Whose request it was, or whose session it is about; 0 if servers did it on their own account."""
    kind: str
    """One of `CHANGES`."""
    path: str = ""
    data: bytes | None = None
    version: int = 0
    """set: the node's version after it; setacl: that of its list"""
    owner: int = 0
    """create: the session that an ephemeral node belongs to"""
    gone: tuple[str, ...] = ()
    """close: the ephemeral nodes that went with it"""
    part: int = 0
    """Its place in a multi."""
    acl: str = ""
    """create, setacl: the list as it stands on the node."""
    mode: str = ""
    """create: container or ttl, if servers may take it away."""


@frozen
class Jump:
    """A server that went on with the state of a snapshot that it was sent, while clients may have stayed attached.

    They are told of changes in between only as far as the two states differ.
    """

    server: int
    zxid: int
    """Of the snapshot."""


@frozen
class History:
    events: tuple[Event, ...] = ()
    changes: tuple[Change, ...] = ()
    """In the order of zxids; all that were ever committed, up to the end of the run."""
    jumps: tuple[Jump, ...] | None = None
    """None: a world that cannot see them. Then any server may have jumped at any time, and less can be judged."""
