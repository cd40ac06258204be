"""Barriers: a plain one that exists or not, and a double one that opens when enough participants have entered.

<path>                          a barrier: it blocks as long as its node exists

<path>/<32 hexadecimal digits>  a double barrier: one participant that has entered
<path>/ready                    enough participants have entered
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

from zab.core.argument_names import checks_methods
from zab.core.errors import ConfigError
from zab.recipes.holding import Held, Holdable, holding
from zab.recipes.nodes import create_own, identifier_of, remove, removing
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session
from zab.session.watch import Event, Watch
from zab.store.paths import child_of
from zab.store.znode import Stat

_READY: Final = "ready"


@checks_methods
class Barrier:
    """A node that blocks the waiting tasks of all clients until a client removes it.

    It outlives its creator's session.
    """

    def __init__(self, session: Session, path: str, *, settings: RecipeSettings = DEFAULT_RECIPES) -> None:
        self.session = session
        self.path = path
        self.settings = settings

    async def create(self) -> None:
        """Create the barrier, unless it exists."""
        await self.session.ensure_path(self.path, self.settings.acl)

    async def remove(self) -> bool:
        """Remove the barrier. Return False if it did not exist.

        After a lost reply, it may return True although another client removed the barrier.
        """
        return await remove(self.session, self.path)

    async def wait(self) -> None:
        """Block until no barrier exists."""
        async with self.session.watcher() as events:
            while await self.session.exists(self.path, watch=events) is not None:
                await events.take()


@checks_methods
class DoubleBarrier(Holdable):
    """A block that begins when `count` participants have entered, and ends when all of them have finished.

    Use it as `async with`, or call `hold`. A participant whose block fails or is cancelled waits for no other
    participant, and no other waits for it. kazoo's double barriers on the same path can take part.

    count       the number of participants, the same for all of them; less than 1 raises `ConfigError`
    identifier  the data of this participant's node, for other clients to read
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
            raise ConfigError(f"a barrier needs at least one participant, not {count}")
        super().__init__(session, path, settings)
        self.count = count
        self.identifier = identifier_of(identifier)
        self._ready = child_of(path, _READY)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Held]:
        """Enter when `count` participants have come, and leave when all participants do.

        If this participant's node is lost, or may be lost, cancel the block and raise `Lost`.
        """
        session, settings = self.session, self.settings
        name = uuid4().hex
        path = child_of(self.path, name)
        left = False

        async def leave() -> bool:
            return left or await remove(session, path)

        async with session.watcher() as events, removing(session, path, settings, leave):
            stat = await create_own(session, path, self.identifier.encode(), settings.acl)
            await self._enter(stat, events)
            async with holding(session, path, events, settings):
                yield Held(path, stat.czxid)
            await self._leave(name, events)
            left = True

    async def _enter(self, mine: Stat, events: Watch) -> None:
        """Wait for a ready node that is newer than this participant's node. The last participant to come creates it."""
        session = self.session
        while True:
            ready = await session.exists(self._ready, watch=events)
            if ready is not None and ready.czxid > mine.czxid:
                return
            if len(await self._participants()) >= self.count:
                await session.ensure_path(self._ready, self.settings.acl)
                return
            if ready is not None:
                await remove(session, self._ready)  # left by an earlier round
            elif any(event.event is Event.CREATED and event.path == self._ready for event in await events.take()):
                return  # a faster participant may have removed it already

    async def _leave(self, mine: str, events: Watch) -> None:
        """Remove this participant's node, and wait until all participants of this round have removed theirs.

        The participant with the lowest name waits for all others before it removes its own. Nodes that are created
        meanwhile do not count: a fast participant may enter the next round before the others have noticed the end.
        """
        session = self.session
        await remove(session, self._ready)
        round_ = await self._participants()
        while True:
            there = sorted(round_ & await self._participants())
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

    async def _participants(self) -> set[str]:
        return set(await self.session.children(self.path)) - {_READY}
