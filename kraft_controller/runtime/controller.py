"""One broker's candidacy for controller, run by Trio: requests, tasks and timers for the state machines in `core`.

`core.candidacy` decides whether the broker stands for election, follows or leads. During a term one loop takes events
from the queue and runs their procedures, whose requests go to the store and whose commands go to the command channel.
A refused request fails alone. Any other exception may leave the context inconsistent, so the controller logs it and
resigns, and the next controller reads everything again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import trio
from attrs import frozen

import zab
from kraft_controller.core import controller_events as events
from kraft_controller.core.broker_request_batch import CommandSink
from kraft_controller.core.candidacy import Candidacy, CandidacyPace, CandidacyPhase, Elected, ElectionBlocked
from kraft_controller.core.controller_context import ControllerContext, ControllerSettings
from kraft_controller.core.controller_events import ControllerElected, Event
from kraft_controller.core.event_queue import EventQueue, NotController, QueuedEvent, process_event
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.names import BrokerId, TopicId, TopicPartition, decimal
from kraft_controller.core.operator_log import OperatorMessage
from kraft_controller.core.store_requests import ControllerMoved, RepliesLost, Result
from kraft_controller.core.topics.topic_changes import TopicChanges
from kraft_controller.runtime.bounded_requests import leading_error
from kraft_controller.runtime.config_feed import delete_old_notes, let_gather
from kraft_controller.runtime.controller_counts import ControllerCounts
from kraft_controller.runtime.store_session import StoreSession
from kraft_controller.wire import znodes
from kraft_controller.wire.controller_election import resign, stand, verify
from kraft_controller.wire.epoch_fence import Fence
from kraft_controller.wire.znode_store import ZnodeStore
from zab.host.watchdog import Stall, Watchdogs
from zab.net.wakeup import Wakeup

logger: Final = logging.getLogger("kraft_controller")


@frozen
class Pace:
    """Times of a controller, in seconds."""

    first_balance_s: float = 5.0
    """The time from the election of this controller to its first automatic balancing of leaders."""
    balance_s: float | None = 300.0
    """`leader.imbalance.check.interval.seconds`; None disables the automatic balancing."""
    pause_s: float = 0.25
    """The pause after the first failed term or impossible election. It doubles after each further one."""
    pause_s_max: float = 10.0
    """The longest pause."""
    sweep_s: float = 300.0
    """The interval at which old notifications of changed configurations are deleted."""
    notes_s: float = 900.0
    """The age at which a notification of a changed configuration counts as old."""


@frozen
class ControllerEnvironment:
    """The sources of wall-clock time, `wall_ms`, and of random numbers, `random_bytes`."""

    wall_ms: Callable[[], int]
    random_bytes: Callable[[int], bytes]


class Controller:
    """A candidate for controller during one session with the store."""

    def __init__(
        self,
        session: zab.Session,
        me: BrokerId,
        sink: CommandSink,
        environment: ControllerEnvironment,
        settings: ControllerSettings | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._session = session
        self._me = me
        self.sink = sink
        """The command channel. The events that replies to its commands cause arrive through `note`."""
        self._environment = environment
        self._settings = settings or ControllerSettings()
        self._pace = pace or Pace()
        self._candidacy = Candidacy(me, CandidacyPace(self._pace.pause_s, self._pace.pause_s_max))
        self.term: KafkaController | None = None
        """The current term; None if this broker is not the controller. Other classes only read it."""
        self._queue: EventQueue | None = None
        """The events of the current term; set together with `term`."""
        self._wakeup = Wakeup()
        """Wakes the task of the term when an event is added to the queue."""
        self._announced: BrokerId | None = None
        """The value of `controller` when `changed` was set last."""
        self.changed = trio.Event()
        """Set, and replaced by a new event, when `controller` has changed."""
        self.counts = ControllerCounts()
        self.watchdogs = Watchdogs(self._report_stall)
        self._watchdog = self.watchdogs.add("controller", lambda: None, self._is_excused)
        self._store_busy = False
        """True while the event in progress waits for replies of the store."""

    @property
    def controller(self) -> BrokerId | None:
        """The id of the current controller; None if this broker does not know it."""
        return self._candidacy.controller

    @property
    def waiting(self) -> int:
        """The number of events in the queue."""
        return 0 if self._queue is None else len(self._queue)

    @property
    def active(self) -> bool:
        """True if this broker is the controller."""
        return self._queue is not None

    def _report_stall(self, stall: Stall) -> None:
        ms = stall.seconds * 1000
        logger.warning("loop_stalled broker=%d loop=%s ms=%.0f cause=%s", self._me, stall.loop, ms, stall.cause)

    def _is_excused(self) -> bool:
        """Return whether a loop without progress is normal: the queue is empty, or a reply of the store is pending."""
        return not self.waiting or self._store_busy

    # -- events ------------------------------------------------------------------------------------------

    def note(self, event: Event) -> None:
        """Add a notification. It is ignored if this broker is not the controller."""
        if self._queue is not None:
            self._queue.note(event)

    async def ask(self, event: Event) -> Any:
        """Process a request and return its result. Raise the error of a refused request.

        Raise `NotController` if this broker is not the controller, or if its term ends before there is a result. Raise
        `EventFailed` if the processing of the request raised an unexpected exception.
        """
        if self._queue is None:
            raise NotController(
                "the controller is not known"
                if self.controller is None
                else f"the controller is broker {self.controller}"
            )
        done = trio.Event()
        result = self._queue.ask(event, done.set)
        await done.wait()
        return result.get()

    # -- the candidacy -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled. Raise the session's error when the session ends."""
        candidacy = self._candidacy
        while True:
            match candidacy.phase:
                case CandidacyPhase.STANDING | CandidacyPhase.FOLLOWING:
                    await self._stand()
                case CandidacyPhase.LEADING:
                    assert candidacy.elected is not None
                    try:
                        await self._lead(candidacy.elected)
                    finally:
                        self._announce()
                case CandidacyPhase.PAUSED:
                    await trio.sleep(candidacy.pause_s)
                    candidacy.pause_ended()

    async def _stand(self) -> None:
        """Stand for election. If another broker is the controller, return when `/controller` changes."""
        async with self._session.watcher() as watch:
            store = StoreSession(self._session, watch)
            result = await store.run(stand(self._session.id, self._me, self._environment.wall_ms()))
            if isinstance(result, ElectionBlocked):
                logger.error("broker %d cannot stand for election: %s", self._me, result.why)
            self._candidacy.election_ended(result)
            self._announce()
            while self._candidacy.phase is CandidacyPhase.FOLLOWING:
                await _next_change(watch)
                self._candidacy.controller_changed()

    def _announce(self) -> None:
        """Set `changed` if the controller has changed."""
        if self._announced != self.controller:
            self._announced = self.controller
            self.changed.set()
            self.changed = trio.Event()

    # -- a term ------------------------------------------------------------------------------------------

    async def _lead(self, elected: Elected) -> None:
        """Run a term until it ends for any reason."""
        began = trio.current_time()
        self.counts.won += 1
        logger.info("broker %d is the controller, epoch %d", self._me, elected.epoch)
        queue = self._queue = EventQueue(trio.current_time, self._wakeup.ring)
        term = self.term = KafkaController(
            ControllerContext(self._me, elected.epoch, self._settings),
            ZnodeStore(Fence(elected.version)),
            self.sink,
            queue.note,
            self._write_log,
            self._new_topic_id,
        )
        queue.note(ControllerElected())
        failure: Exception | None = None
        try:
            failure = await self._run_term(term, queue, began)
            if failure is not None:
                self._report_failure(failure)
                await StoreSession(self._session).run(resign(elected))
        finally:
            self._queue = self.term = None
            self.watchdogs.check()  # clear the last poke, which the ended loop cannot answer
            self.sink.close()
            queue.close()
            self.counts.elections += term.partitions.elections
            self.counts.unclean_elections += term.partitions.unclean_elections
            if self._candidacy.phase is CandidacyPhase.LEADING:
                self._candidacy.term_ended(failed=failure is not None, lasted_s=trio.current_time() - began)
        if failure is None:
            self.counts.lost += 1

    async def _run_term(self, term: KafkaController, queue: EventQueue, began: float) -> Exception | None:
        """Run the tasks of a term. Return the exception for which this broker must resign; None if it has lost the
        role. Raise the session's error when the session ends.

        On return `_guard` has ended, so it does not take the resignation for the loss of the role.
        """
        failure: Exception | None = None
        try:
            async with self._session.watcher() as watch, trio.open_nursery() as nursery:
                nursery.start_soon(_note_changes, watch, queue, nursery, term.topic_changes)
                nursery.start_soon(self._balance, queue)
                nursery.start_soon(self._delete_old_notes)
                nursery.start_soon(self.watchdogs.run)
                nursery.start_soon(self._guard, nursery.cancel_scope)
                try:
                    await self._process_events(term, StoreSession(self._session, watch), queue, began)
                except ControllerMoved:
                    logger.info("broker %d is no longer the controller", self._me)
                except Exception as error:
                    failure = error
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            error_ = leading_error(group)
            if self._session.over is not None or not isinstance(error_, zab.EventsLost):
                raise error_ from None
            failure = error_  # too many unread events; the next term reads everything again
        return failure

    def _report_failure(self, error: Exception) -> None:
        expected = isinstance(error, zab.ZabError | RepliesLost)
        logger.warning(
            "broker %d resigns as the controller: %s", self._me, error if expected else repr(error),
            exc_info=None if expected else error,
        )  # fmt: skip
        self.counts.gave_up += 1

    async def _process_events(
        self, term: KafkaController, store: StoreSession, queue: EventQueue, elected_s: float
    ) -> None:
        while True:
            while (queued := queue.take()) is None:
                await self._wakeup.wait()
            began = trio.current_time()
            await self._process(term, store, queued)
            self._watchdog.turns += 1
            now = trio.current_time()
            kind = type(queued.event).__name__
            self.counts.processed(kind, (began - queued.queued_s) * 1000, (now - began) * 1000)
            if isinstance(queued.event, ControllerElected):
                self.counts.failover_ms = (now - elected_s) * 1000

    async def _process(self, term: KafkaController, store: StoreSession, queued: QueuedEvent) -> None:
        """Run the procedure of one event, and measure each of its steps."""
        procedure, watchdog = process_event(term, queued), self._watchdog
        results: Sequence[Result] | None = None
        try:
            while True:
                began = watchdog.clock()
                try:
                    operations = next(procedure) if results is None else procedure.send(results)
                except StopIteration:
                    return
                finally:
                    watchdog.took(watchdog.clock() - began, type(queued.event).__name__)
                self._store_busy = True
                try:
                    results = await store.send(operations)
                finally:
                    self._store_busy = False
        finally:
            procedure.close()

    def _new_topic_id(self) -> TopicId:
        return znodes.new_topic_id(self._environment.random_bytes)

    def _write_log(self, message: OperatorMessage) -> None:
        self.counts.damaged += message.event == "damaged"
        logger.log(
            _LEVELS.get(message.event, logging.INFO),
            "%s %s",
            message.event,
            " ".join(f"{name}={value}" for name, value in message.fields),
        )

    # -- tasks of a term -----------------------------------------------------------------------------------

    async def _guard(self, scope: trio.CancelScope) -> None:
        """End the term if `/controller` does not belong to this broker, or when it changes."""
        candidacy = self._candidacy
        async with self._session.watcher() as watch:
            candidacy.verified(await StoreSession(self._session, watch).run(verify(self._session.id)))
            while candidacy.phase is CandidacyPhase.LEADING:
                await _next_change(watch)
                candidacy.controller_changed()
        scope.cancel()

    async def _balance(self, queue: EventQueue) -> None:
        every = self._pace.balance_s
        if every is None:
            return
        await trio.sleep(self._pace.first_balance_s)
        while True:
            queue.note(events.AutoPreferredElection())
            await trio.sleep(every)

    async def _delete_old_notes(self) -> None:
        while True:
            await trio.sleep(self._pace.sweep_s)
            deleted = await delete_old_notes(self._session, self._environment.wall_ms(), int(self._pace.notes_s * 1000))
            if deleted:
                logger.info("deleted %d old configuration change notifications", deleted)


