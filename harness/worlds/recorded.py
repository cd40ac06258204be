"""Sessions of `zab.connect`, as they are shipped, that write down all they ask and are told.

The record is made where replies are put to requests, below everything that the library does for its callers: a
request is asked when it is put on the wire, and told when its reply comes off it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from harness.history import Asked, Became, Event, Fired, Lost, Request, Told
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
"""A read that is lost is not asked again: the history says that it was lost."""


class Tape:
    """The events of a run, in the order in which they were seen."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.events: list[Event] = []
        self.calls = 0
        self.acknowledged = 0
        self.unasked = 0
        """What a script has somebody ask who has no session."""
        self.now_us = now_us

    def add(self, event: Event) -> None:
        self.events.append(event)


class Recorded(Call):
    """A request of the history on its way."""

    __slots__ = ("number", "request")

    def __init__(
        self, request: Request, number: int, done: Callable[[Any, Exception | None], None], watch: Any
    ) -> None:
        op, fields = operation_of(request)
        super().__init__(op, fields, request.path, done, watch)
        self.request = request
        self.number = number


class Seen(Protocol):
    """Whose session it is."""

    id: int
    server: int
    """Where it is connected, was last, or is about to be."""

    @property
    def tape(self) -> Tape: ...


class RecordingMachine(ClientProtocol):
    """The client's end of the protocol, with a tape running."""

    def __init__(
        self, client: Seen, owner: RecordedSession, book: WatchManager, settings: ClientSettings, timeout_ms: int
    ) -> None:
        super().__init__(owner, book, settings, timeout_ms)
        self._client = client
        self._tape = client.tape
        self._zxids: deque[int] = deque()
        self.says_goodbye = False
        """It has asked to be closed: if it is over now, that was its own wish."""
        self.said_goodbye = False
        """A server has answered that the session is closed, because it was asked to."""
        self.user = ""
        """Who it proves to be on each connection, before anything else."""

    def _became(self, state: str) -> None:
        client = self._client
        at = self._tape.now_us()
        watches = self.watches() if state == "connected" else None
        user = self.user if state == "connected" else ""
        self._tape.add(
            Became(at, client.id, self.granted.id, state, client.server, self.granted.timeout_ms, watches, user)
        )

    def connected(self, response: ConnectResponse, sasl: DigestClient | None = None) -> None:
        self.granted.granted(response)
        self._became("connected")
        super().connected(response, sasl)

    def known(self, call: Call) -> tuple[int, Request] | None:
        """Its number and what it asks, if the tape has it."""
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
            self._tape.add(Lost(self._tape.now_us(), self._client.id, self.granted.id, known[0]))

    def cancel(self, call: Call) -> None:
        """Whoever asked does not wait any more: what the reply says, nobody hears."""
        if call.xid and call.done is not None:
            self._lost(call)
        super().cancel(call)

    def ended(self, state: str) -> None:
        self._became(state)

    def is_of(self, user: str) -> None:
        """Before its first connection: who it is, it says in front of all that it asks."""
        self.user = user
        self.add_auth("digest", credentials_of(user), _unheard)

    def _send(self, call: Call) -> None:
        known = self.known(call)
        self.says_goodbye |= call.op == Op.CLOSE_SESSION
        if known is not None:
            client = self._client
            at, request = self._tape.now_us(), asked_by(known[1], self.user)
            self._tape.add(Asked(at, client.id, self.granted.id, known[0], client.server, request))
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
            self._tape.add(Told(self._tape.now_us(), self._client.id, self.granted.id, number, reply))
            if call.changes and not reply.error:
                self._tape.acknowledged += 1
        return super()._answer(call, error_code, body)

    def _on_special(self, xid: int, zxid: int, error_code: int, body: bytes) -> None:
        if xid == EVENT_XID:
            event, _, path = decode_event(body)
            name = {int(each): name for each, name in EVENTS.items()}.get(event)
            if name is not None and self.hears(event, path):
                self._tape.add(Fired(self._tape.now_us(), self._client.id, self.granted.id, name, path, zxid))
        super()._on_special(xid, zxid, error_code, body)

    def watches(self) -> tuple[tuple[str, str], ...] | None:
        """What it names to its next server. None: all that it was told it watches."""
        return None

    def hears(self, event: int, path: str) -> bool:
        """Somebody wants to know."""
        return True


def _unheard(value: Any, error: Exception | None) -> None:
    """Who is not believed is told so in another way."""


class RecordedSession(RemoteSession):
    """What `zab.connect` makes, with another machine in it."""

    machine_type: type[RecordingMachine] = RecordingMachine

    def __init__(
        self,
        client: Seen,
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
            self.machine.is_of(user)
        self.connector = Connector(
            self, self._protocol, hosts, settings, tls=None, sasl=None, read_only=False, wait_ms=None, outside=outside
        )

    def expired(self, why: str) -> None:
        super().expired(why)
        self.machine.ended("closed" if self.machine.says_goodbye else "expired")

    @property
    def book(self) -> WatchManager:
        return self._watch_manager

    @property
    def connected(self) -> bool:
        return self.state is SessionState.CONNECTED

    @property
    def alive(self) -> bool:
        return self.over is None


class Hearing:
    """Who wants to be told of watches: nobody. That they fired is on the tape."""

    over = False

    def notify(self, event: object) -> None:
        """Seen already."""
