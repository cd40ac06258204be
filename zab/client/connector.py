"""Keeps a session connected: one server after another, for as long as there is a session.

The order is shuffled in every round, so that a thousand clients of a server that fails do not all run to the
same next one; for the same reason there is a pause between rounds, part of it chance.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

import trio

from zab.client.client_protocol import ClientProtocol
from zab.client.client_settings import ClientSettings
from zab.client.connect_attempts import ConnectAttempts
from zab.client.connection_failures import ConnectionOver, foreign_protocol, is_permanent
from zab.client.dialing import OUTSIDE, Address, Outside, shake_hands
from zab.client.hosts import Host, Hosts, shown
from zab.core.errors import RemoteProtocolError, WireError
from zab.net.wakeup import Wakeup
from zab.wire.client.connect import ConnectResponse, decode_connect_response, encode_connect_request
from zab.wire.client.frames import FirstFrame
from zab.wire.sasl import DigestClient

RECEIVE_BYTES: Final = 256 << 10
TRY_S_MIN: Final = 0.25
"""However many servers share the time that is given for the first connection: less is no try."""
STEADY_S: Final = 1.0
"""A connection that stood for so long was no accident: the next pause is a short one again."""

_log: Final = logging.getLogger("zab.client")


class Served(Protocol):
    """The session, as it is seen from here."""

    @property
    def ended(self) -> bool: ...
    def disconnected(self) -> None: ...
    def expired(self, why: str) -> None: ...


class Backoff:
    """Doubles, up to a bound; some of it is chance."""

    def __init__(self, least_ms: int, most_ms: int, random: Random) -> None:
        self._random = random
        self._least_s, self._most_s = least_ms / 1000, most_ms / 1000
        self.reset()

    def reset(self) -> None:
        self._next_s = self._least_s

    def next_s(self) -> float:
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._most_s)
        return pause_s * self._random.uniform(0.5, 1)


class Connector:
    def __init__(
        self,
        session: Served,
        machine: ClientProtocol,
        hosts: Hosts,
        settings: ClientSettings,
        *,
        tls: ssl.SSLContext | None,
        sasl: Callable[[], DigestClient] | None,
        read_only: bool,
        wait_ms: float | None,
        outside: Outside = OUTSIDE,
    ) -> None:
        self.tries = ConnectAttempts(hosts.hosts)
        self.server: Address | None = None
        """The server that the session is connected to."""
        self.bell = Wakeup()
        self.hopeless: Callable[[], object] | None = None
        """Called when every server has refused, in one round, for what waiting does not mend."""
        self._may_pass = False
        self._outside = outside
        self._random = outside.random
        self._session = session
        self._machine = machine
        self._hosts = hosts.hosts
        self._settings = settings
        self._asked_ms = machine.timeout_ms
        self._tls = tls
        self._sasl = sasl
        self._read_only = read_only
        self._first_s = None if wait_ms is None else wait_ms / 1000 / len(hosts.hosts)
        """The time for each server before the first connection, so that every one is tried."""
        self._better: Address | None = None
        self._scope: trio.CancelScope | None = None
        self._sent_at = self._received_at = self._pinged_at = 0.0
        self.heard_at = trio.current_time()
        """The time of the last request that a leader has answered since: it received a sign of life then or later.

        Only the attachment of a session and a `sync` count; a server that is cut off may answer all else, pings
        included.
        """
        self._unanswered_at: float | None = None
        """The time of the oldest ping after which nothing was received."""

    def _connect_s(self, addresses: int = 1) -> float:
        """Return the time for one of a host's addresses."""
        usual_s = (self._settings.connect_ms or self._machine.timeout_ms / len(self._hosts)) / 1000
        return usual_s if self._first_s is None else min(usual_s, max(self._first_s / addresses, TRY_S_MIN))

    async def run(self) -> None:
        pause = Backoff(self._settings.pause_ms_min, self._settings.pause_ms_max, self._random)
        while not self._session.ended:
            if await self._round() >= STEADY_S:
                pause.reset()
            if self._better is None:
                await trio.sleep(pause.next_s())

    async def _round(self) -> float:
        """Every address once, until one serves. For how long it did."""
        better, self._better = self._better, None
        self._may_pass = False
        if better is not None:
            stood_s = await self._connection(better, self._connect_s())
            if stood_s is not None or self._session.ended:
                return stood_s or 0.0
        for host, port in self._random.sample(self._hosts, len(self._hosts)):
            addresses = await self._addresses(host, port)
            for address in addresses:
                stood_s = await self._connection(address, self._connect_s(len(addresses)))
                if stood_s is not None or self._session.ended:
                    return stood_s or 0.0
        if self.hopeless is not None and not self._may_pass:
            self.hopeless()
        return 0.0

    def _is_hopeless(self, error: BaseException) -> bool:
        return is_permanent(error, refusals=self._settings.refused_ends)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        at: Host = host, port
        unanswered = "its name has no address: no answer to the question for it"
        self.tries.begin(at, shown(at), unanswered)
        try:
            with trio.fail_after(self._connect_s()):
                found = await self._outside.addresses(host, port)
        except (OSError, UnicodeError) as error:
            self._may_pass |= not self._is_hopeless(error)
            self.tries.failed(at, shown(at), f"its name has no address: {error}", warn=False)
            return []
        except trio.TooSlowError:
            self._may_pass = True
            self.tries.failed(at, shown(at), unanswered, warn=False)
            return []
        self._random.shuffle(found)
        return found

    # -- one connection ----------------------------------------------------------------------------

    async def _connection(self, address: Address, patience_s: float) -> float | None:
        """Connect and serve until the connection ends. Return how long it served, or None if it never did."""
        began: float | None = None
        why, wrong, hopeless = "it ended", False, False
        at, name, tries = (address.host, address.port), str(address), self.tries
        stream: trio.abc.Stream | None = None
        try:
            with trio.fail_after(patience_s):
                tries.begin(at, name, "it does not answer")
                stream = await self._outside.dial(address, self._tls, self._machine.timeout_ms)
                tries.begin(at, name, "it accepts, and then says nothing")
                await shake_hands(stream)
                response, rest = await self._greet(stream)
            began = trio.current_time()
            await self._converse(stream, address, response, rest)
        except* ConnectionOver as errors:
            why = str(_first(errors))
            hopeless = self._is_hopeless(_first(errors))
        except* trio.TooSlowError:
            why = f"{tries.doing}, for {patience_s:.3g} s"
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as errors:
            error = _first(errors)
            why = str(error.__cause__ or error) or type(error).__name__
            hopeless = self._is_hopeless(error)
        except* RemoteProtocolError as errors:
            why, wrong = f"it broke the protocol: {_first(errors)}", True
        finally:
            self.server = None
            if began is not None:
                self._machine.lost(f"{address}: {why}")
                self._session.disconnected()
            if stream is not None:
                await trio.aclose_forcefully(stream)
        event = "client_cuts_connection" if wrong else "client_cannot_connect"
        if began is None:
            self._may_pass |= not hopeless
            tries.failed(at, name, why, event, warn=wrong)
            return None
        if wrong:
            tries.failed(at, name, why, event, warn=True)
        _log.info("client_disconnected server=%s session=%#x why=%r", address, self._machine.session, why)
        return trio.current_time() - began

    async def _greet(self, stream: trio.abc.Stream) -> tuple[ConnectResponse, bytes]:
        machine = self._machine
        request = machine.connect_request(self._asked_ms, read_only=self._read_only)
        sent_at = trio.current_time()
        await stream.send_all(encode_connect_request(request))
        first = FirstFrame(self._settings.frame_bytes_max)
        payload: bytes | None = None
        said = bytearray()
        try:
            while payload is None:
                data = await stream.receive_some(RECEIVE_BYTES)
                if not data:
                    raise ConnectionOver("it closed the connection before it answered")
                said += data
                payload = first.feed(data)
            response = decode_connect_response(payload)
        except WireError as error:
            hint = foreign_protocol(said)
            raise error if hint is None else WireError(f"{error}: {hint}") from None
        if response.timeout_ms <= 0:
            if request.session:
                self._session.expired(f"{request.session:#x}: no server knows this session any more, or not so")
            raise ConnectionOver("it gave us no session")
        if request.session and response.session != request.session:
            raise RemoteProtocolError(f"session {response.session:#x}, where {request.session:#x} was asked for")
        if not response.read_only:
            self.heard(sent_at)
        return response, first.rest

    async def _converse(
        self, stream: trio.abc.Stream, address: Address, response: ConnectResponse, rest: bytes
    ) -> None:
        machine = self._machine
        self.server = address
        self.tries.reached()
        self.tries.begin((address.host, address.port), str(address), "it does not say whether it believes who this is")
        self._first_s = None
        self._sent_at = self._received_at = self._pinged_at = trio.current_time()
        self._unanswered_at = None
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            machine.connected(response, None if self._sasl is None else self._sasl())
            _log.info(
                "client_connected server=%s session=%#x timeout_ms=%d read_only=%s",
                address, machine.session, machine.timeout_ms, machine.read_only,
            )  # fmt: skip
            nursery.start_soon(self._send, stream)
            nursery.start_soon(self._keep_alive)
            if machine.read_only:
                nursery.start_soon(self._search, address)
            data: bytes | bytearray = rest
            while True:
                if data:
                    self._received_at, self._unanswered_at = trio.current_time(), None
                    machine.receive(data)
                    if self._session.ended:
                        break
                data = await stream.receive_some(RECEIVE_BYTES)
                if not data:
                    raise ConnectionOver("the server closed the connection")
            nursery.cancel_scope.cancel()

    def heard(self, asked_at: float) -> None:
        """A leader has answered what was asked for then."""
        self.heard_at = max(self.heard_at, asked_at)

    def cut(self, then: Address | None = None) -> None:
        """The connection, not the session, and try this server before all others: for tests of what happens then."""
        self._better = then or self._better
        if self._scope is not None:
            self._scope.cancel()

    async def _send(self, stream: trio.abc.Stream) -> None:
        """Send everything that has gathered in one turn at once."""
        machine = self._machine
        while True:
            data = machine.take()
            if data:
                self._sent_at = trio.current_time()
                await stream.send_all(data)
            else:
                await self.bell.wait()

    async def _keep_alive(self) -> None:
        """Ping whenever one side was silent for a third of the timeout; end the connection if a ping stays unanswered.

        The unanswered ping counts, not the silence: if this process was suspended, the server had nothing to answer.
        """
        part_s = self._machine.timeout_ms / 3000
        while True:
            due = max(min(self._sent_at, self._received_at), self._pinged_at) + part_s
            asked = self._unanswered_at
            await trio.sleep_until(due if asked is None else min(due, asked + part_s))
            now = trio.current_time()
            if asked is not None and now >= asked + part_s and self._unanswered_at == asked:
                await trio.sleep(part_s / 10)  # the answer may lie in the socket, and this task was woken first
                if self._unanswered_at == asked:
                    raise ConnectionOver(f"nothing was heard for {now - self._received_at:.3g} s")
            elif now >= due:
                self._pinged_at = now
                if self._unanswered_at is None:
                    self._unanswered_at = now
                self._machine.ping()

    # -- while the server is read only ---------------------------------------------------------------

    async def _search(self, here: Address) -> None:
        pause = Backoff(self._settings.search_ms_min, self._settings.search_ms_max, self._random)
        while True:
            await trio.sleep(pause.next_s())
            for host, port in self._random.sample(self._hosts, len(self._hosts)):
                for address in await self._addresses(host, port):
                    if address != here and await self._takes_changes(address):
                        self._better = address
                        raise ConnectionOver(f"{address} is there, and is not read only")

    async def _takes_changes(self, address: Address) -> bool:
        said = b""
        with trio.move_on_after(self._connect_s()):
            try:
                async with await self._outside.dial(address, self._tls, self._machine.timeout_ms) as stream:
                    await shake_hands(stream)
                    await stream.send_all(b"isro")
                    while len(said) < 2 and (data := await stream.receive_some(16)):
                        said += data
            except (OSError, trio.BrokenResourceError, ConnectionOver):
                return False
        return said == b"rw"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
