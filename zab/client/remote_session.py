"""A session over the network: the protocol turns its calls into requests, and the connector carries them."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from zab.client.calls import Call
from zab.client.chroot import fields_below, path_below, path_out_of, value_out_of
from zab.client.client_settings import DEFAULT_CLIENT, ClientSettings
from zab.client.connect_arguments import check_arguments, checked_auth
from zab.client.connection_failures import Unreachable
from zab.client.connector import Connector
from zab.client.dialing import OUTSIDE, ClientTls, Outside, dial
from zab.client.hosts import Hosts, parse_hosts
from zab.core.argument_names import checks_names
from zab.core.errors import OutcomeUnknown, Overloaded
from zab.host.clocks import check_clock_waits
from zab.runtime.block_nursery import block_nursery
from zab.runtime.waiter import Waiter
from zab.session.api import Session
from zab.session.call_arguments import credentials_of
from zab.session.multi import with_acls
from zab.session.session_errors import LEFT, NodeExists, StoreError
from zab.session.state import SessionState
from zab.session.watch import Watch
from zab.session.watch_manager import WatchManager
from zab.store.acl import Acl
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.paths import ancestors_of
from zab.store.server_watches import WatchKind
from zab.wire.sasl import DigestClient

NONCE_BYTES: Final = 16


class RemoteSession(Session):
    """A session with servers that the connector finds. `connect` opens it and closes it."""

    def __init__(
        self,
        hosts: Hosts,
        timeout_ms: int,
        *,
        settings: ClientSettings = DEFAULT_CLIENT,
        tls: ssl.SSLContext | None = None,
        sasl: tuple[str, str] | None = None,
        read_only: bool = False,
        reattach: tuple[int, bytes] | None = None,
        wait_ms: float | None = None,
        acl: Callable[[str], Acl] | None = None,
        outside: Outside = OUTSIDE,
        on_permanent_failure: Callable[[], object] = lambda: None,
    ) -> None:
        self._acl = acl
        """Returns the ACL for the path of a node that is created without one; None: such nodes get `OPEN_ACL`."""
        self._hosts = hosts
        self._root = hosts.root
        """The node that the session takes for `/`; empty: the root itself."""
        super().__init__(SessionState.SUSPENDED, WatchManager(self._shown), settings.events_max)
        self.id = 0
        self.timeout_ms = timeout_ms
        self._settings = settings
        self._protocol = outside.protocol(self, self._watch_manager, settings, timeout_ms)
        if reattach is not None:
            self._protocol.granted.take_over(*reattach)
        self.connector = Connector(
            self,
            self._protocol,
            hosts,
            settings,
            tls=tls,
            sasl=None if sasl is None else lambda: DigestClient(*sasl, os.urandom(NONCE_BYTES).hex().encode()),
            read_only=read_only,
            wait_ms=wait_ms,
            outside=outside,
            on_permanent_failure=on_permanent_failure,
        )
        self.ended = False
        """True if the connector must not look for a server any more."""
        self._opened_once = trio.Event()
        """Set when a server has accepted the session, or the session has ended."""

    def _shown(self, path: str) -> str:
        return path_out_of(self._root, path) if self._root else path

    def _at_server(self, path: str) -> str:
        return path_below(self._root, path) if self._root else path

    @property
    def password(self) -> bytes:
        """The session's password. Keep it secret: with it and the id, another process can take over the session."""
        return self._protocol.granted.password

    def __repr__(self) -> str:
        """Describe the session without its password."""
        server = self.connector.server
        at = f"at {server} " if server is not None else ""
        return f"<{type(self).__name__} {self.id:#x} {self.state.value} {at}of {str(self._hosts)!r}>"

    @property
    def last_received_at(self) -> float:
        return self.connector.last_received_at

    # -- called by the protocol and the connector --------------------------------------------------

    def wake(self) -> None:
        self.connector.wakeup.ring()

    def opened(self) -> None:
        protocol = self._protocol
        self.id, self.timeout_ms = protocol.granted.id, protocol.granted.timeout_ms
        if self._opened_once.is_set():
            self._watch_manager.interrupted()
        self._opened_once.set()
        self._state_changes.report(SessionState.READ_ONLY if protocol.read_only else SessionState.CONNECTED)

    def disconnected(self) -> None:
        self._state_changes.report(SessionState.SUSPENDED)

    def expired(self, why: str) -> None:
        self._end(SessionState.EXPIRED, why, ErrorCode.SESSION_EXPIRED)

    def auth_failed(self, code: int, why: str) -> None:
        self._end(SessionState.AUTH_FAILED, why, code)

    def _end(self, state: SessionState, why: str, code: int) -> None:
        self.ended = True
        self._finish(state, why, code)
        self._protocol.end(code, why)
        self._opened_once.set()

    # -- requests ----------------------------------------------------------------------------------

    async def _ask(self, op: Op, fields: Fields, what: str, watch: Watch | None = None, *, rooted: bool = True) -> Any:
        if self._over is not None:
            self._check()
        if self._acl is not None:
            fields = with_acls(op, fields, self._acl)
        root = self._root if rooted else ""
        if root:
            fields = fields_below(root, op, fields)
        waiter, asked_at = Waiter(), trio.current_time()
        call = Call(op, fields, what, waiter.done, watch)
        self._protocol.submit(call)
        try:
            value = await waiter.wait()
        except trio.Cancelled:
            self._protocol.cancel(call)
            raise
        if op is Op.SYNC:
            self.connector.leader_answered(asked_at)
        return value_out_of(root, op, value) if root else value

    def _unwatch(self, path: str, kind: WatchKind) -> None:
        if self._over is None:
            self._protocol.unwatch(path, kind)

    async def add_auth(self, scheme: str, credentials: bytes) -> None:
        """Add an identity, and wait until a server has accepted it. See `Session.add_auth`.

        Every server that this session moves to receives it, even if the call is cancelled. An identity that the session
        has already is not added twice.
        """
        scheme, credentials = credentials_of(scheme, credentials)
        self._check()
        setup = self._protocol.setup
        if len(setup.auths) >= self._settings.auths_max and setup.find(scheme, credentials) is None:
            raise Overloaded(
                f"auths_max is {self._settings.auths_max}, and this session has that many identities already: raise "
                "ClientSettings.auths_max"
            )
        waiter = Waiter()
        self._protocol.add_auth(scheme, credentials, waiter.done)
        await waiter.wait()

    async def _make_root(self, acl: Acl) -> bool:
        if not self._root:
            return False
        for path in (*reversed(ancestors_of(self._root)), self._root):
            try:
                await self._ask(Op.CREATE, (path, b"", tuple(acl), 0), path, rooted=False)
            except (NodeExists, OutcomeUnknown):
                pass
            except StoreError:
                if path == self._root:
                    raise
        return True

    # -- beginning and end -------------------------------------------------------------------------

    async def begun(self, auths: Sequence[Waiter]) -> None:
        """Wait until a server has accepted the session and its identities."""
        await self._opened_once.wait()
        self._check()
        for waiter in auths:
            await waiter.wait()

    async def close(self) -> None:
        """Close the session at a server, so that its ephemeral nodes are deleted at once, not after its timeout.

        Give up after `close_ms`. Send nothing if the session is over, or no server has accepted it.
        """
        if self._over is not None or not self.id:
            self._finish(SessionState.CLOSED, LEFT)
            return
        why = LEFT
        self._finish(SessionState.CLOSED, why)
        with trio.move_on_after(self._settings.close_ms / 1000, shield=True):
            while not self.ended:
                waiter = Waiter()
                call = Call(Op.CLOSE_SESSION, (), f"{self.id:#x}", waiter.done)
                self._protocol.close(call, ErrorCode.SESSION_EXPIRED, why)
                try:
                    await waiter.wait()
                except OutcomeUnknown:
                    continue
                except StoreError:
                    pass
                break
        self.ended = True
        self._protocol.end(ErrorCode.SESSION_EXPIRED, why)


