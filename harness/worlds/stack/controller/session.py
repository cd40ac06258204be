"""A broker's session with the store, as `zab.connect` makes it, with everything that it asks on the tape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

import zab
from harness.checkers.store.watching import KINDS
from harness.history import Request
from harness.protocol import request_from
from harness.worlds.recorded import RecordedSession, RecordingMachine
from harness.worlds.stack.store.client import Client
from zab.client.calls import Call
from zab.client.client_settings import ClientSettings
from zab.runtime.block_nursery import block_nursery
from zab.store.server_watches import EventType, WatchKind

if TYPE_CHECKING:
    from harness.worlds.stack.controller.world import ControllerWorld

SETTINGS: Final = ClientSettings(pause_ms_min=20, pause_ms_max=200, close_ms=500)
_CONCERNS: Final = {
    EventType.CREATED: (WatchKind.DATA,),
    EventType.DATA_CHANGED: (WatchKind.DATA,),
    EventType.DELETED: (WatchKind.DATA, WatchKind.CHILDREN),
    EventType.CHILDREN_CHANGED: (WatchKind.CHILDREN,),
}
"""Which of the watches that a controller leaves."""


class ToldMachine(RecordingMachine):
    """What a program asks is written down as what a script has somebody ask."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._calls: dict[Call, tuple[int, Request]] = {}
        self._in_vain: set[tuple[str, WatchKind]] = set()
        """Watches that the server may have set for cancelled calls. Each is added when the reply to its call arrives.

        An event before that reply belongs to an earlier watch.
        """

    def known(self, call: Call) -> tuple[int, Request] | None:
        return self._calls.get(call)

    def _send(self, call: Call) -> None:
        request = request_from(call.op, call.fields)
        if request is not None:
            self._tape.calls += 1
            self._calls[call] = self._tape.calls, request
        super()._send(call)

    def lost(self, why: str) -> None:
        """What is asked again on the next connection is another call then."""
        in_flight = list(self._in_flight)
        super().lost(why)
        for call in in_flight:
            self._calls.pop(call, None)
        self._in_vain.clear()

    def _answer(self, call: Call, error_code: int, body: bytes) -> None:
        known = self.known(call)
        if known is not None and call.watch is not None and call.done is None:
            kind = WatchKind.CHILDREN if known[1].op == "children" else WatchKind.DATA
            self._in_vain.add((known[1].path, kind))
        super()._answer(call, error_code, body)
        self._calls.pop(call, None)

    def watches(self) -> tuple[tuple[str, str], ...] | None:
        lists = zip(KINDS, self._watches.lists(), strict=True)
        return tuple((kind, path) for kind, paths in lists for path in paths)

    def hears(self, event: int, path: str) -> bool:
        kinds = _CONCERNS[EventType(event)]
        in_vain = {(path, kind) for kind in kinds} & self._in_vain
        self._in_vain -= in_vain
        return not in_vain or any(self._watches.watches(path, kind) for kind in kinds)


class ToldSession(RecordedSession):
    machine_type = ToldMachine


class StoreClient(Client):
    """The client of a program: one session after another, each for the block that opened it."""

    world: ControllerWorld

    def session_of(self, timeout_ms: int) -> ToldSession:
        return ToldSession(self, self.hosts, timeout_ms, self._outside, SETTINGS)

    @asynccontextmanager
    async def opened(self, timeout_ms: int, killed: Callable[[], bool]) -> AsyncIterator[zab.Session]:
        """As `zab.connect`. Who was killed says no goodbye."""
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
                    if session.machine.said_goodbye:
                        session.machine.ended("closed")
                self.session = None
                scope.cancel()


async def _run_in(scope: trio.CancelScope, session: ToldSession) -> None:
    with scope:
        await session.connector.run()
