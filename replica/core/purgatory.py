"""What cannot be answered yet, and is answered once: when what it waits for has happened, or its time is over.

Nothing is looked through in vain. Who waits for an offset stands in a line of its partition, in the order of the
offsets, so what a watermark has passed is at the front of it; who waits for records stands with each of the partitions
that he asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.wants import Deleted, Fetch, Produced, Reply, Results


class Line(Enum):
    """What an offset must have come to be."""

    COMMITTED = auto()
    DURABLE = auto()
    DELETED = auto()


@define(eq=False)
class Parked:
    """An answer of many partitions, that is complete but for those that are awaited."""

    token: int
    deadline: int
    results: list[Produced] | list[Deleted]
    awaited: dict[int, tuple[TopicPartition, Line]]
    """By place in the results."""


@define(eq=False)
class ParkedFetch:
    """session   the id of the replica session that it belongs to; 0: none, and the fetch names all it waits for"""

    token: int
    deadline: int
    fetch: Fetch
    session: int = 0


@define(eq=False)
class _Queue:
    waits: dict[tuple[int, int], tuple[int, Parked]] = field(factory=dict)
    """By token and place: the offset that is waited for."""
    last: int = -1
    ordered: bool = True

    def add(self, key: tuple[int, int], offset: int, parked: Parked) -> None:
        """In order, but for a batch that was there already: its offset is an old one."""
        if not self.waits:
            self.ordered = True
        elif offset < self.last:
            self.ordered = False
        self.last = offset
        self.waits[key] = offset, parked

    def take(self, offset: int) -> list[tuple[Parked, int]]:
        found = []
        for key, (awaited, parked) in self.waits.items():
            if awaited <= offset:
                found.append((key, parked))
            elif self.ordered:
                break
        for key, _ in found:
            del self.waits[key]
        return [(parked, place) for (_, place), parked in found]


class Purgatory:
    def __init__(self) -> None:
        self._parked: dict[int, Parked | ParkedFetch] = {}
        self._queues: dict[tuple[TopicPartition, Line], _Queue] = {}
        self._fetches: dict[TopicPartition, dict[int, ParkedFetch]] = {}
        self._in_sessions: dict[int, ParkedFetch] = {}
        """By session: at most one request of a session is under way."""
        self._timers: list[tuple[int, int]] = []
        self.replies: list[Reply] = []
        """Of what was completed. Whoever takes them empties the list."""

    def __len__(self) -> int:
        return len(self._parked)

    # -- those that wait for offsets ---------------------------------------------------------------------------

    def park(self, parked: Parked, offsets: dict[int, int]) -> None:
        """`offsets`: which offset each of the awaited places waits for."""
        self._keep(parked)
        for place, (where, line) in parked.awaited.items():
            queue = self._queues.get((where, line))
            if queue is None:
                queue = self._queues[where, line] = _Queue()
            queue.add((parked.token, place), offsets[place], parked)

    def reached(self, where: TopicPartition, line: Line, offset: int) -> None:
        queue = self._queues.get((where, line))
        if queue is None:
            return
        for parked, place in queue.take(offset):
            if line is Line.DELETED:
                parked.results[place] = Deleted(where, low_watermark=offset)  # type: ignore[call-overload]
            self._settled(parked, place)
        if not queue.waits:
            del self._queues[where, line]

    def failed(self, where: TopicPartition, line: Line, error: ErrorCode, text: str = "") -> None:
        """None of those that wait here will get what they wait for."""
        queue = self._queues.pop((where, line), None)
        if queue is None:
            return
        for (_, place), (_, parked) in queue.waits.items():
            _fail(parked, place, error, text)
            self._settled(parked, place)

    def waiting(self, line: Line) -> list[TopicPartition]:
        """Where anybody stands in such a line."""
        return [where for where, each in self._queues if each is line]

    def _settled(self, parked: Parked, place: int) -> None:
        del parked.awaited[place]
        if not parked.awaited:
            self.answer(parked.token, parked.results)

    # -- those that wait for records --------------------------------------------------------------------------

    def park_fetch(self, parked: ParkedFetch) -> None:
        self._keep(parked)
        if parked.session:
            self._in_sessions[parked.session] = parked
            return
        for part in parked.fetch.parts:
            self._fetches.setdefault(part.where, {})[parked.token] = parked

    def fetches(self, where: TopicPartition) -> Iterable[ParkedFetch]:
        waiting = self._fetches.get(where)
        return tuple(waiting.values()) if waiting else ()

    def fetch_in(self, session: int) -> ParkedFetch | None:
        """The request of this session that waits."""
        return self._in_sessions.get(session)

    # -- the end of waiting -----------------------------------------------------------------------------------

    def answer(self, token: int, results: Results) -> None:
        self.drop(token)
        self.replies.append(Reply(token, results))

    def drop(self, token: int) -> None:
        """Whoever waited is not there any more, or has his answer."""
        parked = self._parked.pop(token, None)
        if isinstance(parked, ParkedFetch):
            if parked.session:
                del self._in_sessions[parked.session]
                return
            for part in parked.fetch.parts:
                waiting = self._fetches.get(part.where)
                if waiting is not None:
                    waiting.pop(token, None)
                    if not waiting:
                        del self._fetches[part.where]
        elif parked is not None:
            for place, where_line in parked.awaited.items():
                queue = self._queues.get(where_line)
                if queue is not None:
                    queue.waits.pop((token, place), None)
                    if not queue.waits:
                        del self._queues[where_line]

    def expired(self, now: int) -> list[ParkedFetch]:
        """Those that waited for offsets are answered that it took too long; whoever waited for records gets what is
        there now, which is for the caller to read."""
        over: list[ParkedFetch] = []
        while self._timers and self._timers[0][0] <= now:
            _, token = heapq.heappop(self._timers)
            parked = self._parked.get(token)
            if isinstance(parked, ParkedFetch):
                over.append(parked)
            elif parked is not None:
                for place in parked.awaited:
                    _fail(
                        parked, place, ErrorCode.REQUEST_TIMED_OUT, "it is written here, and not yet where it has to be"
                    )
                self.answer(token, parked.results)
        return over

    @property
    def alarms(self) -> int:
        """How many are kept, those included whose reason is gone."""
        return len(self._timers)

    @property
    def deadline(self) -> int | None:
        while self._timers and self._timers[0][1] not in self._parked:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _keep(self, parked: Parked | ParkedFetch) -> None:
        assert parked.token not in self._parked, "a token is used once"
        self._parked[parked.token] = parked
        heapq.heappush(self._timers, (parked.deadline, parked.token))
        if len(self._timers) > 2 * len(self._parked) + 64:
            # Most are answered long before their time is over. Their alarms need not be kept till then.
            self._timers = [(each.deadline, token) for token, each in self._parked.items()]
            heapq.heapify(self._timers)


def _fail(parked: Parked, place: int, error: ErrorCode, text: str) -> None:
    results: list[Any] = parked.results
    result = results[place]
    results[place] = (
        Produced(result.where, error, text) if isinstance(result, Produced) else evolve(result, error=error)
    )
