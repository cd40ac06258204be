"""Execution of store requests on a session. Operations that a procedure yields together are in flight together.

The data of nodes that are read without a watch is requested together: one request reads many nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import zab
from kraft_controller.core.names import Version
from kraft_controller.core.store_requests import (
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
    RepliesLost,
    Result,
    Set,
    StoreRequests,
    Sync,
    Why,
)
from kraft_controller.runtime.bounded_requests import run_bounded

READS_MAX: Final = 200
"""The maximum number of nodes read in one request. Most nodes that are read together are small, such as partition
states, so the reply stays far below its size limit."""

T = TypeVar("T")

_WHY: Final = {
    zab.NoNode: Why.NO_NODE, zab.NodeExists: Why.EXISTS, zab.BadVersion: Why.BAD_VERSION, zab.NotEmpty: Why.NOT_EMPTY,
}  # fmt: skip


class StoreSession:
    """Executes store requests. `watch` receives the events of nodes that are read with a watch."""

    def __init__(self, session: zab.Session, watch: zab.Watch | None = None) -> None:
        self._session = session
        self._watch = watch

    async def run(self, procedure: StoreRequests[T]) -> T:
        """Run a procedure and return its result."""
        results: Sequence[Result] | None = None
        while True:
            try:
                operations = next(procedure) if results is None else procedure.send(results)
            except StopIteration as end:
                result: T = end.value
                return result
            except RepliesLost as lost:
                raise zab.OutcomeUnknown(f"{lost}: the replies to every attempt were lost") from lost
            results = await self.send(operations)

    async def send(self, operations: Sequence[Operation]) -> list[Result]:
        """Send operations concurrently, and return the results in the order of the operations."""
        if len(operations) == 1:
            return [await self._send_one(operations[0])]
        found: list[Result] = [Done()] * len(operations)

        async def request(places: Sequence[int]) -> None:
            if len(places) == 1:
                found[places[0]] = await self._send_one(operations[places[0]])
            else:
                await self._read_many(operations, places, found)

        await run_bounded([partial(request, places) for places in _in_requests(operations)])
        return found

    async def _send_one(self, operation: Operation) -> Result:
        """Send one operation. Return expected errors and an unknown outcome as results; raise all other errors."""
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

    async def _read_many(self, operations: Sequence[Operation], places: Sequence[int], found: list[Result]) -> None:
        reads = zab.MultiRead()
        for place in places:
            reads.get(operations[place].path)  # type: ignore[union-attr] # only Gets are combined
        for place, one in zip(places, await self._session.read_many(reads), strict=True):
            if isinstance(one, tuple):
                found[place] = _node(*one)
            elif isinstance(one, zab.NoNode):
                found[place] = Failed(Why.NO_NODE)
            else:
                assert isinstance(one, zab.StoreError)
                raise one


def _in_requests(operations: Sequence[Operation]) -> Iterator[list[int]]:
    """Group the indexes of operations into requests."""
    reads = [place for place, operation in enumerate(operations) if isinstance(operation, Get) and not operation.watch]
    grouped = set(reads)
    yield from ([place] for place in range(len(operations)) if place not in grouped)
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
