"""A broker's ear for controllers: who may command, command by command.

The epochs are compared here, before anything is done, so whatever obeys need not ask: a command for an earlier life
of this broker is refused, and so is one of a controller older than one that was heard. And of one controller, what was
on its way over a connection that it has given up, and comes behind what it has said since over another.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from kraft_controller.core.commands import Command, in_pieces
from kraft_controller.core.names import NOBODY, BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from kraft_controller.runtime.frames import Frames
from kraft_controller.wire.commands import Answer, FrameError, LetGo, Numbered, decode, encode

logger: Final = logging.getLogger("kraft_controller")

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
STALE_CONTROLLER_EPOCH: Final = 11
STALE_BROKER_EPOCH: Final = 77
ANOTHER_BROKER: Final = 102
"""The command is for somebody else, who says that he is to be found here."""

UNREGISTERED: Final = BrokerEpoch((1 << 63) - 1)
"""Of a broker that has just started, and does not know yet which commands are of an earlier life: it obeys none. Before
it registers it learns when a child of `/brokers/ids` changed last. All its earlier lives are not after that, and the
one that begins will be: so until it is told its own epoch, that zxid and one is its epoch."""

PIECE_MAX: Final = 16
"""Replicas that begin, change or end before others have their turn: some hundredths of a second, on a slow disk."""

CONNECTIONS_MAX: Final = 100
"""At the same time. Of more, that one is cut which has been silent for longest: a controller dials again."""

OTHERS_MAX: Final = 100
"""Of so many brokers whose commands come here by mistake it is said in the log."""

Obey = Callable[[Command], Mapping[TopicPartition, int]]
"""Do as you are told, and say what went wrong with which partition. At once: nothing else is heard meanwhile.

What concerns many replicas of this broker comes in pieces, in their order."""

Grant = Callable[[LetGo], Awaitable[Answer]]
"""What the controller says to a broker that is about to leave; here, because it may be this one."""


class Orders:
    def __init__(
        self,
        epoch: Callable[[], BrokerEpoch],
        obey: Obey,
        let_go: Grant | None = None,
        *,
        me: BrokerId | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """`me`: who hears this; what is for others is refused. None: all of it is for whoever hears it."""
        self._me = me
        self._others: dict[BrokerId, None] = {}
        """For whom commands came here, and it was said."""
        self._epoch = epoch
        self._obey = obey
        self._let_go = let_go
        self.controller_epoch = ControllerEpoch(0)
        """The newest that was heard."""
        self._number = 0
        """The newest of its commands."""
        self._turn = trio.Lock()
        """Of the command that is being obeyed, whatever connection it came over."""
        self._connections_max = connections_max
        self._connections: dict[trio.CancelScope, None] = {}
        """Who spoke last stands last."""

    def answer(self, numbered: Numbered) -> Answer:
        """In one go, for whoever has nothing else to do meanwhile."""
        error = self._admitted(numbered)
        return Answer(numbered.number, error, {} if error else dict(self._obey(numbered.command)))

    async def obeyed(self, numbered: Numbered) -> Answer:
        """Piece by piece. If it is cancelled in between, what was done stands, and since nothing was answered it is
        said again, from its beginning."""
        errors: dict[TopicPartition, int] = {}
        async with self._turn:
            for piece in in_pieces(numbered.command, PIECE_MAX):
                await trio.lowlevel.checkpoint()
                error = self._admitted(numbered)  # again: another life of this broker may have begun
                if error:
                    return Answer(numbered.number, error, {})
                errors.update(self._obey(piece))
        return Answer(numbered.number, NONE, errors)

    def _admitted(self, numbered: Numbered) -> int:
        """Why it is not obeyed. If it is, no older one will be."""
        command = numbered.command
        if self._me is not None and numbered.to not in (NOBODY, self._me):
            if numbered.to not in self._others and len(self._others) < OTHERS_MAX:
                self._others[numbered.to] = None
                logger.error(
                    "broker %d hears commands for broker %d: is that one registered with an address of this one?",
                    self._me, numbered.to,
                )  # fmt: skip
            return ANOTHER_BROKER
        # One that is greater than ours is for us, too: it knows of our registration before we do.
        if command.broker_epoch != -1 and command.broker_epoch < self._epoch():
            return STALE_BROKER_EPOCH
        if command.controller_epoch < self.controller_epoch:
            return STALE_CONTROLLER_EPOCH
        if command.controller_epoch == self.controller_epoch and numbered.number < self._number:
            return STALE_CONTROLLER_EPOCH
        self.controller_epoch, self._number = command.controller_epoch, numbered.number
        return NONE

    async def serve(self, stream: trio.abc.Stream) -> None:
        """One connection of a controller, or of a broker that is about to leave, to its end.

        Whatever is no command ends it, with a line that says why.
        """
        frames = Frames(stream)
        self._make_room()
        with trio.CancelScope() as scope:
            self._connections[scope] = None
            try:
                await self._converse(frames, scope)
            except (FrameError, trio.BrokenResourceError) as error:
                logger.warning("a controller's connection is cut: %s", error)
            finally:
                self._connections.pop(scope, None)
                with trio.CancelScope(shield=True):
                    await frames.aclose()

    @staticmethod
    async def _granted(let_go: Grant, asked: LetGo) -> Answer:
        try:
            return await let_go(asked)
        except Exception:
            logger.exception("broker %d wants to leave, and the controller failed", asked.broker)
            return Answer(asked.number, UNKNOWN_SERVER_ERROR, {})

    def _make_room(self) -> None:
        if len(self._connections) >= self._connections_max:
            silent = next(iter(self._connections))
            logger.warning("more than %d connections of controllers: the most silent is cut", self._connections_max)
            del self._connections[silent]
            silent.cancel()

    async def _converse(self, frames: Frames, scope: trio.CancelScope) -> None:
        while (body := await frames.receive()) is not None:
            if scope in self._connections:
                del self._connections[scope]
                self._connections[scope] = None
            frame = decode(body)
            if isinstance(frame, LetGo) and self._let_go is not None:
                answer = await self._granted(self._let_go, frame)
            elif isinstance(frame, Numbered):
                answer = await self.obeyed(frame)
            else:
                raise FrameError("an answer, where commands come in")
            await frames.send(encode(answer))
