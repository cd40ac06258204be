"""Fetches of consumers at a broker: the real fetch contexts, driven as the handler of Fetch drives them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from attrs import frozen

from harness.checkers.partitions.fetch_sessions import FetchSessions, SessionFetch
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_context import FetchContext, fetch_context
from replica.core.fetching.fetch_session_cache import NO_SESSION, FetchSessionCache, FetchSessionLimits
from replica.core.replica_messages import CONSUMER, Fetch, Fetched, FetchPartition

IDS_MAX: Final = (1 << 31) - 1
LIMITS: Final = FetchSessionLimits(slots_max=2, keep_ms=400)
"""So few sessions that they are evicted now and then."""


@frozen
class SessionAnswer:
    """The response to a `SessionFetch`."""

    error: ErrorCode = ErrorCode.NONE
    ident: int = NO_SESSION
    results: tuple[Fetched, ...] = ()


class ConsumerSessions:
    """The fetch sessions of consumers in one life of a broker."""

    def __init__(self, broker: Any, random: Random) -> None:
        """`random` draws the ids. It outlives the process, so that a restarted broker does not repeat them."""
        self._broker = broker
        self._sessions = FetchSessionCache(lambda: 1 + int(random.random() * IDS_MAX), LIMITS)
        self._checker = FetchSessions(broker.id, LIMITS, broker.clock)

    def fetch(self, asked: SessionFetch, answer: Callable[[SessionAnswer], None]) -> None:
        broker, now = self._broker, self._broker.clock()
        requested = ((part.where, _fields(part)) for part in asked.parts)
        try:
            context = fetch_context(
                self._sessions, asked.ident, asked.epoch, asked.owner, requested, asked.forgotten, now
            )
        except KafkaError as error:
            broker.world.counted(f"fetch session {error.code.name}")
            self._checker.refused(asked, error.code)
            answer(SessionAnswer(error.code))
            return
        parts = asked.parts
        if context is not None:
            parts = tuple(FetchPartition(where, *fields) for where, fields in context.requests.items())
        fetching = self._checker.accepted(asked, parts)

        def reply(results: list[Fetched]) -> None:
            before = len(self._sessions)
            try:
                ident = NO_SESSION if context is None else context.settle(broker.clock())
            except KafkaError as error:
                broker.world.counted("fetch session closed during a request")
                fetching.closed()
                answer(SessionAnswer(error.code))
                return
            named = results if context is None else [each for each in results if _includes(context, each)]
            fetching.answered(ident, results, named)
            if context is not None and context.full and ident and len(self._sessions) == before:
                broker.world.counted("fetch sessions evicted")
            answer(SessionAnswer(ErrorCode.NONE, ident, tuple(named)))

        if not parts:
            reply([])
            return
        if context is not None:
            broker.world.counted("full fetches in sessions" if context.full else "incremental fetches")
        broker.fetch(
            Fetch(parts, CONSUMER, wait_ms=asked.wait_ms, committed=asked.committed, any_replica=asked.any_replica),
            reply,
        )


def _fields(part: FetchPartition) -> tuple[int, ...]:
    return part.offset, part.bytes_max, part.leader_epoch, part.last_epoch, part.start_offset


def _includes(context: FetchContext, result: Fetched) -> bool:
    offsets = result.high_watermark, result.stable_offset, result.start_offset
    return context.includes(
        result.where, result.error, offsets, bool(result.records), result.diverging, result.preferred
    )
