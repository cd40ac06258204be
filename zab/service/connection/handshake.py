"""The decision about a ConnectRequest: the session that the client gets, or a refusal.

A server refuses in two ways. If the session is over or the password is wrong, a server with a leader replies with
session 0, and the client must begin a new session. In all other cases the server closes the connection without a reply,
and the client asks another server.
"""

from __future__ import annotations

from typing import Protocol

from zab.service.connection.ports import ServerPort, ShellPort
from zab.wire.client.connect import ConnectRequest


class ArrivingClient(Protocol):
    """The connection that the session is for."""

    @property
    def peer(self) -> str: ...
    @property
    def arriving(self) -> bool: ...
    def established(self, asked: ConnectRequest, session: int, timeout_ms: int, read_only: bool) -> None: ...
    def expired(self, asked: ConnectRequest) -> None: ...
    def cut(self, why: str) -> None: ...


class SessionHandshake:
    """Handles one ConnectRequest: lets the server catch up with what the client has seen, then opens a session.

    A ConnectRequest without a session id creates a session, any other attaches its session. If the server may serve
    without a leader (`read_only_mode_enabled`), the handshake first waits for a readable state.
    """

    def __init__(self, server: ServerPort, shell: ShellPort, client: ArrivingClient, asked: ConnectRequest) -> None:
        self._server = server
        self._shell = shell
        self._client = client
        self._asked = asked
        self.timeout_ms = server.settings.timeout_ms(asked.timeout_ms)
        """The timeout that a new session gets."""
        self._read_only = False
        """True if the client will only read, because there is no leader."""

    def is_admitted(self, now_ms: int) -> bool:
        """Take the tokens that the connection costs. Return False if the throttle refuses the connection."""
        throttle = self._server.throttles.connections
        local = self._server.settings.local_sessions_enabled
        return throttle.take(throttle.weight(renews=self._asked.session != 0, local=local), now_ms)

    def begin(self, now_ms: int) -> None:
        self._server.tracker.begin_opening(self, self.timeout_ms, now_ms)
        if self._server.settings.read_only_mode_enabled:
            self._shell.when_readable(self._readable)
        else:
            self._catch_up()

    def end(self) -> None:
        """End the handshake: the session is open, the client was refused, or it is gone."""
        self._server.tracker.end_opening(self)

    def cancel(self) -> None:
        """Cut the client: there has been no leader for too long, and another server may be able to serve it."""
        self._client.cut("there is no leader to create or attach its session")

    def _readable(self, read_only: bool, error: Exception | None) -> None:
        if not self._goes_on(error):
            return
        self._read_only = read_only
        if read_only and not self._asked.read_only:
            self._client.cut("the client does not accept a read-only server")
        else:
            self._catch_up()

    def _catch_up(self) -> None:
        """Wait for a barrier if the client has seen a later state, unless the client is read-only.

        A read-only client is served without a leader, and a barrier needs one.
        """
        if not self._server.has_reached(self._asked.last_zxid_seen) and not self._read_only:
            self._shell.barrier(self._caught_up)
        else:
            self._caught_up(None, None)

    def _caught_up(self, _: object, error: Exception | None) -> None:
        if not self._goes_on(error):
            return
        asked, server, shell = self._asked, self._server, self._shell
        if not server.has_reached(asked.last_zxid_seen):
            peer = self._client.peer
            server.log.warn_rate_limited("client_is_ahead", peer.rpartition(":")[0], peer=peer)
            self._client.cut("the client has seen a later state than this server")
        elif asked.session == 0:
            if self._read_only or server.settings.local_sessions_enabled:
                shell.create_local_session(self.timeout_ms, self._read_only, self._created)
            else:
                shell.create_session(self.timeout_ms, self._created)
        elif self._read_only:
            timeout_ms = server.sessions.find_read_only(asked.session, asked.password)
            if timeout_ms is None:
                self._client.cut("only a leader can tell whether its session is over")
            else:
                self._conclude(asked.session, timeout_ms)
        else:
            shell.attach_session(asked.session, asked.password, self._attached)

    def _created(self, session: int, error: Exception | None) -> None:
        if self._goes_on(error):
            self._conclude(session, self.timeout_ms)

    def _attached(self, timeout_ms: int | None, error: Exception | None) -> None:
        if not self._goes_on(error):
            return
        if timeout_ms is None:
            self._client.expired(self._asked)
        else:
            self._conclude(self._asked.session, timeout_ms)

    def _conclude(self, session: int, timeout_ms: int) -> None:
        if self._read_only and self._server.ready:
            self._client.cut("there is a leader again: the client may write after it reconnects")
        else:
            self._client.established(self._asked, session, timeout_ms, self._read_only)

    def _goes_on(self, error: Exception | None) -> bool:
        if error is not None and self._client.arriving:
            self._client.cut(f"its session could not be created or attached: {error}")
        return self._client.arriving
