"""A broker's session with the store and its controller, as shipped, with recorders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import trio

import zab
from harness.checkers.controller.facts import BecameController
from harness.checkers.store.watch_tables import KINDS
from harness.history import Request
from harness.protocol import request_from
from harness.worlds.recorded import RecordedSession, RecordingProtocol
from harness.worlds.stack.simulation import Simulation
from harness.worlds.stack.store.client import Client
from kraft_controller.core.candidacy import Elected
from kraft_controller.core.controller_events import AutoPreferredElection, BrokerNotAvailable, Event, StaleBrokerEpoch
from kraft_controller.core.event_queue import NotController, QueuedEvent
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.store_requests import RepliesLost
from kraft_controller.runtime.controller import Controller
from kraft_controller.runtime.store_session import StoreSession
from zab.client.calls import Call
from zab.client.client_settings import ClientSettings
from zab.runtime.block_nursery import block_nursery
from zab.store.server_watches import EventType, WatchKind

SETTINGS: Final = ClientSettings(pause_ms_min=20, pause_ms_max=200, close_ms=500)
_CONCERNS: Final = {
    EventType.CREATED: (WatchKind.DATA,),
    EventType.DATA_CHANGED: (WatchKind.DATA,),
    EventType.DELETED: (WatchKind.DATA, WatchKind.CHILDREN),
    EventType.CHILDREN_CHANGED: (WatchKind.CHILDREN,),
}
"""The kinds of watches that each event concerns."""


class ProgramProtocol(RecordingProtocol):
    """Records all requests of a program, as `RecordingProtocol` records those of a script."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._calls: dict[Call, tuple[int, Request]] = {}
        self._cancelled_watches: set[tuple[str, WatchKind]] = set()
        """The watches that the server may have set for cancelled calls, added when the reply to the call arrives.

        An event before that reply belongs to an earlier watch.
        """

    def recorded_call(self, call: Call) -> tuple[int, Request] | None:
        return self._calls.get(call)

    def _send(self, call: Call) -> None:
        request = request_from(call.op, call.fields)
        if request is not None:
            self._recorder.calls += 1
            self._calls[call] = self._recorder.calls, request
        super()._send(call)

    def lost(self, why: str) -> None:
        """Forget the calls: one that is repeated on the next connection gets another number."""
        in_flight = list(self._in_flight)
        super().lost(why)
        for call in in_flight:
            self._calls.pop(call, None)
        self._cancelled_watches.clear()

    def _answer(self, call: Call, error_code: int, body: bytes) -> None:
        known = self.recorded_call(call)
        if known is not None and call.watch is not None and call.done is None:
            kind = WatchKind.CHILDREN if known[1].op == "children" else WatchKind.DATA
            self._cancelled_watches.add((known[1].path, kind))
        super()._answer(call, error_code, body)
        self._calls.pop(call, None)

    def watches(self) -> tuple[tuple[str, str], ...] | None:
        lists = zip(KINDS, self._watches.lists(), strict=True)
        return tuple((kind, path) for kind, paths in lists for path in paths)

    def is_recorded(self, event: int, path: str) -> bool:
        kinds = _CONCERNS[EventType(event)]
        cancelled = {(path, kind) for kind in kinds} & self._cancelled_watches
        self._cancelled_watches -= cancelled
        return not cancelled or any(self._watches.watches(path, kind) for kind in kinds)


class ProgramSession(RecordedSession):
    protocol_type = ProgramProtocol


class StoreClient(Client):
    """The client of a program. Each session lives as long as the block that opened it."""

    def session_of(self, timeout_ms: int) -> ProgramSession:
        return ProgramSession(self, self.hosts, timeout_ms, self._outside, SETTINGS)

    @asynccontextmanager
    async def opened(self, timeout_ms: int, killed: Callable[[], bool]) -> AsyncIterator[zab.Session]:
        """Open a session as `zab.connect` does. A client that was killed does not close its session."""
        self.session = session = self.session_of(timeout_ms)
        async with block_nursery() as nursery:
            scope = trio.CancelScope(shield=True)
            nursery.start_soon(_run_in, scope, session)
            try:
                await session.begun(())
                yield session
            finally:
                if not killed():
                    await session.close()
                    if session.protocol.close_acknowledged:
                        session.protocol.ended("closed")
                self.session = None
                scope.cancel()


async def _run_in(scope: trio.CancelScope, session: ProgramSession) -> None:
    with scope:
        await session.connector.run()


class ObservedController(Controller):
    """A controller that records each election that it wins."""

    broker: Any
    fails = False
    """True to make the next event of this term fail, as if the replies to its changes were lost."""

    async def _lead(self, elected: Elected) -> None:
        broker = self.broker
        broker.world.counted("controller elected")
        broker.world.fact(BecameController(broker.world.now, broker.id, self._session.id, elected.epoch))
        self.fails = False
        await super()._lead(elected)

    async def _process(self, term: KafkaController, store: StoreSession, queued: QueuedEvent) -> None:
        if self.fails:
            raise RepliesLost
        await super()._process(term, store, queued)


class Candidate:
    """The controller of one session of a broker process."""

    def __init__(self, world: Simulation, controller: ObservedController) -> None:
        self._world = world
        self.controller = controller

    @property
    def term(self) -> KafkaController | None:
        return self.controller.term

    def note(self, event: Event) -> None:
        self.controller.note(event)

    def ask(self, event: Event, done: Callable[[Any], None]) -> None:
        self._world.spawn(self._ask, event, done)

    async def _ask(self, event: Event, done: Callable[[Any], None]) -> None:
        result = None
        with suppress(NotController, StaleBrokerEpoch, BrokerNotAvailable, ValueError):
            result = await self.controller.ask(event)
        done(result)

    def fail_term(self) -> None:
        self.controller.fails = True
        self.note(AutoPreferredElection())
