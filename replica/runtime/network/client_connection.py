"""One client's connection: what it asks is taken up one request after the other, and the answers leave in that order.

Three tasks. One reads, ahead of what is being answered and up to a bound, because only who reads hears that the client
is gone: then whatever is waited for on its behalf is dropped. One answers. One sends, all that has gathered at a time.

Who writes with acks=all waits for replicas in a task of his own, once his records have their place in the log: the
producer's next batch is written meanwhile, and followers fetch many at a time. What is no such write waits for all
before it, so a client that writes and then reads finds what he wrote.

Who writes with acks=0 hangs up when he has said it all. What came before the end is worked off, and only what is waited
for on behalf of somebody who has left is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import field, frozen

from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.network.memory_limits import response_bytes_max
from replica.runtime.requests import ANONYMOUS, ApiKey, Request, unheard
from replica.wire.encoding import Unwritable
from replica.wire.framing import Framing
from replica.wire.messages import (
    HEAD_BYTES,
    DecodedRequest,
    UnknownApi,
    decode_request,
    encode_response,
    read_head,
)
from replica.wire.schemas import APIS
from replica.wire.schemas.cluster_schemas import API_VERSIONS
from zab.host.logs import shown
from zab.host.watchdog import TimedSteps
from zab.net.wakeup import Wakeup

if TYPE_CHECKING:
    from replica.runtime.network.client_listener import ClientListener

_ALL_IN_SYNC: Final = -1
"""Of a request's `acks`."""
_ASKS_TO_WAIT: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Nothing comes of these for whoever is gone."""
_LONG_BYTES: Final = 16 << 10
"""A request of fewer bytes has no list that takes long."""
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class Cut(Exception):
    """This connection ends; the text says why, for the log."""


@frozen(eq=False)
class _Ahead:
    """A write with acks=all that others may overtake in being taken up, and none in being answered."""

    placed: trio.Event = field(factory=trio.Event)
    answered: trio.Event = field(factory=trio.Event)
    scope: trio.CancelScope = field(factory=trio.CancelScope)


class ClientConnection:
    def __init__(
        self,
        port: ClientListener,
        stream: trio.abc.Stream,
        host: str,
        peer: str,
        principal: str = ANONYMOUS,
        shown: Callable[[], None] = lambda: None,
    ) -> None:
        """`shown` is called when the client has asked something or, where it has to log in, has done so."""
        self._shown = shown
        self.principal = principal
        self.peer = peer
        self._port = port
        self._settings = port.settings
        self._stream = stream
        self._host = host
        self._login = port.security.login(host)
        """None when nothing need be said before anything else."""
        self._framing = Framing(self._settings.request_bytes_max if self._login is None else self._first_bytes_max())
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._taken_up = 0
        """Requests that are neither answered nor waiting for their turn."""
        self._now: ApiKey | None = None
        """What is being taken up."""
        self._ahead: deque[_Ahead] = deque()
        """Those of them that wait for replicas, in their order."""
        self._left = False
        """The client has said its last, though it may still listen."""
        self._worked_off = trio.Event()
        self._mute_until = 0.0
        self._arrived = Wakeup()
        self._room = Wakeup()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._to_send = Wakeup()
        self._taken = trio.Event()
        self._client_id: str | None = None
        self._scope = trio.CancelScope()
        self._cut_for = ""

    def _first_bytes_max(self) -> int:
        return min(self._settings.first_request_bytes_max, self._settings.request_bytes_max)

    async def run(self) -> None:
        log = self._port.log
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._answer, nursery)
                    nursery.start_soon(self._send)
                    try:
                        await self._receive()
                    except WireError:
                        with trio.move_on_after(self._settings.stalled_s):
                            await self._heard_of_all()
                        raise
                    with trio.move_on_after(self._settings.stalled_s):
                        await self._work_off()
                    nursery.cancel_scope.cancel()
            if self._cut_for:
                raise Cut(self._cut_for)
        except* _GONE:
            pass
        except* (WireError, Cut) as errors:
            why = errors.exceptions[0]
            key = self._host, isinstance(why, UnknownApi)
            log.warn_rate_limited("client_protocol_error", key, peer=self.peer, client=self._client_id, why=why)
        except* Exception as errors:
            # A mistake of ours. It costs this client its connection, and nobody else's.
            log.failed("request_failed", errors.exceptions[0], peer=self.peer, client=self._client_id)
        finally:
            self._port.waiting_bytes -= self._waiting_bytes
            self._port.unsent_bytes -= self._unsent_bytes
            self._port.unfinished.lets_go(self)
            self._port.room()
            await trio.aclose_forcefully(self._stream)

    def cut(self, why: str) -> None:
        self._cut_for = why
        self._scope.cancel()

    # -- reading -------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        settings, framing = self._settings, self._framing
        while True:
            with trio.move_on_after(settings.idle_s) as patience:
                try:
                    data = await self._stream.receive_some(
                        max(settings.receive_bytes, min(framing.missing_bytes, 2**20))
                    )
                except _GONE:
                    return
            if patience.cancelled_caught:
                if self._taken_up or self._waiting:
                    continue
                return
            if not data:
                return
            came = self._took_in(data)
            del data  # whoever waits for the next message keeps nothing of the last one
            if came:
                await self._make_room()
                framing.check()

    def _took_in(self, data: bytes | bytearray) -> bool:
        """Whether a message is whole now."""
        frames = self._framing.feed(data)
        self._port.unfinished.holds(self, self._framing.held_bytes, self._settings.waiting_bytes_total_max)
        if not frames:
            return False
        if self._login is None:
            self._shown()
        size = sum(map(len, frames))
        self._waiting_bytes += size
        self._port.waiting_bytes += size
        self._waiting += frames
        self._worked_off = trio.Event()
        self._arrived.ring()
        return True

    async def _heard_of_all(self) -> None:
        """That made sense, before it is cut off for what did not."""
        if self._waiting or self._now is not None:
            await self._worked_off.wait()
        await self._all_answered()
        await self._all_taken()

    async def _work_off(self) -> None:
        """What came before the client left. No more is waited for on its behalf."""
        self._left = True
        for each in self._ahead:
            if each.placed.is_set():
                each.scope.cancel()
        if self._waiting or self._now not in (None, *_ASKS_TO_WAIT):
            await self._worked_off.wait()
        await self._all_taken()

    async def _make_room(self) -> None:
        settings, port = self._settings, self._port
        while len(self._waiting) > settings.waiting_max or self._waiting_bytes > settings.waiting_bytes_max:
            self._room.answer()
            await self._room.wait()
        while port.waiting_bytes > settings.waiting_bytes_total_max:
            await port.until_room()

    # -- answering -----------------------------------------------------------------------------------------

    async def _answer(self, nursery: trio.Nursery) -> None:
        while True:
            while not self._waiting:
                self._worked_off.set()
                self._arrived.answer()
                await self._arrived.wait()
            self._taken_up += 1
            try:
                named = self._named_by(self._waiting[0])
                await TimedSteps(self._port.watchdog, named, self._take_up(nursery, self._waiting.popleft()))
            except (WireError, Cut):
                with trio.move_on_after(self._settings.stalled_s):
                    await self._all_answered()
                    await self._all_taken()
                raise
            self._now = None
            while self._unsent_bytes > self._settings.unsent_bytes_max:
                self._taken = trio.Event()
                await self._taken.wait()
            # Clients of today wait by themselves for what they are told; others are not heard.
            if self._mute_until > trio.current_time() and not self._left:
                await trio.sleep_until(self._mute_until)
            # Fair to other connections, and the sender's chance, whoever of the handlers waited for nothing.
            await trio.lowlevel.checkpoint()

    async def _take_up(self, nursery: trio.Nursery, frame: bytes) -> None:
        login = self._login
        if login is not None and login.raw:
            await self._all_answered()
            self._put(await login.raw_token(frame))
            self._over(frame)
            await self._after_login()
            return
        try:
            asked = decode_request(frame)
        except UnknownApi as error:
            if error.head.key != ApiKey.API_VERSIONS or (login is not None and login.started):
                # The only notice of a client that does not negotiate, and with acks=0 waits for no answer either.
                self._client_id = error.client_id
                self._port.unsupported += 1
                raise
            await self._all_answered()
            # In version 0, which every client can read.
            refused = self._port.versions(ErrorCode.UNSUPPORTED_VERSION)
            self._put(encode_response(API_VERSIONS, 0, error.head.correlation, refused))
            self._over(frame)
            return
        self._client_id = asked.client_id
        if self._left and asked.api in _ASKS_TO_WAIT:
            self._over(frame)
            return
        self._now = asked.api
        await self._others_turn(frame)
        if asked.api is ApiKey.PRODUCE and asked.body.acks == _ALL_IN_SYNC:
            await self._go_ahead(nursery, asked, frame)
            return
        await self._all_answered()
        reply = await self._reply_to(asked)
        await self._others_turn(frame)
        self._say(asked, reply)
        self._over(frame)
        if login is not None:
            await self._after_login()

    def _named_by(self, frame: bytes) -> Callable[[], str]:
        """Name a request for the log. Keeps no more than the head of it."""
        return partial(self._named, frame[:HEAD_BYTES], len(frame))

    def _named(self, head: bytes, size: int) -> str:
        try:
            what = str(read_head(head))
        except WireError:
            what = "a request"
        return f"{what} of {size} bytes, client {shown(self._client_id)}, {self.peer}"

    async def _others_turn(self, frame: bytes) -> None:
        """Between the parts of the work for a request with long lists: reading it, doing it, writing its answer."""
        if len(frame) > _LONG_BYTES:
            await trio.lowlevel.checkpoint()

    async def _all_answered(self) -> None:
        if self._ahead:
            await self._ahead[-1].answered.wait()

    async def _all_taken(self) -> None:
        while self._unsent_bytes:
            self._taken = trio.Event()
            await self._taken.wait()

    async def _go_ahead(self, nursery: trio.Nursery, asked: DecodedRequest[Any], frame: bytes) -> None:
        """Until it has its place, or its answer."""
        while len(self._ahead) >= self._settings.ahead_max:
            await self._ahead[0].answered.wait()
        before = self._ahead[-1] if self._ahead else None
        mine = _Ahead()
        self._ahead.append(mine)
        nursery.start_soon(self._answer_in_turn, asked, frame, mine, before)
        await mine.placed.wait()
        if self._left:
            mine.scope.cancel()

    async def _answer_in_turn(
        self, asked: DecodedRequest[Any], frame: bytes, mine: _Ahead, before: _Ahead | None
    ) -> None:
        try:
            with mine.scope:
                answering = self._reply_to(asked, mine.placed.set)
                reply = await TimedSteps(self._port.watchdog, self._named_by(frame), answering)
                mine.placed.set()
                await self._others_turn(frame)
                if before is not None:
                    await before.answered.wait()
                self._say(asked, reply)
        finally:
            mine.placed.set()
        self._over(frame)
        self._ahead.remove(mine)
        mine.answered.set()

    def _say(self, asked: DecodedRequest[Any], reply: object | None) -> None:
        if reply is None:
            return
        try:
            self._put(encode_response(APIS[asked.api], asked.version, asked.correlation, reply))
        except Unwritable as error:
            raise AssertionError(str(error)) from error
        if wait_ms := getattr(reply, "throttle_time_ms", 0):  # responses to SASL requests have no such field
            self._mute_until = max(self._mute_until, trio.current_time() + wait_ms / 1000)

    def _over(self, frame: bytes) -> None:
        self._taken_up -= 1
        self._waiting_bytes -= len(frame)
        self._port.waiting_bytes -= len(frame)
        self._room.ring()
        self._port.room()

    async def _reply_to(self, asked: DecodedRequest[Any], placed: Callable[[], None] = unheard) -> object | None:
        login = self._login
        request = Request(
            asked.api, asked.version, asked.correlation, asked.client_id, asked.body,
            self._port.name, self.principal, self._host, placed,
        )  # fmt: skip
        if asked.api is ApiKey.API_VERSIONS:
            return self._port.answer_versions(request)
        if asked.api is ApiKey.SASL_HANDSHAKE or asked.api is ApiKey.SASL_AUTHENTICATE:
            if login is None:
                raise Cut(f"{asked.api.name}, and nobody need say who he is at listener {self._port.name}")
            return await login.answer(request)
        if login is not None and login.over:
            raise Cut(f"{asked.api.name}, and {login.principal} had to prove anew who he is: the time for that is over")
        if login is not None and not login.done:
            raise Cut(f"{asked.api.name} before it was said who asks: listener {self._port.name} wants SASL")
        return await self._handled(request)

    async def _handled(self, request: Request[Any]) -> object | None:
        handler = self._port.handlers.get(request.api)
        if handler is None:
            raise Cut(f"{request.api.name} is not offered here")
        if request.api is ApiKey.FETCH:
            room = response_bytes_max(self._port.unsent_bytes, self._settings.unsent_bytes_total_max)
            # With no bytes at all a client would never get on.
            request.body.max_bytes = min(max(request.body.max_bytes, 1), room)
        try:
            response: object | None = await handler(request)
            return response
        except KafkaError as error:
            raise Cut(f"{request.api.name}: {error}") from error

    async def _after_login(self) -> None:
        login = self._login
        assert login is not None
        if login.failed is not None:
            raise Cut(login.failed)  # and it hears so first
        if login.done:
            self._shown()
            self.principal = login.principal
            self._framing.bytes_max = self._settings.request_bytes_max

    # -- sending -------------------------------------------------------------------------------------------

    def _put(self, frame: bytes) -> None:
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        self._port.unsent_bytes += len(frame)
        self._to_send.ring()

    async def _send(self) -> None:
        while True:
            while not self._unsent:
                self._to_send.answer()
                await self._to_send.wait()
            await self._send_what_there_is()

    async def _send_what_there_is(self) -> None:
        pieces, self._unsent = self._unsent, []
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        try:
            await self._sent(data)
        except _GONE:
            if not self._left:
                raise
        self._unsent_bytes -= len(data)
        self._port.unsent_bytes -= len(data)
        self._taken.set()

    async def _sent(self, data: bytes) -> None:
        """In parts, so that a client that takes long is told from one that takes nothing."""
        step = self._settings.receive_bytes
        for start in range(0, len(data), step):
            with trio.move_on_after(self._settings.stalled_s) as patience:
                await self._stream.send_all(memoryview(data)[start : start + step])
            if patience.cancelled_caught:
                raise Cut(f"it has taken nothing of what was sent to it for {self._settings.stalled_s:g} s")
