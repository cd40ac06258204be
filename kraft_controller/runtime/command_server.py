"""The broker's server for the controller's commands, and for requests for a controlled shutdown."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Answer, Numbered, ShutdownRequest
from kraft_controller.core.controlled_shutdown import shutdown_refused
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.frames import Frames
from kraft_controller.wire.command_frames import FrameError, decode, encode
from zab.host.logs import KeyValueLog

logger: Final = logging.getLogger("kraft_controller")

CONNECTIONS_MAX: Final = 100
"""The limit of connections. A further connection closes the one that has received no frame for the longest time. A
controller whose connection was closed connects again."""

GrantShutdown: TypeAlias = Callable[[ShutdownRequest], Awaitable[Answer]]
"""Returns the reply to a request for a controlled shutdown. The reply has an error code if the request is refused, for
example because this broker is not the controller."""


class CommandServer:
    """Serves connections. It executes one command at a time, whatever connection the command arrived on."""

    def __init__(
        self,
        handler: ControllerCommandHandler,
        grant_shutdown: GrantShutdown | None = None,
        *,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._handler = handler
        self._grant_shutdown = grant_shutdown
        """Handles requests for a controlled shutdown; with None, such a request ends the connection."""
        self._turn = trio.Lock()
        """Held while a command is being executed."""
        self._connections_max = connections_max
        self._connections: dict[trio.CancelScope, None] = {}
        """Open connections. The first one has received no frame for the longest time."""
        self._log = KeyValueLog("kraft_controller", dict)

    async def execute(self, numbered: Numbered) -> Answer:
        """Execute a command in pieces, and let other tasks run in between."""
        async with self._turn:
            pieces = self._handler.handle_in_pieces(numbered)
            while True:
                try:
                    next(pieces)
                except StopIteration as end:
                    answer: Answer = end.value
                    return answer
                await trio.lowlevel.checkpoint()

    async def serve(self, stream: trio.abc.Stream, host: str = "") -> None:
        """Serve one connection until it ends. A malformed frame closes the connection.

        A malformed frame or a broken connection is logged with `host`, the address of the peer.
        """
        frames = Frames(stream)
        self._make_room()
        with trio.CancelScope() as scope:
            self._connections[scope] = None
            try:
                await self._serve_frames(frames, scope)
            except (FrameError, trio.BrokenResourceError) as error:
                self._log.warn_rate_limited("command_connection_closed", host, host=host, why=str(error))
            finally:
                self._connections.pop(scope, None)
                with trio.CancelScope(shield=True):
                    await frames.aclose()

    def _make_room(self) -> None:
        if len(self._connections) >= self._connections_max:
            silent = next(iter(self._connections))
            why = f"there are more than {self._connections_max} connections, and this one was idle longest"
            self._log.warn_rate_limited("idle_command_connection_closed", None, why=why)
            del self._connections[silent]
            silent.cancel()

    async def _serve_frames(self, frames: Frames, scope: trio.CancelScope) -> None:
        while (body := await frames.receive()) is not None:
            if scope in self._connections:
                del self._connections[scope]
                self._connections[scope] = None
            frame = decode(body)
            if isinstance(frame, ShutdownRequest) and self._grant_shutdown is not None:
                answer = await self._granted(self._grant_shutdown, frame)
            elif isinstance(frame, Numbered):
                answer = await self.execute(frame)
            else:
                raise FrameError(f"{type(frame).__name__}: expected a command")
            await frames.send(encode(answer))

    @staticmethod
    async def _granted(grant: GrantShutdown, request: ShutdownRequest) -> Answer:
        try:
            return await grant(request)
        except Exception as error:
            logger.exception("the controlled shutdown of broker %d failed", request.broker)
            return shutdown_refused(request, error)


def report_misaddressed(me: BrokerId, other: BrokerId) -> None:
    logger.error(
        "broker %d receives commands for broker %d: check whether that broker registered an address of this one",
        me,
        other,
    )
