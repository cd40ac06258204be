"""Messages of the controller for operators, collected until the runtime writes them to the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from kraft_controller.core.controller_store import Damaged

DAMAGED_MAX: Final = 10_000
"""The maximum number of remembered reports. When it is reached, all are forgotten, so a node may be reported again."""


@frozen
class OperatorMessage:
    event: str
    """One of a few fixed words, for searching and counting."""
    fields: tuple[tuple[str, object], ...]


class OperatorLog:
    """Collects messages. A damaged node is reported once for each write that damaged it."""

    def __init__(self, write: Callable[[OperatorMessage], None]) -> None:
        self._write = write
        """Writes a message to the log."""
        self.messages: list[OperatorMessage] = []
        """Messages that were not written yet, oldest first."""
        self._damaged: dict[str, int] = {}
        """`Damaged.written` of each damaged node, by the text of its report."""

    def report(self, event: str, **fields: object) -> None:
        self.messages.append(OperatorMessage(event, tuple(fields.items())))

    def report_damage(self, damage: Damaged) -> None:
        """Report a damaged node, unless the same damage by the same write was reported before."""
        if self._damaged.get(damage.why) == damage.written:
            return
        if len(self._damaged) >= DAMAGED_MAX:
            self._damaged.clear()
        self._damaged[damage.why] = damage.written
        self.report("damaged", why=damage.why)

    def retract_no_leader(self, led: set[str]) -> None:
        """Remove unwritten reports of leaderless partitions that have a leader again."""
        self.messages[:] = [
            message
            for message in self.messages
            if message.event != "no_leader" or dict(message.fields)["partition"] not in led
        ]

    def flush(self) -> None:
        messages, self.messages = self.messages, []
        for message in messages:
            self._write(message)
