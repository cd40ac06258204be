"""Paths and trees, made and felled in few steps: what can go in one request does, and reads do not wait in line.

Others may be at work on the same nodes. So each part is done all or not at all, and where one fails because the tree
is not what it was a moment ago, it is looked at again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from zab.runtime.errors import OutcomeUnknown
from zab.runtime.session.errors import NodeExists, NoNode, NotEmpty
from zab.runtime.session.multi import Multi
from zab.store.acl import Acl
from zab.store.errors import ErrorCode
from zab.store.paths import ROOT, ancestors_of, child_of

if TYPE_CHECKING:
    from zab.runtime.session.api import Session

T = TypeVar("T")

PART_OPERATIONS_MAX: Final = 128
PART_BYTES_MAX: Final = 64 << 10
"""Of the paths in one request; far below what servers take (`jute.maxbuffer`)."""
READS_MAX: Final = 128
"""Under way at the same time."""


async def ensure_path(session: Session, path: str, acl: Acl) -> None:
    if await session.exists(path) is not None:
        return
    whole = line = [*reversed(ancestors_of(path)), path]
    while missing := line[await _there(session, line) :]:
        if missing[0] == ROOT:
            if not await session._make_root(acl):
                raise NoNode(ErrorCode.NO_NODE, ROOT)
            continue
        part = next(_parts(missing))
        try:
            if len(part) == 1:
                await session.create(part[0], acl=acl)
            else:
                creates = Multi()
                for each in part:
                    creates.create(each, acl=acl)
                await session.multi(creates)
        except (NodeExists, NoNode, OutcomeUnknown):
            line = whole  # somebody else is at it, or nobody knows
        else:
            line = missing[len(part) :]


async def _there(session: Session, line: Sequence[str]) -> int:
    """How many of these, each the parent of the next, are there."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high) // 2
        if await session.exists(line[middle]) is None:
            high = middle
        else:
            low = middle + 1
    return low


async def delete_tree(session: Session, path: str) -> None:
    while True:
        levels = await _levels(session, path)
        if not levels:
            return
        below_first = (node for level in reversed(levels) for node in level)
        for part in _parts(below_first):
            await _delete(session, part)


async def _levels(session: Session, path: str) -> list[list[str]]:
    """The node, those below it, those below these; nothing, if it is not there."""
    levels: list[list[str]] = []
    level = [path]
    while level:
        there: list[str] = []
        below: list[str] = []

        async def look(node: str, there: list[str] = there, below: list[str] = below) -> None:
            try:
                names = await session.children(node)
            except NoNode:
                return
            there.append(node)
            below += [child_of(node, name) for name in names]

        await _each(level, look)
        if there:
            levels.append(there)
        level = below
    return levels


async def _delete(session: Session, part: list[str]) -> None:
    """What stays, because it has children by now or because nobody knows, is found when the tree is looked at again."""
    while part:
        deletes = Multi()
        for node in part:
            deletes.delete(node)
        try:
            await session.multi(deletes)
        except (NoNode, NotEmpty) as error:
            if error.index is None:
                raise
            del part[error.index]
        except OutcomeUnknown:
            return
        else:
            return


def _parts(paths: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for path in paths:
        length = len(path.encode(errors="replace"))
        if part and (len(part) == PART_OPERATIONS_MAX or size + length > PART_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(path)
        size += length
    if part:
        yield part


async def _each(items: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
    """So many at a time. The first error ends it, as itself; what is under way is waited for."""
    failed: list[Exception] = []
    left = iter(items)

    async def some() -> None:
        for item in left:
            try:
                await work(item)
            except Exception as error:
                failed.append(error)
            if failed:
                return

    async with trio.open_nursery() as nursery:
        for _ in range(min(len(items), READS_MAX)):
            nursery.start_soon(some)
    if failed:
        raise failed[0]