@checks_names("zab.connect")
@asynccontextmanager
async def connect(
    hosts: str,
    *,
    timeout_ms: int = 10_000,
    auth: Sequence[tuple[str, bytes]] = (),
    tls: ssl.SSLContext | ClientTls | None = None,
    sasl: tuple[str, str] | None = None,
    read_only: bool = False,
    wait_ms: int | None = 30_000,
    reattach: tuple[int, bytes] | None = None,
    settings: ClientSettings = DEFAULT_CLIENT,
    acl: Callable[[str], Acl] | None = None,
    outside: Outside = OUTSIDE,
) -> AsyncIterator[RemoteSession]:
    """Open a session with servers that speak ZooKeeper's protocol, for as long as the block lasts.

            async with zab.connect("host1:2181,host2:2181") as session:
                print(await session.get("/a"))

    hosts       `host1:2181,host2:2181`, or with a path: `host1:2181/app` uses `/app` as the session's root. The default
                port is 2181; an IPv6 address is written `[::1]:2181`. The hosts are tried in random order
    timeout_ms  how long the session outlives its connection; the servers have bounds, see `session.timeout_ms`
    auth        identities, a list of (scheme, credentials): [("digest", b"user:password")]
    tls         a `zab.ClientTls`, or an `ssl.SSLContext`; None: plain TCP
    sasl        (user, password), for DIGEST-MD5; None: no login by SASL
    read_only   accept a server without a quorum, until one with a quorum is found
    wait_ms     time for the first connection, shared by the hosts so that each is tried; then `zab.Unreachable` lists
                the outcome of each. None: no limit
    reattach    id and password of a session to take over, in place of a new one
    settings    limits and intervals: `zab.ClientSettings`
    acl         a function that returns the ACL for the path of each node that is created without `acl`; None: these
                nodes get `zab.OPEN_ACL`
    outside     a replacement of the real network, for tests

    The block begins when a server has accepted the session and its identities; if a server refuses credentials,
    `zab.AuthFailed` is raised. A lost connection is replaced, at the same or another server, until the session or the
    block ends; `session.states()` reports it. The end of the block closes the session, which deletes its ephemeral
    nodes. If no server confirms this within `ClientSettings.close_ms`, the session may last until its timeout. Errors
    of the block are raised unchanged.

    Before the block begins, raise `zab.ConfigError` if `hosts` or the files of `tls` cannot be used, `TypeError` or
    `zab.LocalProtocolError` for other invalid arguments and for a `trio.testing.MockClock` with `autojump_threshold=0`
    (use `zab.testing` with such a clock), `zab.Overloaded` at more identities than
    `ClientSettings.auths_max`, and `zab.SessionExpired` if the session of `reattach` is over or its password is wrong.
    """
    check_arguments(
        hosts=hosts, timeout_ms=timeout_ms, tls=tls, sasl=sasl, wait_ms=wait_ms, reattach=reattach, settings=settings
    )
    if outside.dial is dial:
        instead = "Use the method session or connect of zab.testing.open_memory_store with this clock"
        check_clock_waits("zab.connect", instead)
    shown = checked_auth(auth)
    parsed = parse_hosts(hosts)
    patience = trio.CancelScope()
    session = RemoteSession(
        parsed,
        timeout_ms,
        settings=settings,
        tls=tls.context if isinstance(tls, ClientTls) else tls,
        sasl=sasl,
        read_only=read_only,
        reattach=reattach,
        wait_ms=wait_ms,
        acl=acl,
        outside=outside,
        on_permanent_failure=patience.cancel if settings.hopeless_ends else lambda: None,  # no effect in the block
    )
    waiters = []
    if len(shown) > settings.auths_max:
        raise Overloaded(
            f"auths_max is {settings.auths_max}, and `auth` has {len(shown)} items: raise ClientSettings.auths_max"
        )
    for scheme, credentials in shown:
        waiters.append(Waiter())
        session._protocol.add_auth(scheme, credentials, waiters[-1].done)
    async with block_nursery() as nursery:
        # Shielded, because a cancelled caller still closes its session through the connector. The end of the block
        # cancels the scope. `nursery.start` would not do: if that wait was cancelled, the task would never end.
        scope = trio.CancelScope(shield=True)
        nursery.start_soon(_run_in, scope, session.connector)
        try:
            patience.deadline = trio.current_time() + (float("inf") if wait_ms is None else wait_ms / 1000)
            with patience:
                await session.begun(waiters)
            if patience.cancelled_caught:
                waited = trio.current_time() >= patience.deadline
                within = f" within {wait_ms} ms" if waited else ""
                attempts = session.connector.attempts.summary()
                raise Unreachable(f"no server of {hosts} accepted this session{within}: {attempts}")
            yield session
        finally:
            await session.close()
            scope.cancel()


async def _run_in(scope: trio.CancelScope, connector: Connector) -> None:
    with scope:
        await connector.run()