_LEVELS: Final = {
    "damaged": logging.ERROR, "epoch_set_back": logging.ERROR, "illegal_transition": logging.ERROR,
    "unclean_election": logging.WARNING,
    "no_leader": logging.WARNING, "offline_replicas": logging.WARNING, "reassignment_refused": logging.WARNING,
}  # fmt: skip
"""The log levels of messages on which an operator may have to act; others have the level INFO."""


# -- events of the store -----------------------------------------------------------------------------------


async def _next_change(watch: zab.Watch) -> None:
    """Wait until `/controller` changes."""
    async for event in watch:
        if event.path == znodes.CONTROLLER:
            return


async def _note_changes(
    watch: zab.Watch, queue: EventQueue, nursery: trio.Nursery, topic_changes: TopicChanges
) -> None:
    """Add the event for each change that the watch reports, if there is one. `MAYBE_MISSED` adds `ANY_CHANGE`."""
    async for change in watch:
        if change.event is zab.Event.MAYBE_MISSED:
            for event in ANY_CHANGE:
                queue.note(event)
        elif isinstance(event_ := event_of_path(change.path), events.ConfigsChanged):
            nursery.start_soon(_note_gathered, queue, event_, topic_changes.config_changes.listed)
        elif event_ is not None:
            queue.note(event_)


