"""Election: one leads, the others stand in line. It is a lock that is called by what it is for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar, TypeVarTuple

from zab.recipes.holding import Held
from zab.recipes.lock import Lock
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class Election:
    """kazoo's elections, and its locks, of the same path take part."""

    def __init__(
        self, session: Session, path: str, identifier: str = "", *, settings: RecipeSettings = DEFAULT_RECIPES
    ) -> None:
        self._lock = Lock(session, path, identifier, settings=settings)

    def candidate(self) -> AbstractAsyncContextManager[Held]:
        """Waits until elected. The block leads; it is cancelled, and `Lost` is raised, when it leads no more."""
        return self._lock.hold()

    async def run(self, lead: Callable[[*Arguments], Awaitable[T]], *arguments: *Arguments) -> T:
        """Waits until elected, leads by calling this, and steps back when it returns."""
        async with self._lock.hold():
            return await lead(*arguments)

    async def contenders(self) -> list[str]:
        """Identifiers, in the order of the line."""
        return await self._lock.contenders()

    async def leader(self) -> str | None:
        """Return the identifier of the candidate that leads or is about to."""
        found = await self._lock.contenders()
        return found[0] if found else None
