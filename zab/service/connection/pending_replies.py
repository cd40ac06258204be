"""The output of one connection: pending replies, and frames that wait to be sent."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar


class PendingReply:
    """The reply to a request, perhaps not known yet.

    Reads, and a connection's writes under way, have none: see `PendingReplies`.
    """

    __slots__ = ("done", "error", "last", "value", "zxid")

    def __init__(
        self,
        error: int = 0,
        value: object = None,
        *,
        done: bool = False,
        last: bool = False,
        zxid: int | None = None,
    ) -> None:
        self.error = error
        self.value = value
        """The body of the reply; None for an error, or if the reply has no body."""
        self.done = done
        """True if the reply may be sent once it is the oldest."""
        self.last = last
        """True if the connection closes after this reply."""
        self.zxid = zxid
        """The zxid in the reply's header; None: the last zxid that is applied when the reply is sent."""


Read = TypeVar("Read")
"""The type of a waiting read: its body on a connection, or a call in this process."""


class PendingReplies(deque[tuple[int, int, Read | PendingReply | None]], Generic[Read]):
    """The requests that are not answered yet, oldest first: replies leave in the order of the requests.

    Each is (op, xid, awaited). `awaited` is a read that waits, a `PendingReply`, or None for a connection's write that
    is under way.

    `due` never returns such a write: `RequestPipeline.written` takes it from the front when its transaction is applied.
    """

    __slots__ = ()

    def due(self) -> tuple[int, int, Read | PendingReply | None] | None:
        """Remove and return the oldest request, if it can be answered now; return None if it cannot."""
        if not self:
            return None
        awaited = self[0][2]
        if awaited is None or (type(awaited) is PendingReply and not awaited.done):
            return None
        return self.popleft()


class SendBuffer:
    """The frames of one connection on their way to the transport."""

    __slots__ = ("_greeting_bytes", "bytes", "frames", "sent", "taken_bytes")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        """Frames that the transport has not taken yet, oldest first."""
        self.bytes = 0
        """The bytes of `frames`, and of frames that the transport has taken and not yet sent."""
        self.sent = 0
        """The number of replies and events taken since the connection began, or since the count was set to 0."""
        self.taken_bytes = 0
        """The bytes of the replies and events taken since the connection began."""
        self._greeting_bytes: int | None = None
        """The bytes of the answer to the first frame while it waits; `take` does not count it."""

    def put(self, frame: bytes) -> int:
        """Append a frame. Return the number of bytes that wait now."""
        self.frames.append(frame)
        self.bytes = waiting = self.bytes + len(frame)
        return waiting

    def put_greeting(self, frame: bytes) -> None:
        """Append the answer to a first frame. It does not count as sent: it is neither a reply nor an event."""
        self.put(frame)
        self._greeting_bytes = len(frame)

    def take(self) -> bytes:
        """Remove all frames, and return them as one. Their bytes count as waiting until `gone`."""
        frames = self.frames
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        self.sent += len(frames)
        frames.clear()
        self.taken_bytes += len(data)
        if self._greeting_bytes is not None:
            self.sent -= 1
            self.taken_bytes -= self._greeting_bytes
            self._greeting_bytes = None
        return data

    def gone(self, count: int) -> None:
        """Record that the transport has sent `count` of the bytes that it took."""
        self.bytes -= count

    def put_back(self, rest: bytes) -> None:
        """Put back bytes that the transport did not accept, before any other frame is put."""
        assert not self.frames, "put_back must precede the next put"
        self.frames.append(rest)
        self.sent -= 1
        self.taken_bytes -= len(rest)
