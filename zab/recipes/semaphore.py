"""A semaphore: a number of leases. One waiter waits for the next lease; the others queue after it.

<path>                          the number of leases, as text
<path>/<32 hexadecimal digits>  a lease
<path>-__lock__                 the queue of the waiters
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from zab.core.argument_names import checks_methods
from zab.core.errors import ConfigError, OutcomeUnknown
from zab.recipes.holding import Held, Holdable, holding
from zab.recipes.lock import WRITER, Lock
from zab.recipes.nodes import create_own, identifier_of, removing, texts
from zab.recipes.recipe_errors import Taken
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session
from zab.session.session_errors import NodeExists, NoNode
from zab.store.paths import child_of, parent_of


@checks_methods
class Semaphore(Holdable):
    """A semaphore admits as many holders as it has leases, in order of arrival. kazoo's may use the same nodes.

    All users must name the same number of leases. To change the number, delete the node while no lease is held. Use the
    semaphore as `async with`, or call `hold`.

    identifier  the name of this holder, for other clients to read
    leases      the number of leases; less than 1 raises `ConfigError`
    """

    def __init__(
        self,
        session: Session,
        path: str,
        identifier: str = "",
        *,
        leases: int = 1,
        settings: RecipeSettings = DEFAULT_RECIPES,
    ) -> None:
        if leases < 1:
            raise ConfigError(f"a semaphore must have at least one lease, not {leases}")
        super().__init__(session, path, settings)
        self.identifier = identifier_of(identifier)
        self.leases = leases
        self._waiters = Lock(session, f"{path}-{WRITER}", identifier, settings=settings)

    @asynccontextmanager
    async def hold(self, *, wait: bool = True) -> AsyncIterator[Held]:
        """Hold a lease for the block. If not `wait`, raise `Taken` instead of waiting.

        Raise `ConfigError` if the semaphore's node holds another number of leases. If the lease is lost, or may be
        lost, cancel the block and raise `Lost`.
        """
        session, settings = self.session, self.settings
        await self._check_leases()
        path = child_of(self.path, uuid4().hex)
        async with session.watcher() as events, removing(session, path, settings):
            async with self._waiters.hold(wait=wait):
                while len(await session.children(self.path, watch=events)) >= self.leases:
                    if not wait:
                        raise Taken(f"{self.path}: all {self.leases} leases are taken")
                    await events.take()
                stat = await create_own(session, path, self.identifier.encode(), settings.acl)
            async with holding(session, path, events, settings):
                yield Held(path, stat.czxid)

    async def _check_leases(self) -> None:
        """Create the node with the number of leases if it is missing. Raise `ConfigError` if it has another."""
        session, acl = self.session, self.settings.acl
        while True:
            try:
                data, _ = await session.get(self.path)
                break
            except NoNode:
                try:
                    await session.create(self.path, b"%d" % self.leases, acl=acl)
                except (NodeExists, OutcomeUnknown):
                    pass
                except NoNode:
                    await session.ensure_path(parent_of(self.path), acl)
        try:
            leases = int(data or b"")
        except ValueError:
            return  # the node holds something other than a number of leases
        if leases != self.leases:
            raise ConfigError(f"the semaphore at {self.path} has {leases} leases, not {self.leases}")

    async def holders(self) -> list[str]:
        """Return the identifiers of the lease holders, in no particular order."""
        return await texts(self.session, self.path)
