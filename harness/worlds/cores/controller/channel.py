"""The command channel on virtual time: the queues of `kraft_controller.core.command_channel` over wires that break."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraft_controller.core.command_channel import BrokerCommandQueue, CommandChannel
from kraft_controller.core.commands import Answer, Command, Numbered
from kraft_controller.core.names import BrokerId
from kraft_controller.core.state import Broker as Known

if TYPE_CHECKING:
    from harness.worlds.cores.controller.broker import Broker
    from harness.worlds.cores.controller.candidate import Candidate

BACKOFF_US: Final = 20_000
BREAKS: Final = 0.02
"""The share of commands whose connection breaks, before the broker receives them or before the reply is back."""
WAITING_MAX: Final = 10_000


class Wire:
    """Carries the commands of one queue, one at a time."""

    def __init__(self, candidate: Candidate, queue: BrokerCommandQueue) -> None:
        self._candidate = candidate
        self._queue = queue
        self._busy = False

    def wake(self) -> None:
        if not self._busy:
            self._send()

    def _send(self) -> None:
        numbered = self._queue.next()
        self._busy = numbered is not None
        if numbered is not None:
            # In flight it does not depend on its sender any more.
            self._push(self._arrive, numbered, None)

    def _push(self, act: object, numbered: Numbered, answer: Answer | None) -> None:
        world, random = self._candidate.world, self._candidate.random
        timing = world.script.timing
        delay = timing.delay_us_min + int(random.random() * max(1, timing.delay_us_max - timing.delay_us_min))
        world.push(world.now + delay, act, numbered, answer)  # type: ignore[arg-type]

    def _arrive(self, numbered: Numbered, _: None) -> None:
        target: Broker = self._candidate.world.brokers[self._queue.broker.id]
        breaks = self._candidate.random.random() < BREAKS
        if not target.up or target.unheard or (breaks and numbered.number % 2):
            self._fail()
            return

        def answered(answer: Answer) -> None:
            if breaks or target.unheard:
                self._fail()
            else:
                self._push(self._reply, numbered, answer)

        target.hear(numbered, answered)

    def _fail(self) -> None:
        def retry() -> None:
            self._queue.attempt_failed()
            self._send()

        if not self._queue.closed:
            self._candidate.broker.later(BACKOFF_US, retry)

    def _reply(self, numbered: Numbered, answer: Answer) -> None:
        def take() -> None:
            if not self._queue.closed:
                event = self._queue.replied(answer).event
                if event is not None:
                    self._candidate.note(event)
                self._send()

        self._candidate.broker.later(0, take)


class Channel:
    """Implements `CommandSink`."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._wires: dict[BrokerCommandQueue, Wire] = {}
        self._channel = CommandChannel(candidate.note, self._opened, self._appended, self._closed, WAITING_MAX)

    def update_brokers(self, brokers: Mapping[BrokerId, Known]) -> None:
        self._channel.update_brokers(brokers)

    def send(self, to: BrokerId, command: Command) -> None:
        self._channel.send(to, command)

    def close(self) -> None:
        self._channel.close()

    def _opened(self, queue: BrokerCommandQueue) -> None:
        self._wires[queue] = Wire(self._candidate, queue)

    def _appended(self, queue: BrokerCommandQueue) -> None:
        self._wires[queue].wake()

    def _closed(self, queue: BrokerCommandQueue) -> None:
        del self._wires[queue]
