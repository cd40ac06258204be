"""One client's connection: the next request to execute, the order of responses, and when to stop reading.

Requests are executed one at a time, and responses are sent in the order of the requests. Two kinds of producers need
more:

- A Produce with acks=all is a replicated write. Once its records have offsets, the next replicated write may be
  executed, so the producer's next batch is written while the first one is replicated. Responses stay in order. A
  request of another kind is executed only when all earlier writes are answered, so clients read their own writes.
- A client with acks=0 may close its connection right after its last request. The requests that arrived before are still
  executed, except long polls: Fetch, JoinGroup and SyncGroup.

The object does no I/O. The caller gives it request frames and responses, and takes the frames to send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from attrs import define

from replica.core.network.connection_limits import ConnectionLimits
from replica.core.network.memory_limits import ListenerMemory


class RequestKind(Enum):
    """The kinds of requests, as far as the order of execution depends on them."""

    ORDINARY = auto()
    REPLICATED_WRITE = auto()
    """A Produce with acks=all."""
    LONG_POLL = auto()
    """A request that waits for data or for other clients. Its response is useless if its client has left."""
    API_VERSIONS = auto()
    """ApiVersions, which is allowed before authentication."""
    AUTHENTICATION = auto()


class AuthenticationState(Protocol):
    """The part of an authenticator that decides whether requests are allowed."""

    @property
    def done(self) -> bool:
        """True after authentication."""

    @property
    def expires_at(self) -> float:
        """The time in ms from which the client must re-authenticate before its next request."""

    @property
    def principal(self) -> str: ...


@define(eq=False)
class PendingWrite:
    """A replicated write whose response is not queued yet.

    size        bytes of its request
    cancel      stops waiting for replicas
    is_placed   its records have offsets, or it is complete: the next request may be executed
    is_complete its response is known; it is sent when all earlier writes are complete
    """

    size: int
    cancel: Callable[[], None]
    is_placed: bool = False
    is_complete: bool = False
    response: bytes | None = None
    muted_until: float = 0.0


class ClientConnection:
    """The order of one client's requests and responses, and the memory that they use."""

    def __init__(
        self,
        limits: ConnectionLimits,
        memory: ListenerMemory,
        authentication: AuthenticationState | None,
        on_cut: Callable[[], None],
    ) -> None:
        self.limits = limits
        self.memory = memory
        """The memory used by all connections of the listener. It includes `held_bytes` and `unsent_bytes` until
        `close`."""
        self._authentication = authentication
        """The SASL authentication; None if the listener does not use SASL."""
        self._on_cut = on_cut
        self.queued: deque[bytes] = deque()
        """Requests that have not started."""
        self.held_bytes = 0
        """Bytes of all requests that are queued or in progress."""
        self.in_progress = 0
        """The number of requests that have started, but not ended: see `respond`."""
        self.executing: RequestKind | None = None
        """The kind of the request in execution, ORDINARY until it is decoded; None if the next request may be taken.
        The connection's task sets None when the request has ended or, for a replicated write, when its records have
        offsets."""
        self.pending_writes: deque[PendingWrite] = deque()
        """Replicated writes in the order of their requests. All but the last one are placed."""
        self.client_left = False
        """True if the client has closed its sending side. It may still read."""
        self.muted_until = 0.0
        """The end of the newest throttle time, in seconds of the caller's clock. Until then no request starts,
        unless the client has left: clients before Kafka 2.0 do not observe throttle times themselves."""
        self.unsent: list[bytes] = []
        """Responses to send, in order."""
        self.unsent_bytes = 0
        """Bytes of `unsent`, and of responses that are being sent."""
        self.failure = ""
        """The reason that `cut` was called with; empty before."""

    def cut(self, why: str) -> None:
        self.failure = why
        self._on_cut()

    def close(self) -> None:
        """Release the connection's memory at the listener."""
        self.memory.request_bytes -= self.held_bytes
        self.memory.unsent_bytes -= self.unsent_bytes
        self.memory.partial_requests.discard(self)
        self.held_bytes = self.unsent_bytes = 0

    # -- requests ------------------------------------------------------------------------------------------

    def receive(self, requests: Sequence[bytes], partial_bytes: int) -> None:
        """Queue requests. `partial_bytes`: the bytes that have arrived of the next, incomplete request."""
        if requests:
            size = sum(map(len, requests))
            self.held_bytes += size
            self.memory.request_bytes += size
            self.queued += requests
            self.memory.partial_requests.discard(self)  # the next request begins now: it is not the oldest
        self.memory.partial_requests.update(self, partial_bytes, self.limits.waiting_bytes_total_max)

    @property
    def is_full(self) -> bool:
        """True while this connection has too many requests, or bytes of requests, to read more from its client."""
        limits = self.limits
        return len(self.queued) > limits.waiting_max or self.held_bytes > limits.waiting_bytes_max

    @property
    def is_idle(self) -> bool:
        return not self.in_progress and not self.queued

    def take(self) -> bytes:
        """Start the next request. Its kind is known only after decoding."""
        assert self.executing is None, "one request is executed at a time"
        self.in_progress += 1
        self.executing = RequestKind.ORDINARY
        return self.queued.popleft()

    def is_useless(self, kind: RequestKind) -> bool:
        """Record the kind of the started request. Return whether to drop the request because its client has left."""
        self.executing = kind
        return self.client_left and kind is RequestKind.LONG_POLL

    def may_execute(self, kind: RequestKind) -> bool:
        """Return whether the started request may be executed now; otherwise it waits for earlier writes."""
        if kind is RequestKind.REPLICATED_WRITE:
            return len(self.pending_writes) < self.limits.ahead_max
        return not self.pending_writes

    def refusal(self, kind: RequestKind, now: int) -> str | None:
        """Return the reason to close the connection instead of executing a request, or None.

        A client must authenticate first, and re-authenticate before its session expires.
        """
        authentication = self._authentication
        if authentication is None:
            return "this listener does not use SASL" if kind is RequestKind.AUTHENTICATION else None
        if kind is RequestKind.AUTHENTICATION or kind is RequestKind.API_VERSIONS:
            return None
        if not authentication.done:
            return "this listener uses SASL, and the client has not authenticated"
        if now >= authentication.expires_at:
            return f"the session of {authentication.principal} has expired, and the client did not authenticate again"
        return None

    @property
    def may_start(self) -> bool:
        return self.unsent_bytes <= self.limits.unsent_bytes_max

    # -- responses -----------------------------------------------------------------------------------------

    def respond(self, size: int, response: bytes | None, muted_until: float = 0.0) -> None:
        """End a request of `size` bytes. `response` is None if it has no response."""
        if response is not None:
            self.unsent.append(response)
            self.unsent_bytes += len(response)
            self.memory.unsent_bytes += len(response)
        if muted_until > self.muted_until:
            self.muted_until = muted_until
        self.in_progress -= 1
        self.held_bytes -= size
        self.memory.request_bytes -= size

    def begin_write(self, size: int, cancel: Callable[[], None]) -> PendingWrite:
        write = PendingWrite(size, cancel)
        self.pending_writes.append(write)
        return write

    def place(self, write: PendingWrite) -> None:
        """Record that a write's records have offsets. If the client has left, do not wait for replicas."""
        write.is_placed = True
        if self.client_left:
            write.cancel()

    def complete(self, write: PendingWrite, response: bytes | None, muted_until: float = 0.0) -> None:
        """Record a write's response. Queue all responses that are next in order."""
        write.response, write.muted_until = response, muted_until
        write.is_placed = write.is_complete = True
        pending = self.pending_writes
        while pending and pending[0].is_complete:
            first = pending.popleft()
            self.respond(first.size, first.response, first.muted_until)

    def take_unsent(self) -> bytes:
        """Return all queued responses as one byte string."""
        unsent, self.unsent = self.unsent, []
        return unsent[0] if len(unsent) == 1 else b"".join(unsent)

    def sent(self, size: int) -> None:
        self.unsent_bytes -= size
        self.memory.unsent_bytes -= size

    # -- the end -------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Record that the client sends no more requests, and stop waiting for the replicas of its writes."""
        self.client_left = True
        for write in self.pending_writes:
            if write.is_placed:
                write.cancel()

    @property
    def is_worked_off(self) -> bool:
        """True when no request is left to execute. A long poll in progress does not count if the client has left."""
        if self.queued:
            return False
        return self.executing is None or (self.client_left and self.executing is RequestKind.LONG_POLL)

    @property
    def is_drained(self) -> bool:
        """True when all writes are answered and all responses are sent."""
        return not self.pending_writes and not self.unsent_bytes
