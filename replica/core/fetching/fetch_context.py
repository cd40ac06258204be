"""One fetch of a consumer: the partitions to read, and those that the response names (KIP-227).

An incremental request is expanded to all partitions of its session, and the response is reduced to the partitions that
changed. So the code that reads, authorizes and throttles needs no sessions: it always gets all partitions of a session.

    context = fetch_context(sessions, ...)      # None: read the partitions of the request, and answer with all of them
    read the partitions `context.requests`      # this may take long, and other requests may close the session
    context.settle(now)                         # opens the session of a full request; returns the session id
    context.includes(...)                       # for each result: is it in the response?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from attrs import define

from kraft_controller.core.names import NO_BROKER, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_session_cache import (
    BEGIN,
    END,
    NO_SESSION,
    NOTHING,
    AnswerFields,
    FetchSession,
    FetchSessionCache,
    RequestFields,
)

K = TypeVar("K")
V = TypeVar("V")


def without_repeats(requested: Iterable[tuple[K, V]]) -> dict[K, V]:
    """Return each requested partition once. As in Apache Kafka, a repeated partition has the place of the first request
    for it and the fields of the last."""
    return dict(requested)


@define(eq=False)
class FetchContext:
    """A fetch that continues a session (`session`), or a full one that opens a session if there is room."""

    requests: Mapping[TopicPartition, RequestFields]
    """The partitions to read, in this order. Empty if a full request names none, or if the request has removed the last
    partition of its session."""
    full: bool
    """True if the request is full: then its response names all partitions."""
    session: FetchSession | None
    """The session that the request continues or opened. None for a full request before `settle`, or if `settle` opened
    none."""
    _sessions: FetchSessionCache
    _owner: str

    def settle(self, now: int) -> int:
        """Return the session id of the response; `NO_SESSION` if there is no session. Call this after the read, unless
        the whole request failed.

        A full request opens its session here, if there is room. Raise `KafkaError` if the session of an incremental
        request was closed since `fetch_context`.
        """
        if self.full:
            self.session = self._sessions.begin(self._owner, self.requests, now)
            return NO_SESSION if self.session is None else self.session.id
        assert self.session is not None
        if not self.requests:
            return NO_SESSION
        if not self._sessions.holds(self.session):
            text = f"fetch session {self.session.id} was closed during the request"
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, text)
        return self.session.id

    def includes(
        self,
        where: TopicPartition,
        error: int,
        offsets: AnswerFields,
        records: bool,
        diverging: object | None = None,
        preferred: int = NO_BROKER,
    ) -> bool:
        """Return whether the response names a partition, and record its offsets as sent.

        The response to a full request names all partitions. The response to an incremental one names those with
        records, an error, a diverging epoch or another replica to read from, and those whose offsets changed since the
        last response. A partition with records moves to the end of the order: otherwise the first partitions could fill
        every response.
        """
        session = self.session
        if session is None:
            return True
        always = bool(error) or diverging is not None or preferred >= 0
        named = records or always or self.full or session.last_sent.get(where) != offsets
        requests = session.requests
        if where in requests:
            session.last_sent[where] = NOTHING if always else offsets
            if records:
                requests[where] = requests.pop(where)
        return named


def fetch_context(
    sessions: FetchSessionCache,
    ident: int,
    epoch: int,
    owner: str,
    requested: Iterable[tuple[TopicPartition, RequestFields]],
    forgotten: Iterable[TopicPartition],
    now: int,
) -> FetchContext | None:
    """Return the context of a request with this session id and epoch; None for a full request that wants no session.

    A full request closes the owner's session with this id. Raise `KafkaError` as `FetchSessionCache.go_on`.
    """
    if epoch in (BEGIN, END):
        sessions.close(ident, owner)
        return None if epoch == END else FetchContext(without_repeats(requested), True, None, sessions, owner)
    session = sessions.go_on(ident, epoch, owner, without_repeats(requested), forgotten, now)
    return FetchContext(session.requests, False, session, sessions, owner)
