"""Caches: copies of nodes in memory, kept up to date, with an iterator over their changes.

A cache sets its watch before it reads, so no change is missed. It does not trust events but reads the nodes that they
name, and reads all cached nodes again after a lost connection. One session never reads an older state after a newer
one, and a cache never has two reads of one node under way, so the cache never goes back in time.

An iterator yields, for each changed node, its state at the previous yield and its state now. States in between are
skipped: a slow consumer needs no queue and is never cut off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType, TracebackType
from typing import Self
from weakref import WeakSet

import trio
from attrs import frozen

from zab.core.argument_names import checks_methods
from zab.core.errors import LocalProtocolError
from zab.recipes.guarded_block import guarded_by
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session
from zab.session.session_errors import EventsLost, NoNode
from zab.session.watch import Event, Watch, WatchEvent
from zab.store.paths import child_of
from zab.store.znode import Stat


@frozen
class Cached:
    """A node as it was last read.

    Changes of its ACL and of its list of children cause no read, so `aversion`, `num_children`, `cversion` and `pzxid`
    may be outdated.

    data  None if the node was created without data
    stat  the node's metadata at that read
    """

    data: bytes | None
    stat: Stat


@frozen
class Change:
    """A change of a node.

    path    the node's whole path
    before  the node as this iterator last yielded it; None at the first yield, and after the yield of a deletion
    now     the node as it was last read; None if it was deleted
    """

    path: str
    before: Cached | None
    now: Cached | None


class Changes:
    """An async iterator over the present nodes, then over the changes of nodes. It ends with the cache's block."""

    def __init__(self, cache: _Cache) -> None:
        self._cache = cache
        self._known: dict[str, Cached] = {}
        """The nodes as they were last yielded."""
        self._pending = dict.fromkeys(cache._nodes)
        """The names of nodes that may have changed since they were last yielded, in the order of their first change."""
        self._wake = trio.Event()

    def _notify(self, name: str | None) -> None:
        if name is not None:
            self._pending[name] = None
        self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        await trio.lowlevel.checkpoint()
        while True:
            while self._pending:
                name = next(iter(self._pending))
                del self._pending[name]
                before, now = self._known.pop(name, None), self._cache._nodes.get(name)
                if now is not None:
                    self._known[name] = now
                if now is not before:
                    return Change(self._cache._path_of(name), before, now)
            if not self._cache._open:
                raise StopAsyncIteration
            self._wake = trio.Event()
            await self._wake.wait()


