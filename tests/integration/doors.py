"""The same test through every door: a session in the process, and one over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.integration.stores import Stores, stores
from zab.runtime.coordination.server import StoreServer
from zab.runtime.session.api import Session

DOORS: Final = ["process"]
TIMEOUT_MS: Final = 10_000


@frozen
class Door:
    session: Callable[[], AbstractAsyncContextManager[Session]]
    stores: Stores

    @property
    def server(self) -> StoreServer:
        return self.stores.servers[1]

    @property
    def hosts(self) -> str:
        return self.stores.hosts()

    def names(self, path: str) -> list[str]:
        """Of the children that the store has, without asking anybody."""
        found = self.server.machine.tree.children.get(path, ())
        return sorted(found)

    def expire(self, session: Session) -> None:
        """As the leader does when it has heard nothing for too long."""
        self.server.close_session(session.id)


@asynccontextmanager
async def opened(path: Path, door: str = "process") -> AsyncIterator[Door]:
    async with stores(path) as running:

        def session() -> AbstractAsyncContextManager[Session]:
            return running.servers[1].session(TIMEOUT_MS)

        yield Door(session, running)
