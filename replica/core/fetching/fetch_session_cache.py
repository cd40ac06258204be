"""Fetch sessions of consumers: after the first request, a client names only changed partitions (KIP-227).

A session holds the newest request for each partition, and the offsets in the newest answer for it. The session epoch
counts the client's requests: after a lost or repeated request the epochs differ, and the client starts a new session.
The number of sessions is limited; `FetchSessionCache._evicted` chooses the one that makes room. A client without a
session receives complete answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from attrs import define, field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError

NO_SESSION: Final = 0
BEGIN: Final = 0
"""The epoch of a full request that opens a session."""
END: Final = -1
"""The epoch of a full request without a session. It closes the client's session."""
EPOCH_MAX: Final = (1 << 31) - 1

RequestFields: TypeAlias = tuple[int, ...]
"""The fields of a request for one partition."""
AnswerFields: TypeAlias = tuple[int, ...]
"""The offsets in an answer for one partition: high watermark, last stable offset, log start."""
NOTHING: Final[AnswerFields] = ()


@frozen
class FetchSessionLimits:
    """The bounds of a cache of fetch sessions."""

    slots_max: int = 1_000
    """`max.incremental.fetch.session.cache.slots`; 0: no sessions."""
    keep_ms: int = 120_000
    """The age below which a session is not evicted. A session that has been idle for longer than this is evicted
    first."""
    partitions_max: int = 200_000
    """The maximum number of partitions in all sessions together."""


@define(eq=False)
class FetchSession:
    """The fetch session of one client."""

    id: int
    owner: str
    """The principal that may use the session."""
    made_ms: int
    used_ms: int
    epoch: int = 1
    """The epoch of the next request."""
    requests: dict[TopicPartition, RequestFields] = field(factory=dict)
    """The newest request for each partition, in the order in which partitions are read."""
    last_sent: dict[TopicPartition, AnswerFields] = field(factory=dict)
    """The offsets in the newest answer for each partition; `NOTHING` if it had an error, a diverging epoch or another
    replica to read from, which each response repeats."""

    @property
    def rank(self) -> tuple[int, int]:
        """The order of eviction, lowest first: small sessions before large ones, then old before new."""
        return len(self.requests), self.made_ms


class FetchSessionCache:
    """Keeps the fetch sessions of clients, within bounds. `draw` returns a random id from 1 to 2^31 - 1."""

    def __init__(self, draw: Callable[[], int], limits: FetchSessionLimits | None = None) -> None:
        self.limits = limits or FetchSessionLimits()
        self._draw = draw
        self._open: dict[int, FetchSession] = {}
        """Sessions in the order of their last use."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def partitions(self) -> int:
        return sum(len(each.requests) for each in self._open.values())

    def close(self, ident: int, owner: str) -> None:
        session = self._open.get(ident)
        if session is not None and session.owner == owner:
            del self._open[ident]

    def begin(self, owner: str, requests: Mapping[TopicPartition, RequestFields], now: int) -> FetchSession | None:
        """Open a session. Return None if it would be empty, if all sessions together would have too many partitions, or
        if all slots are taken and no session may be evicted."""
        limits = self.limits
        if not requests or limits.slots_max <= 0 or self.partitions + len(requests) > limits.partitions_max:
            return None
        if len(self._open) >= limits.slots_max and not self._evicted(len(requests), now):
            return None
        ident = self._draw()
        while ident in self._open:
            ident = self._draw()
        session = self._open[ident] = FetchSession(ident, owner, now, now, requests=dict(requests))
        return session

    def go_on(
        self,
        ident: int,
        epoch: int,
        owner: str,
        changed: Mapping[TopicPartition, RequestFields],
        forgotten: Iterable[TopicPartition],
        now: int,
    ) -> FetchSession:
        """Apply the next request of a session. Close the session if it has no partitions afterwards.

        Raise `KafkaError` if this owner has no such session, or if the epoch is not the expected one. Close the session
        and raise `KafkaError` if all sessions together would have too many partitions.
        """
        session = self._open.get(ident)
        if session is None or session.owner != owner:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {ident}")
        if epoch != session.epoch:
            text = f"fetch session {ident} expects epoch {session.epoch}, not {epoch}"
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, text)
        for where in forgotten:
            session.requests.pop(where, None)
            session.last_sent.pop(where, None)
        new = [where for where in changed if where not in session.requests]
        if new and self.partitions + len(new) > self.limits.partitions_max:
            del self._open[ident]
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {ident} was closed: all sessions together would have too many partitions",
            )
        session.requests.update(changed)
        for where in new:
            session.last_sent.pop(where, None)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.used_ms = now
        del self._open[ident]
        if session.requests:
            self._open[ident] = session
        return session

    def holds(self, session: FetchSession) -> bool:
        return self._open.get(session.id) is session

    def _evicted(self, partitions: int, now: int) -> bool:
        """Evict a session to make room for a new one with this many partitions, and return whether one was evicted.

        Evict the least recently used session if it has been idle for longer than `keep_ms`. Otherwise evict the one
        with the lowest rank among sessions older than `keep_ms`, if the new session is larger.
        """
        idlest = next(iter(self._open.values()))
        if now - idlest.used_ms > self.limits.keep_ms:
            del self._open[idlest.id]
            return True
        old = [each for each in self._open.values() if now - each.made_ms > self.limits.keep_ms]
        lowest = min(old, key=lambda each: each.rank, default=None)
        if lowest is None or len(lowest.requests) >= partitions:
            return False
        del self._open[lowest.id]
        return True
