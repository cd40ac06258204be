"""The sessions of a server's clients: how they are created, attached, upgraded and closed.

Global sessions change by transactions; a local session is known to one server only.

Creating or attaching a session may take several steps. Between them the server waits for a transaction, or until it has
applied everything that was committed before. Such an operation is a generator (`Steps`). The generator decides, and its
driver waits:

    steps = sessions.find(session, password)
    step = next(steps)                  # BARRIER, or the bytes of a request
    ...                                 # the driver waits for the barrier, or for the result of the request
    step = steps.send(result)           # the operation reads the result, and yields the next step
    ...                                 # until StopIteration: its value is the result of the operation

To give the operation up, for instance when the client is gone, the driver closes the generator. An operation that has
to undo something then catches `GeneratorExit`: `create` closes the session that may still be created.

There are two drivers, and neither decides anything. `ServerRuntime` awaits each step in a task. The simulator's client
port takes the next step in the callback of the last one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from attrs import frozen

from zab.core.zxid import Epoch, Millis, ServerId
from zab.service.attached import Attached
from zab.service.forwarding.pending_submissions import Done
from zab.service.local_sessions import LocalSessions
from zab.store.acl import encode_identities
from zab.store.operations import Fields, Op
from zab.store.request_format import INTERNAL, pack_body, pack_request
from zab.store.session_table import SessionIds
from zab.store.store import Store
from zab.wire.apache.session_passwords import session_password

SECRET_BYTES: Final = 32
REPLACED: Final = "the client is back on another connection"
_NO_IDENTITIES: Final = encode_identities(())

T = TypeVar("T")


@frozen
class Revalidate:
    """A step: let a leader of ZooKeeper attach the session to this server. The result is True if the session exists."""

    session: int
    timeout_ms: int


class SessionStep(Enum):
    """A step other than a request."""

    BARRIER = "barrier"
    """Wait until everything that was committed before this step is applied here."""


BARRIER: Final = SessionStep.BARRIER
Steps: TypeAlias = Generator[bytes | SessionStep | Revalidate, Any, T]
"""An operation of several steps. A request's step receives the result of `apply`; a barrier's step receives None."""


def ignore_result(result: object, error: Exception | None) -> None:
    """Ignore the outcome, for callers that do not wait for it."""


class ClientSessions:
    def __init__(
        self,
        me: ServerId,
        store: Store,
        ids: SessionIds,
        local: LocalSessions,
        post: Callable[[bytes, Done], None],
        random_bytes: Callable[[int], bytes],
        *,
        zookeeper: bool = False,
    ) -> None:
        """`zookeeper`: the ensemble speaks the protocol of ZooKeeper.

        Then passwords are computed without a secret, and no transaction attaches a session.
        """
        self.attached: dict[int, Attached] = {}
        """session -> its client at this server: a connection, or a session in this process"""
        self.local = local
        """The sessions that only this server knows, including those that are being upgraded."""
        self._me = me
        self._store = store
        self._ids = ids
        self._post = post
        self._random_bytes = random_bytes
        self._zookeeper = zookeeper

    @property
    def table(self) -> Mapping[int, tuple[int, int]]:
        """Every global session: its timeout in milliseconds, and the server that it is attached to."""
        return self._store.sessions.table

    def internal_request(self, op: Op, fields: Fields, session: int = 0) -> bytes:
        """Return a request of the server itself, which no ACL restricts."""
        return pack_request(op, pack_body(fields), session, 0, self._me, _NO_IDENTITIES, INTERNAL)

    def _secret_request(self) -> bytes:
        """Return a request that sets the secret from which session passwords are made. Only the first has an effect."""
        return self.internal_request(Op.SET_SECRET, (self._random_bytes(SECRET_BYTES),))

    # -- creation ----------------------------------------------------------------------------------

    def create(self, timeout_ms: int) -> Steps[int]:
        """Create a global session, and return its id."""
        if not self._store.sessions.secret and not self._zookeeper:
            self._post(self._secret_request(), ignore_result)
        session = self._ids.next()
        try:
            _, error, *_ = yield self.internal_request(Op.CREATE_SESSION, (timeout_ms,), session)
        except GeneratorExit:
            self.close(session)  # requests keep their order: this one follows the creation
            raise
        assert not error, f"session {session:#x} was given out twice"
        return session

    def create_local(self, timeout_ms: int, now: Callable[[], Millis], *, read_only: bool) -> Steps[int]:
        """Create a local session, and return its id."""
        if not self._store.sessions.secret and not read_only and not self._zookeeper:
            yield self._secret_request()  # otherwise the password would change when the secret is set
        session = self._ids.next()
        self.local.add(session, timeout_ms, now())
        return session

    def upgrade(self, session: int) -> None:
        """Upgrade a local session to a global session. The upgrade precedes all requests posted after this call."""
        timeout_ms = self.local.upgrade(session)

        def done(result: object, error: Exception | None) -> None:
            self.local.forget(session)

        self._post(self.internal_request(Op.CREATE_SESSION, (timeout_ms,), session), done)

    # -- re-attachment -----------------------------------------------------------------------------

    def knows(self, session: int) -> bool:
        return session in self.table or session in self.local

    def password(self, session: int) -> bytes:
        if self._zookeeper:
            return session_password(session)
        sessions = self._store.sessions
        return sessions.password(session) if sessions.secret else self.local.password(session)

    def find_read_only(self, session: int, password: bytes | None) -> int | None:
        """Return the timeout of the session; None if this server's tables lack it, or if the password is wrong.

        The leader is not asked.
        """
        if password is None or not self.knows(session) or not hmac.compare_digest(self.password(session), password):
            return None
        known = self.table.get(session)
        return self.local.timeout_ms(session) if known is None else known[0]

    def find(self, session: int, password: bytes | None) -> Steps[int | None]:
        """Attach a session to this server. Return its timeout, or None: there is no such session with this password."""
        local = self.local
        if session in local and not local.is_upgrading(session):
            return self.find_read_only(session, password)
        if session not in self.table and not local.is_upgrading(session):
            yield BARRIER  # another server may have created it a moment ago
        if not self.knows(session) or not self._password_is(session, password):
            return None
        old = self.attached.get(session)
        if old is not None:
            # Drop the held requests of the old connection. The client may continue on another server before the
            # request below is answered. If a later leader received the held requests, it would carry them out after the
            # client's newer requests.
            old.ended(REPLACED)
        if self._zookeeper:
            known = self.table.get(session)
            exists = yield Revalidate(session, 0 if known is None else known[0])
            known = self.table.get(session)
            return known[0] if exists and known is not None else None
        _, error, *_ = yield self.internal_request(Op.ATTACH_SESSION, (), session)
        known = self.table.get(session)
        return None if error or known is None else known[0]

    def _password_is(self, session: int, password: bytes | None) -> bool:
        if not self._zookeeper:
            return self._store.sessions.password_is(session, password)
        return password is not None and hmac.compare_digest(session_password(session), password)

    def attach(self, client: Attached) -> None:
        """Make this the session's client, to be disconnected if the session ends or moves. Disconnect an older one."""
        old = self.attached.get(client.session)
        self.attached[client.session] = client
        if old is not None:
            old.ended(REPLACED)

    def detach(self, client: Attached) -> None:
        if self.attached.get(client.session) is client:
            del self.attached[client.session]

    # -- the end -----------------------------------------------------------------------------------

    def close(self, session: int, done: Done = ignore_result) -> None:
        self._post(self.internal_request(Op.CLOSE_SESSION, (), session), done)

    def expire(self, session: int, epoch: Epoch) -> None:
        """Close an expired session as the leader of an epoch.

        A later leader refuses this, because it grants the full timeout again.
        """
        self._post(self.internal_request(Op.CLOSE_SESSION, (epoch,), session), ignore_result)
