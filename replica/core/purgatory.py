"""Delayed operations. Each is answered once: when its condition holds or has failed, or at its deadline. A cancelled
operation is not answered.

An operation is examined only when it may be complete. Operations that wait for an offset are in one queue for each
partition and condition. Their offsets nearly always ascend, so those that are reached are at the front. A delayed fetch
is registered with its fetch session, or else with each partition that it reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from enum import Enum, auto
from typing import ClassVar, TypeAlias

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.outbox import Outbox
from replica.core.replica_messages import Deleted, Fetch, Produced, Reply, Results


class Condition(Enum):
    """The condition on an offset that an operation waits for."""

    COMMITTED = auto()
    """The high watermark has reached the offset."""
    DURABLE = auto()
    """All records before the offset are durable on this broker."""
    DELETED = auto()
    """No live replica has records before the offset."""


@define(eq=False)
class DelayedProduce:
    """A produce request whose records are appended but not acknowledged."""

    token: int
    deadline: int
    results: list[Produced]
    awaited: dict[int, tuple[TopicPartition, Condition]]
    """The partition and the condition that each result waits for, by index in the results."""

    def complete(self, index: int, _: int) -> None:
        """Do nothing: the result was set at the append."""

    def fail(self, index: int, error: ErrorCode, text: str) -> None:
        self.results[index] = Produced(self.results[index].where, error, text)


@define(eq=False)
class DelayedDeleteRecords:
    """A request to delete records that some live follower may still have."""

    token: int
    deadline: int
    results: list[Deleted]
    awaited: dict[int, tuple[TopicPartition, Condition]]
    """As `DelayedProduce.awaited`."""

    def complete(self, index: int, offset: int) -> None:
        self.results[index] = Deleted(self.results[index].where, low_watermark=offset)

    def fail(self, index: int, error: ErrorCode, _: str) -> None:
        self.results[index] = evolve(self.results[index], error=error)


DelayedWrite: TypeAlias = DelayedProduce | DelayedDeleteRecords


@define(eq=False)
class DelayedFetch:
    """A fetch that waits for records.

    session   the id of the follower's fetch session; 0 if the fetch belongs to none
    """

    token: int
    deadline: int
    fetch: Fetch
    session: int = 0


@define(eq=False)
class _OffsetQueue:
    """The operations that wait for an offset of one partition."""

    waiting: dict[tuple[int, int], tuple[int, DelayedWrite]] = field(factory=dict)
    """The awaited offset and the operation, by token and index in the results."""
    last: int = -1
    ordered: bool = True
    """True if the awaited offsets ascend, so that a search may stop at the first one that is not reached."""

    def add(self, key: tuple[int, int], offset: int, delayed: DelayedWrite) -> None:
        """Append an operation. Its offset may be smaller than the last one, for example if its batch is a duplicate."""
        if not self.waiting:
            self.ordered = True
        elif offset < self.last:
            self.ordered = False
        self.last = offset
        self.waiting[key] = offset, delayed

    def take(self, offset: int) -> list[tuple[DelayedWrite, int]]:
        """Remove and return the operations whose offset is at most `offset`."""
        found = []
        for key, (awaited, delayed) in self.waiting.items():
            if awaited <= offset:
                found.append((key, delayed))
            elif self.ordered:
                break
        for key, _ in found:
            del self.waiting[key]
        return [(delayed, index) for (_, index), delayed in found]


class DelayedOperationPurgatory:
    """Holds delayed operations and answers each of them once."""

    STALE_TIMERS: ClassVar = 64
    """The number of obsolete timers that are tolerated, in addition to one for each operation."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._delayed: dict[int, DelayedWrite | DelayedFetch] = {}
        """All operations without an answer, by token."""
        self._queues: dict[tuple[TopicPartition, Condition], _OffsetQueue] = {}
        """The operations that wait for an offset, by partition and condition. No queue is empty."""
        self._fetches: dict[TopicPartition, dict[int, DelayedFetch]] = {}
        """Delayed fetches outside of sessions, by partition and token."""
        self._in_sessions: dict[int, DelayedFetch] = {}
        """Delayed fetches by session id. A session has at most one request in flight."""
        self._timers: list[tuple[int, int]] = []
        """A heap of deadlines and tokens. Tokens of answered operations are skipped."""
        self.appended: dict[TopicPartition, None] = {}
        """Partitions that have followers and received new records in this turn."""
        self.committed: dict[TopicPartition, None] = {}
        """Partitions whose high watermark advanced in this turn."""
        self.changed: dict[TopicPartition, None] = {}
        """Partitions whose role changed, or whose records a DeleteRecords request deleted, in this turn. All their
        delayed fetches are answered."""

    def __len__(self) -> int:
        return len(self._delayed)

    # -- operations that wait for offsets ------------------------------------------------------------------

    def delay(self, delayed: DelayedWrite, offsets: dict[int, int]) -> None:
        """Delay an operation. `offsets`: the offset that each index of `awaited` waits for."""
        self._keep(delayed)
        for index, (where, condition) in delayed.awaited.items():
            queue = self._queues.get((where, condition))
            if queue is None:
                queue = self._queues[where, condition] = _OffsetQueue()
            queue.add((delayed.token, index), offsets[index], delayed)

    def reached(self, where: TopicPartition, condition: Condition, offset: int) -> None:
        """Complete the operations whose offset is at most `offset`."""
        queue = self._queues.get((where, condition))
        if queue is None:
            return
        for delayed, index in queue.take(offset):
            delayed.complete(index, offset)
            self._settle(delayed, index)
        if not queue.waiting:
            del self._queues[where, condition]

    def fail(self, where: TopicPartition, condition: Condition, error: ErrorCode, text: str = "") -> None:
        """Fail every operation that waits for this condition in this partition."""
        queue = self._queues.pop((where, condition), None)
        if queue is None:
            return
        for (_, index), (_, delayed) in queue.waiting.items():
            delayed.fail(index, error, text)
            self._settle(delayed, index)

    def awaiting(self, condition: Condition) -> list[TopicPartition]:
        """Return the partitions in which an operation waits for this condition."""
        return [where for where, each in self._queues if each is condition]

    def _settle(self, delayed: DelayedWrite, index: int) -> None:
        del delayed.awaited[index]
        if not delayed.awaited:
            self.answer(delayed.token, delayed.results)

    # -- operations that wait for records ------------------------------------------------------------------

    def delay_fetch(self, delayed: DelayedFetch) -> None:
        self._keep(delayed)
        if delayed.session:
            self._in_sessions[delayed.session] = delayed
            return
        for part in delayed.fetch.parts:
            self._fetches.setdefault(part.where, {})[delayed.token] = delayed

    def fetches(self, where: TopicPartition) -> Iterable[DelayedFetch]:
        delayed = self._fetches.get(where)
        return tuple(delayed.values()) if delayed else ()

    def fetch_in(self, session: int) -> DelayedFetch | None:
        """Return the delayed fetch of this session; None if there is none."""
        return self._in_sessions.get(session)

    # -- the end of a delay --------------------------------------------------------------------------------

    def answer(self, token: int, results: Results) -> None:
        self.cancel(token)
        self._outbox.replies.append(Reply(token, results))

    def cancel(self, token: int) -> None:
        """Forget an operation, because it was answered or its client is gone."""
        delayed = self._delayed.pop(token, None)
        if isinstance(delayed, DelayedFetch):
            if delayed.session:
                del self._in_sessions[delayed.session]
                return
            for part in delayed.fetch.parts:
                others = self._fetches.get(part.where)
                if others is not None:
                    others.pop(token, None)
                    if not others:
                        del self._fetches[part.where]
        elif delayed is not None:
            for index, key in delayed.awaited.items():
                queue = self._queues.get(key)
                if queue is not None:
                    queue.waiting.pop((token, index), None)
                    if not queue.waiting:
                        del self._queues[key]

    def expire(self, now: int) -> list[DelayedFetch]:
        """Fail overdue writes with REQUEST_TIMED_OUT. Return overdue fetches, which the caller answers."""
        overdue: list[DelayedFetch] = []
        while self._timers and self._timers[0][0] <= now:
            _, token = heapq.heappop(self._timers)
            delayed = self._delayed.get(token)
            if isinstance(delayed, DelayedFetch):
                overdue.append(delayed)
            elif delayed is not None:
                text = "records appended, but the required replicas or the disk did not confirm them within the timeout"
                for index in delayed.awaited:
                    delayed.fail(index, ErrorCode.REQUEST_TIMED_OUT, text)
                self.answer(token, delayed.results)
        return overdue

    @property
    def timers(self) -> int:
        """The number of timers, including those of answered operations."""
        return len(self._timers)

    @property
    def deadline(self) -> int | None:
        while self._timers and self._timers[0][1] not in self._delayed:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _keep(self, delayed: DelayedWrite | DelayedFetch) -> None:
        assert delayed.token not in self._delayed, "the token is in use"
        self._delayed[delayed.token] = delayed
        heapq.heappush(self._timers, (delayed.deadline, delayed.token))
        if len(self._timers) > 2 * len(self._delayed) + self.STALE_TIMERS:
            # Most operations are answered long before their deadline, so most timers are obsolete.
            self._timers = [(each.deadline, token) for token, each in self._delayed.items()]
            heapq.heapify(self._timers)
