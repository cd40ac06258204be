"""The history of the clients of a run: their calls, the replies, and the events that the checkers verify.

Every simulated and real system of the harness records the same history. The events are one list. For one client, the
order of the list is the order in which it saw the events; between clients only the times count. The committed changes
are a second list, in the order of zxids. They explain a lost reply (the transaction was committed or not) and an
expired session (a transaction closed it).

`harness.checkers.store` and the storage formats (`history_json`, `history_rows`) rely on these definitions.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from zab.core.frozen import frozen

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
"""The modes of a creation. The empty one is persistent."""
WATCHES: Final = ("", "once", "persistent", "recursive", "data", "children")
"""The kinds of watches. `data` and `children` are the two kinds of one-shot watches in the protocol, and only `unwatch`
names them. `once` means a one-shot watch of either kind."""


@frozen
class Request:
    op: str
    path: str = ""
    data: bytes | None = None
    version: int = -1
    mode: str = ""
    watch: str = ""
    """The watch that a read sets (`once`), that `watch` adds, or that `unwatch` removes (empty: all of the path)."""
    parts: tuple[Request, ...] = ()
    """The requests in a multi."""
    acl: str = ""
    """create, setacl: the ACL in the words of `harness.lists`. Empty: open to all."""
    user: str = ""
    """The user that the connection had authenticated."""


@frozen
class Stat:
    """The stat of a node, as clients receive it. `cversion` counts creations and deletions; `owner` is a session or
    0."""

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
    """The reply to a request. `error` is a name in `zab.store.error_codes.ErrorCode`, or empty for success.

    The other fields depend on the operation: `stat` for set, setacl, get, getacl and exists, `data` for get, `acl` (in
    words) for getacl, `children` in any order, and `path` of the created node. A refused multi has its errors in
    `parts`, one or none for each part; its header has no error.
    """

    error: str = ""
    zxid: int = 0
    """The zxid in the reply's header. For a write, also a refused one: its transaction. For a read: the state that it
    shows. 0: unknown."""
    path: str = ""
    data: bytes | None = None
    stat: Stat | None = None
    children: tuple[str, ...] | None = None
    parts: tuple[Reply, ...] = ()
    acl: str | None = None


# -- events of clients ---------------------------------------------------------------------------------


@frozen
class Invoke:
    """A client is about to send a request. Requests of one connection are in the order of sending."""

    at: int
    """The time in microseconds since the run began."""
    client: int
    session: int
    call: int
    """The number of the call, unique in the run."""
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
    """No reply will come. The outcome of the call is unknown to the client."""

    at: int
    client: int
    session: int
    call: int


@frozen
class WatchFired:
    """A client received a watch event. Each event on the connection is recorded once, for any number of watchers."""

    at: int
    client: int
    session: int
    event: str
    """The kind of the event, one of `FIRED`."""
    path: str
    zxid: int
    """The zxid of the change. Below 1: unknown, as in events that a server sends after a reconnection."""


FIRED: Final = ("created", "deleted", "data", "children")
STATES: Final = ("connected", "disconnected", "expired", "closed")
SERVED: Final = ("", "local", "read-only")
"""The ways in which a server serves a session. Other servers may not know local and read-only sessions."""


@frozen
class SessionEvent:
    """A client learned the new state of its session.

    Each connection has one event `connected`, before its requests. A session that connects again has moved to `server`,
    and sends its remaining watches (SetWatches) before all other requests.
    """

    at: int
    client: int
    session: int
    state: str
    server: int
    timeout_ms: int
    watches: tuple[tuple[str, str], ...] | None = None
    """connected: the watches that the client still has, as (kind, path), where kind is data, exist, child, persistent
    or recursive. The client may have removed some while it was disconnected. None: all watches that it has set."""
    user: str = ""
    """connected: the user that the client authenticates before its first request."""
    served: str = ""
    """connected: one of `SERVED`. A local session may have been upgraded since then; its transaction shows that."""


Event: TypeAlias = Invoke | Response | Info | WatchFired | SessionEvent
EVENTS: Final[tuple[type[Event], ...]] = (Invoke, Response, Info, WatchFired, SessionEvent)


# -- committed changes ---------------------------------------------------------------------------------


CHANGES: Final = ("create", "set", "delete", "open", "close", "attach", "setacl", "other", "error")


@frozen
class Change:
    """One committed transaction, or one part of a multi, from the servers' log.

    create, set, delete
    setacl                replaces the ACL of a node
    open, close, attach   a session begins, ends, or reconnects, perhaps to another server
    error                 a refused request: one change, also for a multi
    other                 any other transaction, such as a membership change, or a `check` in a multi
    """

    zxid: int
    session: int
    """The session of the request, or the session that begins or ends. 0: a change by the servers themselves."""
    kind: str
    """The kind of the change, one of `CHANGES`."""
    path: str = ""
    data: bytes | None = None
    version: int = 0
    """set: the node's new version. setacl: the new version of its ACL."""
    owner: int = 0
    """create: the session that owns an ephemeral node."""
    gone: tuple[str, ...] = ()
    """close: the ephemeral nodes that were deleted with the session."""
    part: int = 0
    """The index of the change in a multi."""
    acl: str = ""
    """create, setacl: the ACL of the node."""
    mode: str = ""
    """create: container or ttl, if servers may delete the node."""


@frozen
class Jump:
    """A server replaced its state by a snapshot that it received, while clients may have stayed connected.

    These clients receive events for the difference of the two states, and not for each change in between.
    """

    server: int
    zxid: int
    """The zxid of the snapshot."""


@frozen
class History:
    events: tuple[Event, ...] = ()
    changes: tuple[Change, ...] = ()
    """All changes that were committed up to the end of the run, in the order of zxids."""
    jumps: tuple[Jump, ...] | None = None
    """None: the system cannot report jumps. Any server may have jumped at any time, and the checkers find less."""
