"""Node operations shared by several recipes, safe under lost connections and cancellation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import trio

from zab.core.errors import OutcomeUnknown, Stopped, ZabError
from zab.recipes.recipe_errors import Lost
from zab.recipes.recipe_settings import RecipeSettings
from zab.session.api import Session
from zab.session.session_errors import NodeExists, NoNode, NotReadOnly, SessionExpired
from zab.session.state import SessionState
from zab.store.acl import Acl
from zab.store.paths import child_of, parent_of
from zab.store.znode import Stat


def identifier_of(identifier: str) -> str:
    """Return the identifier; raise `TypeError` if it is not text."""
    given: object = identifier
    if not isinstance(given, str):
        raise TypeError(f"an identifier must be text, not {type(given).__name__}")
    return identifier


async def create_own(session: Session, path: str, data: bytes, acl: Acl) -> Stat:
    """Create an ephemeral node and return its stat. Raise `NodeExists` for a node that this session does not own.

    Missing parents are created as plain nodes, not as containers: other clients rely on them to stay.
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
                return found  # made by an attempt whose reply was lost
            if found is not None:
                raise
        else:
            return stat


async def remove(session: Session, path: str) -> bool:
    """Delete a node. Return False only if it is certain that this call did not delete it."""
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
async def removing(
    session: Session, path: str, settings: RecipeSettings, give: Callable[[], Awaitable[bool]] | None = None
) -> AsyncIterator[None]:
    """Remove the node, or call `give`, at the end of the block, even if the block failed or was cancelled.

    A block that succeeded still ends with `Lost` if another client has deleted the node, the session has ended, or the
    store cannot be reached in time. If the store cannot be reached in time, a background task keeps trying for as long
    as the session lasts: a session that survives must not keep a node that is no longer held.
    """

    async def give_back() -> bool:
        while True:
            try:
                return await remove(session, path) if give is None else await give()
            except NotReadOnly:  # nothing was changed, and the session looks for a server with a quorum
                await _connected(session)

    async def end_of_block(patience_ms: float) -> None:
        there = False
        try:
            with trio.move_on_after(patience_ms / 1000, shield=True) as patience:
                there = await give_back()
        except (SessionExpired, Stopped) as error:
            raise Lost(f"{path}: the session ended before the node was removed") from error
        if patience.cancelled_caught:
            trio.lowlevel.spawn_system_task(_in_background, give_back)
            raise Lost(f"{path}: the store could not be reached to remove the node; a background task keeps trying")
        if not there:
            raise Lost(f"{path} was deleted by another client")

    try:
        yield
    except BaseException as error:
        try:
            await end_of_block(_patience_ms(session, settings, lost=isinstance(error, Lost)))
        except ZabError:
            pass  # the earlier error says more
        raise
    await end_of_block(_patience_ms(session, settings))


def _patience_ms(session: Session, settings: RecipeSettings, *, lost: bool = False) -> float:
    """Return the longest wait for the store at a block's end: `leave_ms`, by default the session's timeout.

    Without a connection to a server with a quorum, the wait ends at the latest when the session may be over; it is 0 if
    the node is `lost`.
    """
    patience_ms = session.timeout_ms if settings.leave_ms is None else settings.leave_ms
    if session.state is SessionState.CONNECTED:
        return patience_ms
    left_ms = 0.0 if lost else (session.last_received_at - trio.current_time()) * 1000 + session.timeout_ms
    return max(0.0, min(patience_ms, left_ms))


async def _in_background(give_back: Callable[[], Awaitable[bool]]) -> None:
    """Keep trying to remove a node. The task ends with the session at the latest, as every call does."""
    try:
        await give_back()
    except ZabError:
        pass


async def _connected(session: Session) -> None:
    """Wait until the session is connected to a server with a quorum, or is over."""
    async for state in session.states():
        if state is SessionState.CONNECTED:
            return


async def names_of(session: Session, path: str, marker: str = "") -> list[str]:
    """Return the children's names that contain the marker; an empty list if the node does not exist."""
    try:
        return [name for name in await session.children(path) if marker in name]
    except NoNode:
        return []


async def texts(session: Session, path: str, marker: str = "") -> list[str]:
    """Return, as text, the data of the children with the marker in their names."""
    return await texts_of(session, path, await names_of(session, path, marker))


async def texts_of(session: Session, path: str, names: Iterable[str]) -> list[str]:
    """Return the data of these children as text. A child that does not exist is left out."""
    found = []
    for name in names:
        try:
            data, _ = await session.get(child_of(path, name))
        except NoNode:
            continue
        found.append((data or b"").decode(errors="replace"))
    return found
