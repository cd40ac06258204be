"""One broker's candidacy, for as long as it runs: it stands for election, leads when elected, and steps down at once
when another does.

While it leads there is one loop that owns the picture of the cluster. Everything that happens is an event in one
queue, and is dealt with to its end before the next: its questions are answered by the store, its commands handed to
the links.

An exception in the handling of an event may leave the picture half changed. So the controller logs it with a traceback
and resigns, and whoever is elected next reads everything anew. Whoever asked for that event receives an error that does
not send the request on to the next controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import trio
from attrs import frozen

import zab
from kraft_controller.core import events
from kraft_controller.core.asks import Answer, ControllerMoved
from kraft_controller.core.commands import Command
from kraft_controller.core.desk import Desk, Settings
from kraft_controller.core.events import Event
from kraft_controller.core.names import BrokerId, TopicPartition, decimal
from kraft_controller.core.state import Broker
from kraft_controller.runtime.counts import Counts
from kraft_controller.runtime.feed import sweep
from kraft_controller.runtime.queue import EventFailed, NotController, Queue, Waiter
from kraft_controller.runtime.store import Nodes, Store
from kraft_controller.runtime.together import sole
from kraft_controller.wire import znodes
from kraft_controller.wire.reign import Elected, elect, resign
from kraft_controller.wire.znodes import DamagedNode
from zab.host.watchdog import Stall, Watchdogs

logger: Final = logging.getLogger("kraft_controller")


class Links(Protocol):
    """To the brokers. What they answer comes back as events (`Controller.note`)."""

    def know(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """These are there now. Links to others end, and what waits for them is dropped."""

    def send(self, to: BrokerId, command: Command) -> None:
        """Behind all that was sent to this broker before. Never waits."""

    def close(self) -> None:
        """This broker is not the controller any more: nothing that still waits may leave."""


@frozen
class Pace:
    """first_balance_s   after an election
    balance_s         `leader.imbalance.check.interval.seconds`; None: never by itself
    pause_s           after a reign that failed, before it stands for election again; doubled from one to the next, so
                      that what fails each time does not keep the store and the brokers busy
    pause_s_max       and this is the longest
    sweep_s           between looks for notes of changed configurations that are older than `notes_s`, which go
    """

    first_balance_s: float = 5.0
    balance_s: float | None = 300.0
    pause_s: float = 0.25
    pause_s_max: float = 10.0
    sweep_s: float = 300.0
    notes_s: float = 900.0


@frozen
class Chance:
    """What is not to be foreseen, and the clock on the wall."""

    wall_ms: Callable[[], int]
    random_bytes: Callable[[int], bytes]


class Controller:
    def __init__(
        self,
        session: zab.Session,
        me: BrokerId,
        links: Links,
        chance: Chance,
        settings: Settings | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._session = session
        self._me = me
        self.links = links
        self._chance = chance
        self._settings = settings or Settings()
        self._pace = pace or Pace()
        self._queue: Queue | None = None
        self.desk: Desk | None = None
        """Of this reign; to be looked at, not to be touched."""
        self.controller: BrokerId | None = None
        """Who is, as far as this broker knows."""
        self.changed = trio.Event()
        """Set, and made anew, when somebody else is the controller, or nobody."""
        self.counts = Counts()
        self.watchdogs = Watchdogs(self._report_stall)
        self._watchdog = self.watchdogs.add("controller", lambda: None, self._excused)
        self._elected_at = 0.0
        self._asking = False
        """The store is asked, and has not answered."""

    @property
    def waiting(self) -> int:
        """Events that have not been dealt with."""
        return 0 if self._queue is None else len(self._queue)

    @property
    def active(self) -> bool:
        return self._queue is not None

    def _report_stall(self, stall: Stall) -> None:
        ms = stall.seconds * 1000
        logger.warning("loop_stalled broker=%d loop=%s ms=%.0f cause=%s", self._me, stall.loop, ms, stall.cause)

    def _excused(self) -> bool:
        """Nothing waits to be dealt with, or the store is asked, which takes as long as it takes."""
        return not self.waiting or self._asking

    # -- from outside ------------------------------------------------------------------------------------

    def note(self, event: Event) -> None:
        """Something is different. Nothing to a broker that is not the controller."""
        if self._queue is not None:
            self._queue.note(event)

    async def ask(self, event: Event) -> Any:
        """What comes of it; `NotController` if this broker cannot say."""
        if self._queue is None:
            raise NotController(
                f"the controller is broker {self.controller}" if self.controller is not None else "there is none"
            )
        return await self._queue.ask(event).wait()

    # -- standing for election -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled, or until the session is over, which is raised."""
        pause_s = self._pace.pause_s
        while True:
            try:
                outcome = await self._stand()
            except DamagedNode as damaged:
                # Who is the controller, or of which epoch the next one is, nobody can tell until somebody mends it.
                logger.error("broker %d cannot stand for election: %s", self._me, damaged)
                self._is(None)
                outcome = None
            if outcome is not None:
                self._is(self._me)
                began = trio.current_time()
                try:
                    healthy = await self._reign(outcome)
                finally:
                    self._is(None)
                if healthy or trio.current_time() - began > self._pace.pause_s_max:
                    pause_s = self._pace.pause_s
                if healthy:
                    continue
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._pace.pause_s_max)

    async def _stand(self) -> Elected:
        """For election, as often as there is one."""
        while True:
            async with self._session.watcher() as heard:
                election = elect(self._session.id, self._me, self._chance.wall_ms())
                outcome = await Nodes(self._session, heard).do(election)
                if isinstance(outcome, Elected):
                    return outcome
                self._is(outcome.controller)
                await self._until_it_changes(heard)

    def _is(self, controller: BrokerId | None) -> None:
        if controller != self.controller:
            self.controller = controller
            self.changed.set()
            self.changed = trio.Event()

    @staticmethod
    async def _until_it_changes(heard: zab.Watch) -> None:
        async for event in heard:
            if event.path == znodes.CONTROLLER:
                return

    # -- leading -----------------------------------------------------------------------------------------

    async def _reign(self, elected: Elected) -> bool:
        """Whether it went well, to whatever end."""
        self._elected_at = trio.current_time()
        self.counts.won += 1
        logger.info("broker %d is the controller, epoch %d", self._me, elected.epoch)
        desk = self.desk = Desk(self._me, elected.epoch, self._settings)
        queue = self._queue = Queue()
        queue.note(events.TookOver())
        try:
            async with self._session.watcher() as watch, trio.open_nursery() as nursery:
                store = Store(self._session, elected.version, watch)
                nursery.start_soon(self._listen, watch, queue)
                nursery.start_soon(self._balance, queue)
                nursery.start_soon(self._sweep)
                nursery.start_soon(self.watchdogs.run)
                nursery.start_soon(self._deposed, nursery.cancel_scope)
                try:
                    await self._loop(desk, store, queue)
                except ControllerMoved:
                    logger.info("broker %d is not the controller any more", self._me)
                except Exception as error:
                    # Half of something was done, and the picture is not what the store says: somebody begins anew.
                    self._failed(error)
                    await store.do(resign(elected))
                    nursery.cancel_scope.cancel()
                    return False
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            error_ = sole(group)
            if self._session.over is not None or not isinstance(error_, zab.EventsLost):
                raise error_ from None
            # More happened than could be looked at: whoever is elected reads it all anew.
            self._failed(error_)
            return False
        finally:
            self._queue = None
            self.watchdogs.check()  # nothing is expected of a loop that is over
            self.links.close()
            queue.end()
            self.counts.elections += desk.elections
            self.counts.unclean_elections += desk.unclean_elections
        self.counts.lost += 1
        return True

    def _failed(self, error: Exception) -> None:
        expected = isinstance(error, zab.ZabError)
        logger.warning(
            "broker %d gives up being the controller: %s", self._me, error if expected else repr(error),
            exc_info=None if expected else error,
        )  # fmt: skip
        self.counts.gave_up += 1

    async def _loop(self, desk: Desk, store: Store, queue: Queue) -> None:
        while True:
            event, waiter = await queue.take()
            began = trio.current_time()
            try:
                result = await self._handle(desk, store, event)
            except (events.StaleBrokerEpoch, events.BrokerNotAvailable, ValueError) as error:
                if waiter is None:
                    raise
                waiter.done(error=error)
            except (ControllerMoved, zab.ZabError):
                _lost(waiter)
                raise
            except Exception as error:
                if waiter is not None:
                    waiter.done(error=EventFailed(f"{type(event).__name__}: {error!r}"))
                raise
            except BaseException:
                _lost(waiter)
                raise
            else:
                if waiter is not None:
                    waiter.done(result)
            self._watchdog.turns += 1
            now = trio.current_time()
            self.counts.dealt(type(event).__name__, queue.waited_s * 1000, (now - began) * 1000)
            if isinstance(event, events.TookOver):
                self.counts.failover_ms = (now - self._elected_at) * 1000

    async def _handle(self, desk: Desk, store: Store, event: Event) -> Any:
        """To its end: then everything that was decided stands in the store, and may be said."""
        steps = events.handle(desk, event, lambda: znodes.new_topic_id(self._chance.random_bytes))
        answers: list[Answer] | None = None
        while True:
            began = self._watchdog.clock()
            try:
                asked = next(steps) if answers is None else steps.send(answers)
            except StopIteration as end:
                result = end.value
                break
            finally:
                self._watchdog.took(self._watchdog.clock() - began, type(event).__name__)
            if asked:
                self._asking = True
                try:
                    answers = await store.answer(asked)
                finally:
                    self._asking = False
            else:
                self._say(desk)
                answers = []
        self._say(desk)
        return result

    def _say(self, desk: Desk) -> None:
        """What was decided, to brokers, and to people."""
        self.links.know(desk.cluster.brokers)
        for to, command in desk.say():
            self.links.send(to, command)
        for note in desk.notes:
            self.counts.damaged += note.event == "damaged"
            logger.log(
                _LOUD.get(note.event, logging.INFO),
                "%s %s",
                note.event,
                " ".join(f"{name}={value}" for name, value in note.fields),
            )
        desk.notes.clear()

    # -- what happens ------------------------------------------------------------------------------------

    @staticmethod
    async def _listen(watch: zab.Watch, queue: Queue) -> None:
        async for heard in watch:
            if heard.event is zab.Event.MAYBE_MISSED:
                for each in ANYTHING:
                    queue.note(each)
            elif (event := meaning(heard.path)) is not None:
                queue.note(event)

    async def _balance(self, queue: Queue) -> None:
        every = self._pace.balance_s
        if every is None:
            return
        await trio.sleep(self._pace.first_balance_s)
        while True:
            queue.note(events.TimeToBalance())
            await trio.sleep(every)

    async def _sweep(self) -> None:
        while True:
            await trio.sleep(self._pace.sweep_s)
            gone = await sweep(self._session, self._chance.wall_ms(), int(self._pace.notes_s * 1000))
            if gone:
                logger.info("%d notes of changed configurations are old, and gone", gone)

    async def _deposed(self, scope: trio.CancelScope) -> None:
        """The node of this controller goes, or is another's already."""
        async with self._session.watcher() as heard:
            stat = await self._session.exists(znodes.CONTROLLER, heard)
            if stat is not None and stat.ephemeral_owner == self._session.id:
                await self._until_it_changes(heard)
        scope.cancel()


