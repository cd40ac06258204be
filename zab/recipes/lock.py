"""Locks: exclusive, or for many readers or one writer. They share their nodes with kazoo's locks.

    async with Lock(session, "/locks/a", "me") as held:
        write(..., token=held.token)

Such a lock decides which client may go ahead. It cannot stop a holder that lost the lock while its process was frozen:
see `zab.recipes.holding`. Use the token to protect a resource from a former holder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import ClassVar, Final

from zab.core.argument_names import checks_methods
from zab.recipes.holding import Held, Holdable, holding
from zab.recipes.nodes import identifier_of, removing
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.recipes.waiting_queue import Place, identifiers
from zab.session.api import Session

WRITER: Final = "__lock__"
READER: Final = "__rlock__"


@checks_methods
class Lock(Holdable):
    """An exclusive, fair lock. Use it as `async with`, or call `hold`. It is not re-entrant, and ignores a `ReadLock`.

    identifier     the name of this waiter, for other clients to read
    extra_markers  node markers of other implementations that this lock waits for as well
    """

    _marker: ClassVar = WRITER
    _behind: ClassVar[tuple[str, ...]] = (WRITER,)

    def __init__(
        self,
        session: Session,
        path: str,
        identifier: str = "",
        *,
        extra_markers: Collection[str] = (),
        settings: RecipeSettings = DEFAULT_RECIPES,
    ) -> None:
        super().__init__(session, path, settings)
        self.identifier = identifier_of(identifier)
        self._before = (*self._behind, *extra_markers)

    @asynccontextmanager
    async def hold(self, *, wait: bool = True) -> AsyncIterator[Held]:
        """Hold the lock for the block. If not `wait`, raise `Taken` instead of waiting.

        If the lock is lost, or may be lost, cancel the block and raise `Lost`.
        """
        session, settings = self.session, self.settings
        place = Place(session, self.path, self._marker, self.identifier.encode(), settings)
        async with session.watcher() as events, removing(session, self.path, settings, place.leave):
            await place.join()
            await place.wait(self._before, events, patient=wait)
            async with holding(session, place.path, events, settings):
                yield Held(place.path, place.token)

    async def contenders(self) -> list[str]:
        """Return the identifiers of the holders and waiters, in the order of the queue."""
        return await identifiers(self.session, self.path, {*self._before, self._marker})


class WriteLock(Lock):
    """The lock of one writer, which excludes readers and other writers."""

    _behind: ClassVar[tuple[str, ...]] = (WRITER, READER)


class ReadLock(Lock):
    """A lock that many readers share. It waits for each `Lock` and `WriteLock` before it.

    A `WriteLock` behind it waits for it; a `Lock` does not.
    """

    _marker: ClassVar = READER
    _behind: ClassVar[tuple[str, ...]] = (WRITER,)
