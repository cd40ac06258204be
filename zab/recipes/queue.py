"""Queue: entries in the order of their priority; entries of one priority in the order of their creation.

<path>/entry-<3 digits: priority, least first>-<10 digits>
"""

from __future__ import annotations

from typing import Final, Self

import trio

from zab.core.argument_names import checks_methods
from zab.core.errors import ConfigError, OutcomeUnknown
from zab.recipes.nodes import names_of
from zab.recipes.recipe_errors import EntryInDoubt
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session
from zab.session.session_errors import NoNode
from zab.session.watch import Watch
from zab.store.paths import child_of

ENTRY: Final = "entry-"
PRIORITY: Final = 100
PRIORITY_MAX: Final = 999


def entry_of(priority: int) -> str:
    """Return the name of an entry, without its number. Raise `ConfigError` if `priority` is not from 0 to 999."""
    if not 0 <= priority <= PRIORITY_MAX:
        raise ConfigError(f"a priority must be between 0 and {PRIORITY_MAX}, not {priority}")
    return f"{ENTRY}{priority:03d}-"


@checks_methods
class Queue:
    """A queue: a consumer that takes an entry removes it from the store. It shares its nodes with kazoo's queue.

    `async for data in queue` takes one entry after the other, and never ends. A consumer that fails loses the entry
    that it has taken; `LockingQueue` keeps it for another consumer.
    """

    def __init__(self, session: Session, path: str, *, settings: RecipeSettings = DEFAULT_RECIPES) -> None:
        self.session = session
        self.path = path
        self.settings = settings

    async def put(self, value: bytes, priority: int = PRIORITY) -> None:
        """Add an entry. Consumers take the least `priority` first; it is from 0 to 999, else `ConfigError` is raised.

        Raise `OutcomeUnknown` if the reply is lost. Entries do not name their producers, so the producer cannot find
        its entry.
        """
        path = child_of(self.path, entry_of(priority))
        while True:
            try:
                await self.session.create(path, value, sequential=True, acl=self.settings.acl)
            except NoNode:
                await self.session.ensure_path(self.path, self.settings.acl)
            else:
                return

    async def get(self) -> bytes:
        """Wait for an entry, take it and return its data. A cancelled call takes none.

        Raise `EntryInDoubt` if it is unknown whether this call took the entry.
        """
        async with self.session.watcher() as events:
            while True:
                data = await self._take(events)
                if data is not None:
                    return data
                await events.take()

    async def get_nowait(self) -> bytes:
        """Take an entry without waiting for one, and return its data. Raise `trio.WouldBlock` if the queue is empty.

        Raise `EntryInDoubt` as `get` does.
        """
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
        """Take the first entry and return its data, or None if there is none: `events`, if given, reports the next."""
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
        """Delete the entry, and return whether this call deleted it. Raise `EntryInDoubt` if this is unknown.

        The call is shielded, because a cancelled deletion could lose the entry.
        """
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
