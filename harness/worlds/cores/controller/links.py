"""The controller's links to brokers: to each one queue, and one command on its way, said again until it is answered.

It stands for `kraft_controller.runtime.links`, with connections that break before a command or behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraft_controller.core.commands import Command
from kraft_controller.core.names import BrokerId
from kraft_controller.core.state import Broker as Known
from kraft_controller.runtime.links import meaning_of
from kraft_controller.wire.commands import Answer, Numbered

if TYPE_CHECKING:
    from harness.worlds.cores.controller.broker import Broker
    from harness.worlds.cores.controller.office import Office

BACKOFF_US: Final = 20_000
BREAKS: Final = 0.02
"""Of so many commands the connection breaks, before the broker has heard or before its answer is back."""


class Link:
    """To one life of one broker, in one reign."""

    def __init__(self, office: Office, known: Known) -> None:
        self.office = office
        self.known = known
        self._waiting: deque[Command] = deque()
        self._number = 0
        self._busy = False
        self.over = False

    def send(self, command: Command) -> None:
        self._waiting.append(command)
        if not self._busy:
            self._say()

    def _say(self) -> None:
        if self.over or not self._waiting:
            self._busy = False
            return
        self._busy = True
        self._number = self.office.links.next_number()
        world = self.office.world
        # On its way it does not depend on who sent it any more.
        world.push(
            world.now + self._delay(), self._arrive, Numbered(self._number, self._waiting[0], self.known.id), None
        )

    def _delay(self) -> int:
        timing, random = self.office.world.script.timing, self.office.random
        return timing.delay_us_min + int(random.random() * max(1, timing.delay_us_max - timing.delay_us_min))

    def _arrive(self, numbered: Numbered, _: None) -> None:
        target: Broker = self.office.world.brokers[self.known.id]
        breaks = self.office.random.random() < BREAKS
        if not target.up or target.unheard or (breaks and numbered.number % 2):
            self._again(numbered)
            return

        def answered(answer: Answer) -> None:
            world = self.office.world
            if breaks or target.unheard:
                self._again(numbered)
            else:
                world.push(world.now + self._delay(), self._answered, numbered, answer)

        target.hear(numbered, answered)

    def _again(self, numbered: Numbered) -> None:
        def say() -> None:
            if numbered.number == self._number:
                self._say()

        if not self.over:
            self.office.broker.later(BACKOFF_US, say)

    def _answered(self, numbered: Numbered, answer: Answer) -> None:
        self.office.broker.later(0, lambda: self._take(numbered, answer))

    def _take(self, numbered: Numbered, answer: Answer) -> None:
        if self.over or numbered.number != self._number:
            return
        command = self._waiting.popleft()
        event = meaning_of(self.known, command, answer)
        if event is not None:
            self.office.note(event)
        self._say()


class Links:
    def __init__(self, office: Office) -> None:
        self._office = office
        self._links: dict[BrokerId, Link] = {}
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def know(self, brokers: Mapping[BrokerId, Known]) -> None:
        for ident, link in list(self._links.items()):
            known = brokers.get(ident)
            if known is None or known.epoch != link.known.epoch:
                self._links.pop(ident).over = True
        for ident, known in brokers.items():
            if ident not in self._links:
                self._links[ident] = Link(self._office, known)

    def send(self, to: BrokerId, command: Command) -> None:
        link = self._links.get(to)
        if link is not None and command.broker_epoch == link.known.epoch:
            link.send(command)

    def close(self) -> None:
        for link in self._links.values():
            link.over = True
        self._links.clear()
