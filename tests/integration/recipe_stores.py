"""A store for tests of recipes that must pass with a session in the process and with one over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import trio
from attrs import frozen

from tests.integration.stores import Stores, stores
from zab.client.remote_session import connect
from zab.core.errors import OutcomeUnknown
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.session.api import Session
from zab.session.session_errors import StoreError
from zab.session.watch import Watch
from zab.store.error_codes import ErrorCode
from zab.store.operations import WRITES, Fields, Op

SESSION_KINDS: Final = ["process", "wire"]
TIMEOUT_MS: Final = 20_000


@frozen
class RecipeStore:
    session: Callable[[], AbstractAsyncContextManager[Session]]
    stores: Stores

    @property
    def server(self) -> ServerRuntime:
        return self.stores.servers[1]

    @property
    def hosts(self) -> str:
        return self.stores.hosts()

    def names(self, path: str) -> list[str]:
        """Return the names of a node's children, directly from the store."""
        found = self.server.machine.tree.children.get(path, ())
        return sorted(found)

    def expire(self, session: Session) -> None:
        """Expire a session as the leader does."""
        self.server.clients.sessions.close(session.id)


@asynccontextmanager
async def opened(path: Path, via: str = "process") -> AsyncIterator[RecipeStore]:
    async with stores(path) as running:

        def session() -> AbstractAsyncContextManager[Session]:
            if via == "wire":
                return connect(running.hosts(), timeout_ms=TIMEOUT_MS)
            return running.servers[1].session(TIMEOUT_MS)

        yield RecipeStore(session, running)


def in_doubt(session: Session, chance: Random, share: float) -> None:
    """Drop the replies of this share of the session's writes, half of which are carried out."""
    real = session._ask

    async def ask(op: Op, fields: Fields, what: str, watch: Watch | None = None, *, rooted: bool = True) -> Any:
        if op not in WRITES or chance.random() >= share:
            return await real(op, fields, what, watch, rooted=rooted)
        if chance.random() < 0.5:
            try:
                await real(op, fields, what, watch, rooted=rooted)
            except StoreError as error:
                if error.code == ErrorCode.SESSION_EXPIRED:
                    raise
        raise OutcomeUnknown(f"{what}: as if the connection had been lost")

    session._ask = ask  # type: ignore[method-assign]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.sleep(0.001)


async def cancelled_at(step: int, work: Callable[[], Awaitable[None]]) -> bool:
    """Cancels the task that does this before one of its steps. Returns whether it was done before that."""

    class Steps(trio.abc.Instrument):
        left = step

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            if task is me:
                self.left -= 1
                if not self.left:
                    scope.cancel()

    me, steps = trio.lowlevel.current_task(), Steps()
    with trio.CancelScope() as scope:
        trio.lowlevel.add_instrument(steps)
        try:
            await work()
        finally:
            trio.lowlevel.remove_instrument(steps)
    return not scope.cancelled_caught
