"""The id, password and timeout of a session. With the id and the password, the next server attaches the session."""

from __future__ import annotations

from zab.wire.client.connect import NO_PASSWORD, ConnectRequest, ConnectResponse


class GrantedSession:
    """The session that the last server granted. It outlasts connections."""

    def __init__(self, timeout_ms: int) -> None:
        self.id = 0
        """The session's id; 0 if the session was not taken over and no server has granted it yet."""
        self.password = NO_PASSWORD
        """The password that the last server has sent, or that the session was taken over with; else `NO_PASSWORD`."""
        self.timeout_ms = timeout_ms
        """The timeout that the server has granted; before that, the requested one."""
        self.known_to_all = False
        """True if the whole ensemble knows the session: it was taken over, or granted by a server in a quorum."""

    def take_over(self, session: int, password: bytes) -> None:
        """Continue a session of another process."""
        assert not self.id, "a session is taken over before the first connection"
        self.id, self.password, self.known_to_all = session, password, True

    def request(self, last_zxid: int, asked_ms: int, *, read_only: bool) -> ConnectRequest:
        """Return the first message of a connection. It asks for a new session unless all servers know the old one."""
        session, password = (self.id, self.password) if self.known_to_all else (0, NO_PASSWORD)
        return ConnectRequest(last_zxid, asked_ms, session, password, read_only)

    def granted(self, response: ConnectResponse) -> None:
        """Record the session that a server has granted."""
        self.id, self.timeout_ms = response.session, response.timeout_ms
        self.password = response.password or NO_PASSWORD
        self.known_to_all = self.known_to_all or not response.read_only