_LOUD: Final = {
    "damaged": logging.ERROR, "epoch_set_back": logging.ERROR, "illegal_transition": logging.ERROR,
    "unclean_election": logging.WARNING,
    "no_leader": logging.WARNING, "offline_replicas": logging.WARNING, "reassignment_refused": logging.WARNING,
}  # fmt: skip
"""Notes for which somebody may have to get up."""


def _lost(waiter: Waiter | None) -> None:
    if waiter is not None:
        waiter.done(error=NotController("this broker is not the controller any more"))


ANYTHING: Final[tuple[Event, ...]] = (
    events.BrokersChanged(), events.TopicsChanged(), events.DeletionsRequested(), events.MovesRequested(),
    events.PreferredRequested(), events.ConfigsChanged(), events.IsrChangesNoted(), events.LogDirsFailed(),
)  # fmt: skip


def meaning(path: str) -> Event | None:
    """Of a change at this path."""
    simple = _MEANINGS.get(path)
    if simple is not None:
        return simple
    parent, _, name = path.rpartition("/")
    if parent == znodes.BROKERS and (broker := decimal(name)) is not None:
        return events.BrokerModified(BrokerId(broker))
    if parent == znodes.TOPICS:
        return events.TopicModified(name)
    if name == "state" and parent.startswith(znodes.TOPICS):
        topic, _, digits = parent.removeprefix(f"{znodes.TOPICS}/").partition("/partitions/")
        if (partition := decimal(digits)) is not None:
            return events.StateChanged(TopicPartition(topic, partition))
    return None


_MEANINGS: Final[Mapping[str, Event]] = {
    znodes.BROKERS: events.BrokersChanged(),
    znodes.TOPICS: events.TopicsChanged(),
    znodes.DELETE_TOPICS: events.DeletionsRequested(),
    znodes.REASSIGN: events.MovesRequested(),
    znodes.PREFERRED: events.PreferredRequested(),
    znodes.CONFIG_CHANGES: events.ConfigsChanged(),
    znodes.ISR_CHANGES: events.IsrChangesNoted(),
    znodes.LOG_DIR_EVENTS: events.LogDirsFailed(),
}
