"""To have something for as long as a block lasts, and not a moment longer than the store says.

What one has is an ephemeral node. It is gone when the session is over, and also when an operator deletes it; in
both cases somebody else may go ahead. The block is cancelled then. When an operator deletes the node, the block
hears of it a message later. When the store can be heard no more, the block is cancelled before the session's time
is up, counted from the last moment at which the leader is known to have heard of the session: so nobody else has
what it stands for by then, unless this process was frozen meanwhile, or the block does not let itself be cancelled.
Known is it by the answer to a `sync`, which is asked for as long as something is held: whatever else is answered,
pings among it, may be answered by a server that is cut off from all others and has not noticed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Final

import trio
from attrs import frozen

from zab.core.errors import LocalProtocolError, ZabError
from zab.recipes.beside import beside
from zab.recipes.errors import Lost
from zab.recipes.settings import RecipeSettings
from zab.runtime.session.api import Session
from zab.runtime.session.state import SessionState
from zab.runtime.session.watch import Watch

HEARD_PARTS: Final = 3
"""The leader is asked whenever so much of the session's time has passed since it was known to have heard of it."""


@frozen
class Held:
    """`token` grows from holder to holder: whoever is written to can turn away a token older than one it has seen."""

    path: str
    token: int


@asynccontextmanager
async def holding(session: Session, path: str, events: Watch, settings: RecipeSettings) -> AsyncIterator[None]:
    async def node_stays() -> None:
        try:
            while await session.exists(path, watch=events) is not None:
                await events.take()
        except ZabError as error:
            raise Lost(f"{path}: {error}") from error
        raise Lost(f"{path} was deleted by somebody else")

    part_s = session.timeout_ms / 1000 / HEARD_PARTS

    async def store_hears() -> None:
        while True:
            await trio.sleep_until(session.heard_at + part_s)
            try:
                await session.sync()
            except ZabError:  # a server that is read only, or in need: how the session stands is seen elsewhere
                await trio.sleep(part_s / HEARD_PARTS)

    if trio.current_time() >= session.heard_at + part_s:
        try:
            await session.sync()
        except ZabError as error:
            raise Lost(f"{path}: {error}") from error
    suspended_at: float | None = None

    def latest() -> float:
        """Until when the session is surely there; or until when the settings are willing to wait."""
        until = session.heard_at + session.timeout_ms / 1000
        if suspended_at is None or settings.suspended_ms is None:
            return until
        return min(until, suspended_at + settings.suspended_ms / 1000)

    async def session_stays() -> None:
        nonlocal suspended_at
        states = session.states()
        state = await anext(states)
        while not state.final:
            if state is SessionState.CONNECTED:
                suspended_at = None
            elif suspended_at is None:  # also by a server that can only be read from: it knows no better
                suspended_at = trio.current_time()
            with trio.CancelScope(deadline=latest()) as patience:
                state = await anext(states, SessionState.CLOSED)
            if patience.cancelled_caught and trio.current_time() >= latest():
                what = "the leader is out of reach" if suspended_at is None else "the connection is lost"
                raise Lost(f"{path}: {what}, and the session may be over")
        raise Lost(f"{path}: {session.over or state.value}")

    async with beside(node_stays, session_stays, store_hears):
        yield


class Holdable(ABC):
    """What can be held by a block: `hold()`, or the thing itself. One object serves any number of tasks."""

    def __init__(self, session: Session, path: str, settings: RecipeSettings) -> None:
        self.session = session
        self.path = path
        self.settings = settings
        self._entered: dict[trio.lowlevel.Task, AbstractAsyncContextManager[Held]] = {}

    @abstractmethod
    def hold(self) -> AbstractAsyncContextManager[Held]: ...

    async def __aenter__(self) -> Held:
        task = trio.lowlevel.current_task()
        if task in self._entered:
            raise LocalProtocolError(f"{self.path}: this task has it already, and would wait for itself")
        entered = self._entered[task] = self.hold()
        try:
            return await entered.__aenter__()
        except BaseException:
            del self._entered[task]
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._entered.pop(trio.lowlevel.current_task()).__aexit__(kind, error, trace)
