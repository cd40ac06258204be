"""To have something for as long as a block lasts, and not a moment longer than the store says.

What one has is an ephemeral node. It is gone when the session is over, and also when an operator deletes it; in
both cases somebody else may go ahead. The block is cancelled then. Between the moment when the store gives the
node up and the moment when the block hears of it there is a gap, which nothing can close from this side: its
length is that of a message, or, while the connection is lost, the session's timeout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from types import TracebackType

import trio
from attrs import frozen

from zab.core.errors import LocalProtocolError, ZabError
from zab.recipes.beside import beside
from zab.recipes.errors import Lost
from zab.recipes.settings import RecipeSettings
from zab.runtime.session.api import Session
from zab.runtime.session.state import SessionState
from zab.runtime.session.watch import Watch


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

    async def session_stays() -> None:
        states = session.states()
        state = await anext(states)
        while not state.final:
            suspended = state is not SessionState.CONNECTED  # a server that can only be read from knows no better
            patience_ms = session.timeout_ms if settings.suspended_ms is None else settings.suspended_ms
            try:
                with trio.fail_after(patience_ms / 1000 if suspended else inf):
                    state = await anext(states, SessionState.CLOSED)
            except trio.TooSlowError:
                raise Lost(f"{path}: the connection is lost, and the session may be over") from None
        raise Lost(f"{path}: {session.over or state.value}")

    async with beside(node_stays, session_stays):
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
