"""Hold a lock, a lease or a membership while a block runs, and cancel the block when it may be lost.

Holding means owning an ephemeral node. The node is gone when the session expires or a client deletes it. Another
client may then go ahead, so the block is cancelled. A watch reports a deletion at once. If the store cannot be reached,
the block is cancelled at the latest when the session's timeout has passed since `Session.last_received_at`. The
session cannot expire before that time. So the node exists while the block runs, unless a client has just deleted it,
this process was frozen, or the block ignores its cancellation.

The reply to a `sync` proves that a leader has renewed the session, so a `sync` is sent at intervals while the block
runs. Replies to pings and reads may come from a server that has lost its quorum and has not noticed.
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
from zab.recipes.guarded_block import guarded_by
from zab.recipes.recipe_errors import Lost
from zab.recipes.recipe_settings import RecipeSettings
from zab.session.api import Session
from zab.session.state import SessionState
from zab.session.watch import Watch

HEARD_PARTS: Final = 3
"""A `sync` is sent when the session's timeout, divided by this number, has passed since `last_received_at`."""


@frozen
class Held:
    """The node of a holder and its fencing token. Tokens grow, so a service can refuse an older holder.

    path   the ephemeral node that makes its owner the holder
    token  the zxid at which the node was created
    """

    path: str
    token: int


@asynccontextmanager
async def holding(session: Session, path: str, events: Watch, settings: RecipeSettings) -> AsyncIterator[None]:
    """Run a block. Cancel it and raise `Lost` if the node is deleted, or if the session may be over.

    The same happens if the connection is lost for longer than `suspended_ms`.
    """

    async def node_stays() -> None:
        try:
            while await session.exists(path, watch=events) is not None:
                await events.take()
        except ZabError as error:
            raise Lost(f"{path}: {error}") from error
        raise Lost(f"{path} was deleted by another client")

    part_s = session.timeout_ms / 1000 / HEARD_PARTS

    async def store_hears() -> None:
        while True:
            await trio.sleep_until(session.last_received_at + part_s)
            try:
                await session.sync()
            except ZabError:  # such as no quorum; `latest` decides how long the block may go on
                await trio.sleep(part_s / HEARD_PARTS)

    if trio.current_time() >= session.last_received_at + part_s:
        try:
            await session.sync()
        except ZabError as error:
            raise Lost(f"{path}: {error}") from error
    suspended_at: float | None = None

    def latest() -> float:
        """Return the time until which the session certainly exists and `suspended_ms` lets the block continue."""
        until = session.last_received_at + session.timeout_ms / 1000
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
            elif suspended_at is None:  # READ_ONLY counts as well: such a server may be wrong about the session
                suspended_at = trio.current_time()
            with trio.CancelScope(deadline=latest()) as patience:
                state = await anext(states, SessionState.CLOSED)
            if patience.cancelled_caught and trio.current_time() >= latest():
                what = "the leader was out of reach" if suspended_at is None else "the connection was lost"
                raise Lost(f"{path}: {what} for too long")
        raise Lost(f"{path}: {session.over or state.value}")

    async with guarded_by(node_stays, session_stays, store_hears):
        yield


class Holdable(ABC):
    """Base class of the recipes that are held for an `async with` block. One object serves any number of tasks.

    A task that enters an object again, inside its own `async with` block, gets `LocalProtocolError`: at a lock it would
    wait for itself.
    """

    def __init__(self, session: Session, path: str, settings: RecipeSettings) -> None:
        self.session = session
        self.path = path
        self.settings = settings
        self._entered: dict[trio.lowlevel.Task, AbstractAsyncContextManager[Held]] = {}
        """The tasks in an `async with` of this object, each with its block."""

    @abstractmethod
    def hold(self) -> AbstractAsyncContextManager[Held]: ...

    async def __aenter__(self) -> Held:
        task = trio.lowlevel.current_task()
        if task in self._entered:
            raise LocalProtocolError(f"{self.path}: this task has entered it already, and could wait for itself")
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
