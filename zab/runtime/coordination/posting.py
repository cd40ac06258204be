"""The way of requests to the leader, and of what gathers for the clients to the system.

While there is no leader, writes wait in the member, and what there is no room for waits here: nobody is turned away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from zab.core.errors import Overloaded, ZabError
from zab.runtime.admin.pulse import WRITE_SAMPLES, Pulse
from zab.runtime.doorbell import Doorbell
from zab.runtime.member import Member
from zab.runtime.origin import Done, Submission
from zab.runtime.waiting import Waiter
from zab.store.acl import encode_identities
from zab.store.apply import Result
from zab.store.ops import Fields, Op
from zab.store.request import INTERNAL, pack_body, pack_request

NOBODY: Final = encode_identities(())
FLUSHED_AT_ONCE: Final = 1_000
"""Connections, before others have the loop. A change that all clients watch makes all of them dirty."""


class Flushes(Protocol):
    def flush(self) -> None: ...
    def failed(self, mistake: Exception) -> None: ...


def ignore(result: object, error: Exception | None) -> None:
    """Nobody waits for this."""


class _Ask:
    """A request for which one task waits."""

    __slots__ = ("given_up", "request", "submission", "waiter")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.waiter = Waiter()
        self.submission: Submission | None = None
        """Once there was room for it."""
        self.given_up = False


class Posting:
    pulse: Pulse

    def __init__(self, member: Member) -> None:
        self.member = member
        self.me = member.me
        self._posts = 0
        self._waiting: deque[tuple[bytes, Done, _Ask | None]] = deque()
        self._dirty: list[Flushes] = []
        self._postponed: list[Callable[[], None]] = []
        self._bell = Doorbell()
        member.on_turn(self._flush)

    # -- requests ----------------------------------------------------------------------------------

    def post(self, request: bytes, done: Done) -> None:
        """To the leader, in the order of the calls. `done` is called in the event loop, maybe at once with an error."""
        self.post_many((request,), done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        """All that came at once; `done` is called for each of them, in their order."""
        sampled = self._posts % WRITE_SAMPLES + len(requests) >= WRITE_SAMPLES
        self._posts += len(requests)
        if sampled:
            self._post(requests[:1], self.pulse.timed(done))
            requests = requests[1:]
        self._post(requests, done)

    def _post(self, requests: Sequence[bytes], done: Done) -> None:
        taken = 0
        if not self._waiting:
            try:
                taken = self.member.post_many(requests, done)
            except ZabError as error:
                for _ in requests:
                    done(None, error)
                return
        self._waiting += [(request, done, None) for request in requests[taken:]]

    def _post_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._waiting:
            request, done, ask = waiting.popleft()
            if ask is None:
                self._post((request,), done)
            elif not ask.given_up:
                self._post_ask(ask)
        self._waiting += waiting

    async def ask(self, request: bytes) -> Result:
        """Who gives it up wishes it away: if it was not carried out by then, the next leader is not asked for it."""
        ask = _Ask(request)
        self._post_ask(ask)
        try:
            result: Result = await ask.waiter.wait()  # type: ignore[assignment]  # what `apply` of the machine returned
        except trio.Cancelled:
            ask.given_up = True
            if ask.submission is not None:
                self.member.forget(ask.submission)
            raise
        return result

    def _post_ask(self, ask: _Ask) -> None:
        if not self._waiting:
            try:
                ask.submission = self.member.post(ask.request, ask.waiter.done)
                return
            except Overloaded:
                pass
            except ZabError as error:
                ask.waiter.done(None, error)
                return
        self._waiting.append((ask.request, ask.waiter.done, ask))

    def internal(self, op: Op, fields: Fields, session: int = 0) -> bytes:
        return pack_request(op, pack_body(fields), session, 0, self.me, NOBODY, INTERNAL)

    def _refuse_waiting(self, why: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, done, _ in waiting:
            done(None, why)

    # -- one turn, one send ------------------------------------------------------------------------

    def dirty(self, connection: Flushes) -> None:
        """It has something to send: when this turn of the loop is over, all of it goes out at once."""
        if not self._dirty and not self.member.turning:
            self._bell.ring()
        self._dirty.append(connection)

    async def _flush_when_rung(self) -> None:
        while True:
            await self._bell.wait()
            self._flush()
            postponed, self._postponed = self._postponed, []
            for do in postponed:
                do()
                await trio.lowlevel.checkpoint()

    def postpone(self, do: Callable[[], None]) -> None:
        """Call it when others have had the loop."""
        self._postponed.append(do)
        self._bell.ring()

    def _flush(self) -> None:
        """Also at the end of each turn of the member: most answers are found there."""
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            if len(dirty) > FLUSHED_AT_ONCE:  # a change that so many clients watch
                dirty, self._dirty = dirty[:FLUSHED_AT_ONCE], dirty[FLUSHED_AT_ONCE:]
                self._bell.ring()
            for connection in dirty:
                try:
                    connection.flush()
                except Exception as mistake:  # it ends this connection; the member, whose turn this is, goes on
                    connection.failed(mistake)
        if self._waiting:
            self._post_waiting()
