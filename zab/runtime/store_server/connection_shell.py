"""The shell of one client connection: it moves the bytes of a `ClientConnection`, and carries out its effects.

Most clients read their replies at once. So a connection begins as a single task that reads: a nursery with more tasks
would take a tenth of the time that a session costs. On a plain socket, the nursery is opened only if the socket does
not accept all bytes, a deadline is set, or a change of membership has to run beside the reading. It is always opened
with TLS, and if no shared reader reads the socket.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from zab.core.errors import ZabError
from zab.host.clocks import loop_clock
from zab.net.wakeup import Wakeup
from zab.runtime.store_server.four_letter_words import answer
from zab.service.connection.client_connection import ClientConnection
from zab.service.connection.ports import ConnectionPhase, Done
from zab.store.acl import Identity
from zab.store.operations import Fields
from zab.wire.client.client_frames import Command

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

RECEIVE_BYTES: Final = 64 << 10
ADVANCE_S: Final = 0.05
"""The longest time between two retries of held requests, on a stream whose reading cannot be interrupted."""


class ConnectionShell:
    """Moves the bytes of one client connection between its socket and its `ClientConnection`."""

    def __init__(
        self,
        server: ServerRuntime,
        stream: trio.abc.Stream,
        host: str,
        peer: str,
        proved: Iterable[Identity] = (),
        shown: Callable[[], None] = lambda: None,
    ) -> None:
        """`proved`: identities that TLS has proved. `shown` is called when the first frame has arrived."""
        self._server = server
        self._stream = stream
        self._fd = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None
        """The descriptor of a plain TCP stream, which is read and written directly; None for TLS."""
        self._shown = shown
        self._scope = trio.CancelScope()
        """Ends reading and sending, but not the linger and the close that follow."""
        self._changed = Wakeup()
        """Wakes the task that waits in `_may_read`. Rung when bytes were sent, and by `_interrupt`."""
        self._unsent = Wakeup()
        """Rung when bytes are left for the sending task: the socket had no room, or only this task writes (TLS)."""
        self._deadline_set = Wakeup()
        """Rung when the connection has set a deadline."""
        self._sending = False
        """True while a task sends data taken from the send buffer."""
        self._stopped = False
        """True once the shell reads no further data."""
        self._nursery: trio.Nursery | None = None
        """The nursery of further tasks; None until the connection has needed more than the reading task."""
        self._needs_nursery = False
        """True from the first need of a nursery until it is open."""
        self._jobs: list[Callable[[], Awaitable[None]]] = []
        """Jobs to start once there is a nursery."""
        self._arrival: Callable[[], Awaitable[None]] | None = None
        """The next step of opening a session, for the reading task; None without one."""
        self._advancing = False
        """True while a task runs `_advance`."""
        environment = server.member.environment
        self.connection = connection = ClientConnection(
            server.clients,
            self,
            loop_clock(),
            host,
            peer,
            proved=proved,
            random_bytes=environment.random_bytes,
            established_ms=environment.wall_ms(),
        )
        self._buffer = connection.send_buffer
        """The connection's send buffer, held directly: each write uses it."""
        self.output_ready = partial(server.poster.dirty, self)
        """Part of `ShellPort`: have `RequestPoster` call `flush`, at the end of the turn if one runs."""

    # -- the task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        connection = self.connection
        try:
            with self._scope:
                await self._open()
                await self._serve()
            if connection.phase is ConnectionPhase.CLOSING:
                await self._linger()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception as errors:
            # A bug in this server, or an error because it is ending. End this connection, not the server.
            connection.failed(errors.exceptions[0])
        finally:
            connection.closed()
            await self._close()
            if connection.session:
                await self._server.forget_watches(connection)

    async def _open(self) -> None:
        """Read the first frame, and open the session, or answer a four-letter word."""
        connection = self.connection
        while connection.phase is ConnectionPhase.FIRST_FRAME:
            with trio.move_on_at(connection.deadline) as patience:
                data = await self._stream.receive_some(RECEIVE_BYTES)
                if not data:
                    return
                connection.receive(data)
            if patience.cancelled_caught:
                connection.tick()
        if self.connection.phase is ConnectionPhase.OVER:
            return
        self._shown()
        with trio.CancelScope() as scope:
            while connection.phase is ConnectionPhase.ARRIVING and self._arrival is not None:
                scope.deadline = connection.deadline
                job, self._arrival = self._arrival, None
                await job()
        if connection.phase is ConnectionPhase.ARRIVING:
            connection.tick()
        if self._buffer.frames and connection.phase is not ConnectionPhase.OVER:
            self._write()
        if connection.phase is ConnectionPhase.CLOSING:
            await self._send_rest()

    async def _serve(self) -> None:
        """Read until the client sends no more or the connection ends. Start other tasks only when needed."""
        if self._is_over():
            return
        if self._fd is not None and self._server.member.socket_reader.interruptible:
            await self._receive()
        if self._is_over():
            return
        async with trio.open_nursery() as nursery:
            self._nursery, self._needs_nursery = nursery, False
            nursery.start_soon(self._send)
            nursery.start_soon(self._keep_deadline)
            for job in self._jobs:
                nursery.start_soon(job)
            self._jobs.clear()
            await self._receive()
            nursery.cancel_scope.cancel()

    def _is_over(self) -> bool:
        return self._stopped or self.connection.pipeline is None or self.connection.phase is ConnectionPhase.OVER

    async def _receive(self) -> None:
        socket_reader, stream, plain = self._server.member.socket_reader, self._stream, self._fd
        while await self._may_read():
            if plain is None:
                self._on_data(await stream.receive_some(RECEIVE_BYTES))
            else:
                await socket_reader.receive(plain, RECEIVE_BYTES, self._on_data)

    def _on_data(self, data: bytes | bytearray) -> bool:
        if not data:
            self._stopped = True
            return False
        goes_on = self.connection.receive(data)
        self._write()
        return goes_on

    async def _may_read(self) -> bool:
        """Wait until the connection has room for more. Return False if reading is over or the shell needs a nursery."""
        connection = self.connection
        while not self._needs_nursery and not self._stopped:
            pause_s = connection.advance()
            if pause_s is None:
                return True
            if pause_s == 0:
                await trio.lowlevel.checkpoint()
            elif pause_s == inf:
                await self._changed.wait()
            else:
                with trio.move_on_after(pause_s):
                    await self._changed.wait()
        return False

    def _start(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job concurrently with the reading task."""
        if self._nursery is not None:
            self._nursery.start_soon(job)
        else:
            self._jobs.append(job)
            self._need_nursery()

    def _need_nursery(self) -> None:
        self._needs_nursery = True
        self._interrupt()

    def _interrupt(self) -> None:
        """Wake the task in `_receive`. A read from a TLS stream cannot be interrupted and goes on."""
        self._changed.ring()
        if self._fd is not None:
            self._server.member.socket_reader.interrupt(self._fd)

    # -- sending -----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the gathered replies and events. Called by `RequestPoster`, usually at the end of a turn."""
        self.connection.settle()
        self._write()

    def failed(self, mistake: Exception) -> None:
        self.connection.failed(mistake)

    def _write(self) -> None:
        """Write what a plain socket accepts. Leave the rest, and with TLS everything, to the sending task.

        Once a closing connection has sent everything, end it.
        """
        connection, buffer, fd = self.connection, self._buffer, self._fd
        if connection.phase is ConnectionPhase.OVER or self._sending:
            return
        if buffer.frames:
            if fd is None:
                self._send_later()
                return
            data = buffer.take()
            try:
                written = os.write(fd, data)
            except BlockingIOError:
                written = 0
            except OSError as error:
                connection.cut(f"broken: {error}")
                return
            buffer.gone(written)
            if written != len(data):
                buffer.put_back(data[written:])
                self._send_later()
                return
            self._changed.ring()
        if connection.phase is ConnectionPhase.CLOSING:
            self._leave()

    def _send_later(self) -> None:
        self._unsent.ring()
        if self._nursery is None and not self._needs_nursery:
            self._need_nursery()

    async def _send(self) -> None:
        while True:
            await self._unsent.wait()
            await self._send_rest()
            if self.connection.phase is ConnectionPhase.CLOSING:
                self._leave()

    async def _send_rest(self) -> None:
        buffer = self._buffer
        while buffer.frames:
            self._sending = True
            data = buffer.take()
            await self._stream.send_all(data)
            self._sending = False
            buffer.gone(len(data))
            self._changed.ring()

    # -- the end -----------------------------------------------------------------------------------

    def _leave(self) -> None:
        """End the connection after the last byte is sent. Interrupting the read is cheaper than cancelling it."""
        self._stopped = True
        if self._nursery is not None or self._fd is None or not self._server.member.socket_reader.interrupt(self._fd):
            self._scope.cancel()

    async def _linger(self) -> None:
        """Read on for a moment, because closing a socket with unread data resets it and may discard the last reply."""
        with trio.move_on_after(self._server.settings.linger_ms / 1000):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(RECEIVE_BYTES):
                pass

    async def _close(self) -> None:
        """Close a plain socket by one call, because closing a Trio stream takes a pass of the loop."""
        if isinstance(self._stream, trio.SocketStream):
            self._stream.socket.close()
        else:
            await trio.aclose_forcefully(self._stream)

    # -- effects of the connection -----------------------------------------------------------------

    def wake(self) -> None:
        connection = self.connection
        if connection.phase is ConnectionPhase.OVER:
            self._scope.cancel()
            return
        pipeline = connection.pipeline
        if pipeline is None:
            return
        if connection.deadline != inf:
            self._deadline_set.ring()
            if self._nursery is None:
                self._need_nursery()
        if pipeline.is_held_up:
            socket_reader = self._server.member.socket_reader
            if self._fd is not None and socket_reader.interruptible:
                self._interrupt()
            elif self._nursery is not None and not self._advancing:
                self._advancing = True
                self._nursery.start_soon(self._advance)

    async def _advance(self) -> None:
        """Take held requests, at intervals, while another task reads a stream that cannot be interrupted."""
        connection, pipeline = self.connection, self.connection.pipeline
        assert pipeline is not None, "requests are held by a pipeline"
        while pipeline.is_held_up:
            pause_s = connection.advance()
            if pause_s is None or pause_s == 0:
                await trio.lowlevel.checkpoint()
            else:
                await trio.sleep(min(pause_s, ADVANCE_S))
        self._advancing = False

    async def _keep_deadline(self) -> None:
        connection = self.connection
        while True:
            with trio.move_on_at(connection.deadline) as patience:
                await self._deadline_set.wait()
            if patience.cancelled_caught:
                connection.tick()

    def answer_command(self, command: Command) -> bytes:
        return answer(self._server, command)

    def sync(self, session: int, done: Done) -> None:
        try:
            self._server.member.post_barrier(done, self._server.clients.tracker.sign_of(session))
        except ZabError as error:
            done(None, error)

    def change_membership(self, fields: Fields, done: Done) -> None:
        self._start(partial(self._report, partial(self._server.membership.change, fields), done))

    # -- opening a session, in the task that reads -------------------------------------------------

    def when_readable(self, done: Done) -> None:
        self._arrive(self._server.readiness.ready_or_read_only, done)

    def barrier(self, done: Done) -> None:
        self._arrive(self._server.member.barrier, done)

    def create_session(self, timeout_ms: int, done: Done) -> None:
        self._arrive(partial(self._server.create_session, timeout_ms), done)

    def create_local_session(self, timeout_ms: int, read_only: bool, done: Done) -> None:
        self._arrive(partial(self._server.create_local_session, timeout_ms, read_only=read_only), done)

    def attach_session(self, session: int, password: bytes | None, done: Done) -> None:
        self._arrive(partial(self._server.attach_session, session, password), done)

    def _arrive(self, job: Callable[[], Awaitable[Any]], done: Done) -> None:
        self._arrival = partial(self._report, job, done)

    @staticmethod
    async def _report(job: Callable[[], Awaitable[Any]], done: Done) -> None:
        try:
            result = await job()
        except ZabError as error:
            done(None, error)
        else:
            done(result, None)
