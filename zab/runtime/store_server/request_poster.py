"""Submit clients' requests to the member at once, and send all replies of a turn at its end.

The member sends all requests of a turn to the leader together. While there is no leader, submitted requests wait in
the member. Requests for which the member has no room wait in an `OverflowQueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from zab.net.wakeup import Wakeup
from zab.runtime.member import Member
from zab.runtime.waiter import Waiter
from zab.service.forwarding.pending_submissions import Done
from zab.service.overflow_queue import OverflowQueue
from zab.store.apply import Result

FLUSHED_AT_ONCE: Final = 1_000
"""The largest number of connections that are flushed before other tasks run.

There is a limit because a change that all clients watch has events for all of them.
"""
WRITE_SAMPLES: Final = 64
"""One in this many requests is timed, but at most one of those that are posted together."""


class Flushable(Protocol):
    def flush(self) -> None: ...
    def failed(self, mistake: Exception) -> None: ...


class RequestPoster:
    """Submits requests to the member in their order, and flushes connections at the end of each turn."""

    def __init__(self, member: Member, timed: Callable[[Done], Done]) -> None:
        """`timed` wraps the callback of a write whose time is measured."""
        self._member = member
        self._timed = timed
        self._posts = 0
        self._overflow = OverflowQueue(member)
        self._submit = self._overflow.post_many
        self.refuse_waiting = self._overflow.refuse
        self._dirty: list[Flushable] = []
        self._postponed: list[Callable[[], None]] = []
        self._wakeup = Wakeup()
        member.on_turn(self._flush)

    # -- requests ----------------------------------------------------------------------------------

    def post(self, request: bytes, done: Done) -> None:
        """Submit a request. Requests keep the order of the calls.

        `done` is called in the event loop, perhaps before this call returns.
        """
        self.post_many((request,), done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        """Submit requests that arrived together, in their order; `done` is called for each of them."""
        sampled = self._posts % WRITE_SAMPLES + len(requests) >= WRITE_SAMPLES
        self._posts += len(requests)
        if sampled:
            self._submit(requests[:1], self._timed(done))
            requests = requests[1:]
        self._submit(requests, done)

    async def ask(self, request: bytes) -> Result:
        """Submit a request and return its result. Raise the same errors as `Member.submit`.

        If this call is cancelled before the request is carried out, no later leader receives the request.
        """
        waiter = Waiter()
        asked = self._overflow.ask(request, waiter.done)
        try:
            result: Result = await waiter.wait()  # type: ignore[assignment]  # what `apply` of the machine returned
        except trio.Cancelled:
            self._overflow.give_up(asked)
            raise
        return result

    # -- the requests of one turn, sent together ---------------------------------------------------

    def dirty(self, connection: Flushable) -> None:
        """Flush this connection once its frames are gathered: at the end of the turn, or in `run` if no turn runs."""
        if not self._dirty and not self._member.turning:
            self._wakeup.ring()
        self._dirty.append(connection)

    async def run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._flush()
            postponed, self._postponed = self._postponed, []
            for do in postponed:
                do()
                await trio.lowlevel.checkpoint()

    def postpone(self, do: Callable[[], None]) -> None:
        """Call `do` after other tasks have run."""
        self._postponed.append(do)
        self._wakeup.ring()

    def _flush(self) -> None:
        """Flush the connections that have frames to send, and submit waiting requests for which there is room now.

        Called by `run`, and at the end of each turn of the member, because most frames are made in a turn.
        """
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            if len(dirty) > FLUSHED_AT_ONCE:  # many clients watch one change
                dirty, self._dirty = dirty[:FLUSHED_AT_ONCE], dirty[FLUSHED_AT_ONCE:]
                self._wakeup.ring()
            for connection in dirty:
                try:
                    connection.flush()
                except Exception as mistake:  # this connection ends; the turn of the member continues
                    connection.failed(mistake)
        if self._overflow.waiting:
            self._overflow.retry()
