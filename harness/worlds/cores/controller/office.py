"""One broker's candidacy: it stands for election, leads when elected, and steps down when another does.

It stands for `kraft_controller.runtime.controller`: the same queue, the same work on nodes and the same procedures,
without tasks of Trio.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from harness.checkers.controller.facts import Reigns
from harness.checkers.ghost import Violation
from harness.checkers.service import NoCrash
from harness.worlds.cores.controller.links import Links
from kraft_controller.core import events
from kraft_controller.core.asks import Answer, ControllerMoved
from kraft_controller.core.desk import Desk, Settings
from kraft_controller.core.events import BrokerNotAvailable, Event, StaleBrokerEpoch
from kraft_controller.core.names import TopicId
from kraft_controller.runtime.controller import meaning
from kraft_controller.runtime.queue import Queue, Waiter
from kraft_controller.wire import znodes
from kraft_controller.wire.asking import Asking
from kraft_controller.wire.reign import AnswersLost, Elected, Fence, Follows, elect, resign
from kraft_controller.wire.work import Exists, Node, Work

if TYPE_CHECKING:
    from harness.worlds.cores.controller.broker import Broker
    from harness.worlds.cores.controller.world import ControllerWorld

SETTINGS: Final = Settings()
Told = Callable[[Any], None]
"""What became of what somebody asked; None: this broker cannot say."""


class Office:
    """Of one life of a broker, in one session."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.world: ControllerWorld = broker.world
        self.random = Random(f"{self.world.script.seed}/office/{broker.id}/{broker.life}/{broker.session}")
        self.links = Links(self)
        self.desk: Desk | None = None
        self.over = False
        self._elected: Elected | None = None
        self._queue = self._new_queue()
        self._asked: dict[Waiter, Told] = {}
        self._busy = self._standing = False
        self._stand()

    # -- from outside ------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        return self.desk is not None and not self.over

    def note(self, event: Event) -> None:
        if self.active:
            self._queue.note(event)
            self._next()

    def ask(self, event: Event, told: Told) -> None:
        if not self.active:
            told(None)
            return
        self._asked[self._queue.ask(event)] = told
        self._next()

    def fired(self, path: str) -> None:
        if path == znodes.CONTROLLER:
            if self._elected is not None:
                self._guard(self._elected)
            else:
                self._stand()
        if self.active and (event := meaning(path)) is not None:
            self.note(event)

    def end(self) -> None:
        """The process, or its session, is over."""
        self.over = True
        self._depose()

    def _new_queue(self) -> Queue:
        return Queue(lambda: self.world.now / 1e6)

    # -- standing for election -----------------------------------------------------------------------------

    def _stand(self) -> None:
        if self.over or self._standing:
            return
        self._standing = True
        broker = self.broker
        broker.do(elect(broker.session, broker.id, self.world.now_ms), self._outcome, self._fell)

    def _outcome(self, outcome: Elected | Follows) -> None:
        self._standing = False
        if isinstance(outcome, Follows):
            self.broker.do(self._follow(), self._followed, self._fell)
            return
        self.world.counted("controller elected")
        self.world.fact(Reigns(self.world.now, self.broker.id, self.broker.session, outcome.epoch))
        self._elected = outcome
        self.desk = Desk(self.broker.id, outcome.epoch, SETTINGS)
        self._asking = Asking(Fence(outcome.version))
        self._guard(outcome)
        self.note(events.TookOver())

    def _follow(self) -> Work[bool]:
        """The watch of the election may have fired on the way: look again whether somebody is there."""
        [there] = yield [Exists(znodes.CONTROLLER, watch=True)]
        return isinstance(there, Node)

    def _followed(self, there: bool) -> None:
        if not there:
            self._stand()

    def _guard(self, elected: Elected) -> None:
        """The node of this controller goes, or is another's already."""

        def looked(there: object) -> None:
            if self._elected is elected and not (isinstance(there, Node) and there.owner == self.broker.session):
                self._depose()
                self._stand()

        self.broker.do(_look(), looked, self._fell)

    def _depose(self) -> None:
        self._elected = self.desk = None
        self.links.close()
        self._queue.end()
        self._queue = self._new_queue()
        self._busy = False
        asked, self._asked = self._asked, {}
        for told in asked.values():
            told(None)

    def resign(self) -> None:
        """It gives up, and its session goes on."""
        elected = self._elected
        if elected is not None:
            self._depose()
            self.broker.do(resign(elected), lambda _: self._stand(), self._fell)

    # -- leading -----------------------------------------------------------------------------------------

    def _next(self) -> None:
        """One event at a time, each to its end."""
        if self._busy or not len(self._queue) or self.desk is None:
            return
        self._busy = True
        event, waiter = _taken(self._queue)
        desk, elected = self.desk, self._elected

        def done(result: Any) -> None:
            if self._elected is not elected:
                return
            self._say(desk)
            self._answer(waiter, result)
            self._busy = False
            self._next()

        def failed(error: Exception) -> None:
            if self._elected is not elected:
                return
            if isinstance(error, StaleBrokerEpoch | BrokerNotAvailable | ValueError) and waiter is not None:
                self._answer(waiter, None)
                self._busy = False
                self._next()
            elif isinstance(error, ControllerMoved):
                self.world.counted("controller fenced")
                self._depose()
                self._stand()
            elif isinstance(error, AnswersLost):
                self.resign()
            else:
                self._fell(error)

        self.broker.do(self._handle(desk, event), done, failed)

    def _handle(self, desk: Desk, event: Event) -> Work[Any]:
        asking = self._asking
        steps = events.handle(desk, event, self._new_id)
        answers: list[Answer] | None = None
        while True:
            try:
                asked = next(steps) if answers is None else steps.send(answers)
            except StopIteration as end:
                return end.value
            if asked:
                answers = yield from asking.answer(asked)
            else:
                if self.desk is desk:
                    self._say(desk)
                answers = []

    def _say(self, desk: Desk) -> None:
        self.links.know(desk.cluster.brokers)
        for to, command in desk.say():
            self.links.send(to, command)
        self._look_at_notes(desk)

    def _new_id(self) -> TopicId:
        return self.world.new_id()

    def _answer(self, waiter: Waiter | None, result: Any) -> None:
        if waiter is not None and (told := self._asked.pop(waiter, None)) is not None:
            told(result)

    def _look_at_notes(self, desk: Desk) -> None:
        for note in desk.notes:
            self.world.counted(f"controller {note.event}")
            if self.world.trace is not None:
                self.world.record(0, f"controller {self.broker.id}", 0, f"{note.event} {dict(note.fields)}")
            if note.event in ("illegal_transition", "damaged"):
                self.world.violated(Violation(NoCrash.promise, f"controller {self.broker.id}: {note}"))
        desk.notes.clear()

    def _fell(self, error: Exception) -> None:
        self.world.violated(Violation(NoCrash.promise, f"controller {self.broker.id} fell over {error!r}"))


def _look() -> Work[object]:
    [there] = yield [Exists(znodes.CONTROLLER, watch=True)]
    return there


def _taken(queue: Queue) -> tuple[Event, Waiter | None]:
    """There is one, so nobody has to wait for it."""
    try:
        queue.take().send(None)
    except StopIteration as end:
        taken: tuple[Event, Waiter | None] = end.value
        return taken
    raise AssertionError("a queue that is not empty lets wait")
