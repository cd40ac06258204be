"""Work on the store's nodes, carried out through a session.

All that is asked together is under way together, up to a bound; and what is only read, without a watch, goes many nodes
in one request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import zab
from kraft_controller.core.asks import Answer, Ask
from kraft_controller.core.names import Version
from kraft_controller.runtime.together import together
from kraft_controller.wire.asking import Asking
from kraft_controller.wire.reign import AnswersLost, Fence
from kraft_controller.wire.work import (
    Check,
    Children,
    Create,
    Delete,
    Done,
    Exists,
    Failed,
    Get,
    Listing,
    Multi,
    Node,
    Operation,
    Result,
    Set,
    Sync,
    Why,
    Work,
)

READS_MAX: Final = 200
"""So many nodes are read in one request. States are small: a reply is far from what one may be."""

T = TypeVar("T")

_WHY: Final = {
    zab.NoNode: Why.NO_NODE, zab.NodeExists: Why.EXISTS, zab.BadVersion: Why.BAD_VERSION, zab.NotEmpty: Why.NOT_EMPTY,
}  # fmt: skip


class Nodes:
    """`watch` hears, once each, of what was read with a watch."""

    def __init__(self, session: zab.Session, watch: zab.Watch) -> None:
        self._session = session
        self._watch = watch

    async def do(self, work: Work[T]) -> T:
        """To its end."""
        heard: Sequence[Result] | None = None
        while True:
            try:
                asked = next(work) if heard is None else work.send(heard)
            except StopIteration as end:
                result: T = end.value
                return result
            except AnswersLost as lost:
                raise zab.OutcomeUnknown(f"{lost}: the answer was lost again and again") from lost
            heard = await self._ask(asked)

    async def _ask(self, asked: Sequence[Operation]) -> list[Result]:
        if len(asked) == 1:
            return [await self._one(asked[0])]
        found: list[Result] = [Done()] * len(asked)

        async def request(places: Sequence[int]) -> None:
            if len(places) == 1:
                found[places[0]] = await self._one(asked[places[0]])
            else:
                await self._read(asked, places, found)

        await together([partial(request, places) for places in _in_requests(asked)])
        return found

    async def _one(self, operation: Operation) -> Result:
        session = self._session
        try:
            match operation:
                case Get(path, watch):
                    data, stat = await session.get(path, self._watch if watch else None)
                    return _node(data, stat)
                case Exists(path, watch):
                    there = await session.exists(path, self._watch if watch else None)
                    return Failed(Why.NO_NODE) if there is None else _node(None, there)
                case Children(path, watch):
                    return Listing(tuple(await session.children(path, self._watch if watch else None)))
                case Sync(path):
                    await session.sync(path)
                    return Done()
                case Multi(changes):
                    done = await session.multi(_multi(changes))
                    return Done(tuple(Version(one.version) if isinstance(one, zab.Stat) else None for one in done))
        except zab.OutcomeUnknown:
            return Failed(Why.UNKNOWN)
        except (zab.NoNode, zab.NodeExists, zab.BadVersion, zab.NotEmpty) as error:
            return Failed(_WHY[type(error)], error.index or 0)

    async def _read(self, asked: Sequence[Operation], places: Sequence[int], found: list[Result]) -> None:
        reads = zab.MultiRead()
        for place in places:
            reads.get(asked[place].path)  # type: ignore[union-attr]  # only gets are put together
        for place, one in zip(places, await self._session.read_many(reads), strict=True):
            if isinstance(one, tuple):
                found[place] = _node(*one)
            elif isinstance(one, zab.NoNode):
                found[place] = Failed(Why.NO_NODE)
            else:
                assert isinstance(one, zab.StoreError)
                raise one


class Store(Nodes):
    """One controller's view, from its election to its end."""

    def __init__(self, session: zab.Session, version: Version, watch: zab.Watch) -> None:
        super().__init__(session, watch)
        self._asking = Asking(Fence(version))

    async def answer(self, asked: Sequence[Ask]) -> list[Answer]:
        return await self.do(self._asking.answer(asked))


def _in_requests(asked: Sequence[Operation]) -> Iterator[list[int]]:
    """By their places: what goes together."""
    reads = [place for place, operation in enumerate(asked) if isinstance(operation, Get) and not operation.watch]
    together = set(reads)
    yield from ([place] for place in range(len(asked)) if place not in together)
    for start in range(0, len(reads), READS_MAX):
        yield reads[start : start + READS_MAX]


def _node(data: bytes | None, stat: zab.Stat) -> Node:
    return Node(data, Version(stat.version), stat.czxid, stat.ephemeral_owner, stat.pzxid, stat.mzxid)


def _multi(changes: Sequence[Check | Create | Set | Delete]) -> zab.Multi:
    multi = zab.Multi()
    for change in changes:
        match change:
            case Check(path, version):
                multi.check(path, version)
            case Create(path, data, ephemeral):
                multi.create(path, data, ephemeral=ephemeral)
            case Set(path, data, version):
                multi.set(path, data, version=version)
            case Delete(path, version):
                multi.delete(path, version)
    return multi
