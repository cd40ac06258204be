"""Keep a session connected to one server after another, for as long as the session lasts.

The order of the servers is random in every round, so that the clients of a failed server do not all connect to the same
next one. The pause between two rounds is partly random, so that they do not connect at the same moment.
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
from zab.client.keep_alive import KeepAlive
from zab.core.errors import RemoteProtocolError, WireError
from zab.net.wakeup import Wakeup
from zab.wire.client.client_frames import FirstFrame
from zab.wire.client.connect import ConnectResponse, decode_connect_response, encode_connect_request
from zab.wire.sasl import DigestClient

RECEIVE_BYTES: Final = 256 << 10
TRY_S_MIN: Final = 0.25
"""The minimum of one attempt's share of `wait_ms`, which is divided among the hosts and their addresses."""
STEADY_S: Final = 1.0
"""The shortest duration of a connection that counts as a success: the next pause is a short one again."""

_log: Final = logging.getLogger("zab.client")


class ConnectedSession(Protocol):
    """The part of a session that the connector uses."""

    @property
    def ended(self) -> bool: ...
    def disconnected(self) -> None: ...
    def expired(self, why: str) -> None: ...


class Backoff:
    """Pauses that double up to a limit. Up to half of each pause is left out at random."""

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
    """Finds a server for the session, and moves bytes between the server and the protocol until the connection ends."""

    def __init__(
        self,
        session: ConnectedSession,
        machine: ClientProtocol,
        hosts: Hosts,
        settings: ClientSettings,
        *,
        tls: ssl.SSLContext | None,
        sasl: Callable[[], DigestClient] | None,
        read_only: bool,
        wait_ms: float | None,
        outside: Outside = OUTSIDE,
        on_permanent_failure: Callable[[], object] = lambda: None,
    ) -> None:
        self.attempts = ConnectAttempts(hosts.hosts)
        """The last outcome of each server, for the log and for the final error."""
        self.server: Address | None = None
        """The server that the session is connected to; None without a connection."""
        self.wakeup = Wakeup()
        """Wakes the sending task when the protocol has bytes to send."""
        self._on_permanent_failure = on_permanent_failure
        """Called after a round in which every server failed for a permanent reason."""
        self._may_recover = False
        """True if a failure of this round may go away by waiting."""
        self._outside = outside
        """The environment: name resolution, streams and randomness."""
        self._session = session
        self._machine = machine
        self._hosts = hosts.hosts
        self._settings = settings
        self._asked_ms = machine.granted.timeout_ms
        """The session timeout that every ConnectRequest asks for: the one that the caller wants."""
        self._tls = tls
        self._sasl = sasl
        """Makes the SASL exchange of a new connection; None if the session does not use SASL."""
        self._read_only = read_only
        """True if the session accepts a server without a quorum."""
        self._first_s = None if wait_ms is None else wait_ms / 1000 / len(hosts.hosts)
        """Each host's share of `wait_ms`; None after the first connection, or without `wait_ms`."""
        self._better: Address | None = None
        """The server to try before all others."""
        self._scope: trio.CancelScope | None = None
        """Ends the present connection."""
        self.last_received_at = trio.current_time()
        """The time at which the last request that a leader has answered was made: the leader certainly received it
        later. Before the first answer it is the time at which the session object was made.

        Only a `sync` and the attachment to a server with a quorum count. A server may answer reads and pings without a
        leader.
        """

    def _connect_s(self, addresses: int = 1) -> float:
        """Return the timeout of one attempt to resolve a host, or to connect to one of its addresses, in seconds."""
        usual_s = (self._settings.connect_ms or self._machine.granted.timeout_ms / len(self._hosts)) / 1000
        return usual_s if self._first_s is None else min(usual_s, max(self._first_s / addresses, TRY_S_MIN))

    async def run(self) -> None:
        """Connect again and again until the session has ended."""
        pause = Backoff(self._settings.pause_ms_min, self._settings.pause_ms_max, self._outside.random)
        while not self._session.ended:
            if await self._round() >= STEADY_S:
                pause.reset()
            if self._better is None:
                await trio.sleep(pause.next_s())

    async def _round(self) -> float:
        """Try the addresses in turn until a server accepts the session, and keep that connection until it ends.

        Return the duration of the connection in seconds; 0 if no server accepted the session.
        """
        better, self._better = self._better, None
        self._may_recover = False
        if better is not None:
            stood_s = await self._connection(better, self._connect_s())
            if stood_s is not None or self._session.ended:
                return stood_s or 0.0
        for host, port in self._outside.random.sample(self._hosts, len(self._hosts)):
            addresses = await self._addresses(host, port)
            for address in addresses:
                stood_s = await self._connection(address, self._connect_s(len(addresses)))
                if stood_s is not None or self._session.ended:
                    return stood_s or 0.0
        if not self._may_recover:
            self._on_permanent_failure()
        return 0.0

    def _is_permanent(self, error: BaseException) -> bool:
        return is_permanent(error, refusals=self._settings.refused_ends)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        at: Host = host, port
        unanswered = "its name cannot be resolved: the resolver does not answer"
        self.attempts.begin(at, shown(at), unanswered)
        try:
            with trio.fail_after(self._connect_s()):
                found = await self._outside.addresses(host, port)
        except (OSError, UnicodeError) as error:
            self._may_recover |= not self._is_permanent(error)
            self.attempts.failed(at, shown(at), f"its name cannot be resolved: {error}", warn=False)
            return []
        except trio.TooSlowError:
            self._may_recover = True
            self.attempts.failed(at, shown(at), unanswered, warn=False)
            return []
        self._outside.random.shuffle(found)
        return found

    # -- one connection ----------------------------------------------------------------------------

    async def _connection(self, address: Address, patience_s: float) -> float | None:
        """Connect, and move bytes until the connection ends.

        Return the connection's duration in seconds, or None if the session was not accepted.
        """
        began: float | None = None
        why, violation, permanent = "it ended", False, False
        at, name, attempts = (address.host, address.port), str(address), self.attempts
        stream: trio.abc.Stream | None = None
        try:
            with trio.fail_after(patience_s):
                attempts.begin(at, name, "it does not answer")
                stream = await self._outside.dial(address, self._tls, self._machine.granted.timeout_ms)
                attempts.begin(at, name, "it accepts connections and sends nothing")
                await shake_hands(stream)
                response, rest = await self._greet(stream)
            began = trio.current_time()
            await self._converse(stream, address, response, rest)
        except* ConnectionOver as errors:
            why = str(_first_cause(errors))
            permanent = self._is_permanent(_first_cause(errors))
        except* trio.TooSlowError:
            why = f"{attempts.doing}, for {patience_s:.3g} s"
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as errors:
            error = _first_cause(errors)
            why = str(error.__cause__ or error) or type(error).__name__
            permanent = self._is_permanent(error)
        except* RemoteProtocolError as errors:
            why, violation = f"it broke the protocol: {_first_cause(errors)}", True
        finally:
            self.server = None
            if began is not None:
                self._machine.lost(f"{address}: {why}")
                self._session.disconnected()
            if stream is not None:
                await trio.aclose_forcefully(stream)
        event = "client_cuts_connection" if violation else "client_cannot_connect"
        if began is None:
            self._may_recover |= not permanent
            attempts.failed(at, name, why, event, warn=violation)
            return None
        if violation:
            attempts.failed(at, name, why, event, warn=True)
        _log.info("client_disconnected server=%s session=%#x why=%r", address, self._machine.granted.id, why)
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
                self._session.expired(f"{request.session:#x}: the session has expired, or its password is wrong")
            raise ConnectionOver("it refused the session")
        if request.session and response.session != request.session:
            raise RemoteProtocolError(
                f"it attached session {response.session:#x}, not the requested {request.session:#x}"
            )
        if not response.read_only:
            self.leader_answered(sent_at)
        return response, first.rest

    async def _converse(
        self, stream: trio.abc.Stream, address: Address, response: ConnectResponse, rest: bytes
    ) -> None:
        machine = self._machine
        self.server = address
        self.attempts.reached()
        self.attempts.begin((address.host, address.port), str(address), "it does not reply to the login")
        self._first_s = None
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            machine.connected(response, None if self._sasl is None else self._sasl())
            _log.info(
                "client_connected server=%s session=%#x timeout_ms=%d read_only=%s",
                address, machine.granted.id, machine.granted.timeout_ms, machine.read_only,
            )  # fmt: skip
            alive = KeepAlive(machine.granted.timeout_ms, trio.current_time())
            nursery.start_soon(self._send, stream, alive)
            nursery.start_soon(self._ping, alive)
            if machine.read_only:
                nursery.start_soon(self._search, address)
            data: bytes | bytearray = rest
            while True:
                if data:
                    alive.received(trio.current_time())
                    machine.receive(data)
                    if self._session.ended:
                        break
                data = await stream.receive_some(RECEIVE_BYTES)
                if not data:
                    raise ConnectionOver("the server closed the connection")
            nursery.cancel_scope.cancel()

    def leader_answered(self, asked_at: float) -> None:
        """Note that a leader has answered a request that was made at this time."""
        self.last_received_at = max(self.last_received_at, asked_at)

    def cut(self, then: Address | None = None) -> None:
        """End the connection, not the session. Try the server `then` first, if it is given. For tests."""
        self._better = then or self._better
        if self._scope is not None:
            self._scope.cancel()

    async def _send(self, stream: trio.abc.Stream, alive: KeepAlive) -> None:
        """Send frames until cancelled. Each call of `send_all` sends all frames that wait."""
        machine = self._machine
        while True:
            data = machine.take()
            if data:
                alive.sent_at = trio.current_time()
                await stream.send_all(data)
            else:
                await self.wakeup.wait()

    async def _ping(self, alive: KeepAlive) -> None:
        while True:
            await trio.sleep_until(alive.next_at)
            if alive.must_ping(trio.current_time()):
                self._machine.ping()

    # -- while the server is read only -------------------------------------------------------------

    async def _search(self, here: Address) -> None:
        """Look for a server with a quorum, and end the connection to the present server when one is found."""
        pause = Backoff(self._settings.search_ms_min, self._settings.search_ms_max, self._outside.random)
        while True:
            await trio.sleep(pause.next_s())
            for host, port in self._outside.random.sample(self._hosts, len(self._hosts)):
                for address in await self._addresses(host, port):
                    if address != here and await self._has_quorum(address):
                        self._better = address
                        raise ConnectionOver(f"{address} has a quorum, so the session moves to it")

    async def _has_quorum(self, address: Address) -> bool:
        reply = b""
        with trio.move_on_after(self._connect_s()):
            try:
                async with await self._outside.dial(address, self._tls, self._machine.granted.timeout_ms) as stream:
                    await shake_hands(stream)
                    await stream.send_all(b"isro")
                    while len(reply) < 2 and (data := await stream.receive_some(16)):
                        reply += data
            except (OSError, trio.BrokenResourceError, ConnectionOver):
                return False
        return reply == b"rw"


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
