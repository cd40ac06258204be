"""Create paths and delete trees in few requests: changes share requests, and the reads of a tree run concurrently.

Each request succeeds as a whole or not at all. Other clients may change the same nodes meanwhile. If such a change
makes a request fail, the deletion of a tree repeats the request without the changed node. The creation of a path first
checks again which nodes are missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

import trio

from zab.core.errors import OutcomeUnknown
from zab.session.multi import Multi
from zab.session.session_errors import NodeExists, NoNode, NotEmpty
from zab.store.acl import Acl
from zab.store.error_codes import ErrorCode
from zab.store.paths import ROOT, ancestors_of, child_of

T = TypeVar("T")

PART_OPERATIONS_MAX: Final = 128
PART_BYTES_MAX: Final = 64 << 10
"""The maximum number of bytes of the paths in one request; far below the limit of servers (`jute.maxbuffer`).

A longer path is in a request of its own.
"""
READS_MAX: Final = 128
"""The maximum number of concurrent reads."""


class Nodes(Protocol):
    """The operations of a session that this module needs."""

    async def exists(self, path: str) -> object: ...
    async def create(self, path: str, *, acl: Acl) -> str: ...
    async def children(self, path: str) -> list[str]: ...
    async def multi(self, operations: Multi) -> object: ...


async def ensure_path(session: Nodes, path: str, acl: Acl, make_root: Callable[[Acl], Awaitable[bool]]) -> None:
    if await session.exists(path) is not None:
        return
    whole = line = [*reversed(ancestors_of(path)), path]
    while missing := line[await _there(session, line) :]:
        if missing[0] == ROOT:
            if not await make_root(acl):
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
            line = whole  # another client has changed a node, or the outcome is unknown: check the whole path
        else:
            line = missing[len(part) :]


async def _there(session: Nodes, line: Sequence[str]) -> int:
    """Return the number of these nodes that exist. Each node is the parent of the next."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high) // 2
        if await session.exists(line[middle]) is None:
            high = middle
        else:
            low = middle + 1
    return low


async def delete_tree(session: Nodes, path: str) -> None:
    while True:
        levels = await _levels(session, path)
        if not levels:
            return
        below_first = (node for level in reversed(levels) for node in level)
        for part in _parts(below_first):
            await _delete(session, part)


async def _levels(session: Nodes, path: str) -> list[list[str]]:
    """Return the nodes of the tree by their distance from its root; no level if the root does not exist."""
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


async def _delete(session: Nodes, part: list[str]) -> None:
    """Delete these nodes, except those that are gone or have children by now. Return early if the outcome is unknown.

    The next read of the tree shows what remains.
    """
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
    """Do the work for all items, a bounded number at a time.

    The first error stops the loop; it is raised once all started work is done.
    """
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