class _Cache:
    """The nodes at certain depths below a path. Names are relative to that path; the path's own name is empty."""

    def __init__(self, session: Session, path: str, depths: range, settings: RecipeSettings) -> None:
        self.session = session
        self.path = path
        self._depths = depths
        """The depths of the cached nodes below `path`, which has depth 0."""
        self._settings = settings
        self._nodes: dict[str, Cached] = {}
        """The nodes as they were last read."""
        self._changes: WeakSet[Changes] = WeakSet()
        """The iterators to notify. Held weakly: an abandoned iterator is removed."""
        self._loaded = trio.Event()
        """Set when all nodes were read once."""
        self._open = False
        """True from the first complete read until the end of the block."""
        self._entered: AbstractAsyncContextManager[None] | None = None

    def changes(self) -> Changes:
        """Iterate over the present nodes, then over the changes of nodes. Each task may have an iterator of its own.

        A present node is yielded as a `Change` whose `before` is None. The iteration ends with the cache's block, and
        at once if the block has not begun.
        """
        changes = Changes(self)
        self._changes.add(changes)
        return changes

    async def __aenter__(self) -> Self:
        """Wait until all nodes are read. If a read fails or the session ends, cancel the block and raise the error.

        A cache can be entered once only: a second time raises `LocalProtocolError`.
        """
        if self._entered is not None:
            raise LocalProtocolError(f"the cache of {self.path} can be entered once only")
        self._entered = self._running()
        await self._entered.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._entered is not None
        return await self._entered.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        try:
            async with guarded_by(self._follow):
                await self._loaded.wait()
                yield
        finally:
            self._open = False
            for changes in self._changes:
                changes._notify(None)

    # -- events ------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                async with self.session.watch(self.path, recursive=self._depths[-1] > 0) as events:
                    await self._load()
                    self._open = True
                    self._loaded.set()
                    await self._listen(events)
            except EventsLost:
                pass  # events were lost, so read all nodes again

    async def _listen(self, events: Watch) -> None:
        """Read the nodes that events name, until the watch is removed."""
        while True:
            dirty: dict[str, WatchEvent] = {}
            for event in await events.take():
                if event.event is Event.PERSISTENT_WATCH_REMOVED:
                    return
                if event.event is Event.MAYBE_MISSED:
                    await self._load()
                elif event.event is not Event.CHILDREN_CHANGED:
                    name = self._name_of(event.path)
                    if self._depth(name) in self._depths and self._is_news(name, event):
                        dirty[name] = event
            await self._read(dirty)

    def _is_news(self, name: str, event: WatchEvent) -> bool:
        """Return whether the event may be newer than the node that was read. Events of old servers have no zxid."""
        cached = self._nodes.get(name)
        return cached is None or event.zxid < 0 or event.zxid > cached.stat.mzxid

    # -- reading -----------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Read all nodes, one depth after the other, and remove those that no longer exist."""
        found: set[str] = set()
        level = [""]
        for depth in range(self._depths.stop):
            if not level:
                break
            if depth in self._depths:
                found.update(level)
                await self._read(level)
            if depth + 1 < self._depths.stop:
                below: list[str] = []

                async def list_one(name: str, below: list[str] = below) -> None:
                    try:
                        names = await self.session.children(self._path_of(name))
                    except NoNode:
                        return
                    below += [f"{name}/{child}" if name else child for child in names]

                await self._each(list_one, level)
                level = below
        for name in sorted(self._nodes.keys() - found):
            self._set(name, None)

    async def _read(self, names: Iterable[str]) -> None:
        async def read(name: str) -> None:
            try:
                self._set(name, Cached(*await self.session.get(self._path_of(name))))
            except NoNode:
                self._set(name, None)

        await self._each(read, names)

    async def _each(self, work: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
        """Do the work for all names, up to `loads_max` at a time. Raise the first error."""
        todo = list(names)
        failed: list[Exception] = []

        async def worker() -> None:
            try:
                while todo:
                    await work(todo.pop())
            except Exception as error:
                failed.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(min(len(todo), self._settings.loads_max)):
                nursery.start_soon(worker)
        if failed:
            raise failed[0]

    def _set(self, name: str, now: Cached | None) -> None:
        if now == self._nodes.get(name):
            return
        if now is None:
            del self._nodes[name]
        else:
            self._nodes[name] = now
        for changes in self._changes:
            changes._notify(name)

    # -- names -------------------------------------------------------------------------------------

    def _path_of(self, name: str) -> str:
        return child_of(self.path, name) if name else self.path

    def _name_of(self, path: str) -> str:
        return path.removeprefix(self.path).lstrip("/")

    def _depth(self, name: str) -> int:
        return name.count("/") + 1 if name else 0


@checks_methods
class NodeCache(_Cache):
    """A cache of one node, which need not exist."""

    def __init__(self, session: Session, path: str, *, settings: RecipeSettings = DEFAULT_RECIPES) -> None:
        super().__init__(session, path, range(1), settings)

    @property
    def node(self) -> Cached | None:
        """The node as it was last read; None if there is none."""
        return self._nodes.get("")

    @property
    def value(self) -> bytes | None:
        """The node's data; None if it has none, or if there is no node."""
        node = self.node
        return None if node is None else node.data


@checks_methods
class ChildrenCache(_Cache):
    """A cache of the children of a node. The node may be missing. Events from deeper nodes are ignored."""

    def __init__(self, session: Session, path: str, *, settings: RecipeSettings = DEFAULT_RECIPES) -> None:
        super().__init__(session, path, range(1, 2), settings)

    @property
    def children(self) -> Mapping[str, Cached]:
        """The children by name: a view that changes with the nodes."""
        return MappingProxyType(self._nodes)


@checks_methods
class TreeCache(_Cache):
    """A cache of a node and its descendants, down to the depth `depth_max` below it. The node need not exist."""

    def __init__(
        self, session: Session, path: str, *, depth_max: int = 100, settings: RecipeSettings = DEFAULT_RECIPES
    ) -> None:
        super().__init__(session, path, range(depth_max + 1), settings)

    @property
    def nodes(self) -> Mapping[str, Cached]:
        """The nodes by their path relative to the cache's path, without a leading slash: a view that changes with them.

        The relative path of the cache's own node is empty.
        """
        return MappingProxyType(self._nodes)
