"""The identities and watches of a session. Every new server receives them before the requests.

They are not calls: their replies have special xids, and a server handles them in the order in which they were sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from zab.client.calls import Done
from zab.core.errors import RemoteProtocolError
from zab.session.session_errors import error_of
from zab.session.watch_manager import WatchManager
from zab.store.operations import Op
from zab.wire.client.requests import AUTH_XID, SET_WATCHES_XID, encode_request

KINDS_ONCE: Final = 3
"""The number of kinds of watches that fire once. These kinds come first in the lists of a `WatchManager`."""


class AuthOwner(Protocol):
    """The session that has the identities."""

    def auth_failed(self, code: int, why: str) -> None:
        """End the session, because the server has refused its credentials: other servers would refuse them, too."""


class Auth:
    """An identity of the session, which every server receives. `done`: the callbacks that wait for its acceptance."""

    __slots__ = ("credentials", "done", "scheme")

    def __init__(self, scheme: str, credentials: bytes) -> None:
        self.scheme = scheme
        self.credentials = credentials
        self.done: list[Done] = []


class SessionSetup:
    """The frames that a new server receives before a session's requests, and the replies to these frames."""

    def __init__(self, owner: AuthOwner, watches: WatchManager, watch_bytes_max: int) -> None:
        """`watch_bytes_max` bounds the bytes of paths in one request."""
        self.auths: list[Auth] = []
        """The identities that every new server receives."""
        self._owner = owner
        self._watches = watches
        self._watch_bytes_max = watch_bytes_max
        self._auths_sent: deque[Auth] = deque()
        """Identities that are sent and not answered, in order."""
        self._rewatches = 0
        """The number of requests to restore watches that are sent and not answered."""

    def frames(self, last_zxid: int) -> Iterator[bytes]:
        """Yield all frames for a new server: the identities, then the watches."""
        for auth in self.auths:
            yield self.frame_of(auth)
        for frame in self._watch_requests(last_zxid):
            self._rewatches += 1
            yield frame

    def lost(self) -> None:
        """Expect no more replies: the connection is lost."""
        self._auths_sent.clear()
        self._rewatches = 0

    # -- identities --------------------------------------------------------------------------------

    def add(self, scheme: str, credentials: bytes, done: Done) -> Auth:
        """Add an identity, unless it is known, and a callback that waits for its acceptance. Return the identity."""
        auth = self.find(scheme, credentials)
        if auth is None:
            auth = Auth(scheme, credentials)
            self.auths.append(auth)
        auth.done.append(done)
        return auth

    def find(self, scheme: str, credentials: bytes) -> Auth | None:
        return next((each for each in self.auths if (each.scheme, each.credentials) == (scheme, credentials)), None)

    def frame_of(self, auth: Auth) -> bytes:
        """Return the frame that proves an identity. Its reply is expected from here on."""
        self._auths_sent.append(auth)
        return encode_request(Op.AUTH, AUTH_XID, (0, auth.scheme, auth.credentials))

    def on_auth(self, error: int) -> None:
        """Handle the reply to the oldest identity that is sent and not answered."""
        if not self._auths_sent:
            raise RemoteProtocolError("a reply to credentials that were not sent")
        auth = self._auths_sent.popleft()
        if error:
            self._owner.auth_failed(error, f"the server has refused the credentials of scheme {auth.scheme!r}")
            return
        waiting, auth.done = auth.done, []
        for done in waiting:
            done(None, None)

    def give_up(self, error_code: int, why: str) -> None:
        """Fail the callers that wait for an identity."""
        for auth in self.auths:
            for done in auth.done:
                done(None, error_of(error_code, why))
            auth.done.clear()

    # -- watches -----------------------------------------------------------------------------------

    def _watch_requests(self, last_zxid: int) -> Iterator[bytes]:
        """Yield the requests that restore the watches, each of at most `watch_bytes_max` bytes of paths.

        A longer path is sent in a request of its own.
        """
        lists = self._watches.lists()
        stay = any(lists[KINDS_ONCE:])
        op, count = (Op.SET_WATCHES2, len(lists)) if stay else (Op.SET_WATCHES, KINDS_ONCE)
        batch: list[list[str]] = [[] for _ in range(count)]
        size = 0
        for index, paths in enumerate(lists):
            for path in paths:
                path_bytes = 4 + len(path.encode())
                if size and size + path_bytes > self._watch_bytes_max:
                    yield encode_request(op, SET_WATCHES_XID, (last_zxid, *batch))
                    batch, size = [[] for _ in range(count)], 0
                batch[index].append(path)
                size += path_bytes
        if size:
            yield encode_request(op, SET_WATCHES_XID, (last_zxid, *batch))

    def on_watches(self, error: int) -> None:
        """Handle the reply to a request that restores watches."""
        if not self._rewatches:
            raise RemoteProtocolError("the server replied to a setWatches request that this client has not sent")
        self._rewatches -= 1
        if error:
            raise RemoteProtocolError(f"the server refused to restore this session's watches: error {error}")
