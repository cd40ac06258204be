"""The order of the requests of an in-process session, which has no connection and so no `RequestPipeline`.

It follows the rule of a connection, with the same queue. Writes are posted at once. A read is carried out as soon as
all earlier writes are answered, and only while the state may be read. Unlike on a connection, a write's result does
not wait for earlier replies, because many tasks may share one session.

The module is pure: the session in `zab.runtime.store_server.in_process_session` does the waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from zab.service.connection.pending_replies import PendingReplies, PendingReply
from zab.service.connection.ports import RequestPort
from zab.service.forwarding.pending_submissions import Done


class OrderedServer(Protocol):
    """The part of `ClientService` that the order depends on."""

    ready: bool

    @property
    def requests(self) -> RequestPort: ...


class HeldRead:
    """A read that waits for earlier writes, or until the state may be read."""

    __slots__ = ("carry_out",)

    def __init__(self, carry_out: Callable[[], None]) -> None:
        self.carry_out: Callable[[], None] | None = carry_out
        """The function that carries out the read; None once its caller has given up."""


class RequestOrder:
    def __init__(self, server: OrderedServer) -> None:
        self._server = server
        self._requests = server.requests
        self._pending: PendingReplies[HeldRead] = PendingReplies()
        """Unanswered writes and held reads, in the order of the calls."""

    def write(self, op: int, xid: int, request: bytes, done: Done) -> None:
        """Post a write at once. `done` gets its outcome before any later read is carried out."""
        reply = PendingReply()
        self._pending.append((op, xid, reply))
        self._requests.post(request, partial(self._written, reply, done))

    def _written(self, reply: PendingReply, done: Done, result: object, error: Exception | None) -> None:
        reply.done = True
        done(result, error)
        self.resume()

    @property
    def is_clear(self) -> bool:
        """True if a read may be carried out at once."""
        return not self._pending and self._server.ready

    def hold(self, op: int, carry_out: Callable[[], None]) -> HeldRead:
        """Hold a read until earlier writes are answered and the state may be read."""
        assert not self.is_clear, "a read that need not wait is carried out at once"
        held = HeldRead(carry_out)
        self._pending.append((op, 0, held))
        return held

    @staticmethod
    def give_up(held: HeldRead) -> None:
        """Drop a read whose caller no longer waits."""
        held.carry_out = None

    def end(self) -> None:
        """Carry out all held reads, because the session is over: each then fails with the error of an ended session."""
        pending, self._pending = self._pending, PendingReplies()
        for _, _, held in pending:
            if isinstance(held, HeldRead) and held.carry_out is not None:
                held.carry_out()

    def resume(self) -> None:
        """Carry out the reads that are due, because a write was answered or the state may be read again."""
        while self._server.ready and (pending := self._pending.due()) is not None:
            held = pending[2]
            if isinstance(held, HeldRead) and held.carry_out is not None:
                held.carry_out()
