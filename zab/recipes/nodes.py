"""What every recipe does with nodes, so that it holds when connections are lost and callers are cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import trio

from zab.core.errors import ZabError
from zab.recipes.errors import Lost
from zab.recipes.settings import RecipeSettings
from zab.runtime.errors import OutcomeUnknown, Stopped
from zab.runtime.session.api import Session
from zab.runtime.session.errors import NodeExists, NoNode, NotReadOnly, SessionExpired
from zab.runtime.session.state import SessionState
from zab.store.acl import Acl
from zab.store.node import Stat
from zab.store.paths import child_of, parent_of


def identifier_of(identifier: str) -> str:
    given: object = identifier
    if not isinstance(given, str):
        raise TypeError(f"an identifier is text, not {type(given).__name__}")
    return identifier


async def create_own(session: Session, path: str, data: bytes, acl: Acl) -> Stat:
    """An ephemeral node. That it is there already is an error only if it belongs to somebody else.

    Nodes above it are made as plain ones, not as containers: other clients rely on it that what they have seen stays.
    """
    while True:
        try:
            _, stat = await session.create_with_stat(path, data, ephemeral=True, acl=acl)
        except NoNode:
            await session.ensure_path(parent_of(path), acl)
        except OutcomeUnknown:
            continue
        except NodeExists:
            found = await session.exists(path)
            if found is not None and found.ephemeral_owner == session.id:
                return found  # made by an attempt whose answer was lost
            if found is not None:
                raise
        else:
            return stat


async def remove(session: Session, path: str) -> bool:
    """Returns whether it can have been this call that removed it."""
    certain = True
    while True:
        try:
            await session.delete(path)
        except NoNode:
            return not certain
        except OutcomeUnknown:
            certain = False
        else:
            return True


@asynccontextmanager
async def giving_back(
    session: Session, path: str, settings: RecipeSettings, give: Callable[[], Awaitable[bool]] | None = None
) -> AsyncIterator[None]:
    """At the end of the block the node is removed, or whatever `give` does, also by who is cancelled or has failed.

    A block that went well all the same ends with `Lost` if nobody can say that the node was there to the end. Where
    the store cannot be told in time, it is told behind the back of who leaves, for as long as the session lasts: a
    session that is saved in the end must not keep what nobody has any more.
    """

    async def given() -> bool:
        while True:
            try:
                return await remove(session, path) if give is None else await give()
            except NotReadOnly:  # nothing was done; a better server is looked for
                await _connected(session)

    async def there_until_now(patience_ms: float) -> None:
        there = False
        try:
            with trio.move_on_after(patience_ms / 1000, shield=True) as patience:
                there = await given()
        except (SessionExpired, Stopped) as error:
            raise Lost(f"{path}: the session was over before it was given back") from error
        if patience.cancelled_caught:
            trio.lowlevel.spawn_system_task(_sooner_or_later, given)
            raise Lost(f"{path}: the store could not be told that it is given back; it will be, or the session ends")
        if not there:
            raise Lost(f"{path} was deleted by somebody else")

    try:
        yield
    except BaseException as error:
        try:
            await there_until_now(_patience_ms(session, settings, lost=isinstance(error, Lost)))
        except ZabError:
            pass  # what happened before says more
        raise
    await there_until_now(_patience_ms(session, settings))


def _patience_ms(session: Session, settings: RecipeSettings, *, lost: bool = False) -> float:
    """How long who leaves waits for the store: never beyond the session's time, nor for what is lost anyway."""
    patience_ms = session.timeout_ms if settings.leave_ms is None else settings.leave_ms
    if session.state is SessionState.CONNECTED:
        return patience_ms
    left_ms = 0.0 if lost else (session.heard_at - trio.current_time()) * 1000 + session.timeout_ms
    return max(0.0, min(patience_ms, left_ms))


async def _sooner_or_later(given: Callable[[], Awaitable[bool]]) -> None:
    """Ends with the session at the latest: then every call of it does."""
    try:
        await given()
    except ZabError:
        pass


async def _connected(session: Session) -> None:
    async for state in session.states():
        if state is SessionState.CONNECTED:
            return


async def names_of(session: Session, path: str, marker: str = "") -> list[str]:
    """Of the children with this in their name. None, if there is no such node."""
    try:
        return [name for name in await session.children(path) if marker in name]
    except NoNode:
        return []


async def texts(session: Session, path: str, marker: str = "") -> list[str]:
    """What these children wrote of themselves."""
    return await texts_of(session, path, await names_of(session, path, marker))


async def texts_of(session: Session, path: str, names: Iterable[str]) -> list[str]:
    found = []
    for name in names:
        try:
            data, _ = await session.get(child_of(path, name))
        except NoNode:
            continue
        found.append((data or b"").decode(errors="replace"))
    return found
