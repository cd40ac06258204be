"""Barriers: one that is there or not, and one that opens when enough have come.

<path>                          a barrier: it is in place as long as its node exists

<path>/<32 hexadecimal digits>  a double barrier: one who has come
<path>/ready                    enough have come
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

from zab.core.errors import ConfigError
from zab.recipes.holding import Held, Holdable, holding
from zab.recipes.nodes import create_own, giving_back, identifier_of, remove
from zab.recipes.settings import DEFAULT_RECIPES, RecipeSettings
from zab.runtime.session.api import Session
from zab.runtime.session.watch import Event, Watch
from zab.store.node import Stat
from zab.store.paths import child_of

_READY: Final = "ready"


class Barrier:
    """In the way of all who wait, until somebody removes it. It stays when its maker goes."""

    def __init__(self, session: Session, path: str, *, settings: RecipeSettings = DEFAULT_RECIPES) -> None:
        self.session = session
        self.path = path
        self.settings = settings

    async def create(self) -> None:
        """That it is there already is no error."""
        await self.session.ensure_path(self.path, self.settings.acl)

    async def remove(self) -> bool:
        """Returns whether there was one."""
        return await remove(self.session, self.path)

    async def wait(self) -> None:
        """Until there is none."""
        async with self.session.watcher() as events:
            while await self.session.exists(self.path, watch=events) is not None:
                await events.take()


class DoubleBarrier(Holdable):
    """A block that begins when `count` have come to it, and ends when all of them are through.

    One whose block fails or is cancelled does not wait for the others, nor they for it. kazoo's double barriers of the
    path take part.
    """

    def __init__(
        self,
        session: Session,
        path: str,
        count: int,
        identifier: str = "",
        *,
        settings: RecipeSettings = DEFAULT_RECIPES,
    ) -> None:
        if count < 1:
            raise ConfigError(f"at least one must come to a barrier, not {count}")
        super().__init__(session, path, settings)
        self.count = count
        self.identifier = identifier_of(identifier)
        self._ready = child_of(path, _READY)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Held]:
        """Enter when enough others have come, and leave when all do."""
        session, settings = self.session, self.settings
        name = uuid4().hex
        path = child_of(self.path, name)
        left = False

        async def leave() -> bool:
            return left or await remove(session, path)

        async with session.watcher() as events, giving_back(session, path, settings, leave):
            stat = await create_own(session, path, self.identifier.encode(), settings.acl)
            await self._enter(stat, events)
            async with holding(session, path, events, settings):
                yield Held(path, stat.czxid)
            await self._leave(name, events)
            left = True

    async def _enter(self, mine: Stat, events: Watch) -> None:
        session = self.session
        while True:
            ready = await session.exists(self._ready, watch=events)
            if ready is not None and ready.czxid > mine.czxid:
                return
            if len(await self._there()) >= self.count:
                await session.ensure_path(self._ready, self.settings.acl)
                return
            if ready is not None:
                await remove(session, self._ready)  # those for whom it was made are gone, and did not clean up
            elif any(event.event is Event.CREATED and event.path == self._ready for event in await events.take()):
                return  # whoever is quick may have removed it already

    async def _leave(self, mine: str, events: Watch) -> None:
        """The first in the order of names stays until the last has gone; the others wait for the first.

        Only for those of this round: who is quick may come again before others have seen that all were through.
        """
        session = self.session
        await remove(session, self._ready)
        round_ = await self._there()
        while True:
            there = sorted(round_ & await self._there())
            if there == [mine]:
                await remove(session, child_of(self.path, mine))
                return
            if not there:
                return
            other = there[-1] if there[0] == mine else there[0]
            if mine in there and there[0] != mine:
                await remove(session, child_of(self.path, mine))
            if await session.exists(child_of(self.path, other), watch=events) is not None:
                await events.take()

    async def _there(self) -> set[str]:
        return set(await self.session.children(self.path)) - {_READY}
