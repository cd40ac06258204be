"""The interfaces of a client connection: to the server that it belongs to, and to the shell that moves its bytes.

`ServerPort` is shared by all connections of a server; `ShellPort` is one connection's own. In production the shell owns
the socket and the tasks (`zab.runtime.store_server.connection_shell`), in simulation it uses a network on virtual time.
Calls never block: an operation that takes longer calls a `Done` with its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, Protocol, TypeAlias

from zab.core.zxid import ServerId
from zab.service.authentication import IdentitySettings
from zab.service.counts import Counts
from zab.service.inner_bounds import InnerBounds
from zab.service.local_sessions import LocalSessions
from zab.service.session_tracker import SessionOpening
from zab.service.throttle import RequestTotals, Throttles, ThrottleSettings
from zab.store.acl import Identity
from zab.store.operations import Fields
from zab.store.store import Store
from zab.wire.client.client_frames import Command

Done: TypeAlias = Callable[[Any, Exception | None], None]
"""(result, error): called once, in the event loop, perhaps before the call that it belongs to returns.

A `ShellPort` may drop it if the connection ends first.
"""


class ConnectionPhase(IntEnum):
    """The phase of a connection. It only goes forward."""

    FIRST_FRAME = 0
    """Waiting for the first frame: a ConnectRequest or a four-letter word."""
    ARRIVING = 1
    """Its session is being created, or attached to this connection."""
    SERVING = 2
    """Requests are taken and answered."""
    LEAVING = 3
    """The client's last request was taken. It, earlier ones and pings are still answered; nothing more is taken."""
    CLOSING = 4
    """The frames in the send buffer are sent, then the connection is closed. No more requests are answered."""
    OVER = 5
    """The connection is closed, or about to be: no more bytes are sent."""


class ConnectionSettings(IdentitySettings, Protocol):
    """The settings of `ClientPortSettings` that a connection reads."""

    @property
    def frame_bytes_max(self) -> int: ...
    @property
    def first_frame_ms(self) -> int: ...
    @property
    def requests_max(self) -> int: ...
    @property
    def requests_total_max(self) -> int: ...
    @property
    def watches_per_client_max(self) -> int: ...
    @property
    def watches_max(self) -> int: ...
    @property
    def multi_read_bytes_max(self) -> int: ...
    @property
    def unsent_bytes_max(self) -> int: ...
    @property
    def unsent_bytes_cut(self) -> int: ...
    @property
    def throttle(self) -> ThrottleSettings: ...
    @property
    def local_sessions_enabled(self) -> bool: ...
    @property
    def local_sessions_upgrading_enabled(self) -> bool: ...
    @property
    def read_only_mode_enabled(self) -> bool: ...
    def timeout_ms(self, asked_ms: int) -> int: ...


class EventLog(Protocol):
    def say(self, event: str, level: str = "info", /, **fields: object) -> None: ...
    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None: ...


class AuditLog(Protocol):
    def authenticated(self, session: int, identities: Iterable[Identity], ip: str, scheme: str, held: bool) -> None: ...
    def reconfigured(self, session: int, identities: Iterable[Identity], ip: str, allowed: bool) -> None: ...
    def reporter(self, session: int, identities: Iterable[Identity], ip: str, op: int, body: bytes) -> Done | None: ...
    def session_ended(self, session: int, owned: Iterable[str]) -> None: ...


class TurnWatch(Protocol):
    def turn(self, cause: Callable[[], str]) -> AbstractContextManager[object]:
        """Time one turn; `cause` is called only if it stalls."""


class Openings(Protocol):
    """The clients whose session is being created or attached: see `SessionTracker`."""

    def begin_opening(self, opening: SessionOpening, timeout_ms: int, now: int) -> None: ...
    def end_opening(self, opening: SessionOpening) -> None: ...


class EventFrame(Protocol):
    """A watch event, encoded once for all connections that receive it."""

    @property
    def frame(self) -> bytes: ...


class Sessions(Protocol):
    """The part of `ClientSessions` that a connection uses."""

    @property
    def local(self) -> LocalSessions: ...
    def knows(self, session: int) -> bool: ...
    def password(self, session: int) -> bytes: ...
    def find_read_only(self, session: int, password: bytes | None) -> int | None:
        """Return the timeout of the session; None if this server's tables lack it, or if the password is wrong.

        The leader is not asked.
        """

    def attach(self, client: Any) -> None:
        """Make this the session's client, to be disconnected if the session ends or moves. Disconnect an older one."""

    def detach(self, client: Any) -> None: ...
    def upgrade(self, session: int) -> None:
        """Upgrade a local session to a global session. The upgrade precedes all requests posted after this call."""


class RequestPort(Protocol):
    """The path of requests to the leader."""

    def post(self, request: bytes, done: Done) -> None:
        """Submit a request. Requests keep the order of the calls."""

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        """Submit requests in their order; `done` is called for each."""

    def postpone(self, do: Callable[[], None]) -> None:
        """Call `do` after other tasks have run."""


class ServerPort(Protocol):
    """The part of a server that its connections use: `ClientService`."""

    ready: bool
    """True if all clients may read the state: see `ClientService`."""

    def has_reached(self, zxid: int) -> bool:
        """Return whether the state is at least as new as one with this zxid."""

    @property
    def me(self) -> ServerId: ...
    @property
    def machine(self) -> Store: ...
    @property
    def settings(self) -> ConnectionSettings: ...
    @property
    def bounds(self) -> InnerBounds: ...
    @property
    def log(self) -> EventLog: ...
    @property
    def audit(self) -> AuditLog | None: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def totals(self) -> RequestTotals: ...
    @property
    def throttles(self) -> Throttles: ...
    @property
    def requests(self) -> RequestPort: ...
    @property
    def requests_watchdog(self) -> TurnWatch: ...
    @property
    def tracker(self) -> Openings: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def connections(self) -> MutableMapping[Any, None]:
        """All connections that have a session."""


class ShellPort(Protocol):
    """The shell of one connection: it carries out the connection's effects."""

    def output_ready(self) -> None:
        """Send after this turn of the server.

        Called when a reply or an event is put into the empty send buffer, and when the connection is to close after
        its replies. Not called within `receive`: the shell always sends after it.
        """

    def wake(self) -> None:
        """Check the connection again: its phase or deadline has changed, or `advance` can take held requests."""

    def answer_command(self, command: Command) -> bytes:
        """Return the answer to a four-letter word."""

    def when_readable(self, done: Done) -> None:
        """Wait until the state may be read. The result is True if there is no leader: then no write is possible."""

    def barrier(self, done: Done) -> None:
        """Wait until everything is applied here that was committed before the call."""

    def sync(self, session: int, done: Done) -> None:
        """Wait for a barrier. The leader first receives a report that the session is active."""

    def create_session(self, timeout_ms: int, done: Done) -> None:
        """Create a session. The result is its id. A session created after the connection has ended is closed again."""

    def create_local_session(self, timeout_ms: int, read_only: bool, done: Done) -> None:
        """Create a session that only this server knows. The result is its id."""

    def attach_session(self, session: int, password: bytes | None, done: Done) -> None:
        """Attach a session. The result is its timeout, or None if there is no such session with this password."""

    def change_membership(self, fields: Fields, done: Done) -> None:
        """Change the membership. The result is an error code, and the configuration node or None."""
