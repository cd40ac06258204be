"""One client's connection: which request is executed next, in which order responses leave, and when reading stops.

Requests are executed one at a time, and responses leave in the order of the requests. There are two exceptions.

- A Produce with acks=all is a replicated write. Once its records have their offsets, the next request may be executed,
  so the producer's next batch is written while the first one is replicated. Its response still keeps its place. A
  request that is no such write is executed after all earlier writes are answered, so a client reads its own writes.
- A client with acks=0 closes its connection after its last request. Requests that arrived before the end are executed.
  Only requests that would wait on behalf of the client are dropped: fetches, and waits for other members of a group.

The object moves no bytes. Its shell gives it frames and responses, and takes the frames to send.
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
    """The kinds of requests that the order of execution distinguishes."""

    ORDINARY = auto()
    REPLICATED_WRITE = auto()
    """A Produce with acks=all."""
    LONG_POLL = auto()
    """It waits for data or for other clients, and its response is useless to a client that has left."""
    API_VERSIONS = auto()
    """Allowed before authentication."""
    AUTHENTICATION = auto()


class AuthenticationState(Protocol):
    """The part of an authenticator that decides which requests are allowed."""

    @property
    def done(self) -> bool:
        """True while a principal is authenticated."""

    @property
    def expires_at(self) -> float:
        """The time in ms from which the client has to authenticate again before its next request."""

    @property
    def principal(self) -> str: ...


@define(eq=False)
class PendingWrite:
    """A replicated write that is not answered.

    size        bytes of its request
    cancel      stops waiting for replicas
    is_placed   its records have their offsets, or it is complete: the next request may be executed
    is_complete its response may be sent when all earlier writes are complete
    """

    size: int
    cancel: Callable[[], None]
    is_placed: bool = False
    is_complete: bool = False
    response: bytes | None = None
    muted_until: float = 0.0


class ClientConnection:
    """The order of the requests and responses of one client, and the bytes that they hold."""

    def __init__(
        self,
        limits: ConnectionLimits,
        memory: ListenerMemory,
        authentication: AuthenticationState | None,
        on_cut: Callable[[], None],
    ) -> None:
        self.limits = limits
        self.memory = memory
        """Shared by all connections of the listener. It contains `held_bytes` and `unsent_bytes` until `close`."""
        self._authentication = authentication
        """The SASL exchange, or None if the listener does not use SASL."""
        self._on_cut = on_cut
        self.queued: deque[bytes] = deque()
        """Requests that have not been started."""
        self.held_bytes = 0
        """Bytes of all requests that are queued or in progress."""
        self.in_progress = 0
        """Requests that are started and not answered."""
        self.executing: RequestKind | None = None
        """The request that holds up the next one. The shell sets None once it is answered, or is a write and placed."""
        self.pending_writes: deque[PendingWrite] = deque()
        """In the order of their requests. All but the last one are placed."""
        self.client_left = False
        """The client has closed its side. It may still read."""
        self.muted_until = 0.0
        """The end of a quota's throttle time. Clients before Kafka 2.0 do not wait for it by themselves."""
        self.unsent: list[bytes] = []
        """Responses to send, in their order."""
        self.unsent_bytes = 0
        """Bytes of `unsent`, and of the responses that the shell is sending."""
        self.failure = ""
        """The reason why `cut` ended the connection."""

    def cut(self, why: str) -> None:
        self.failure = why
        self._on_cut()

    def close(self) -> None:
        """Return the memory to the listener."""
        self.memory.request_bytes -= self.held_bytes
        self.memory.unsent_bytes -= self.unsent_bytes
        self.memory.partial_requests.discard(self)
        self.held_bytes = self.unsent_bytes = 0

    # -- requests ------------------------------------------------------------------------------------------

    def receive(self, requests: Sequence[bytes], partial_bytes: int) -> None:
        """Queue requests. `partial_bytes` of the one after them have arrived."""
        self.memory.partial_requests.update(self, partial_bytes, self.limits.waiting_bytes_total_max)
        if requests:
            size = sum(map(len, requests))
            self.held_bytes += size
            self.memory.request_bytes += size
            self.queued += requests

    @property
    def is_full(self) -> bool:
        """True while the broker reads no more from this client."""
        limits = self.limits
        return len(self.queued) > limits.waiting_max or self.held_bytes > limits.waiting_bytes_max

    @property
    def is_idle(self) -> bool:
        return not self.in_progress and not self.queued

    def take(self) -> bytes:
        """Start the next request. Its kind is unknown until it is decoded."""
        assert self.executing is None, "one request is executed at a time"
        self.in_progress += 1
        self.executing = RequestKind.ORDINARY
        return self.queued.popleft()

    def is_useless(self, kind: RequestKind) -> bool:
        """Return whether a request is dropped because its client has left. Call it once the kind is known."""
        self.executing = kind
        return self.client_left and kind is RequestKind.LONG_POLL

    def may_execute(self, kind: RequestKind) -> bool:
        """Return whether the started request may be executed, or has to wait for earlier writes."""
        if kind is RequestKind.REPLICATED_WRITE:
            return len(self.pending_writes) < self.limits.ahead_max
        return not self.pending_writes

    def refusal(self, kind: RequestKind, now: int) -> str | None:
        """Return why a request ends the connection, or None: clients authenticate first, and again in time."""
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
        """End a request of `size` bytes. None: it has no response."""
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
        """Note that a write's records have their offsets. No replica is waited for on behalf of a client that left."""
        write.is_placed = True
        if self.client_left:
            write.cancel()

    def complete(self, write: PendingWrite, response: bytes | None, muted_until: float = 0.0) -> None:
        """Note a write's response, and release the responses whose turn has come."""
        write.response, write.muted_until = response, muted_until
        write.is_placed = write.is_complete = True
        pending = self.pending_writes
        while pending and pending[0].is_complete:
            first = pending.popleft()
            self.respond(first.size, first.response, first.muted_until)

    def take_unsent(self) -> bytes:
        """Return all waiting responses as one piece of data."""
        unsent, self.unsent = self.unsent, []
        return unsent[0] if len(unsent) == 1 else b"".join(unsent)

    def sent(self, size: int) -> None:
        self.unsent_bytes -= size
        self.memory.unsent_bytes -= size

    # -- the end -------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Note that the client sends no more requests, and stop waiting on its behalf."""
        self.client_left = True
        for write in self.pending_writes:
            if write.is_placed:
                write.cancel()

    @property
    def is_worked_off(self) -> bool:
        """True when every request that has to be executed is executed. A long poll is none after the client left."""
        if self.queued:
            return False
        return self.executing is None or (self.client_left and self.executing is RequestKind.LONG_POLL)

    @property
    def is_drained(self) -> bool:
        """True when all earlier writes are answered, and all responses are sent."""
        return not self.pending_writes and not self.unsent_bytes
