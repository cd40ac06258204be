"""A client of the store: sessions of `zab.connect` as shipped, one after another, over simulated streams."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import trio

from harness.checkers import Violation
from harness.checkers.service import NoCrash
from harness.faults import Step
from harness.history import Request
from harness.lists import user_name
from harness.protocol import request_of
from harness.worlds import recorded
from harness.worlds.stack.simulation import Simulation
from harness.worlds.stack.store.server import CLIENT_PORT, host_of
from zab.client.dialing import Address, Outside
from zab.core.errors import ZabError
from zab.runtime.waiter import Waiter

TIMEOUT_MS: Final = 1_000
"""The timeout of a session that a client begins because an operation needs one."""
IMPATIENT: Final = 0.08
"""The probability that the caller of a call has a short patience, and is cancelled after it."""
PATIENCE_MS_MAX: Final = 60


class ClientPlace:
    """The place of a client in the network, which owns its ends. Places of clients are negative, servers positive."""

    dead = False

    def __init__(self, number: int) -> None:
        self.id = -number

    @property
    def server(self) -> ClientPlace:
        return self


def address_of(server: int) -> Address:
    host = host_of(server)
    return Address(host, CLIENT_PORT, socket.AF_INET, (host, CLIENT_PORT))


class Client:
    def __init__(self, world: Simulation, recorder: recorded.Recorder, number: int) -> None:
        self.world = world
        self.id = number
        self.recorder = recorder
        self.server = 0
        """The server that it is connected to, or was connected to last."""
        self.session: recorded.RecordedSession | None = None
        self.leaving = self.vanished = False
        self.open_calls = 0
        """The number of calls that a caller waits for."""
        self.place = ClientPlace(number)
        self._user = ""
        self._random = Random(f"{world.script.seed}/client/{number}")
        self._outside = Outside(self._addresses, self._dial, self._random)
        self._back = trio.Event()

    @property
    def alive(self) -> recorded.RecordedSession | None:
        return self.session if self.session is not None and self.session.alive else None

    @property
    def connected(self) -> bool:
        return self.session is not None and self.session.connected

    @property
    def settled(self) -> bool:
        """Return whether no call is open, and the client is connected or has no session."""
        return not self.leaving and not self.open_calls and (self.connected or self.alive is None)

    @property
    def state(self) -> str:
        """Describe the client for messages."""
        where = f"{'connected to' if self.connected else 'disconnected, last from'} server {self.server}"
        return f"client {self.id} is {where}, with {self.open_calls} open calls{', leaving' if self.leaving else ''}"

    @property
    def protocol(self) -> recorded.RecordingProtocol:
        assert self.session is not None
        return self.session.protocol

    # -- connections -----------------------------------------------------------------------------------

    async def _addresses(self, host: str, port: int) -> list[Address]:
        await trio.lowlevel.checkpoint()
        return [address_of(int(host[1:]))]

    async def _dial(self, address: Address, tls: ssl.SSLContext | None, silence_ms: int) -> trio.abc.Stream:
        if self.vanished:
            await self._back.wait()
        stream = await self.world.network.connect(self.place, address.host, address.port)
        self.server = int(address.host[1:])
        return stream

    def session_of(self, timeout_ms: int) -> recorded.RecordedSession:
        return recorded.RecordedSession(self, self.hosts, timeout_ms, self._outside, recorded.SETTINGS, self._user)

    @property
    def hosts(self) -> str:
        return ",".join(f"{host_of(each.id)}:{CLIENT_PORT}" for each in self.world.servers[1:] if each.founded)

    def begin(self, timeout_ms: int, server: int | None = None) -> recorded.RecordedSession:
        self.session = session = self.session_of(timeout_ms)
        if server is not None:
            session.connector.cut(address_of(server))
        self.world.spawn(self._keep, session)
        return session

    async def _keep(self, session: recorded.RecordedSession) -> None:
        """Keep the session connected until it ends."""
        try:
            await session.connector.run()
        except Exception as error:
            self.world.violated(Violation(NoCrash.invariant, f"client {self.id} ended with {error!r}"))

    # -- operations of the script ----------------------------------------------------------------------

    def connect(self, server: Any, timeout_ms: int, user: int = 0, late_ms: int = 0) -> None:
        """Begin a session, or move the current one, which keeps its user. `late_ms`: see `Net.abandon`."""
        if self.vanished or self.leaving:
            return
        self._user = user_name(user) or self._user
        session = self.alive
        if session is None:
            self.begin(timeout_ms, server.id)
        elif late_ms or not (session.connected and self.server == server.id):
            if late_ms:
                self.world.network.abandon(self.place, late_ms * 1_000)
            session.connector.cut(address_of(server.id))

    def ask(self, steps: Sequence[Step]) -> None:
        """Submit a request, in a new session if there is none."""
        if self.vanished or self.leaving:
            return
        request = request_of(steps, self.recorder.calls + 1)
        impatient = self._random.random() < IMPATIENT
        patience_s = self._random.random() * PATIENCE_MS_MAX / 1_000
        # The specification does not say if a watch of a cancelled call fires, so such calls are not cancelled.
        call, waiter = self._submit(request)
        self.world.spawn(self._wait, call, waiter, patience_s if impatient and not request.watch else float("inf"))

    def _submit(self, request: Request) -> tuple[recorded.RecordedCall, Waiter]:
        session = self.alive or self.begin(TIMEOUT_MS, None)
        self.recorder.calls += 1
        waiter = Waiter()
        call = recorded.RecordedCall(
            request, self.recorder.calls, waiter.done, recorded.IgnoringWatcher() if request.watch else None
        )
        session.protocol.submit(call)
        self.open_calls += 1
        return call, waiter

    async def _wait(self, call: recorded.RecordedCall, waiter: Waiter, patience_s: float) -> None:
        """Wait for a call as `RemoteSession` does for its caller."""
        session = self.session
        assert session is not None
        try:
            with trio.move_on_after(patience_s) as scope:
                try:
                    await waiter.wait()
                except trio.Cancelled:
                    session.protocol.cancel(call)
                    raise
            if scope.cancelled_caught and not self.world.over:
                self.world.counted("cancelled call")
        except ZabError:
            pass  # it is in the history
        finally:
            self.open_calls -= 1

    async def outcome(self, request: Request) -> tuple[Any, Exception | None]:
        """Submit a request, and return its result or its error."""
        _, waiter = self._submit(request)
        try:
            return await waiter.wait(), None
        except ZabError as error:
            return None, error
        finally:
            self.open_calls -= 1

    def leave(self) -> None:
        session = self.alive
        if self.vanished or self.leaving or session is None:
            return
        self.leaving = True
        self.world.spawn(self._leave, session)

    async def _leave(self, session: recorded.RecordedSession) -> None:
        await session.close()
        if session.protocol.close_acknowledged:
            session.protocol.ended("closed")
        self.session = None
        self.leaving = False

    def vanish(self) -> bool:
        """Cut the client off until `come_back`. Return False if it was cut off before."""
        if self.vanished:
            return False
        self.vanished, self._back = True, trio.Event()
        self.world.network.cut_off(self.place)
        return True

    def come_back(self) -> None:
        self.vanished = False
        self._back.set()
