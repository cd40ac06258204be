"""The shell of a client connection in simulation: the real `ClientConnection`, fed from a wire on virtual time.

It does what `zab.runtime.store_server.connection_shell` does with a socket: it passes on what has arrived while the
connection has room for more, sends what gathered when the server's turn is over, and keeps the handshake's deadline.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from zab.service.client_sessions import Steps
from zab.service.connection.client_connection import ClientConnection
from zab.service.connection.ports import ConnectionPhase, Done
from zab.service.overflow_queue import OverflowRequest
from zab.store.operations import Fields
from zab.wire.client.client_frames import Command

if TYPE_CHECKING:
    from harness.worlds.cores.store.client_port import SimulatedClientPort
    from harness.worlds.cores.store.wire import Wire

HOST: Final = "127.0.0.1"


class SimulatedShell:
    def __init__(self, port: SimulatedClientPort, wire: Wire) -> None:
        self.port = port
        self.wire = wire
        self.steps: Steps[Any] | None = None
        """The operation that creates or attaches the session, while it is under way."""
        self.asked: OverflowRequest | None = None
        """Its step that the ensemble carries out, or None."""
        self._unread = b""
        """Bytes that have arrived and were not handed to the connection yet."""
        self._hung_up = False
        """Whether the client has hung up."""
        self._over = False
        """Whether the connection is closed on this side."""
        self._dirty = False
        """Whether `flush` will be called at the end of the turn."""
        self._pauses = False
        """Whether `_again` will be called at the end of a throttle's pause."""
        self._deadline = inf
        """The deadline for which an alarm is set."""
        self.connection = ClientConnection(port.clients, self, self._clock, HOST, f"{HOST}:{wire.client.id}")

    def _clock(self) -> float:
        return self.port.server.now_ms / 1000

    # -- the wire --------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if not self._over:
            self._unread += data
            self._read()
            self.output_ready()
            self.port.turned()

    def hung_up(self) -> None:
        """The client is gone. While a session is awaited nothing is read, and so this is not noticed."""
        self._hung_up = True
        self.output_ready()
        self.port.turned()

    def _read(self) -> None:
        connection = self.connection
        while (pause_s := connection.advance()) == 0 or (pause_s is None and self._unread):
            if pause_s is None:
                first = connection.phase is ConnectionPhase.FIRST_FRAME
                data, self._unread = self._unread, b""
                connection.receive(data)
                if first:
                    self.port.judge_admission()
        if pause_s is not None and pause_s != inf and not self._pauses:
            self._pauses = True
            self.port.later(round(pause_s * 1000), self._again)

    def _again(self) -> None:
        """The pause of a throttle is over."""
        self._pauses = False
        if not self._over:
            self._read()
            self.output_ready()

    def flush(self) -> None:
        """A turn of the server is over."""
        self._dirty = False
        if self._over:
            return
        connection, buffer = self.connection, self.connection.send_buffer
        self._read()
        connection.settle()
        if connection.phase is not ConnectionPhase.OVER and buffer.frames:
            data = buffer.take()
            buffer.gone(len(data))
            self.wire.down(data)
        if connection.phase >= ConnectionPhase.CLOSING:
            self._end()
            self.wire.hung_up()
        elif self._hung_up and connection.phase is not ConnectionPhase.ARRIVING:
            self._end()
        elif connection.deadline not in (inf, self._deadline):
            self._deadline = connection.deadline
            self._wind()

    @property
    def over(self) -> bool:
        """True if the connection is closed on this side."""
        return self._over

    def _end(self) -> None:
        self._over = True
        self.connection.closed()
        self.port.closed(self)

    def _wind(self) -> None:
        world, server = self.port.world, self.port.server
        pause_ms = max(1, round((self._deadline - self._clock()) * 1000))
        world.push(world.now + pause_ms * 1_000, self._alarm, server.life, self._deadline)

    def _alarm(self, life: int, deadline: float) -> None:
        server = self.port.server
        if server.life != life or self._over or self.connection.deadline != deadline:
            return
        if server.paused:
            server.backlog.append((self._alarm, life, deadline))
        elif self._clock() < deadline:
            self._wind()
        else:
            self.connection.tick()
            self.port.turned()

    # -- what the connection asks for --------------------------------------------------------------------

    def output_ready(self) -> None:
        if not self._dirty:
            self._dirty = True
            self.port.dirty(self)

    wake = output_ready

    def answer_command(self, command: Command) -> bytes:
        raise AssertionError("simulated clients send no four-letter words")

    def when_readable(self, done: Done) -> None:
        self.port.when_readable(self, done)

    def barrier(self, done: Done) -> None:
        self.port.barrier(done)

    def sync(self, session: int, done: Done) -> None:
        self.port.barrier(done, self.port.clients.tracker.sign_of(session))

    def create_session(self, timeout_ms: int, done: Done) -> None:
        self.port.carry_out(self, self.port.clients.sessions.create(timeout_ms), done)

    def create_local_session(self, timeout_ms: int, read_only: bool, done: Done) -> None:
        port = self.port
        steps = port.clients.sessions.create_local(timeout_ms, lambda: port.server.now_ms, read_only=read_only)
        port.carry_out(self, steps, done)

    def attach_session(self, session: int, password: bytes | None, done: Done) -> None:
        self.port.carry_out(self, self.port.clients.sessions.find(session, password), done)

    def change_membership(self, fields: Fields, done: Done) -> None:
        self.port.change_membership(self, fields, done)
