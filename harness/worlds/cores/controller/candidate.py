"""The candidacy of one broker and its command channel on virtual time: `kraft_controller.core`, without tasks of Trio.

This module decides nothing. The candidacy decides when the broker stands for election, the event queue which event is
next, the controller what to write, and the command queues what to send. The module carries requests to the simulated
store and commands to the simulated brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from harness.checkers.controller.facts import BecameController
from harness.checkers.oracle_state import Violation
from harness.checkers.service import NoCrash
from harness.worlds.cores.controller.nodes import Job
from kraft_controller.core.candidacy import Candidacy, CandidacyPace, CandidacyPhase, ElectionBlocked, ElectionResult
from kraft_controller.core.command_channel import BrokerCommandQueue, CommandChannel
from kraft_controller.core.commands import Answer, Numbered
from kraft_controller.core.controller_context import ControllerContext, ControllerSettings
from kraft_controller.core.controller_events import ControllerElected, Event
from kraft_controller.core.event_queue import EventQueue, process_event
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.operator_log import OperatorMessage
from kraft_controller.core.store_requests import ControllerMoved, RepliesLost
from kraft_controller.runtime.controller import event_of_path
from kraft_controller.wire import znodes
from kraft_controller.wire.controller_election import resign, stand, verify
from kraft_controller.wire.epoch_fence import Fence
from kraft_controller.wire.znode_store import ZnodeStore

SETTINGS: Final = ControllerSettings()
PACE: Final = CandidacyPace(pause_s=0.05, pause_s_max=0.4)
BACKOFF_US: Final = 20_000
BREAKS: Final = 0.02
"""The share of commands whose connection breaks, before the broker receives them or before the reply is back."""
WAITING_MAX: Final = 10_000
Reply = Callable[[Any], None]
"""Receives the result of a request; None if this broker is not the controller, or refuses it."""


class Candidate:
    """The candidacy of one broker process in one session."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.world = broker.world
        self.random = Random(f"{self.world.script.seed}/office/{broker.id}/{broker.life}/{broker.session}")
        self._connections: dict[BrokerCommandQueue, CommandConnection] = {}
        self.channel = CommandChannel(
            self.note, self._opened, lambda queue: self._connections[queue].wake(), self._closed, WAITING_MAX
        )
        self.term: KafkaController | None = None
        """The current term; None unless this broker is the controller."""
        self.over = False
        """True if the session or the process has ended."""
        self._candidacy = Candidacy(broker.id, PACE)
        self._queue = EventQueue(self._now_s)
        self._job: Job | None = None
        """The procedure of the event in progress."""
        self._busy = False
        """True while an event is in progress."""
        self._standing = self._resigning = self._pausing = False
        self._follow_phase()

    def _now_s(self) -> float:
        return float(self.world.now / 1e6)

    # -- from outside ------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        return self.term is not None and not self.over

    def note(self, event: Event) -> None:
        if self.active:
            self._queue.note(event)
            self._process_next()

    def ask(self, event: Event, reply: Reply) -> None:
        if not self.active:
            reply(None)
            return

        def done() -> None:
            try:
                reply(result.get())
            except Exception:  # a refusal, or the end of the term; other errors are reported as violations elsewhere
                reply(None)

        result = self._queue.ask(event, done)
        self._process_next()

    def on_watch_event(self, path: str) -> None:
        if path == znodes.CONTROLLER:
            self._candidacy.controller_changed()
            self._follow_phase()
        if self.active and (event := event_of_path(path)) is not None:
            self.note(event)

    def end(self) -> None:
        self.over = True
        self._end_term()

    def fail_term(self) -> None:
        """Resign, as after an error. The session stays."""
        elected = self._candidacy.elected
        if elected is None or self._resigning:
            return
        self._resigning = True
        self._end_term()

        def resigned(_: object) -> None:
            self._resigning = False
            if self._candidacy.phase is CandidacyPhase.LEADING:
                self._candidacy.term_ended(failed=True)
            self._follow_phase()

        self.broker.do(resign(elected), resigned, self._fail)

    # -- the phases --------------------------------------------------------------------------------------

    def _follow_phase(self) -> None:
        """Do what the phase of the candidacy requires."""
        if self.over or self._resigning:
            return
        phase = self._candidacy.phase
        if phase is not CandidacyPhase.LEADING:
            self._end_term()
        if phase is CandidacyPhase.STANDING and not self._standing:
            self._standing = True
            self.broker.do(stand(self.broker.session, self.broker.id, self.world.now_ms), self._stood, self._fail)
        elif phase is CandidacyPhase.LEADING and self.term is None:
            self._begin_term()
        elif phase is CandidacyPhase.PAUSED and not self._pausing:
            self._pausing = True
            self.broker.later(int(self._candidacy.pause_s * 1e6), self._paused)

    def _stood(self, result: ElectionResult) -> None:
        self._standing = False
        if isinstance(result, ElectionBlocked):
            self._fail(ValueError(result.why))
        self._candidacy.election_ended(result)
        self._follow_phase()

    def _paused(self) -> None:
        self._pausing = False
        self._candidacy.pause_ended()
        self._follow_phase()

    def _begin_term(self) -> None:
        elected, broker = self._candidacy.elected, self.broker
        assert elected is not None
        self.world.counted("controller elected")
        self.world.fact(BecameController(self.world.now, broker.id, broker.session, elected.epoch))
        self._queue = EventQueue(self._now_s)
        context = ControllerContext(broker.id, elected.epoch, SETTINGS)
        store = ZnodeStore(Fence(elected.version))
        note = self._queue.note
        self.term = term = KafkaController(context, store, self.channel, note, self._write_log, self.world.new_id)

        def verified(owned: bool) -> None:
            if self.term is term:
                self._candidacy.verified(owned)
                self._follow_phase()

        broker.do(verify(broker.session), verified, self._fail)
        self.note(ControllerElected())

    def _end_term(self) -> None:
        self.term = None
        self._busy = False
        job, self._job = self._job, None
        if job is not None:
            job.drop()
        self.channel.close()
        self._queue.close()

    # -- events ------------------------------------------------------------------------------------------

    def _process_next(self) -> None:
        term = self.term
        queued = None if term is None or self._busy else self._queue.take()
        if term is None or queued is None:
            return
        self._busy = True

        def done(_: object) -> None:
            if self.term is term:
                self._busy = False
                self._process_next()

        def failed(error: Exception) -> None:
            if self.term is not term:
                return
            if isinstance(error, ControllerMoved):
                self.world.counted("controller fenced")
                self._candidacy.term_ended(failed=False)
                self._follow_phase()
            elif isinstance(error, RepliesLost):
                self.fail_term()
            else:
                self._fail(error)

        job = self.broker.do(process_event(term, queued), done, failed)
        if not job.over:
            self._job = job

    def _opened(self, queue: BrokerCommandQueue) -> None:
        self._connections[queue] = CommandConnection(self, queue)

    def _closed(self, queue: BrokerCommandQueue) -> None:
        del self._connections[queue]

    def _write_log(self, message: OperatorMessage) -> None:
        self.world.counted(f"controller {message.event}")
        if self.world.trace is not None:
            self.world.record(0, f"controller {self.broker.id}", 0, f"{message.event} {dict(message.fields)}")
        if message.event in ("illegal_transition", "damaged"):
            what = f"controller {self.broker.id} logs {message.event}: {dict(message.fields)}"
            self.world.violated(Violation(NoCrash.invariant, what))

    def _fail(self, error: Exception) -> None:
        self.world.violated(Violation(NoCrash.invariant, f"controller {self.broker.id} fails with {error!r}"))


class CommandConnection:
    """A connection that carries the commands of one queue, one at a time, and breaks now and then."""

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
            # A command in flight does not depend on its sender any more.
            self._push(self._arrive, numbered, None)

    def _push(self, act: object, numbered: Numbered, answer: Answer | None) -> None:
        world, random = self._candidate.world, self._candidate.random
        timing = world.script.timing
        delay = timing.delay_us_min + int(random.random() * max(1, timing.delay_us_max - timing.delay_us_min))
        world.push(world.now + delay, act, numbered, answer)

    def _arrive(self, numbered: Numbered, _: None) -> None:
        target = self._candidate.world.brokers[self._queue.broker.id]
        breaks = self._candidate.random.random() < BREAKS
        if not target.up or target.unreachable or (breaks and numbered.number % 2):
            self._fail()
            return

        def answered(answer: Answer) -> None:
            if breaks or target.unreachable:
                self._fail()
            else:
                self._push(self._reply, numbered, answer)

        target.receive(numbered, answered)

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
