"""One connection of a client, from its first frame to its end, without a socket or a task. The clock is an argument.

The shell calls `receive` with the bytes of the client, `advance` to have held requests taken, `tick` when `deadline`
has come, `settle` at the end of a turn of the server, and `closed` at the end of the connection. The server calls
`notify` with watch events, `resume` when the state may be read again, and `ended` to disconnect the client. Output
gathers in `send_buffer`. All other effects are calls of the connection's two ports.

Its state is one `ConnectionPhase`, which only goes forward. In ARRIVING there is a `SessionHandshake`, from SERVING on
a `RequestPipeline`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Final

from zab.core.errors import WireError
from zab.service.authentication import ClientAuthentication
from zab.service.connection.handshake import SessionHandshake
from zab.service.connection.pending_replies import SendBuffer
from zab.service.connection.ports import ConnectionPhase, EventFrame, ServerPort, ShellPort
from zab.service.connection.request_pipeline import RequestPipeline
from zab.store.acl import Identity
from zab.wire.client.client_frames import Command, ConnectionOpening, HttpRequest, RequestReader
from zab.wire.client.connect import EXPIRED, ConnectRequest, ConnectResponse, encode_connect_response

_SERVING: Final = ConnectionPhase.SERVING
_OVER: Final = ConnectionPhase.OVER
_VARYING: Final = re.compile(r"[-\d'\"]")
"""Matches the beginning of the variable part of an error message."""


class ClientConnection:
    """One client's connection. It is the `Watcher` of the client's watches, which end with the connection."""

    def __init__(
        self,
        server: ServerPort,
        shell: ShellPort,
        clock: Callable[[], float],
        host: str,
        peer: str,
        *,
        proved: Iterable[Identity] = (),
        random_bytes: Callable[[int], bytes] | None = None,
        established_ms: int = 0,
    ) -> None:
        """`clock` returns seconds and never goes back; `established_ms` is wall time, for lists of connections."""
        self.server = server
        self.clock = clock
        self.peer = peer
        self.established_ms = established_ms
        self.authentication = ClientAuthentication(server.settings, host, proved, random_bytes)
        """The identities that the client has proved, and the SASL exchange."""
        self.phase = ConnectionPhase.FIRST_FRAME
        """The state of the connection."""
        self.deadline = clock() + server.settings.first_frame_ms / 1000
        """The time at which `tick` is due; infinite if there is none."""
        self.send_buffer = SendBuffer()
        """The frames that wait to be sent, in order: the greeting, replies and events."""
        self.received = 0
        """The number of requests received since the connection began, or since the count was reset."""
        self.session = 0
        """The id of its session; 0 before SERVING."""
        self.timeout_ms = 0
        """The timeout of its session; 0 before SERVING."""
        self.read_only = False
        """True if the client only reads, from a server without a leader."""
        self._shell = shell
        self._opening = ConnectionOpening(server.settings.frame_bytes_max)
        """Reads the first frame, and keeps the bytes after it until SERVING."""
        self._reader = RequestReader(server.settings.frame_bytes_max)
        """Splits the stream after the first frame into requests."""
        self._handshake: SessionHandshake | None = None
        """The handshake that is under way. Set in ARRIVING only."""
        self.pipeline: RequestPipeline | None = None
        """The pipeline of requests. Set from SERVING on; None if the connection ended before."""
        self._unsent_bytes_cut = server.settings.unsent_bytes_cut
        """The number of unsent bytes above which the connection is cut."""
        self._receiving = False
        """True while `receive` is running. The shell sends afterwards in any case."""
        self.active = True
        """True if the client has sent something since the last call of `was_active`."""

    @property
    def identities(self) -> tuple[Identity, ...]:
        return self.authentication.identities

    @property
    def arriving(self) -> bool:
        return self.phase is ConnectionPhase.ARRIVING

    # -- called by the shell -----------------------------------------------------------------------

    def receive(self, data: bytes | bytearray) -> bool:
        """Handle bytes of the client. Return whether more may be read at once; if not, call `advance`."""
        self._receiving = True
        try:
            pipeline = self.pipeline
            if pipeline is None:
                self._open(data)
                return self.phase is ConnectionPhase.FIRST_FRAME
            self.active = True
            self.server.counts.bytes_received += len(data)
            requests = self._reader.feed(data)
            self.received += len(requests)
            pipeline.receive(requests)
            return pipeline.has_room() and self.phase < ConnectionPhase.CLOSING
        except HttpRequest as error:
            self.cut(str(error))
        except WireError as error:
            self.report_violation(str(error))
            self.cut(str(error))
        finally:
            self._receiving = False
        return False

    def advance(self) -> float | None:
        """Take held requests; return None if more may be read, else the seconds to wait: see `RequestPipeline`."""
        if self.phase is ConnectionPhase.FIRST_FRAME:
            return None
        if self.pipeline is None or self.phase >= ConnectionPhase.CLOSING:
            return inf
        return self.pipeline.advance()

    def tick(self) -> None:
        """Handle a deadline that has come."""
        self.deadline = inf
        if self.phase is ConnectionPhase.FIRST_FRAME:
            self.server.counts.sessionless_connections_expired += 1
            self.cut("its first frame did not arrive in time")
        elif self.phase is ConnectionPhase.ARRIVING:
            self.cut("its session was not created or attached within the session's timeout")
        elif self.pipeline is not None and self.phase is not _OVER:
            self.pipeline.tick()

    def settle(self) -> None:
        """Update the server's totals of requests at the end of a turn; the shell sends afterwards."""
        if self.pipeline is not None and self.phase is not _OVER:
            self.pipeline.settle()

    def closed(self) -> None:
        """Give up all state: the transport is closed, or is about to be."""
        server, pipeline = self.server, self.pipeline
        if self.phase is not _OVER:
            self._enter_over()
        if pipeline is not None:
            pipeline.drop()
        self.send_buffer.frames.clear()
        server.counts.gone.received += self.received
        server.counts.gone.sent += self.send_buffer.sent
        server.counts.response_bytes += self.response_bytes
        server.connections.pop(self, None)
        if self.session:
            server.sessions.detach(self)

    # -- the session -------------------------------------------------------------------------------

    def _open(self, data: bytes | bytearray) -> None:
        assert self.phase is ConnectionPhase.FIRST_FRAME, (
            "no bytes are read between the first frame and the start of the session"
        )
        first = self._opening.open(data)
        if first is None:
            return
        self.deadline = inf
        if isinstance(first, Command):
            self.send_buffer.put_greeting(self._shell.answer_command(first))
            self.finish()
            return
        server = self.server
        now, handshake = self.clock(), SessionHandshake(server, self._shell, self, first)
        server.counts.connection_request_count += 1
        if not handshake.is_admitted(int(now * 1000)):
            server.counts.connection_rejected += 1
            server.log.warn_rate_limited("too_many_connections_at_once", "bucket", peer=self.peer)
            self.cut("too many new connections at one time")
            return
        self.phase, self._handshake = ConnectionPhase.ARRIVING, handshake
        self.set_deadline(now + handshake.timeout_ms / 1000)
        handshake.begin(int(now * 1000))

    def _end_handshake(self) -> None:
        handshake, self._handshake = self._handshake, None
        if handshake is not None:
            handshake.end()
            self.deadline = inf

    def expired(self, asked: ConnectRequest) -> None:
        """Send the reply for an expired session or a wrong password, and close."""
        self._end_handshake()
        read_only = None if asked.read_only is None else False
        response = ConnectResponse(EXPIRED.timeout_ms, EXPIRED.session, EXPIRED.password, read_only)
        self.send_buffer.put_greeting(encode_connect_response(response))
        self.finish()
        self._shell.wake()

    def established(self, asked: ConnectRequest, session: int, timeout_ms: int, read_only: bool) -> None:
        """Begin to serve the session. Take the requests that came after the first frame."""
        assert self.phase is ConnectionPhase.ARRIVING, "a session is established only once"
        self._end_handshake()
        server = self.server
        self.session, self.timeout_ms, self.read_only = session, timeout_ms, read_only
        self.phase = _SERVING
        sessions = server.sessions
        local = session in sessions.local and not sessions.local.is_upgrading(session)
        self.pipeline = RequestPipeline(server, self._shell, self, local=local)
        sessions.attach(self)
        server.connections[self] = None
        if not sessions.knows(session):
            self.cut("its session was closed during the handshake")
            return
        shown_read_only = None if asked.read_only is None else read_only
        welcome = ConnectResponse(timeout_ms, session, sessions.password(session), shown_read_only)
        self.send_buffer.put_greeting(encode_connect_response(welcome))
        rest, self._opening.rest = self._opening.rest, b""
        if rest:
            self.receive(rest)
        self._shell.wake()

    def was_active(self) -> bool:
        """Return whether the client has sent something since the last call."""
        active, self.active = self.active, False
        return active

    def ended(self, why: str) -> None:
        """Disconnect the client, for the reason `why`: for example, its session is over or has moved.

        If the client's last request was already taken, do nothing: the reply to it ends the connection.
        """
        if self.phase < ConnectionPhase.LEAVING:
            self.cut(why)

    def resume(self) -> None:
        """Take held requests, because the state may be read again."""
        if self.pipeline is not None:
            self.contain(self.pipeline.resume)

    # -- sending -----------------------------------------------------------------------------------

    def notify(self, change: EventFrame) -> None:
        if self.phase is not _OVER:  # a closed connection's watches are removed step by step, so events may still come
            self.send(change.frame)

    def send(self, frame: bytes) -> None:
        buffer = self.send_buffer
        if not buffer.frames and not self._receiving:
            self._shell.output_ready()
        if buffer.put(frame) > self._unsent_bytes_cut:
            self.cut(
                f"the client does not read its replies: {buffer.bytes} bytes wait, and unsent_bytes_cut is "
                f"{self._unsent_bytes_cut}"
            )

    def set_deadline(self, at: float) -> None:
        self.deadline = at
        self._shell.wake()

    # -- the end -----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Take no more requests, because the client has closed its session or made an invalid request."""
        self.phase = max(self.phase, ConnectionPhase.LEAVING)

    def finish(self) -> None:
        """Take and answer no more requests. Close when the frames in the send buffer are sent."""
        if self.phase < ConnectionPhase.CLOSING:
            self.phase = ConnectionPhase.CLOSING
        if not self._receiving:
            self._shell.output_ready()

    def cut(self, why: str) -> None:
        """End the connection at once, and drop what has not been sent."""
        if self.phase is not _OVER:
            self.server.log.say("client_disconnected", "debug", peer=self.peer, session=f"{self.session:#x}", why=why)
            self._enter_over()
            self._shell.wake()

    def _enter_over(self) -> None:
        self._end_handshake()
        self.server.counts.connection_drop_count += self.phase is _SERVING
        self.phase = _OVER

    def failed(self, mistake: Exception) -> None:
        """Log an unexpected exception, such as a bug of the server, and cut this connection only."""
        self.server.log.warn_rate_limited(
            "client_failed", self.authentication.host, "error", peer=self.peer, why=repr(mistake)
        )
        self.cut("an internal error")

    def contain(self, act: Callable[..., None], *values: Any) -> None:
        """Call `act` in a task that is not the connection's own. If it raises, only this connection ends."""
        try:
            act(*values)
        except Exception as mistake:
            self.failed(mistake)

    def report_violation(self, why: str) -> None:
        """Log that the client broke the protocol. Lines are rate-limited per host and kind of mistake."""
        kind = _VARYING.split(why, maxsplit=1)[0]
        self.server.log.warn_rate_limited(
            "client_protocol_error", (self.peer.rpartition(":")[0], kind), peer=self.peer, why=why
        )

    # -- shown in lists of connections ---------------------------------------------------------------

    @property
    def queued(self) -> int:
        return 0 if self.pipeline is None else self.pipeline.queued

    @property
    def sent(self) -> int:
        """The number of replies and events sent since the connection began, or since the count was reset."""
        return self.send_buffer.sent

    @sent.setter
    def sent(self, count: int) -> None:
        self.send_buffer.sent = count

    @property
    def response_bytes(self) -> int:
        return self.send_buffer.taken_bytes

    @property
    def unsent(self) -> int:
        """The number of bytes that wait to be sent, here or in the transport."""
        return self.send_buffer.bytes

    @property
    def unfinished(self) -> int:
        """The number of bytes received of a request that is still incomplete."""
        return self._reader.held_bytes
