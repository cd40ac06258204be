"""The controller of one broker as the workload uses it, and the facts that it records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from harness.checkers.controller.facts import Reigns
from harness.checkers.ghost import Violation
from harness.checkers.service import NoCrash
from kraft_controller.core.candidacy import Elected
from kraft_controller.core.controller_events import AutoPreferredElection, BrokerNotAvailable, Event, StaleBrokerEpoch
from kraft_controller.core.event_queue import NotController, QueuedEvent
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.store_requests import RepliesLost
from kraft_controller.runtime.controller import Controller
from kraft_controller.runtime.store_session import StoreSession

if TYPE_CHECKING:
    from harness.worlds.stack.controller.broker import Broker
    from harness.worlds.stack.controller.world import ControllerWorld

WRONG: Final = ("illegal_transition", "damaged")
"""Notes that no run gives reason for."""


class ObservedController(Controller):
    """Records each election that it wins."""

    broker: Broker
    fails = False
    """The next event of this term fails, as if the replies to its changes were lost."""

    async def _lead(self, elected: Elected) -> None:
        broker = self.broker
        broker.world.counted("controller elected")
        broker.world.fact(Reigns(broker.world.now, broker.id, self._session.id, elected.epoch))
        self.fails = False
        await super()._lead(elected)

    async def _process(self, term: KafkaController, store: StoreSession, queued: QueuedEvent) -> None:
        if self.fails:
            raise RepliesLost
        await super()._process(term, store, queued)


class Candidate:
    """One session of one broker process."""

    def __init__(self, world: ControllerWorld, controller: ObservedController) -> None:
        self._world = world
        self.controller = controller

    @property
    def term(self) -> KafkaController | None:
        return self.controller.term

    def note(self, event: Event) -> None:
        self.controller.note(event)

    def ask(self, event: Event, told: Callable[[Any], None]) -> None:
        self._world.beside(self._ask, event, told)

    async def _ask(self, event: Event, told: Callable[[Any], None]) -> None:
        result = None
        with suppress(NotController, StaleBrokerEpoch, BrokerNotAvailable, ValueError):
            result = await self.controller.ask(event)
        told(result)

    def fail_term(self) -> None:
        self.controller.fails = True
        self.note(AutoPreferredElection())


class Says(logging.Handler):
    """What controllers write into their logs: their notes, and that they gave up for a reason that is none."""

    def __init__(self, world: ControllerWorld) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        if record.exc_info and record.exc_info[1] is not None:
            world.violated(Violation(NoCrash.promise, f"{record.getMessage()}: {record.exc_info[1]!r}"))
        if record.msg != "%s %s" or not isinstance(record.args, tuple):
            return
        event = str(record.args[0])
        world.counted(f"controller {event}")
        world.record(0, "controller", 0, record.getMessage())
        if event in WRONG:
            world.violated(Violation(NoCrash.promise, f"a controller notes: {record.getMessage()}"))


@contextmanager
def listening(world: ControllerWorld) -> Iterator[None]:
    logger, says = logging.getLogger("kraft_controller"), Says(world)
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(says)
    try:
        yield
    finally:
        logger.removeHandler(says)
        logger.propagate = propagates
        logger.setLevel(level)
