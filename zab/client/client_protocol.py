"""The client's side of the protocol, without a socket and without a clock.

A `ClientProtocol` lives as long as its session and outlasts any number of connections: `connected` begins one, `lost`
ends it, `receive` consumes received bytes, `take` returns the bytes to send. Replies come in the order of the requests;
a reply out of order is an error of the server and ends the connection.

Requests wait while there is no connection, or while too many are in flight. After a lost connection, unanswered reads
are repeated on the next one, in their order and before the waiting requests; a read that loses `tries_max` connections
raises `Unreachable`. An unanswered change is not repeated, because it may have been made: it raises `OutcomeUnknown`.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Any, Final, Protocol

from zab.client.calls import Call, Done, check_size
from zab.client.client_settings import ClientSettings
from zab.client.connection_failures import Unreachable
from zab.client.granted_session import GrantedSession
from zab.client.session_setup import AuthOwner, SessionSetup
from zab.core.errors import OutcomeUnknown, RemoteProtocolError, WireError
from zab.session.session_errors import error_of, named, refused
from zab.session.watch_manager import WatchManager
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.server_watches import EventType, WatchKind
from zab.wire.client.client_frames import Reply, ReplyReader
from zab.wire.client.connect import ConnectRequest, ConnectResponse
from zab.wire.client.replies import EVENT_XID, decode_body, decode_event
from zab.wire.client.requests import AUTH_XID, PING, PING_XID, SET_WATCHES_XID
from zab.wire.sasl import DigestClient, SaslError

_HEAD: Final = Struct(">iii")
_XID_MAX: Final = 0x7FFF_FFFF
_QUEUE_SLACK: Final = 1_000


class Owner(AuthOwner, Protocol):
    """The session that the protocol works for."""

    def wake(self) -> None:
        """Called when there are bytes to `take`."""

    def opened(self) -> None:
        """Called when the server has accepted the session, and its SASL login if there is one.

        Requests are sent from now on, after the identities and the watches.
        """


class CallQueue(deque[Call]):
    """Calls that wait to be sent, in the order of sending. Their xid is 0."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = 0
        """The number of cancelled calls in the queue."""

    def note_cancelled(self) -> None:
        """Count one more cancelled call.

        Drop all cancelled calls if they are more than `_QUEUE_SLACK`, and more than half of the queue.
        """
        self.cancelled += 1
        if self.cancelled > _QUEUE_SLACK and 2 * self.cancelled > len(self):
            kept = [each for each in self if each.done is not None]
            self.clear()
            self.extend(kept)
            self.cancelled = 0


def ignore_outcome(value: Any, error: Exception | None) -> None:
    """Ignore the outcome, for which no caller waits."""


