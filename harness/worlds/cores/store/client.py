"""A client of the store: a process outside of the servers, which turns the client protocol of the product.

`ClientProtocol` and `KeepAlive` do what client libraries do within a session. This module has what is outside of them:
it dials simulated servers, turns virtual time into alarms, and begins, abandons and ends sessions.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from harness.checkers.oracle_state import Violation
from harness.checkers.store.order import REPLIES
from harness.faults import Step
from harness.history import Event, Request
from harness.lists import user_name
from harness.protocol import request_of
from harness.worlds.cores.store.checks import PINGED
from harness.worlds.cores.store.simulator import StoreSimulator
from harness.worlds.cores.store.wire import Wire
from harness.worlds.recorded import SETTINGS, IgnoringWatcher, RecordedCall, Recorder, RecordingProtocol, ignore
from zab.client.calls import Call, Done
from zab.client.client_protocol import CallQueue
from zab.client.client_settings import ClientSettings
from zab.client.connection_failures import ConnectionOver
from zab.client.keep_alive import KeepAlive
from zab.core.errors import OutcomeUnknown, RemoteProtocolError, WireError
from zab.session.watch_manager import WatchManager
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.wire.client.client_frames import FirstFrame
from zab.wire.client.connect import decode_connect_response, encode_connect_request

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
UNREAD: Final = ("requests_max", "requests_total_max")
"""The constants above which a server does not even read pings."""
_WATCHER: Final = IgnoringWatcher()


class SimulatedProtocol(RecordingProtocol):
    """The protocol of one session of a simulated client, which owns it."""

    _client: Client

    def __init__(self, client: Client) -> None:
        super().__init__(client, client, WatchManager(), client.settings, TIMEOUT_MS)

    @property
    def open_calls(self) -> int:
        """Return the number of calls that are not answered or not sent."""
        return len(self._in_flight) + len(self._queue)

    def _has_room(self) -> bool:
        """Return False while the client is vanished, so that its calls wait for the next connection."""
        return not self._client.vanished and super()._has_room()

    def served(self) -> str:
        return "read-only" if self.read_only else "local" if self._client.world.script.knobs.local_sessions else ""

    def move_waiting_calls(self, other: SimulatedProtocol) -> None:
        queue, self._queue = self._queue, CallQueue()
        for call in queue:
            other.submit(call)

    def over(self, how: str) -> None:
        """End the session. The history has `how` a server ended it, else the end of its connection."""
        self.open = self.open and not how
        self.end(ErrorCode.SESSION_EXPIRED, "the session is over")
        if how:
            self.ended(how)


def call_of(number: int, request: Request, done: Done = ignore) -> RecordedCall:
    return RecordedCall(request, number, done, _WATCHER if request.watch else None)


class Client:
    def __init__(self, world: StoreSimulator, number: int) -> None:
        self.world = world
        self.id = number
        self.server = 0
        """The id of the server that the client dialled last."""
        self.slow_us = 0
        """The additional delay of its messages, in microseconds."""
        self.accepts_read_only = world.script.knobs.read_only_ms > 0 and number % 2 == 1
        """True if it accepts read-only connections, to servers without a leader."""
        self.wanted = False
        """True if the client needs a session."""
        self.leaving = False
        self.vanished = False
        self.impolite_percent = world.script.knobs.impolite_percent
        self.recorder = Recorder(lambda: world.now, self.saw)
        self.protocol = SimulatedProtocol(self)
        """The present session. A client that needs no session has one that no server knows."""
        self._earlier: list[SimulatedProtocol] = []
        """The abandoned sessions of an impolite client, the newest last."""
        self._random = Random(f"{world.script.seed}/client/{number}")
        self._timeout_ms = TIMEOUT_MS
        self._user = ""
        """The user that the client authenticates as from its next connection on."""
        self._wire: Wire | None = None
        self._first = FirstFrame()
        self._alive: KeepAlive | None = None
        """The keep-alive of the present connection; None before a server has accepted the session."""
        self._attempt = 0
        self._alarms = 0

    @property
    def settings(self) -> ClientSettings:
        return SETTINGS

    @property
    def session(self) -> int:
        return self.protocol.granted.id

    @property
    def connected(self) -> bool:
        return self.protocol.open

    @property
    def open_calls(self) -> int:
        return self.protocol.open_calls

    @property
    def settled(self) -> bool:
        """True if the client is connected or needs no session, and no call is open."""
        return not self.leaving and not self.protocol.open_calls and (self.connected or not self.wanted)

    @property
    def state(self) -> str:
        """Return the state of the client, for messages."""
        place = f"connected to server {self.server}" if self.connected else f"not connected (last to {self.server})"
        return f"client {self.id} is {place}, and has {self.protocol.open_calls} open calls"

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
        self.call(call_of(number, request_of(steps, number)))

    def call(self, call: Call) -> None:
        self.protocol.submit(call)
        self.want()
        self._flush()

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
        self._close()

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
        self._attempt += 1
        self._choose_session()
        protocol = self.protocol
        if protocol.user != self._user:
            protocol.setup.auths.clear()
            protocol.authenticate_as(self._user)
        self.server = server.id
        self._wire = Wire(self.world, self, server, self._random)
        self._first = FirstFrame()
        request = protocol.connect_request(self._timeout_ms, read_only=self.accepts_read_only)
        self._wire.up(encode_connect_request(request))
        self._set_alarm()

    def _choose_session(self) -> None:
        """Continue the present session if all servers know it. An impolite client may present an earlier one.

        An earlier session may be alive, expired, closed, attached elsewhere, or local to a server.
        """
        impolite = self.impolite_percent > 0 and self._random.random() * 100 < self.impolite_percent
        if self.session and not self.protocol.granted.known_to_all:
            seen = self.protocol.last_zxid
            self._switch_to(SimulatedProtocol(self))
            self.protocol.last_zxid = seen
        if impolite and self._earlier and not self.leaving:
            last = self._random.random() < IMPOLITE_LAST
            self._switch_to(self._earlier.pop(-1 if last else int(self._random.random() * len(self._earlier))))
            self.protocol.granted.known_to_all = True  # present it even if it is local to a server
            self.world.counted("earlier session presented")

    def _switch_to(self, protocol: SimulatedProtocol) -> None:
        """Abandon the session, which an impolite client keeps."""
        if self.impolite_percent and self.session:
            self._earlier.append(self.protocol)
            del self._earlier[:-EARLIER_MAX]
        self.protocol.move_waiting_calls(protocol)
        self.protocol = protocol

    def _set_alarm(self) -> None:
        """Set the alarm for the next ping, or for the moment at which the client gives up the server."""
        alive = self._alive
        patience_us = self._timeout_ms * 2_000 // 3
        at = self.world.now + patience_us if alive is None else int(alive.next_at * 1_000_000) + 1
        self._alarms += 1
        self.world.push(at, self._alarm, self._wire, self._alarms)

    def _alarm(self, wire: Wire, alarm: int) -> None:
        if wire is not self._wire or alarm != self._alarms or self.vanished:
            return
        try:
            if self._alive is None:
                raise ConnectionOver("the server does not accept the session")
            if self._alive.must_ping(self._now_s):
                self.protocol.ping()
                self._flush()
        except ConnectionOver:
            self._check_silence(wire)
            self._give_up()
            self._look_for_server()
        else:
            self._set_alarm()

    @property
    def _now_s(self) -> float:
        return self.world.now / 1_000_000

    def _check_silence(self, wire: Wire) -> None:
        """Check that the server has a reason for its silence since the first ping after its last message."""
        world = self.world
        if self._alive is None or self._alive.unanswered_at is None or world.script.knobs.open_requests:
            return
        if any(each.name in UNREAD for each in world.script.constants):
            return
        pinged_at = round(self._alive.unanswered_at * 1_000_000)
        timing = world.script.timing
        needed_us = 2 * timing.delay_us_max + timing.turn_us_max + PING_US_MAX
        if wire.served_since(pinged_at) and not self.slow_us and world.now - pinged_at > needed_us:
            what = f"server {self.server} does not answer a ping that client {self.id} sent at {pinged_at} us"
            raise Violation(PINGED, f"{what}, and the client gives up at {world.now} us")

    def lost(self, wire: Wire) -> None:
        """Handle that the server hung up, or that the connection broke."""
        if wire is self._wire and not self.vanished:
            self._disconnected()
            if self.leaving and not self.protocol.granted.known_to_all:
                self._rest()
            elif self.wanted:
                self._look_for_server()

    def _give_up(self, late_ms: int = 0) -> None:
        if self._wire is not None:
            self._wire.dropped(late_ms * 1_000)
        self._disconnected()

    def _disconnected(self) -> None:
        self._wire = self._alive = None
        self.protocol.lost("the client has no connection")

    # -- sending and receiving -------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._alive is not None and self._wire is not None and not self.vanished:
            data = self.protocol.take()
            if data:
                self._alive.sent_at = self._now_s
                self._wire.up(data)

    def receive(self, wire: Wire, data: bytes) -> None:
        if wire is not self._wire or self.vanished:
            return
        try:
            if self._alive is None:
                data = self._accepted(data)
            else:
                self._alive.received(self._now_s)
            if data and wire is self._wire:
                self.protocol.receive(data)
        except WireError:
            raise
        except RemoteProtocolError as error:
            raise Violation(REPLIES, f"server {self.server} sends client {self.id} {error}") from error
        self._flush()

    def _accepted(self, data: bytes) -> bytes:
        """Begin the connection with the first bytes of the server. Return the bytes after its first frame."""
        payload = self._first.feed(data)
        assert payload is not None, "a server sends its first frame whole"
        response = decode_connect_response(payload)
        if not response.session:
            # The session of a leaving client may have been closed by a request whose reply was lost.
            self._rest("closed" if self.protocol.close_sent else "expired")
            return b""
        self._alive = KeepAlive(response.timeout_ms, self._now_s)
        self._set_alarm()
        self.protocol.connected(response)
        return self._first.rest

    # -- called by the protocol ------------------------------------------------------------------------

    def wake(self) -> None:
        """Do nothing, because each event of the client ends with a flush."""

    def opened(self) -> None:
        """Do nothing, because calls need not wait for it."""

    def auth_failed(self, code: int, why: str) -> None:
        raise AssertionError(f"client {self.id}: {why}")

    # -- the session -----------------------------------------------------------------------------------

    def _close(self) -> None:
        call = Call(Op.CLOSE_SESSION, (), f"{self.session:#x}", self._on_closed)
        self.protocol.close(call, ErrorCode.SESSION_EXPIRED, "the client leaves")
        self._flush()

    def _on_closed(self, _: Any, error: Exception | None) -> None:
        """End the session. If the server is read-only and refuses to close it, it ends by itself."""
        if not self.leaving:
            return
        if isinstance(error, OutcomeUnknown):
            self._close()
        else:
            self._rest("closed" if error is None else "")

    def _rest(self, how: str = "") -> None:
        """Forget the session and its calls. The client has no session until it has a request again.

        If a server has ended the session, `how` is "closed" or "expired".
        """
        self._attempt += 1
        self.wanted = self.leaving = False
        if self._wire is not None:
            self._wire.dropped()
        self._wire = self._alive = None
        self.protocol.over(how)
        self._switch_to(SimulatedProtocol(self))

    def saw(self, event: Event) -> None:
        self.world.saw(event)
