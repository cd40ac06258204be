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

from kraft_controller.core.commands import Command
from kraft_controller.core.names import BrokerEpoch, ControllerEpoch, TopicPartition
from kraft_controller.runtime.frames import Frames
from kraft_controller.wire.commands import Answer, FrameError, LetGo, Numbered, decode, encode

logger: Final = logging.getLogger("kraft_controller")

NONE: Final = 0
STALE_CONTROLLER_EPOCH: Final = 11
STALE_BROKER_EPOCH: Final = 77

UNREGISTERED: Final = BrokerEpoch((1 << 63) - 1)
"""Of a broker that has just started, and does not know yet which commands are of an earlier life: it obeys none. Before
it registers it learns when a child of `/brokers/ids` changed last. All its earlier lives are not after that, and the
one that begins will be: so until it is told its own epoch, that zxid and one is its epoch."""

Obey = Callable[[Command], Mapping[TopicPartition, int]]
"""Do as you are told, and say what went wrong with which partition. At once: nothing else is heard meanwhile."""

Grant = Callable[[LetGo], Awaitable[Answer]]
"""What the controller says to a broker that is about to leave; here, because it may be this one."""


class Orders:
    def __init__(self, epoch: Callable[[], BrokerEpoch], obey: Obey, let_go: Grant | None = None) -> None:
        self._epoch = epoch
        self._obey = obey
        self._let_go = let_go
        self.controller_epoch = ControllerEpoch(0)
        """The newest that was heard."""
        self._number = 0
        """The newest of its commands."""

    def answer(self, numbered: Numbered) -> Answer:
        command = numbered.command
        # One that is greater than ours is for us, too: it knows of our registration before we do.
        if command.broker_epoch != -1 and command.broker_epoch < self._epoch():
            return Answer(numbered.number, STALE_BROKER_EPOCH, {})
        if command.controller_epoch < self.controller_epoch:
            return Answer(numbered.number, STALE_CONTROLLER_EPOCH, {})
        if command.controller_epoch == self.controller_epoch and numbered.number < self._number:
            return Answer(numbered.number, STALE_CONTROLLER_EPOCH, {})
        self.controller_epoch, self._number = command.controller_epoch, numbered.number
        return Answer(numbered.number, NONE, dict(self._obey(command)))

    async def serve(self, stream: trio.abc.Stream) -> None:
        """One connection of a controller, or of a broker that is about to leave, to its end.

        Whatever is no command ends it, with a line that says why.
        """
        frames = Frames(stream)
        try:
            while (body := await frames.receive()) is not None:
                frame = decode(body)
                if isinstance(frame, LetGo) and self._let_go is not None:
                    answer = await self._let_go(frame)
                elif isinstance(frame, Numbered):
                    answer = self.answer(frame)
                else:
                    raise FrameError("an answer, where commands come in")
                await frames.send(encode(answer))
        except (FrameError, trio.BrokenResourceError) as error:
            logger.warning("a controller's connection is cut: %s", error)
        finally:
            with trio.CancelScope(shield=True):
                await frames.aclose()