class ClientProtocol:
    """The requests, identities and watches of one session, over any number of connections."""

    def __init__(self, owner: Owner, watches: WatchManager, settings: ClientSettings, timeout_ms: int) -> None:
        self.granted = GrantedSession(timeout_ms)
        """The session as the last server granted it."""
        self.last_zxid = 0
        """The newest zxid that a reply has shown. All events up to it have arrived; a new server sends later ones."""
        self._event_zxid = 0
        """The newest zxid of an event. Other events of that transaction may still be missing."""
        self.open = False
        """True if requests may be sent: the server has accepted the session, and its SASL login if there is one."""
        self.read_only = False
        """True if the server of the last connection had no quorum when it accepted the session."""
        self.setup = SessionSetup(owner, watches, settings.watch_bytes_max)
        """The identities and watches, which every new server receives."""
        self._owner = owner
        self._watches = watches
        self._settings = settings
        self._queue = CallQueue()
        self._in_flight: deque[Call] = deque()
        """Calls that are sent and not answered, in the order of sending. Empty without a connection."""
        self._bytes = 0
        """The bytes of the calls in flight."""
        self._xid = 0
        """The xid of the last request; 0 before the first. After the greatest xid comes 1."""
        self._out: list[bytes] = []
        """Frames that `take` will return."""
        self._reader = ReplyReader(settings.reply_bytes_max)
        """Splits the stream of the present server into replies; each connection has its own."""
        self._sasl: DigestClient | None = None
        """The SASL exchange of this connection; None if there is none."""

    # -- connections -------------------------------------------------------------------------------

    def connect_request(self, asked_ms: int, *, read_only: bool) -> ConnectRequest:
        """Return the first message of a connection. A server that lacks what this session has seen refuses it."""
        return self.granted.request(max(self.last_zxid, self._event_zxid), asked_ms, read_only=read_only)

    def connected(self, response: ConnectResponse, sasl: DigestClient | None = None) -> None:
        """Begin a connection whose server has accepted the session. With `sasl`, the login comes first."""
        assert not self._in_flight, "`lost` ends a connection before the next begins"
        self.granted.granted(response)
        self.read_only = bool(response.read_only)
        self._reader = ReplyReader(self._settings.reply_bytes_max)
        self._sasl = sasl
        if sasl is None:
            self._begin()
        else:
            self._send_token(b"")

    def _send_token(self, token: bytes) -> None:
        self._send(Call(Op.SASL, (token,), "SASL", self._on_token))

    def _on_token(self, token: bytes | None, error: Exception | None) -> None:
        sasl = self._sasl
        if isinstance(error, OutcomeUnknown | Unreachable) or sasl is None:
            return
        try:
            if error is not None:
                raise SaslError("the server has refused the login")
            answer = sasl.step(token or b"")
        except SaslError as failure:
            self._owner.auth_failed(ErrorCode.AUTH_FAILED, f"SASL: {failure}")
            return
        if sasl.complete:
            self._begin()
        else:
            self._send_token(answer)

    def _begin(self) -> None:
        """Send the identities, then the watches, then the requests: the server handles them in this order."""
        for frame in self.setup.frames(self.last_zxid):
            self._put(frame)
        self.open = True
        self._owner.opened()
        self._pump()

    def lost(self, why: str) -> None:
        """End a connection. Changes in flight fail with `OutcomeUnknown`; reads go back to the front of the queue.

        A read that has lost `tries_max` connections fails with `Unreachable` instead.
        """
        self.open = False
        self._out.clear()
        self._bytes = 0
        self.setup.lost()
        in_flight, self._in_flight = self._in_flight, deque()
        again: list[Call] = []
        for call in in_flight:
            if call.done is None or call.done is ignore_outcome:
                continue
            call.tries += 1
            if call.changes or call.op == Op.SASL:
                call.end(OutcomeUnknown(f"{_name(call)}: the connection was lost before the reply: {why}"))
            elif call.tries >= self._settings.tries_max:
                call.end(Unreachable(f"{_name(call)}: no reply; connections lost: {call.tries}, the last: {why}"))
            else:
                call.xid = 0
                again.append(call)
        self._queue.extendleft(reversed(again))

    def close(self, call: Call, error_code: int, why: str) -> None:
        """Fail the queued calls and the callers that wait for an identity. Submit `call`, which closes the session."""
        self._give_up(error_code, why)
        self.submit(call)

    def end(self, error_code: int, why: str) -> None:
        """End the session: call `lost`, then fail the queued calls and the callers that wait for an identity."""
        self.lost(why)
        self._give_up(error_code, why)

    def _give_up(self, error_code: int, why: str) -> None:
        queue, self._queue = self._queue, CallQueue()
        for call in queue:
            call.end(error_of(error_code, why))
        self.setup.give_up(error_code, why)

    # -- requests ----------------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        check_size(call, self._settings.frame_bytes_max)
        if self.open and not self._queue and self._has_room():
            self._send(call)
        else:
            self._queue.append(call)

    def cancel(self, call: Call) -> None:
        """Drop a call that no caller waits for any more.

        If it was sent, its reply is ignored, except that the watches which it removed receive their event.
        """
        call.done = None
        if not call.xid:
            self._queue.note_cancelled()

    def unwatch(self, path: str, kind: WatchKind) -> None:
        """Remove a watch at the server, unless a call in flight or in the queue sets one at the same path.

        Without a connection there is nothing to remove.
        """
        if not self.open or any(
            call.watch is not None and call.done is not None and call.fields[0] == path
            for calls in (self._in_flight, self._queue)
            for call in calls
        ):
            return
        self.submit(Call(Op.REMOVE_WATCHES, (path, int(kind)), path, ignore_outcome))

    def _has_room(self) -> bool:
        return len(self._in_flight) < self._settings.requests_max and self._bytes < self._settings.request_bytes_max

    def _pump(self) -> None:
        while self._queue and self.open and self._has_room():
            call = self._queue.popleft()
            if call.done is None:
                self._queue.cancelled = max(0, self._queue.cancelled - 1)
            else:
                self._send(call)

    def _send(self, call: Call) -> None:
        xid = self._xid = self._xid + 1 if self._xid < _XID_MAX else 1
        call.xid = xid
        body = call.body
        self._in_flight.append(call)
        self._bytes += len(body)
        out = self._out
        out.append(_HEAD.pack(8 + len(body), xid, call.op))
        out.append(body)
        if len(out) == 2:
            self._owner.wake()

    def _put(self, frame: bytes) -> None:
        self._out.append(frame)
        if len(self._out) == 1:
            self._owner.wake()

    def take(self) -> bytes:
        data = b"".join(self._out)
        self._out.clear()
        return data

    def ping(self) -> None:
        self._put(PING)

    def add_auth(self, scheme: str, credentials: bytes, done: Done) -> None:
        """Add an identity. Every server receives it from now on."""
        auth = self.setup.add(scheme, credentials, done)
        if self.open:
            self._put(self.setup.frame_of(auth))

    # -- replies and events ------------------------------------------------------------------------

    def receive(self, data: bytes | bytearray) -> None:
        """Consume received bytes. If this raises `RemoteProtocolError` or `WireError`, the connection must end."""
        in_flight = self._in_flight
        for xid, zxid, error_code, body in self._read(data):
            if xid > 0:
                if zxid > self.last_zxid:
                    self.last_zxid = zxid
                if not in_flight or in_flight[0].xid != xid:
                    expected = in_flight[0].xid if in_flight else "none"
                    raise RemoteProtocolError(f"a reply with xid {xid}; expected: {expected}")
                call = in_flight.popleft()
                self._bytes -= len(call.body)
                self._answer(call, error_code, body)
            else:
                self._on_special(xid, zxid, error_code, body)
            if in_flight is not self._in_flight:
                return  # a callback has ended the connection
        if self._queue:
            self._pump()
        if self._reader.held_bytes:
            self._read(b"")  # the beginning of the next frame may be invalid already

    def _read(self, data: bytes | bytearray) -> list[Reply]:
        try:
            return self._reader.feed(data)
        except WireError as error:
            if self._in_flight and not self._in_flight[0].changes:
                # Do not repeat the read, because its reply would end the next connection as well.
                call = self._in_flight[0]
                call.end(WireError(f"{_name(call)}: {error}"))
            raise

    def _answer(self, call: Call, error_code: int, body: bytes) -> None:
        done = call.done
        if done is None:
            if call.op == Op.REMOVE_WATCHES and not error_code:
                self._watches.answered(call.op, call.fields, 0, None)  # the server has removed the watches
            return
        if error_code:
            if call.watch is not None:
                self._watches.answered(call.op, call.fields, error_code, call.watch)
            done(None, refused(error_code, call.op, call.fields, call.what))
            return
        try:
            value = decode_body(call.op, body)
        except WireError as error:
            call.end(WireError(f"{_name(call)}: {error}"))
            raise
        if call.watch is not None or (call.op == Op.REMOVE_WATCHES and done is not ignore_outcome):
            self._watches.answered(call.op, call.fields, 0, call.watch)
        call.done = None
        done(value, None)

    def _on_special(self, xid: int, zxid: int, error_code: int, body: bytes) -> None:
        """Handle a frame with one of ZooKeeper's special xids.

        It is an event, or the reply to a ping, to an identity or to restored watches.
        """
        if xid == EVENT_XID:
            event, _, path = decode_event(body)
            if not path.startswith("/"):
                raise RemoteProtocolError(f"an event at {path!r}, which is not a path")
            self._event_zxid = max(zxid, self._event_zxid)
            if EventType.CREATED <= event <= EventType.CHILDREN_CHANGED:
                self._watches.happened(event, path, zxid)
        elif xid == PING_XID:
            self.last_zxid = max(zxid, self.last_zxid)
        elif xid == AUTH_XID:
            self.setup.on_auth(error_code)
        elif xid == SET_WATCHES_XID:
            self.setup.on_watches(error_code)
        else:
            raise RemoteProtocolError(f"a reply with the unknown xid {xid}")


def _name(call: Call) -> str:
    return named(call.op, call.what)
