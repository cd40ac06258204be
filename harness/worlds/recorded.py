"""Sessions of `zab.connect` as shipped that record their requests, replies, watch events and state changes.

The recorder sits where replies are matched to requests, below everything that the library does for its callers. A
request is invoked when it is put on the wire, and ok or failed when its reply arrives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from harness.history import Event, Info, Invoke, Request, Response, SessionEvent, WatchFired
from harness.lists import credentials_of
from harness.protocol import EVENTS, asked_by, operation_of, refusal, reply_of
from zab.client.calls import Call
from zab.client.client_protocol import ClientProtocol, Owner
from zab.client.client_settings import ClientSettings
from zab.client.connector import Connector
from zab.client.dialing import OUTSIDE, Outside
from zab.client.hosts import parse_hosts
from zab.client.remote_session import RemoteSession
from zab.core.errors import WireError
from zab.session.state import SessionState
from zab.session.watch_manager import WatchManager
from zab.store.operations import Op
from zab.wire.client.client_frames import Reply as Frame
from zab.wire.client.connect import ConnectResponse
from zab.wire.client.replies import EVENT_XID, decode_body, decode_event
from zab.wire.sasl import DigestClient

SETTINGS: Final = ClientSettings(connect_ms=1_000, pause_ms_min=20, pause_ms_max=200, tries_max=1, close_ms=1_000)
"""The settings of recorded sessions. A lost read is not retried, so that the history shows the loss."""


class Recorder:
    """Records the events of store clients, in the order in which the clients saw them."""

    def __init__(self, now_us: Callable[[], int], keeps: Callable[[Event], object] = lambda event: True) -> None:
        """`keeps` is called with each event, and decides whether it belongs to the history."""
        self.events: list[Event] = []
        self._keeps = keeps
        self.calls = 0
        self.acknowledged = 0
        self.without_session = 0
        """The number of operations that were skipped because their client had no session."""
        self.now_us = now_us

    def add(self, event: Event) -> None:
        if self._keeps(event):
            self.events.append(event)


class RecordedCall(Call):
    """A request in flight that the history contains."""

    __slots__ = ("number", "request")

    def __init__(
        self, request: Request, number: int, done: Callable[[Any, Exception | None], None], watch: Any
    ) -> None:
        op, fields = operation_of(request)
        super().__init__(op, fields, request.path, done, watch)
        self.request = request
        self.number = number


class RecordingProtocol(ClientProtocol):
    """The client protocol with a recorder."""

    def __init__(
        self,
        client: Any,
        owner: Owner,
        watch_manager: WatchManager,
        settings: ClientSettings,
        timeout_ms: int,
    ) -> None:
        super().__init__(owner, watch_manager, settings, timeout_ms)
        self._client = client
        self._recorder = client.recorder
        self._zxids: deque[int] = deque()
        self.close_sent = False
        """True after closeSession was sent. A session that ends after that is closed, not expired."""
        self.close_acknowledged = False
        """True after a server acknowledged closeSession."""
        self.left = False
        """True after the client gave up its closeSession: it does not read what still arrives on the connection."""
        self.user = ""
        """The user that the session authenticates as on each connection, before anything else."""

    def _record_state(self, state: str) -> None:
        client = self._client
        at = self._recorder.now_us()
        known = (self.watches(), self.user, self.served()) if state == "connected" else (None, "", "")
        granted = self.granted
        self._recorder.add(SessionEvent(at, client.id, granted.id, state, client.server, granted.timeout_ms, *known))

    def connected(self, response: ConnectResponse, sasl: DigestClient | None = None) -> None:
        self.granted.granted(response)
        self.read_only = bool(response.read_only)
        self._zxids.clear()
        self._record_state("connected")
        super().connected(response, sasl)

    def recorded_call(self, call: Call) -> tuple[int, Request] | None:
        """Return the number and the request of a call that the history contains; None for other calls."""
        return (call.number, call.request) if isinstance(call, RecordedCall) else None

    def lost(self, why: str) -> None:
        was_open = self.open
        for call in self._in_flight:
            if call.done is not None:
                self._record_info(call)
        super().lost(why)
        if was_open:
            self._record_state("disconnected")

    def _record_info(self, call: Call) -> None:
        known = self.recorded_call(call)
        if known is not None:
            self._recorder.add(Info(self._recorder.now_us(), self._client.id, self.granted.id, known[0]))

    def cancel(self, call: Call) -> None:
        """Cancel a call. The caller stops waiting, so the outcome is unknown."""
        if call.xid and call.done is not None:
            self._record_info(call)
        super().cancel(call)

    def ended(self, state: str) -> None:
        self.left |= state == "disconnected"
        self._record_state(state)

    def authenticate_as(self, user: str) -> None:
        """Authenticate as this user on each connection. Must be called before the first connection."""
        self.user = user
        self.add_auth("digest", credentials_of(user), ignore)

    def _send(self, call: Call) -> None:
        known = self.recorded_call(call)
        self.close_sent |= call.op == Op.CLOSE_SESSION
        if known is not None:
            client = self._client
            at, request = self._recorder.now_us(), asked_by(known[1], self.user)
            self._recorder.add(Invoke(at, client.id, self.granted.id, known[0], client.server, request))
        super()._send(call)

    def _read(self, data: bytes | bytearray) -> list[Frame]:
        found = super()._read(data)
        self._zxids.extend(zxid for xid, zxid, _, _ in found if xid > 0)
        return found

    def _answer(self, call: Call, error_code: int, body: bytes) -> None:
        zxid = self._zxids.popleft()
        self.close_acknowledged |= call.op == Op.CLOSE_SESSION and not error_code
        known = self.recorded_call(call)
        if known is not None and call.done is not None:
            number, request = known
            if error_code:
                reply = refusal(zxid, error_code)
            else:
                try:
                    reply = reply_of(request, call.op, zxid, decode_body(call.op, body))
                except WireError:
                    return super()._answer(call, error_code, body)
            self._recorder.add(Response(self._recorder.now_us(), self._client.id, self.granted.id, number, reply))
            if call.changes and not reply.error:
                self._recorder.acknowledged += 1
        return super()._answer(call, error_code, body)

    def _on_special(self, xid: int, zxid: int, error_code: int, body: bytes) -> None:
        if xid == EVENT_XID:
            event, _, path = decode_event(body)
            name = {int(each): name for each, name in EVENTS.items()}.get(event)
            if name is not None and not self.left and self.is_recorded(event, path):
                self._recorder.add(
                    WatchFired(self._recorder.now_us(), self._client.id, self.granted.id, name, path, zxid)
                )
        super()._on_special(xid, zxid, error_code, body)

    @property
    def watch_manager(self) -> WatchManager:
        return self._watches

    def watches(self) -> tuple[tuple[str, str], ...] | None:
        """Return the watches that the session sets again when it reconnects; None means all watches of the history."""
        return None

    def served(self) -> str:
        """Return how the server serves the session: "read-only", "local", or "" for a session of the ensemble."""
        return ""

    def is_recorded(self, event: int, path: str) -> bool:
        """Return whether an event concerns a watch that the history contains."""
        return True


def ignore(value: Any, error: Exception | None) -> None:
    """Ignore the outcome of a call, which the history has, or of an authentication."""


class RecordedSession(RemoteSession):
    """The session that `zab.connect` makes, with a recording protocol in it."""

    protocol_type: type[RecordingProtocol] = RecordingProtocol

    def __init__(
        self,
        client: Any,
        host: str,
        timeout_ms: int,
        outside: Outside = OUTSIDE,
        settings: ClientSettings = SETTINGS,
        user: str = "",
    ) -> None:
        hosts = parse_hosts(host)
        super().__init__(hosts, timeout_ms, settings=settings)
        self._protocol = self.protocol = self.protocol_type(client, self, self._watch_manager, settings, timeout_ms)
        if user:
            self.protocol.authenticate_as(user)
        self.connector = Connector(
            self, self._protocol, hosts, settings, tls=None, sasl=None, read_only=False, wait_ms=None, outside=outside
        )

    def expired(self, why: str) -> None:
        super().expired(why)
        self.protocol.ended("closed" if self.protocol.close_sent else "expired")

    @property
    def connected(self) -> bool:
        return self.state is SessionState.CONNECTED

    @property
    def alive(self) -> bool:
        return self.over is None


class IgnoringWatcher:
    """A watcher that does nothing: the recorder records the event."""

    over = False

    def notify(self, event: object) -> None:
        """Do nothing."""
