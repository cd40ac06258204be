"""One learner link: a bounded queue of frames, first in, first out. An overflow cuts the link: no frame is skipped.

Leader and learner end a silent link at the protocol's limits (`zab.core.leader.leader`, `zab.core.learner.learner`),
and count moved bytes as activity. So the kernel's own limit (`TCP_USER_TIMEOUT`) is switched off for a link.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

import trio

from zab.core.errors import LocalProtocolError, WireError
from zab.core.messages import Inform, InformAndActivate, LinkDown, Propose
from zab.core.zxid import ServerId
from zab.net.network import leave_silence_to_protocol
from zab.net.socket_reader import TASK_READER, SocketReader
from zab.net.wakeup import Wakeup
from zab.runtime.peer_handshake import described
from zab.runtime.peer_protocol import UNREACHABLE
from zab.service.limits import Limits
from zab.wire.link_codec import FrameCodec, LinkCodec

RECEIVE_BYTES = 64 << 10
"""The size of a receive's buffer. A larger one takes new pages from the system each time, at six times the cost."""

DRAIN_BYTES: Final = 64 << 10
"""The size of the pieces in which bulk data is written, and counted as progress."""

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
BulkSender: TypeAlias = Callable[[Send], Awaitable[None]]
"""Sends bulk data piece by piece, each when the stream has room for it. Called when it is first in the queue."""


class MessageSink(Protocol):
    """The part of an `Inbox` that a link uses."""

    @property
    def has_room(self) -> bool: ...
    def put(self, source: Link, messages: list[Any], size: int = 0) -> None: ...
    async def wait_for_room(self) -> None: ...


