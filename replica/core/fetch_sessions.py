"""Fetch sessions: whoever fetches the same many partitions again and again says only what is different (KIP-227).

A session is what its client asked for last, partition by partition, and what he was told of each. Its epoch counts his
requests, so one that was lost or came twice is noticed, and he begins anew. There is room for so many sessions; who
gets one when there is none left is decided in `Sessions._evicted`. Without one he is answered in full each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from attrs import define, field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError

NO_SESSION: Final = 0
BEGIN: Final = 0
"""The epoch of a request that is complete, of a client who would like a session;"""
END: Final = -1
"""and of one who wants none, or no longer."""
EPOCH_MAX: Final = (1 << 31) - 1

Wish: TypeAlias = tuple[int, ...]
"""What is asked of one partition: where to begin, and what else stands in a request."""
Told: TypeAlias = tuple[int, ...]
"""What was answered of one partition, beside its records: high watermark, stable offset, start."""
NOTHING: Final[Told] = ()


@frozen
class Limits:
    """slots_max        `max.incremental.fetch.session.cache.slots`; 0: there are no sessions
    keep_ms          a session that was made, or used, within this time is not ended for a new one's sake
    partitions_max   of all sessions together
    """

    slots_max: int = 1_000
    keep_ms: int = 120_000
    partitions_max: int = 200_000


@define(eq=False)
class Session:
    """owner        who may use it
    wishes       in the order in which they are served
    """

    id: int
    owner: str
    made_ms: int
    used_ms: int
    epoch: int = 1
    """Of the next request."""
    wishes: dict[TopicPartition, Wish] = field(factory=dict)
    told: dict[TopicPartition, Told] = field(factory=dict)

    def answered(self, where: TopicPartition, told: Told, *, records: bool, always: bool) -> bool:
        """Whether it has to be in the answer. `always`: there is an error, or where to ask instead.

        Who got records is served last next time: else the first in the line might be all that ever fits.
        """
        news = records or always or self.told.get(where) != told
        if where in self.wishes:
            self.told[where] = NOTHING if always else told
            if records:
                self.wishes[where] = self.wishes.pop(where)
        return news

    @property
    def rank(self) -> tuple[int, int]:
        """The lowest is ended first: small ones before large, old before new."""
        return len(self.wishes), self.made_ms


class Sessions:
    """draw   a number by lot, for an id: from 1 to 2^31 - 1"""

    def __init__(self, draw: Callable[[], int], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._draw = draw
        self._open: dict[int, Session] = {}
        """Who was used last is last."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def partitions(self) -> int:
        return sum(len(each.wishes) for each in self._open.values())

    def close(self, ident: int, owner: str) -> None:
        session = self._open.get(ident)
        if session is not None and session.owner == owner:
            del self._open[ident]

    def begin(self, owner: str, wishes: Mapping[TopicPartition, Wish], now: int) -> Session | None:
        """None: there is no room, and nobody who has to make any."""
        limits = self.limits
        if not wishes or limits.slots_max <= 0 or self.partitions + len(wishes) > limits.partitions_max:
            return None
        if len(self._open) >= limits.slots_max and not self._evicted(len(wishes), now):
            return None
        ident = self._draw()
        while ident in self._open:
            ident = self._draw()
        session = self._open[ident] = Session(ident, owner, now, now, wishes=dict(wishes))
        return session

    def go_on(
        self,
        ident: int,
        epoch: int,
        owner: str,
        changed: Mapping[TopicPartition, Wish],
        forgotten: Iterable[TopicPartition],
        now: int,
    ) -> Session:
        """With what is different. `KafkaError` if there is no such session, or this is not its next request."""
        session = self._open.get(ident)
        if session is None or session.owner != owner:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {ident}")
        if epoch != session.epoch:
            text = f"request {epoch} of fetch session {ident}: {session.epoch} is the next"
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, text)
        for where in forgotten:
            session.wishes.pop(where, None)
            session.told.pop(where, None)
        new = [where for where in changed if where not in session.wishes]
        if new and self.partitions + len(new) > self.limits.partitions_max:
            del self._open[ident]
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {ident} has become too large")
        session.wishes.update(changed)
        for where in new:
            session.told.pop(where, None)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.used_ms = now
        del self._open[ident]
        if session.wishes:
            self._open[ident] = session
        return session

    def holds(self, session: Session) -> bool:
        return self._open.get(session.id) is session

    def _evicted(self, partitions: int, now: int) -> bool:
        """Whoever has not been used for long goes; or else the lowest of those that have been there for long, if the
        new one is larger."""
        idlest = next(iter(self._open.values()))
        if now - idlest.used_ms > self.limits.keep_ms:
            del self._open[idlest.id]
            return True
        old = [each for each in self._open.values() if now - each.made_ms > self.limits.keep_ms]
        lowest = min(old, key=lambda each: each.rank, default=None)
        if lowest is None or len(lowest.wishes) >= partitions:
            return False
        del self._open[lowest.id]
        return True
