"""The broker's side of the command channel: fencing by epochs, then execution piece by piece.

Three fences are checked before anything is executed: the addressee, the broker epoch and the controller epoch. Within
one controller epoch the correlation numbers fence a command that arrives late on a connection that its sender gave up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias

from kraft_controller.core.commands import Answer, Command, Numbered, in_pieces
from kraft_controller.core.error_codes import ANOTHER_BROKER, NONE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from kraft_controller.core.names import NOBODY, BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition

PIECE_MAX: Final = 16
"""Replicas that one piece of a command starts, changes or stops: some hundredths of a second on a slow disk."""

OTHERS_MAX: Final = 100
"""Brokers whose misaddressed commands are reported."""

Execute: TypeAlias = Callable[[Command], Mapping[TopicPartition, int]]
"""Executes a piece of a command and returns the error codes of partitions. No other command runs meanwhile."""


class ControllerCommandHandler:
    """Admits and executes the commands that one broker receives."""

    def __init__(
        self,
        epoch: Callable[[], BrokerEpoch],
        execute: Execute,
        *,
        me: BrokerId | None = None,
        report_misaddressed: Callable[[BrokerId], None] = lambda other: None,
    ) -> None:
        self._epoch = epoch
        """Returns the broker epoch; commands for an older one are refused."""
        self._execute = execute
        self._me = me
        """The id of this broker; None accepts commands for any addressee."""
        self._report_misaddressed = report_misaddressed
        """Called once for each broker whose commands arrive here."""
        self._others: dict[BrokerId, None] = {}
        """The brokers that were reported as misaddressed."""
        self.controller_epoch = ControllerEpoch(0)
        """The newest controller epoch of an admitted command."""
        self._number = 0
        """The newest correlation number within that epoch."""

    def handle(self, numbered: Numbered) -> Answer:
        """Execute a command in one go."""
        error = self._fence(numbered)
        return Answer(numbered.number, error, {} if error else dict(self._execute(numbered.command)))

    def handle_in_pieces(self, numbered: Numbered) -> Generator[None, None, Answer]:
        """Execute a command piece by piece, and yield before each so that other work proceeds.

        If the driver stops in between, the executed pieces stay; the command has no reply and is sent again.
        """
        errors: dict[TopicPartition, int] = {}
        for piece in in_pieces(numbered.command, PIECE_MAX):
            yield
            error = self._fence(numbered)  # again: the broker may have registered anew meanwhile
            if error:
                return Answer(numbered.number, error, {})
            errors.update(self._execute(piece))
        return Answer(numbered.number, NONE, errors)

    def _fence(self, numbered: Numbered) -> int:
        """Return the error that fences a command, or NONE; from then on older commands are fenced."""
        command = numbered.command
        if self._me is not None and numbered.to not in (NOBODY, self._me):
            if numbered.to not in self._others and len(self._others) < OTHERS_MAX:
                self._others[numbered.to] = None
                self._report_misaddressed(numbered.to)
            return ANOTHER_BROKER
        # A greater epoch is this broker's as well: the controller knows of the registration first (KAFKA-9839).
        if command.broker_epoch != -1 and command.broker_epoch < self._epoch():
            return STALE_BROKER_EPOCH
        if command.controller_epoch < self.controller_epoch:
            return STALE_CONTROLLER_EPOCH
        if command.controller_epoch == self.controller_epoch and numbered.number < self._number:
            return STALE_CONTROLLER_EPOCH
        self.controller_epoch, self._number = command.controller_epoch, numbered.number
        return NONE
