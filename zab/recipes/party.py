"""A party: the set of members that are present.

<path>/<32 hexadecimal digits>__party__     Party: the identifier is the node's data
<path>/<32 hexadecimal digits>-<identifier> ShallowParty: the identifier is in the name, so one read lists all
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

from zab.core.argument_names import checks_methods
from zab.core.errors import ConfigError
from zab.recipes.holding import Held, Holdable, holding
from zab.recipes.nodes import create_own, identifier_of, names_of, removing, texts
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session
from zab.store.paths import child_of, name_is_valid

_NAME: Final = "__party__"


@checks_methods
class _Party(Holdable):
    """A set of members. A subclass decides how the nodes are named, and where `members` reads the identifiers."""

    def __init__(
        self, session: Session, path: str, identifier: str = "", *, settings: RecipeSettings = DEFAULT_RECIPES
    ) -> None:
        super().__init__(session, path, settings)
        self.identifier = identifier_of(identifier)

    @abstractmethod
    def _name(self) -> str: ...

    @abstractmethod
    async def members(self) -> list[str]:
        """Return the members' identifiers, in no order. The caller need not be a member."""

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Held]:
        """Be a member for as long as the block lasts.

        If the membership is lost, or may be lost, cancel the block and raise `Lost`.
        """
        session, settings = self.session, self.settings
        path = child_of(self.path, self._name())
        async with session.watcher() as events, removing(session, path, settings):
            stat = await create_own(session, path, self.identifier.encode(), settings.acl)
            async with holding(session, path, events, settings):
                yield Held(path, stat.czxid)


class Party(_Party):
    """A party whose identifiers may be any text. It shares its nodes with kazoo's party.

    Use it as `async with`, or call `hold`, to be a member; `identifier` is the name of this member.
    """

    def _name(self) -> str:
        return uuid4().hex + _NAME

    async def members(self) -> list[str]:
        """Return the members' identifiers, in no order. The caller need not be a member."""
        return await texts(self.session, self.path, _NAME)


class ShallowParty(_Party):
    """A party whose identifiers are part of the nodes' names. It shares its nodes with kazoo's shallow party.

    Use it like `Party`. An identifier that cannot be part of a node's name raises `ConfigError`.
    """

    def __init__(
        self, session: Session, path: str, identifier: str = "", *, settings: RecipeSettings = DEFAULT_RECIPES
    ) -> None:
        if "/" in identifier_of(identifier) or (identifier and not name_is_valid(f"-{identifier}")):
            raise ConfigError(f"{identifier!r} cannot be part of a node's name")
        super().__init__(session, path, identifier, settings=settings)

    def _name(self) -> str:
        return f"{uuid4().hex}-{self.identifier}"

    async def members(self) -> list[str]:
        """Return the members' identifiers, in no order. The caller need not be a member."""
        return [name.partition("-")[2] for name in await names_of(self.session, self.path)]
