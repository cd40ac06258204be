"""A client of the store: a process outside of the servers, which keeps one session alive through many connections.

It behaves as client libraries do. It sends pings, and gives up a server that is silent for two thirds of the session
timeout. It connects to another server with its session, password and newest zxid, and first sends its watches. If a
connection ends, sent requests without a reply have an unknown outcome, and the others wait for the next connection.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, Final

from attrs import frozen

from harness.checkers.oracle_state import Violation
from harness.checkers.store.order import REPLIES
from harness.faults import Step
from harness.history import Event, Info, Invoke, Request, Response, SessionEvent, WatchFired
from harness.history import Reply as Answer
from harness.lists import credentials_of, user_name
from harness.protocol import EVENTS, asked_by, operation_of, refusal, reply_of, request_of
from harness.worlds.cores.store.checks import PINGED
from harness.worlds.cores.store.simulator import StoreSimulator
from harness.worlds.cores.store.wire import Wire
from zab.session.watch import WatchEvent
from zab.session.watch_manager import WatchManager
from zab.store.operations import Fields, Op
from zab.store.server_watches import EventType as NodeEvent
from zab.wire.client.client_frames import FirstFrame, Reply, ReplyReader
from zab.wire.client.connect import ConnectRequest, ConnectResponse, decode_connect_response, encode_connect_request
from zab.wire.client.replies import EVENT_XID, decode_body, decode_event
from zab.wire.client.requests import AUTH_XID, PING, PING_XID, SET_WATCHES_XID, encode_request

TIMEOUT_MS: Final = 1_000
"""The timeout that a client requests if the script does not name one."""
PING_US_MAX: Final = 5_000
"""The longest time in which a server answers a ping, in addition to the delays of the connection."""
PAUSE_US_MIN, PAUSE_US_MAX = 1_000, 30_000
"""The shortest and the longest pause before an attempt to connect to a server."""
EARLIER_MAX: Final = 4
"""The number of abandoned sessions that an impolite client keeps."""
IMPOLITE_LAST: Final = 0.7
"""The probability that an impolite client presents its last abandoned session, and not another one."""
_CLOSE_XID: Final = 0
"""The xid of the request that closes the session. The xids of calls are positive."""
_CLOSE: Final = encode_request(Op.CLOSE_SESSION, _CLOSE_XID)
_UNCOUNTED: Final = frozenset({PING_XID, AUTH_XID, SET_WATCHES_XID})
"""The xids of replies for which no call waits."""


class Call:
    """A request, and its xid on the connection on which it is sent."""

    __slots__ = ("fields", "number", "op", "request", "xid")

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.request = request
        self.xid = 0
        self.op: Op
        self.fields: Fields
        self.op, self.fields = operation_of(request)

    def reply(self, zxid: int, error: int, body: bytes) -> Answer:
        """Return this reply in the form of the history."""
        if error:
            return refusal(zxid, error)
        return reply_of(self.request, self.op, zxid, decode_body(self.op, body))


@frozen
class AbandonedSession:
    """A session that a client has abandoned, with the state that the client had of it."""

    session: int
    password: bytes
    negotiated_ms: int
    known_to_all: bool
    watch_manager: WatchManager
    seen: int
    seen_by_events: int


class Client:
    over = False
    """The watch manager requires this attribute of watches. The watches of this client never end."""

    def __init__(self, world: StoreSimulator, number: int) -> None:
        self.world = world
        self.id = number
        self.session = 0
        self.server = 0
        """The id of the server that the client dialled last."""
        self.slow_us = 0
        """The additional delay of its messages, in microseconds."""
        self.connected = False
        self.accepts_read_only = world.script.knobs.read_only_ms > 0 and number % 2 == 1
        """True if it accepts read-only connections, to servers without a leader."""
        self._read_only = False
        """True if its present connection is read-only."""
        self._known_to_all = False
        """True if a server with a leader has accepted its session. Otherwise each connection requests a new session."""
        self.wanted = False
        """True if the client needs a session."""
        self.leaving = False
        self.vanished = False
        self.watch_manager = WatchManager()
        self._random = Random(f"{world.script.seed}/client/{number}")
        self._timeout_ms = TIMEOUT_MS
        self._negotiated_ms = TIMEOUT_MS
        self._user = self._proved = ""
        """The user of the client, and the user whose credentials it has sent on its present connection."""
        self._password = b""
        self.impolite_percent = world.script.knobs.impolite_percent
        self._earlier: list[AbandonedSession] = []
        """The abandoned sessions of an impolite client, the newest last."""
        self._seen = self._seen_by_events = 0
        self._wire: Wire | None = None
        self._attempt = 0
        self._sent: deque[Call] = deque()
        self.queue: deque[Call] = deque()
        self._out: list[bytes] = []
        self._xid = 0
        self._first = FirstFrame()
        self._reader = ReplyReader()
        self._received_at = self._sent_at = self._pinged_at = 0
        self._alarms = 0
        self._close_sent = False

    @property
    def settled(self) -> bool:
        """True if the client is connected or needs no session, and no call is open."""
        if self.leaving or self._sent or self.queue:
            return False
        return self.connected or not self.wanted

    @property
    def state(self) -> str:
        """Return the state of the client, for messages."""
        place = f"connected to server {self.server}" if self.connected else f"not connected (last to {self.server})"
        return f"client {self.id} is {place}, and has {len(self._sent)} open and {len(self.queue)} unsent calls"

    # -- operations of the script --------------------------------------------------------------------------

    def connect(self, server: Any, timeout_ms: int, user: int = 0, late_ms: int = 0) -> None:
        if self.vanished or self.leaving:
            return
        known, self._user = self._user, user_name(user) or self._user
        self._timeout_ms = timeout_ms
        if self.connected and self.server == server.id and known == self._user and not late_ms:
            return
        self.wanted = True
        self._give_up(late_ms)
        self._dial(server)

    def ask(self, steps: tuple[Step, ...]) -> None:
        """Send one call with these steps. A client without a session begins one."""
        if self.vanished or self.leaving:
            return
        number = self.world.next_call()
        self.call(Call(number, request_of(steps, number)))

    def call(self, call: Call) -> None:
        self.queue.append(call)
        self.want()
        self._pump()

    def want(self) -> None:
        """Begin a session if the client has none."""
        if not self.wanted:
            self.wanted = True
            self._look_for_server()

    def leave(self) -> None:
        if self.vanished or self.leaving or not self.wanted:
            return
        if not self.session and not self._wire:
            self._rest()
            return
        self.leaving = True
        self._pump()

    def vanish(self) -> bool:
        """Stop sending and receiving until `come_back`. Return False if the client has stopped already."""
        if self.vanished:
            return False
        self.vanished = True
        self._attempt += 1
        if self._wire is not None:
            self._wire.dropped()
        return True

    def come_back(self) -> None:
        if not self.vanished:
            return
        self.vanished = False
        self._disconnected()
        if self.wanted:
            self._look_for_server()

    # -- the connection --------------------------------------------------------------------------------

    def _look_for_server(self) -> None:
        """Dial a random server after a short random pause."""
        self._attempt += 1
        pause = PAUSE_US_MIN + int(self._random.random() * (PAUSE_US_MAX - PAUSE_US_MIN))
        self.world.push(self.world.now + pause, self._try, self._attempt, None)

    def _try(self, attempt: int, _: None) -> None:
        if attempt == self._attempt and not self.vanished:
            known = [server for server in self.world.servers[1:] if server.founded]
            self._dial(known[int(self._random.random() * len(known))])

    def _dial(self, server: Any) -> None:
        world = self.world
        self._attempt += 1
        impolite = self._is_impolite()
        if self.session and not self._known_to_all:
            self._forget()
        if impolite:
            self._take_earlier_session()
        self.server = server.id
        self._wire = Wire(world, self, server, self._random)
        self._proved = self._user
        self._xid, self._first, self._reader = 0, FirstFrame(), ReplyReader()
        newest = max(self._seen, self._seen_by_events)
        request = ConnectRequest(
            newest, self._timeout_ms, self.session, self._password, read_only=self.accepts_read_only
        )
        first = encode_connect_request(request)
        if self._proved:
            first += encode_request(Op.AUTH, AUTH_XID, (0, "digest", credentials_of(self._proved)))
        self._wire.up(first)
        self._received_at = self._sent_at = world.now
        self._negotiated_ms = self._negotiated_ms if self.session else self._timeout_ms
        self._set_alarm()

    def _is_impolite(self) -> bool:
        return self.impolite_percent > 0 and self._random.random() * 100 < self.impolite_percent and not self.leaving

    def _take_earlier_session(self) -> None:
        """Abandon the present session, and continue with an earlier one, most often the last one.

        The earlier session may be alive, expired, closed, attached elsewhere, or local to a server.
        """
        if not self._earlier:
            return
        last = self._random.random() < IMPOLITE_LAST
        held = self._earlier.pop(-1 if last else int(self._random.random() * len(self._earlier)))
        self._forget()
        self.world.counted("earlier session presented")
        self.session, self._password, self._negotiated_ms = held.session, held.password, held.negotiated_ms
        self._known_to_all, self.watch_manager = held.known_to_all, held.watch_manager
        self._seen, self._seen_by_events = held.seen, held.seen_by_events

    def _set_alarm(self) -> None:
        """Set the alarm for the next ping, or for the moment at which the client gives up the server."""
        time_us = self._negotiated_ms * 1_000
        at = self._received_at + time_us * 2 // 3
        if self.connected:
            at = min(at, self._sent_at + time_us // 3)
        self._alarms += 1
        self.world.push(max(at, self.world.now + 1_000), self._alarm, self._wire, self._alarms)

    def _alarm(self, wire: Wire, alarm: int) -> None:
        if wire is not self._wire or alarm != self._alarms or self.vanished:
            return
        now, time_us = self.world.now, self._negotiated_ms * 1_000
        if now - self._received_at >= time_us * 2 // 3:
            self._check_silence(wire)
            self._give_up()
            self._look_for_server()
            return
        if self.connected and now - self._sent_at >= time_us // 3:
            self._enqueue(PING)
            self._flush()
            if self._pinged_at < self._received_at:
                self._pinged_at = now
        self._set_alarm()

    def _check_silence(self, wire: Wire | None) -> None:
        """Check that the server has a reason for its silence since the first ping after its last message."""
        world, pinged_at = self.world, self._pinged_at
        if wire is None or not self.connected or pinged_at < self._received_at or world.script.knobs.open_requests:
            return
        timing = world.script.timing
        needed_us = 2 * timing.delay_us_max + timing.turn_us_max + PING_US_MAX
        if wire.served_since(pinged_at) and not self.slow_us and world.now - pinged_at > needed_us:
            what = f"server {self.server} does not answer a ping that client {self.id} sent at {pinged_at} us"
            raise Violation(PINGED, f"{what}, and the client gives up at {world.now} us")

    def lost(self, wire: Wire) -> None:
        """Handle that the server hung up, or that the connection broke."""
        if wire is self._wire and not self.vanished:
            self._disconnected()
            if self.leaving and not self._known_to_all:
                self._rest()
            elif self.wanted:
                self._look_for_server()

    def _give_up(self, late_ms: int = 0) -> None:
        if self._wire is not None:
            self._wire.dropped(late_ms * 1_000)
        self._disconnected()

    def _disconnected(self) -> None:
        self._wire = None
        self._close_sent = False
        self._out.clear()
        for call in self._sent:
            self.saw(Info(self.world.now, self.id, self.session, call.number))
        self._sent.clear()
        if self.connected:
            self.connected = False
            self._record_session_event("disconnected")

    # -- sending ---------------------------------------------------------------------------------------

    def _enqueue(self, frame: bytes) -> None:
        self._out.append(frame)

    def _flush(self) -> None:
        if self._out and self._wire is not None:
            out, self._out = self._out, []
            self._sent_at = self.world.now
            self._wire.up(b"".join(out))

    def _pump(self) -> None:
        if not self.connected or self.vanished:
            return
        while self.queue:
            call = self.queue.popleft()
            call.request = asked_by(call.request, self._proved)
            self._sent.append(call)
            self.saw(Invoke(self.world.now, self.id, self.session, call.number, self.server, call.request))
            self._xid += 1
            call.xid = self._xid
            self._enqueue(encode_request(call.op, call.xid, call.fields))
        if self.leaving and not self._close_sent:
            self._close_sent = True
            self._enqueue(_CLOSE)
        self._flush()

    # -- receiving -------------------------------------------------------------------------------------

    def receive(self, wire: Wire, data: bytes) -> None:
        if wire is not self._wire or self.vanished:
            return
        self._received_at = self.world.now
        if not self.connected:
            payload = self._first.feed(data)
            assert payload is not None, "a server sends its first frame whole"
            self._on_connect_response(decode_connect_response(payload))
            data = self._first.rest
        if data and wire is self._wire:
            for reply in self._reader.feed(data):
                self._replied(reply)
                if wire is not self._wire:
                    return
        self._pump()

    def _replied(self, reply: Reply) -> None:
        xid, zxid, error, body = reply
        if xid == EVENT_XID:
            event, _, path = decode_event(body)
            self._on_event(event, path, zxid)
        elif xid == _CLOSE_XID:
            if not error:  # otherwise the connection is read-only, and the client asks the next server
                self._over("closed")
        elif xid not in _UNCOUNTED:
            self._answered(xid, zxid, error, body)

    def _on_connect_response(self, response: ConnectResponse) -> None:
        if not response.session:
            # The session of a leaving client may have been closed by a request whose reply was lost.
            self._over("closed" if self.leaving else "expired")
            return
        resumed = self.session != 0
        self.session, self._password, self._negotiated_ms = (
            response.session,
            response.password or b"",
            response.timeout_ms,
        )
        self._read_only = bool(response.read_only)
        self._known_to_all = self._known_to_all or not self._read_only
        self.connected = True
        self._record_session_event("connected")
        self._set_alarm()
        lists = self.watch_manager.lists()
        if resumed and any(lists):
            self._enqueue(encode_request(Op.SET_WATCHES2, SET_WATCHES_XID, (self._seen, *lists)))

    def _answered(self, xid: int, zxid: int, error: int, body: bytes) -> None:
        if not self._sent or self._sent[0].xid != xid:
            asked = next((str(call.request) for call in self._sent if call.xid == xid), f"request {xid}")
            raise Violation(
                REPLIES, f"client {self.id} receives a reply to {asked}, which is not its oldest open request"
            )
        call = self._sent.popleft()
        self._seen = max(self._seen, zxid)
        if call.request.watch or call.request.op == "unwatch":
            self.watch_manager.answered(call.op, call.fields, error, self if call.request.watch else None)
        self.saw(Response(self.world.now, self.id, self.session, call.number, call.reply(zxid, error, body)))

    def _on_event(self, event: int, path: str, zxid: int) -> None:
        self._seen_by_events = max(self._seen_by_events, zxid)
        self.watch_manager.happened(event, path, zxid)
        self.saw(WatchFired(self.world.now, self.id, self.session, EVENTS[NodeEvent(event)], path, zxid))

    def notify(self, event: WatchEvent) -> None:
        """Ignore events of the watch manager, because the history already has them."""

    # -- the session -----------------------------------------------------------------------------------

    def _over(self, how: str) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.dropped()
        self.connected = False
        self._disconnected()
        self._record_session_event(how)
        self._rest()

    def _rest(self) -> None:
        """Forget the session and the queue. The client has no session until it has a request again."""
        self._attempt += 1
        self.wanted = self.leaving = False
        self.queue.clear()
        self._forget()
        self._seen = self._seen_by_events = 0

    def _forget(self) -> None:
        """Abandon the session, so that the next connection requests a new one. An impolite client keeps the old one."""
        if self.impolite_percent and self.session:
            self._earlier.append(
                AbandonedSession(
                    self.session, self._password, self._negotiated_ms, self._known_to_all, self.watch_manager,
                    self._seen, self._seen_by_events,
                )
            )  # fmt: skip
            del self._earlier[:-EARLIER_MAX]
        self.session = 0
        self._known_to_all = False
        self._password = b""
        self.watch_manager = WatchManager()

    def _record_session_event(self, state: str) -> None:
        user = served = ""
        if state == "connected":
            user = self._proved
            served = "read-only" if self._read_only else "local" if self.world.script.knobs.local_sessions else ""
        at = self.world.now
        self.saw(
            SessionEvent(at, self.id, self.session, state, self.server, self._negotiated_ms, user=user, served=served)
        )

    def saw(self, event: Event) -> None:
        self.world.saw(event)
