"""One client of the client port, from its first frame to its end: any that speaks ZooKeeper's protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from zab.core.errors import WireError
from zab.runtime.coordination.authentication import Caller
from zab.runtime.coordination.greeting import (
    RECEIVE_BYTES,
    Established,
    first_frame,
    is_admitted,
    session_for,
    welcome,
)
from zab.runtime.coordination.intake import Intake
from zab.runtime.coordination.words import answer
from zab.store.acl import Identity
from zab.wire.client.connect import ConnectRequest, encode_connect_response
from zab.wire.client.frames import Command, HttpRequest

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer


class Connection(Intake):
    """It asks (`Intake`), and is answered (`Replies`)."""

    def __init__(
        self,
        server: StoreServer,
        stream: trio.abc.Stream,
        host: str,
        peer: str,
        proved: Iterable[Identity] = (),
        shown: Callable[[], None] = lambda: None,
    ) -> None:
        """`shown` is called when the first frame has come: from then on it is a client's."""
        super().__init__(server, stream, peer, Caller(server.settings, host, proved))
        self._shown = shown
        self.established_ms = server.member.host.wall_ms()

    async def run(self) -> None:
        server = self.server
        try:
            with self._scope:
                await self._converse()
            if self._finishing and not self.over:
                await self._linger()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* HttpRequest as errors:
            server.log.say("client_cut", "debug", peer=self.peer, why=errors.exceptions[0])
        except* WireError as errors:
            self.wronged(str(errors.exceptions[0]))
        except* Exception as errors:
            # A mistake of ours, or a server that is ending. It costs this client its connection, and nobody else's.
            self.grumble_failed(errors.exceptions[0])
        finally:
            self._end()
            await self._close()
            if self.session:
                await self.server.forget_watches(self)

    async def _close(self) -> None:
        """Of a plain socket it is one call; what closes any stream takes a pass of the loop."""
        if isinstance(self._stream, trio.SocketStream):
            self._stream.socket.close()
        else:
            await trio.aclose_forcefully(self._stream)

    def _end(self) -> None:
        self.over = True
        self._drop()
        server = self.server
        server.gone.received += self.received
        server.gone.sent += self.sent
        server.counts.response_bytes += self.response_bytes
        server.counts.connection_drop_count += bool(self.session and not self.last_taken)
        server.connections.pop(self, None)
        if self.session:
            server.detach(self)

    async def _linger(self) -> None:
        """A close with something unread would take back what was sent: so hear it out, for a moment."""
        with trio.move_on_after(self.server.settings.linger_ms / 1000):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(RECEIVE_BYTES):
                pass

    async def _converse(self) -> None:
        heard = await first_frame(self.server, self._stream, self._scope)
        if heard is None:
            return
        self._shown()
        first, rest = heard
        if isinstance(first, Command):
            await self._stream.send_all(answer(self.server, first))
            self._finishing = True
            return
        if not await self._establish(first):
            return
        await self._serve(rest)

    # -- the session -------------------------------------------------------------------------------

    async def _establish(self, asked: ConnectRequest) -> bool:
        server = self.server
        server.counts.connection_request_count += 1
        if not is_admitted(server, asked):
            server.counts.connection_rejected += 1
            server.log.grumble("too_many_connections_at_once", "bucket", peer=self.peer)
            return False
        given = await session_for(server, asked, self.peer)
        if given is None:
            return False
        if not isinstance(given, Established):
            await self._outlet.say(encode_connect_response(given))
            self._finishing = True
            return False
        self.session, self.timeout_ms, self.read_only = given.session, given.timeout_ms, given.read_only
        if given.session in server.local and not server.local.is_rising(given.session):
            self.session_is_local()
        server.attach(self)
        server.connections[self] = None
        if not server.knows(given.session):
            return False  # closed again in the meantime
        await self._outlet.say(welcome(server, asked, given))
        return True

    def heard_of(self) -> bool:
        heard, self._heard = self._heard, False
        return heard

    def ended(self, why: str) -> None:
        if not self.last_taken:  # else it is its own wish, and the reply is on its way
            self.cut(why)
