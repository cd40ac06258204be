"""The broker's side of the command channel: it fences commands by epochs, and executes them in pieces.

Three checks precede execution: the addressee, the broker epoch and the controller epoch. Within one controller epoch,
the correlation ids fence commands that arrive late, on a connection that the controller has abandoned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias

from kraft_controller.core.commands import Answer, Command, Numbered, in_pieces
from kraft_controller.core.error_codes import ANOTHER_BROKER, NONE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from kraft_controller.core.names import NO_BROKER, BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition

PIECE_MAX: Final = 16
"""The maximum number of replicas that one piece of a command starts, changes or stops. A piece takes tens of
milliseconds on a slow disk."""

OTHERS_MAX: Final = 100
"""The maximum number of addressees whose misaddressed commands are reported."""

Execute: TypeAlias = Callable[[Command], Mapping[TopicPartition, int]]
"""Executes a command or a piece of one, and returns the error codes by partition. No other command runs meanwhile."""


class ControllerCommandHandler:
    """Checks and executes the commands that one broker receives."""

    def __init__(
        self,
        epoch: Callable[[], BrokerEpoch],
        execute: Execute,
        *,
        me: BrokerId | None = None,
        report_misaddressed: Callable[[BrokerId], None] = lambda other: None,
    ) -> None:
        self._epoch = epoch
        """Returns the smallest broker epoch whose commands are accepted. A command with epoch -1 is accepted, too."""
        self._execute = execute
        self._me = me
        """The id of this broker; with None, commands for any addressee are accepted."""
        self._report_misaddressed = report_misaddressed
        """Called with the addressee of a misaddressed command, once for each of up to `OTHERS_MAX` addressees."""
        self._others: dict[BrokerId, None] = {}
        """The addressees whose misaddressed commands were reported."""
        self.controller_epoch = ControllerEpoch(0)
        """The newest controller epoch of an accepted command."""
        self._number = 0
        """The newest correlation id of an accepted command of `controller_epoch`."""

    def handle(self, numbered: Numbered) -> Answer:
        """Execute a command without a break, unless it is fenced. Return the reply."""
        error = self._fence(numbered)
        return Answer(numbered.number, error, {} if error else dict(self._execute(numbered.command)))

    def handle_in_pieces(self, numbered: Numbered) -> Generator[None, None, Answer]:
        """Execute a command in pieces, and yield before each piece so that other work proceeds.

        If the driver stops in between, the executed pieces keep their effect. The command has no reply then, so the
        controller sends it again.
        """
        errors: dict[TopicPartition, int] = {}
        for piece in in_pieces(numbered.command, PIECE_MAX):
            yield
            error = self._fence(numbered)  # check again, because the broker may have registered again meanwhile
            if error:
                return Answer(numbered.number, error, {})
            errors.update(self._execute(piece))
        return Answer(numbered.number, NONE, errors)

    def _fence(self, numbered: Numbered) -> int:
        """Return the error if a command is fenced or misaddressed, else NONE. An accepted command fences older ones."""
        command = numbered.command
        if self._me is not None and numbered.to not in (NO_BROKER, self._me):
            if numbered.to not in self._others and len(self._others) < OTHERS_MAX:
                self._others[numbered.to] = None
                self._report_misaddressed(numbered.to)
            return ANOTHER_BROKER
        # A greater epoch is valid, too: the controller may learn of this broker's registration first (KAFKA-9839).
        if command.broker_epoch != -1 and command.broker_epoch < self._epoch():
            return STALE_BROKER_EPOCH
        if command.controller_epoch < self.controller_epoch:
            return STALE_CONTROLLER_EPOCH
        if command.controller_epoch == self.controller_epoch and numbered.number < self._number:
            return STALE_CONTROLLER_EPOCH
        self.controller_epoch, self._number = command.controller_epoch, numbered.number
        return NONE
