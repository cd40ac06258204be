"""A queue whose entries stay until they are processed: a consumer locks the entry that it works on.

<path>/entries/entry-<3 digits: priority, least first>-<10 digits>
<path>/taken/<name of an entry>    the entry's lock, an ephemeral node of the consumer
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

from zab.core.argument_names import checks_methods
from zab.core.errors import OutcomeUnknown
from zab.recipes.holding import holding
from zab.recipes.nodes import names_of, removing
from zab.recipes.queue import ENTRY, PRIORITY, entry_of
from zab.recipes.recipe_errors import Taken
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session
from zab.session.multi import Multi
from zab.session.session_errors import NodeExists, NoNode
from zab.session.watch import Watch
from zab.store.paths import child_of


class Entry:
    """An entry that a consumer works on. `data` is its content, `kept` is True after `put_back`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.kept = False

    def put_back(self) -> None:
        """Leave the entry in the queue at the end of the block, for the next consumer."""
        self.kept = True


class _Claim:
    """One attempt to lock one entry.

    The data of the lock's node are a random id. It is unique to the attempt, even among those of one session.
    """

    def __init__(self, session: Session, entry: str, lock: str, settings: RecipeSettings) -> None:
        self._session = session
        self._entry = entry
        self._sign = uuid4().hex.encode()
        self._settings = settings
        self._asked = False
        """True if this attempt may have created the lock."""
        self.lock = lock
        """The path of the lock."""
        self.done = False
        """True if the entry is processed and must be deleted."""

    async def take(self) -> Entry | None:
        """Lock the entry, or return None if another consumer holds it or has finished it."""
        session, sign = self._session, self._sign
        while True:
            again, self._asked = self._asked, True
            try:
                await session.create(self.lock, sign, ephemeral=True, acl=self._settings.acl)
            except NodeExists:
                if not again or not await self._mine():
                    self._asked = False
                    return None
            except OutcomeUnknown:
                continue
            break
        try:
            data, _ = await session.get(self._entry)
        except NoNode:
            return None
        return Entry(data or b"")

    async def _mine(self) -> bool:
        await self._session.sync(self.lock)
        try:
            sign, _ = await self._session.get(self.lock)
        except NoNode:
            return False
        return sign == self._sign

    async def give(self) -> bool:
        """End the block or the attempt: delete the entry if it is finished, and the lock if this attempt holds it.

        Return False only if it is certain that the lock was lost.
        """
        if self.done:
            return await self._consume()
        certain = True
        while self._asked and await self._mine():
            # Check before each deletion: after one whose reply was lost, the lock may belong to another consumer.
            try:
                await self._session.delete(self.lock)
            except OutcomeUnknown:
                certain = False
            except NoNode:
                break
            else:
                return True
        return not self._asked or not certain

    async def _consume(self) -> bool:
        certain = True
        while True:
            try:
                await self._session.multi(Multi().delete(self._entry).delete(self.lock))
            except NoNode:  # an earlier request, whose reply was lost, has deleted both; or the lock was lost
                return not certain and await self._session.exists(self._entry) is None
            except OutcomeUnknown:
                certain = False
            else:
                return True


@checks_methods
class LockingQueue:
    """A queue that deletes an entry when its block succeeds. If the block fails, the next consumer gets the entry.

    So every entry is processed at least once, by one consumer at a time. kazoo's locking queues on the path can take
    part.
    """

    def __init__(self, session: Session, path: str, *, settings: RecipeSettings = DEFAULT_RECIPES) -> None:
        self.session = session
        self.path = path
        self.settings = settings
        self._entries = child_of(path, "entries")
        self._taken = child_of(path, "taken")

    async def put(self, value: bytes, priority: int = PRIORITY) -> None:
        """Add an entry. Consumers take the least `priority` first; it is from 0 to 999, else `ConfigError` is raised.

        Raise `OutcomeUnknown` if the reply is lost. Entries do not name their producers, so the producer cannot find
        its entry.
        """
        await self.put_all([value], priority)

    async def put_all(self, values: Sequence[bytes], priority: int = PRIORITY) -> None:
        """Add all entries in one transaction. `priority` and the errors are those of `put`."""
        path = child_of(self._entries, entry_of(priority))
        entries = Multi()
        for value in values:
            entries.create(path, value, sequential=True, acl=self.settings.acl)
        while True:
            try:
                await self.session.multi(entries)
            except NoNode:
                await self._ensure()
            else:
                return

    @asynccontextmanager
    async def take(self, *, wait: bool = True) -> AsyncIterator[Entry]:
        """Wait for a free entry and lock it for the block. If not `wait`, raise `Taken` instead of waiting.

        If the lock is lost, or may be lost, cancel the block and raise `Lost`: another consumer may have the entry.
        """
        session, settings = self.session, self.settings
        async with session.watcher() as events:
            while True:
                for name in await self._free(events):
                    claim = _Claim(session, child_of(self._entries, name), child_of(self._taken, name), settings)
                    async with removing(session, claim.lock, settings, claim.give):
                        entry = await claim.take()
                        if entry is not None:
                            async with holding(session, claim.lock, events, settings):
                                yield entry
                            claim.done = not entry.kept
                            break
                else:
                    if not wait:
                        raise Taken(f"{self.path}: no entry is free")
                    await events.take()
                    continue
                return

    async def size(self) -> int:
        """Return the number of entries, locked ones included."""
        return len(await names_of(self.session, self._entries, ENTRY))

    async def _free(self, events: Watch) -> list[str]:
        while True:
            try:
                entries = await self.session.children(self._entries, watch=events)
                taken = set(await self.session.children(self._taken, watch=events))
            except NoNode:
                await self._ensure()
                continue
            return sorted(name for name in entries if name not in taken and name.startswith(ENTRY))

    async def _ensure(self) -> None:
        for path in (self._entries, self._taken):
            await self.session.ensure_path(path, self.settings.acl)
