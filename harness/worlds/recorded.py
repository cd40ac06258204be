"""Sessions of `zab.connect` as shipped, which record all that they ask and are told.

The record is made where replies are matched to requests, below everything that the library does for its callers: a
request is invoked when it is put on the wire, and ok or failed when its reply comes off it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from harness.history import Event, Info, Invoke, Request, Response, SessionEvent, WatchFired
from harness.lists import credentials_of
from harness.protocol import EVENTS, asked_by, operation_of, refusal, reply_of
from zab.client.calls import Call
from zab.client.client_protocol import ClientProtocol
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
"""A lost read is not repeated: the history says that it was lost."""


class Recorder:
    """The events of a run, in the order in which its clients saw them."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.events: list[Event] = []
        self.calls = 0
        self.acknowledged = 0
        self.unasked = 0
        """Operations of clients that had no session."""
        self.now_us = now_us

    def add(self, event: Event) -> None:
        self.events.append(event)


class Recorded(Call):
    """A request of the history in flight."""

    __slots__ = ("number", "request")

    def __init__(
        self, request: Request, number: int, done: Callable[[Any, Exception | None], None], watch: Any
    ) -> None:
        op, fields = operation_of(request)
        super().__init__(op, fields, request.path, done, watch)
        self.request = request
        self.number = number


class Owner(Protocol):
    """The client of a session."""

    id: int
    server: int
    """Where it is connected, was last, or is about to be."""

    @property
    def recorder(self) -> Recorder: ...


class RecordingMachine(ClientProtocol):
    """The client's end of the protocol, with a recorder."""

    def __init__(
        self, client: Owner, owner: RecordedSession, book: WatchManager, settings: ClientSettings, timeout_ms: int
    ) -> None:
        super().__init__(owner, book, settings, timeout_ms)
        self._client = client
        self._recorder = client.recorder
        self._zxids: deque[int] = deque()
        self.says_goodbye = False
        """It has sent closeSession: an end of the session after that is no expiry."""
        self.said_goodbye = False
        """A server has acknowledged closeSession."""
        self.user = ""
        """The user that it authenticates as on each connection, before anything else."""

    def _became(self, state: str) -> None:
        client = self._client
        at = self._recorder.now_us()
        watches = self.watches() if state == "connected" else None
        user = self.user if state == "connected" else ""
        self._recorder.add(
            SessionEvent(at, client.id, self.granted.id, state, client.server, self.granted.timeout_ms, watches, user)
        )

    def connected(self, response: ConnectResponse, sasl: DigestClient | None = None) -> None:
        self.granted.granted(response)
        self._became("connected")
        super().connected(response, sasl)

    def known(self, call: Call) -> tuple[int, Request] | None:
        """Return its number and request, if the history has it."""
        return (call.number, call.request) if isinstance(call, Recorded) else None

    def lost(self, why: str) -> None:
        was_open = self.open
        for call in self._in_flight:
            if call.done is not None:
                self._lost(call)
        super().lost(why)
        if was_open:
            self._became("disconnected")

    def _lost(self, call: Call) -> None:
        known = self.known(call)
        if known is not None:
            self._recorder.add(Info(self._recorder.now_us(), self._client.id, self.granted.id, known[0]))

    def cancel(self, call: Call) -> None:
        """The caller does not wait any more, so the outcome is unknown."""
        if call.xid and call.done is not None:
            self._lost(call)
        super().cancel(call)

    def ended(self, state: str) -> None:
        self._became(state)

    def authenticate_as(self, user: str) -> None:
        """Authenticate as this user on each connection. Called before the first."""
        self.user = user
        self.add_auth("digest", credentials_of(user), _unheard)

    def _send(self, call: Call) -> None:
        known = self.known(call)
        self.says_goodbye |= call.op == Op.CLOSE_SESSION
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
        self.said_goodbye |= call.op == Op.CLOSE_SESSION and not error_code
        known = self.known(call)
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
            if name is not None and self.hears(event, path):
                self._recorder.add(
                    WatchFired(self._recorder.now_us(), self._client.id, self.granted.id, name, path, zxid)
                )
        super()._on_special(xid, zxid, error_code, body)

    def watches(self) -> tuple[tuple[str, str], ...] | None:
        """Return the watches that it sets again on its next connection; None: all that the history knows."""
        return None

    def hears(self, event: int, path: str) -> bool:
        """Return whether an event concerns a watch that the history knows."""
        return True


def _unheard(value: Any, error: Exception | None) -> None:
    """A failed authentication shows in the end of the connection."""


class RecordedSession(RemoteSession):
    """The session that `zab.connect` makes, with a recording protocol in it."""

    machine_type: type[RecordingMachine] = RecordingMachine

    def __init__(
        self,
        client: Owner,
        host: str,
        timeout_ms: int,
        outside: Outside = OUTSIDE,
        settings: ClientSettings = SETTINGS,
        user: str = "",
    ) -> None:
        hosts = parse_hosts(host)
        super().__init__(hosts, timeout_ms, settings=settings)
        self._protocol = self.machine = self.machine_type(client, self, self._watch_manager, settings, timeout_ms)
        if user:
            self.machine.authenticate_as(user)
        self.connector = Connector(
            self, self._protocol, hosts, settings, tls=None, sasl=None, read_only=False, wait_ms=None, outside=outside
        )

    def expired(self, why: str) -> None:
        super().expired(why)
        self.machine.ended("closed" if self.machine.says_goodbye else "expired")

    @property
    def watch_manager(self) -> WatchManager:
        return self._watch_manager

    @property
    def connected(self) -> bool:
        return self.state is SessionState.CONNECTED

    @property
    def alive(self) -> bool:
        return self.over is None


class Ignored:
    """A watcher that does nothing: the recorder has the event."""

    over = False

    def notify(self, event: object) -> None:
        """Do nothing."""
