"""A queue of ephemeral sequential nodes: first come, first served, and each waiter watches only one other.

    <path>/<32 hexadecimal digits><marker><10 digits>

The leading digits are random. If the reply to the creation is lost, a waiter finds its node by these digits. So no
waiter is in the queue twice or for ever. The marker tells the kind of waiter; a recipe names the markers of the waiters
that it must wait for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from uuid import uuid4

from zab.core.errors import OutcomeUnknown
from zab.recipes.nodes import names_of, remove, texts_of
from zab.recipes.recipe_errors import Lost, Taken
from zab.recipes.recipe_settings import RecipeSettings
from zab.session.api import Session
from zab.session.session_errors import NoNode
from zab.session.watch import Watch
from zab.store.paths import child_of
from zab.store.znode import Stat


def in_order(names: Iterable[str], markers: Collection[str]) -> list[tuple[int, str]]:
    """Return (number, name) of all nodes with one of these markers, in order."""
    ours = re.compile(f"(?:{'|'.join(map(re.escape, markers))})(-?\\d{{10}})$")
    return sorted((int(match[1]), name) for name in names if (match := ours.search(name)))


async def identifiers(session: Session, path: str, markers: Collection[str]) -> list[str]:
    """Return the identifiers of the waiters with these markers, in the order of the queue."""
    waiters = in_order(await names_of(session, path), markers)
    return await texts_of(session, path, [name for _, name in waiters])


class Place:
    """The place of one waiter in the queue. It is used once."""

    def __init__(self, session: Session, path: str, marker: str, data: bytes, settings: RecipeSettings) -> None:
        self.token = -1
        """The czxid of the node; -1 before `join`."""
        self._session = session
        self._queue = path
        self._marker = marker
        self._id = uuid4().hex
        self._data = data
        self._settings = settings
        self._asked = False
        """True if a node of this place may exist."""
        self._name: str | None = None
        """The name of the node; None before `join`."""
        self._number = 0

    @property
    def path(self) -> str:
        assert self._name is not None, "`join` must be called first"
        return child_of(self._queue, self._name)

    async def join(self) -> None:
        """Create the node at the end of the queue."""
        session, acl = self._session, self._settings.acl
        while self._name is None:
            self._asked = True
            try:
                created, stat = await session.create_with_stat(
                    child_of(self._queue, self._id + self._marker), self._data, ephemeral=True, sequential=True, acl=acl
                )
            except NoNode:
                await session.ensure_path(self._queue, acl)
            except OutcomeUnknown:
                await self._find()
            else:
                self._joined(created, stat)

    async def _find(self) -> None:
        """Find the node of an earlier attempt whose reply was lost."""
        found = await self._session.find_token(self._queue, self._id)
        stat = None if found is None else await self._session.exists(found)
        if found is not None and stat is not None:
            self._joined(found, stat)

    def _joined(self, path: str, stat: Stat) -> None:
        self._name = path.rpartition("/")[2]
        self._number = int(self._name[len(self._id + self._marker) :])
        self.token = stat.czxid

    async def wait(self, before: Collection[str], events: Watch, *, patient: bool = True) -> None:
        """Block until no node with one of these markers is before this one.

        Raise `Taken` instead of waiting if not `patient`, and `Lost` if this node was deleted.
        """
        session = self._session
        while True:
            names = await session.children(self._queue)
            if self._name not in names:
                raise Lost(f"{self.path}, a place in a queue, was deleted by another client")
            others = [name for number, name in in_order(names, before) if number < self._number]
            if not others:
                return
            if not patient:
                raise Taken(f"{self._queue} is taken")
            try:
                await session.get(child_of(self._queue, others[-1]), watch=events)
            except NoNode:
                continue
            await events.take()

    async def leave(self) -> bool:
        """Remove the node, if there is one. Return False only if it is certain that another client has removed it."""
        if self._name is None and self._asked:
            await self._find()
        return self._name is None or await remove(self._session, self.path)
