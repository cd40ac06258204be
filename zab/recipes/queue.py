"""Queue: entries in the order of their priority, and where that is equal, in the order in which they came.

<path>/entry-<3 digits: priority, least first>-<10 digits>
"""

from __future__ import annotations

from typing import Final, Self

import trio

from zab.core.errors import ConfigError
from zab.recipes.errors import EntryInDoubt
from zab.recipes.nodes import names_of
from zab.recipes.settings import DEFAULT_RECIPES, RecipeSettings
from zab.runtime.errors import OutcomeUnknown
from zab.runtime.session.api import Session
from zab.runtime.session.errors import NoNode
from zab.runtime.session.watch import Watch
from zab.store.paths import child_of

ENTRY: Final = "entry-"
PRIORITY: Final = 100
PRIORITY_MAX: Final = 999


def entry_of(priority: int) -> str:
    """The name of an entry, without its number."""
    if not 0 <= priority <= PRIORITY_MAX:
        raise ConfigError(f"a priority is between 0 and {PRIORITY_MAX}, not {priority}")
    return f"{ENTRY}{priority:03d}-"


class Queue:
    """Whoever gets an entry has it alone, and the store has it no more. kazoo's queues of the path take part.

    A consumer that fails with an entry in its hands takes it along; `LockingQueue` keeps it for another one.
    """

    def __init__(self, session: Session, path: str, *, settings: RecipeSettings = DEFAULT_RECIPES) -> None:
        self.session = session
        self.path = path
        self.settings = settings

    async def put(self, value: bytes, priority: int = PRIORITY) -> None:
        """Raises `OutcomeUnknown` where it may or may not be in the queue: entries bear no sign of who put them."""
        path = child_of(self.path, entry_of(priority))
        while True:
            try:
                await self.session.create(path, value, sequential=True, acl=self.settings.acl)
            except NoNode:
                await self.session.ensure_path(self.path, self.settings.acl)
            else:
                return

    async def get(self) -> bytes:
        """Waits for an entry. Who is cancelled has taken none."""
        async with self.session.watcher() as events:
            while True:
                data = await self._take(events)
                if data is not None:
                    return data
                await events.take()

    async def get_nowait(self) -> bytes:
        """Raises `trio.WouldBlock` if the queue is empty."""
        data = await self._take(None)
        if data is None:
            raise trio.WouldBlock
        return data

    async def size(self) -> int:
        """Return how many entries the queue has."""
        return len(await names_of(self.session, self.path, ENTRY))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await self.get()

    async def _take(self, events: Watch | None) -> bytes | None:
        """None: there was nothing, and the watch will tell of more."""
        session = self.session
        while True:
            try:
                names = await session.children(self.path, watch=events)
            except NoNode:
                await session.ensure_path(self.path, self.settings.acl)
                continue
            entries = sorted(name for name in names if name.startswith(ENTRY))
            for name in entries:
                path = child_of(self.path, name)
                try:
                    data, _ = await session.get(path)
                except NoNode:
                    continue
                if await self._remove(path, data):
                    return data or b""
            if not entries:
                return None

    async def _remove(self, path: str, data: bytes | None) -> bool:
        """Whether it was this call that removed it. Not to be cancelled: the entry would be nobody's."""
        settings, session = self.settings, self.session
        patience_ms = session.timeout_ms if settings.leave_ms is None else settings.leave_ms
        doubt = False
        with trio.move_on_after(patience_ms / 1000, shield=True):
            while True:
                try:
                    await session.delete(path)
                except NoNode:
                    if doubt:
                        raise EntryInDoubt(path, data) from None
                    return False
                except OutcomeUnknown:
                    doubt = True
                else:
                    return True
        raise EntryInDoubt(path, data)
