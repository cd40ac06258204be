"""The clients of a script. Each has one session at a time, and a proxy of its own in front of the servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import trio

from harness.faults import Step
from harness.history import Request
from harness.lists import user_name
from harness.protocol import request_of
from harness.worlds.processes.proxy import Address, Proxy
from harness.worlds.recorded import SETTINGS, IgnoringWatcher, RecordedCall, RecordedSession, Recorder
from zab.client.dialing import OUTSIDE


class Client:
    def __init__(self, number: int, recorder: Recorder, proxy: Proxy, host: str, nursery: trio.Nursery) -> None:
        self.id = number
        self.recorder = recorder
        self.server = 0
        """The server that its proxy leads to."""
        self.session: RecordedSession | None = None
        self._proxy = proxy
        self._host = host
        self._nursery = nursery
        self._vanished = False
        self._address: Address | None = None
        self._user = ""

    def connect(self, server: int, address: Address, timeout_ms: int, user: int = 0) -> None:
        """Begin a session at this server, or move the current one, which keeps its user."""
        self._user = user_name(user) or self._user
        moved = server != self.server
        self.server, self._address = server, address
        if moved and not self._vanished:
            self._proxy.set_target(server, address)
        if self.session is None or not self.session.alive:
            self.session = RecordedSession(self, self._host, timeout_ms, OUTSIDE, SETTINGS, self._user)
            self._nursery.start_soon(self.session.connector.run)

    def ask(self, steps: Sequence[Step]) -> bool:
        return self.request(request_of(steps, self.recorder.calls + 1))

    def request(self, request: Request) -> bool:
        """Submit a request; return False if there is no session. The request leaves when the session is connected."""
        return self._submit(request, _ignore) is not None

    async def outcome(self, request: Request) -> tuple[Any, Exception | None]:
        """Submit a request, and return its result or its error."""
        done = trio.Event()
        found: list[tuple[Any, Exception | None]] = []

        def completed(value: Any, error: Exception | None) -> None:
            found.append((value, error))
            done.set()

        if self._submit(request, completed) is None:
            raise RuntimeError(f"client {self.id} has no session for the request {request.op}")
        await done.wait()
        return found[0]

    def _submit(self, request: Request, done: Callable[[Any, Exception | None], None]) -> RecordedCall | None:
        session = self.session
        if session is None or not session.alive or self._vanished:
            self.recorder.without_session += 1
            return None
        self.recorder.calls += 1
        reads = request.op in ("get", "exists", "children") and request.watch
        watch = IgnoringWatcher() if reads or request.op == "watch" else None
        call = RecordedCall(request, self.recorder.calls, done, watch)
        session.protocol.submit(call)
        return call

    async def leave(self) -> None:
        session, self.session = self.session, None
        if session is not None and session.alive:
            await session.close()
            if session.protocol.granted.id:  # its closeSession may be unanswered
                session.protocol.ended("closed" if session.protocol.close_acknowledged else "disconnected")

    async def vanish(self, for_s: float) -> None:
        self._vanished = True
        self._proxy.set_target(self.server, None)
        await trio.sleep(for_s)
        self.appear()

    def appear(self) -> None:
        if self._vanished:
            self._vanished = False
            self._proxy.set_target(self.server, self._address)


def _ignore(value: Any, error: Exception | None) -> None:
    """Ignore the outcome: the recorder records it."""