async def _note_gathered(queue: EventQueue, event: Event, listed: int) -> None:
    await let_gather(listed)
    queue.note(event)


ANY_CHANGE: Final[tuple[Event, ...]] = (
    events.BrokersChanged(), events.TopicsChanged(), events.TopicDeletionRequested(), events.ReassignmentRequested(),
    events.PreferredElectionRequested(), events.ConfigsChanged(), events.IsrChangeNotification(),
    events.LogDirEventNotification(),
)  # fmt: skip


def event_of_path(path: str) -> Event | None:
    """Return the event for a change of the node at this path; None if there is none."""
    simple = _EVENTS.get(path)
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
            return events.PartitionStateChanged(TopicPartition(topic, partition))
    return None


_EVENTS: Final[Mapping[str, Event]] = {
    znodes.BROKERS: events.BrokersChanged(),
    znodes.TOPICS: events.TopicsChanged(),
    znodes.DELETE_TOPICS: events.TopicDeletionRequested(),
    znodes.REASSIGN: events.ReassignmentRequested(),
    znodes.PREFERRED: events.PreferredElectionRequested(),
    znodes.CONFIG_CHANGES: events.ConfigsChanged(),
    znodes.ISR_CHANGES: events.IsrChangeNotification(),
    znodes.LOG_DIR_EVENTS: events.LogDirEventNotification(),
}
