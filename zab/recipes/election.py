"""Election: one candidate leads, and the others queue. The leader is the holder of a lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar, TypeVarTuple

from zab.core.argument_names import checks_methods
from zab.recipes.holding import Held
from zab.recipes.lock import Lock
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


@checks_methods
class Election:
    """An election of one leader. It shares its nodes with kazoo's elections and locks.

    identifier  the name of this candidate, for other clients to read
    """

    def __init__(
        self, session: Session, path: str, identifier: str = "", *, settings: RecipeSettings = DEFAULT_RECIPES
    ) -> None:
        self._lock = Lock(session, path, identifier, settings=settings)

    def candidate(self) -> AbstractAsyncContextManager[Held]:
        """Wait until elected; lead during the block.

        If the leadership is lost, or may be lost, cancel the block and raise `Lost`.
        """
        return self._lock.hold()

    async def run(self, lead: Callable[[*Arguments], Awaitable[T]], *arguments: *Arguments) -> T:
        """Wait until elected, lead by calling `lead(*arguments)`, resign when it returns, and return its result.

        If the leadership is lost, or may be lost, cancel `lead` and raise `Lost`.
        """
        async with self._lock.hold():
            return await lead(*arguments)

    async def contenders(self) -> list[str]:
        """Return the identifiers in the order of the queue; the leader comes first."""
        return await self._lock.contenders()

    async def leader(self) -> str | None:
        """Return the identifier of the candidate that leads or is about to; None if there is no candidate."""
        found = await self._lock.contenders()
        return found[0] if found else None