class Link:
    """One end of the connection between a learner and its leader."""

    def __init__(
        self,
        peer: ServerId,
        dialled: bool,
        limits: Limits,
        socket_reader: SocketReader = TASK_READER,
        unsent: list[Link] | None = None,
        codec: LinkCodec | None = None,
    ) -> None:
        """`unsent` is the list that the link joins when it has something to `flush`.

        `codec` gives the bytes their meaning. None: they are frames of our own protocol.
        """
        self.peer = peer
        self.dialled = dialled
        self.codec: LinkCodec = codec or FrameCodec(limits, dialled=dialled)
        self.over = False
        """Set by `Links` in a turn. From then on, all messages of this link are ignored."""
        self.reason = "closed"
        """The reason why the link ended, for the log."""
        self.at_fault = False
        """True if the link ended because of a refused, incomplete or invalid greeting, an invalid frame, or too much
        unsent data. Then the end is logged as a warning.
        """
        self.queued_bytes = 0
        self.queued_frames = 0
        """The bytes and the number of the frames of `send` that the system has not accepted yet, without bulk data."""
        self.sent_bytes = self.received_bytes = 0
        """The bytes that the system has accepted from this link, and delivered to it."""
        self._drained_bytes = 0
        """Bytes of bulk data that were sent. Unlike pings, they prove that the peer still reads."""
        self._limits = limits
        self._socket_reader = socket_reader
        self._unsent: list[Link] = [] if unsent is None else unsent
        self._queue: list[bytes | BulkSender] = []
        """Frames and bulk senders in their order. `flush` writes it, or the sender task takes it whole."""
        self._bulk_queued = 0
        """The number of bulk senders in `_queue`."""
        self._bulk_unsent = 0
        """The number of bulk senders that are queued or under way."""
        self._wakeup = Wakeup()
        self._opened_at: float | None = None
        """The time at which the greeting was complete; None before. Only an open link sends its queue at `hang_up`."""
        self._closing = False
        """True once no further frame may be queued."""
        self._socket: int | None = None
        """The descriptor of a plain TCP stream while its sender task is idle and the driver may write; else None."""
        self._scope = trio.CancelScope()
        """The scope of `run`. `cut` cancels it; `hang_up` cancels it or sets its deadline."""

    # -- called by the driver ----------------------------------------------------------------------------

    @property
    def moved_bytes(self) -> int:
        """Bytes that count as progress of a synchronization: all from a leader, or the bulk data for a learner."""
        return self.received_bytes if self.dialled else self._drained_bytes

    def pace(self) -> dict[str, int]:
        """Fields for a log line: `moved_bytes`, the time since the link opened, and the rate."""
        now = trio.current_time()
        opened_at = now if self._opened_at is None else self._opened_at
        took_ms = max(1, int((now - opened_at) * 1000))
        moved = self.moved_bytes
        return {"bytes": moved, "took_ms": took_ms, "bytes_per_s": moved * 1000 // took_ms}

    def send(self, frame: bytes) -> None:
        """Queue a frame until `flush`, so that the frames of one turn leave together. An empty one is not sent.

        If the queue would then exceed a limit, cut the link instead.
        """
        if self._closing or not frame or not self._takes(len(frame)):
            return
        if not self._queue:
            self._unsent.append(self)
        self._queue.append(frame)

    def send_message(self, message: Any) -> None:
        """Encode a message and queue it. Behind bulk data, encode it only when that is sent: the codec has state.

        A message that the protocol lacks cuts the link.
        """
        if not self._bulk_unsent:
            self.send(self._encoded(message))
            return
        size = len(message.batch.body) if isinstance(message, Propose | Inform | InformAndActivate) else 0

        async def send_later(send: Send) -> None:
            self.queued_bytes -= size
            self.queued_frames -= 1
            data = self._encoded(message)
            if data:
                await send(data)

        if not self._closing and self._takes(size):
            self.send_bulk(send_later)

    def _encoded(self, message: Any) -> bytes:
        try:
            return self.codec.encode(message)
        except LocalProtocolError as error:
            self.at_fault = True
            self.cut(str(error))
            return b""

    def _takes(self, size: int) -> bool:
        """Count one more frame. If the queue would exceed a limit, cut the link and return False."""
        self.queued_bytes += size
        self.queued_frames += 1
        limits = self._limits
        if self.queued_bytes <= limits.link_bytes_max and self.queued_frames <= limits.link_frames_max:
            return True
        self.at_fault = True
        self.cut(
            f"too slow: {self.queued_frames} frames of {self.queued_bytes} bytes together wait to be sent "
            f"(Limits.link_frames_max = {limits.link_frames_max}, link_bytes_max = {limits.link_bytes_max})"
        )
        return False

    def send_bulk(self, source: BulkSender) -> None:
        """Queue a source of bulk data.

        It does not count towards the queue's limits, and is read as fast as the stream accepts data.
        """
        if not self._closing:
            if not self._queue:
                self._unsent.append(self)
            self._queue.append(source)
            self._bulk_queued += 1
            self._bulk_unsent += 1

    def flush(self) -> None:
        """Write as much of the queue as the socket accepts, and leave the rest to the sender task.

        If the driver may not write (see `_socket`) or bulk data is queued, leave the whole queue to that task. A write
        from here saves three task switches, and the socket almost always has room.
        """
        queue = self._queue
        if not queue:
            return
        if self._socket is None or self._bulk_queued:
            self._wakeup.ring()
            return
        count = len(queue)
        data: bytes = queue[0] if count == 1 else b"".join(queue)  # type: ignore[arg-type, assignment]
        try:
            written = os.write(self._socket, data)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self.cut(f"broken: {error}")
            return
        self.sent_bytes += written
        self.queued_bytes -= written
        if written == len(data):
            self.queued_frames -= count
            queue.clear()
        else:
            self.queued_frames -= count - 1
            self._queue = [data[written:]]
            self._wakeup.ring()

    def hang_up(self) -> None:
        """Send the queue, then close. After `linger_ms`, close even if frames are left: they are lost.

        A link that is not open yet is closed at once.
        """
        if not self._closing:
            self._closing = True
            self.reason = "closed by this server"
            if self._opened_at is not None:
                self._scope.deadline = trio.current_time() + self._limits.linger_ms / 1000
                self._wakeup.ring()
            else:
                self._scope.cancel()

    def cut(self, why: str) -> None:
        """Close at once, without sending the queue. `LinkDown` follows in the inbox."""
        if not self._scope.cancel_called:
            self._closing = True
            self.reason = why
            self._queue.clear()
            self._scope.cancel()

    # -- the link's tasks -----------------------------------------------------------------------------

    async def run(
        self,
        open_stream: Callable[[], Awaitable[trio.abc.Stream]],
        up: object,
        inbox: MessageSink,
        first: bytes = b"",
    ) -> None:
        """Open the stream and serve it to its end. The inbox gets `up` after the opening, and `LinkDown` at the end.

        `LinkDown` also comes if the stream could not be opened; `reason` tells why the link ended. `first` has the
        bytes that the greeting has read from the stream and that belong to the link.
        """
        try:
            with self._scope:
                try:
                    stream = await open_stream()
                except UNREACHABLE as error:
                    self.reason = f"not reachable: {described(error)}"
                    self.at_fault = isinstance(error, WireError)
                    return
                self._opened_at = trio.current_time()
                leave_silence_to_protocol(stream)
                try:
                    inbox.put(self, [up])
                    await self._serve(stream, inbox, first)
                finally:
                    self._socket = None
                    await trio.aclose_forcefully(stream)
        finally:
            self._closing = True
            self._queue.clear()
            inbox.put(self, [LinkDown(self.dialled)])

    async def _serve(self, stream: trio.abc.Stream, inbox: MessageSink, first: bytes) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, stream)
            await self._receive(stream, inbox, first)
            nursery.cancel_scope.cancel()

    async def _send(self, stream: trio.abc.Stream) -> None:
        async def send(data: bytes) -> None:
            view = memoryview(data)
            for start in range(0, len(data), DRAIN_BYTES):
                piece = view[start : start + DRAIN_BYTES]
                await stream.send_all(piece)
                self.sent_bytes += len(piece)
                self._drained_bytes += len(piece)

        try:
            while True:
                if not self._queue:
                    if self._closing:
                        break
                    self._socket = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None
                    await self._wakeup.wait()
                    self._socket = None
                    continue
                queue, self._queue, self._bulk_queued = self._queue, [], 0
                frames: list[bytes] = []
                for item in queue:
                    if type(item) is bytes:
                        frames.append(item)
                        continue
                    await self._send_frames(stream, frames)
                    frames = []
                    await item(send)  # type: ignore[operator]
                    self._bulk_unsent -= 1
                await self._send_frames(stream, frames)
            # Closing a socket with unread data would reset the connection, which could discard the last frames. So
            # close this direction only; the peer closes the other one when it has read to the end.
            if isinstance(stream, trio.abc.HalfCloseableStream):
                await stream.send_eof()
            else:
                await stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.cut(f"broken: {described(error)}")

    async def _send_frames(self, stream: trio.abc.Stream, frames: list[bytes]) -> None:
        if frames:
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            await stream.send_all(data)
            self.queued_bytes -= len(data)
            self.queued_frames -= len(frames)
            self.sent_bytes += len(data)

    async def _receive(self, stream: trio.abc.Stream, inbox: MessageSink, first: bytes) -> None:
        """Read messages, and put them into the inbox, until the link ends; then set `reason`.

        Reading pauses while the inbox has no room, so that TCP slows the peer down. A peer that violates the wire
        format is `at_fault`.
        """
        codec = self.codec
        plain = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None
        ended = False

        def on_data(data: bytes | bytearray) -> bool:
            nonlocal ended
            if not data:
                ended = True
                return False
            self.received_bytes += len(data)
            messages, size = codec.feed(data)
            if messages:
                inbox.put(self, messages, size)
            return inbox.has_room

        try:
            if first:
                on_data(first)
            while not ended:
                if plain is None:
                    on_data(await stream.receive_some(RECEIVE_BYTES))
                else:
                    await self._socket_reader.receive(plain, RECEIVE_BYTES, on_data)
                if not ended:
                    await inbox.wait_for_room()
            self.reason = (
                "closed by the peer" if not codec.held_bytes else "closed by the peer in the middle of a frame"
            )
        except WireError as error:
            self.reason = str(error)
            self.at_fault = True
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.reason = f"broken: {described(error)}"
