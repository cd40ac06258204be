"""Fetch sessions of consumers: a model of the sessions of one broker process (KIP-227).

The model applies each request that the broker accepts, so it knows the partitions, the epoch and the newest answers of
each session. It keeps sessions that the broker may have evicted, and marks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import define, field, frozen

from harness.checkers.oracle_state import Violation
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.fetching.fetch_session_cache import BEGIN, END, EPOCH_MAX, NO_SESSION, FetchSessionLimits
from replica.core.replica_messages import Fetched, FetchPartition

MATCHES: Final = "a request of a fetch session is accepted if and only if it is the session's next"
READS: Final = "a request of a fetch session reads exactly the session's partitions"
NAMES: Final = "an incremental response names exactly the partitions that changed"


def epoch_after(epoch: int) -> int:
    """Return the next epoch of a session."""
    return epoch + 1 if epoch < EPOCH_MAX else 1


@frozen
class SessionFetch:
    """A fetch of a consumer, with its place in a session."""

    ident: int
    epoch: int
    owner: str
    parts: tuple[FetchPartition, ...]
    forgotten: tuple[TopicPartition, ...] = ()
    wait_ms: int = 0
    committed: bool = False
    any_replica: bool = False


@define(eq=False)
class _Session:
    owner: str
    made_ms: int
    used_ms: int
    epoch: int = 1
    parts: dict[TopicPartition, FetchPartition] = field(factory=dict)
    sent: dict[TopicPartition, tuple[int, int, int]] = field(factory=dict)
    """The offsets in the newest answer for each partition, unless it was an error or named another replica."""
    evictable: bool = False
    """True if the broker may have evicted the session since its last request."""


class FetchSessions:
    def __init__(self, broker: int, limits: FetchSessionLimits, clock: Callable[[], int]) -> None:
        self._broker = broker
        self._limits = limits
        self._clock = clock
        self._open: dict[int, _Session] = {}

    def refused(self, asked: SessionFetch, code: ErrorCode) -> None:
        session, gone = self._open.get(asked.ident), code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session is None or session.owner != asked.owner:
            right = gone
        elif gone and not self._have_room(sum(part.where not in session.parts for part in asked.parts)):
            right = True
            del self._open[asked.ident]
        elif gone:
            right = session.evictable
        else:
            right = code is ErrorCode.INVALID_FETCH_SESSION_EPOCH and asked.epoch != session.epoch
        if not right or asked.epoch in (BEGIN, END):
            raise Violation(MATCHES, f"{self._name(asked)} was refused with {code.name}: {self._expected(session)}")

    def accepted(self, asked: SessionFetch, reads: Iterable[FetchPartition]) -> Fetching:
        """Apply an accepted request, which reads these partitions."""
        requested = {part.where: part for part in asked.parts}
        session = self._open.get(asked.ident)
        if asked.epoch in (BEGIN, END):
            if session is not None and session.owner == asked.owner:
                del self._open[asked.ident]
            session, expected = None, requested
        else:
            if session is None or session.owner != asked.owner or session.epoch != asked.epoch:
                raise Violation(MATCHES, f"{self._name(asked)} was accepted: {self._expected(session)}")
            session.epoch = epoch_after(session.epoch)
            session.used_ms, session.evictable = self._clock(), False
            for where in asked.forgotten:
                session.parts.pop(where, None)
                session.sent.pop(where, None)
            session.parts.update(requested)
            expected = session.parts
            if not expected:
                del self._open[asked.ident]
        if (found := {part.where: part for part in reads}) != expected:
            raise Violation(READS, f"{self._name(asked)} reads {_text(found)}, not {_text(expected)}")
        return Fetching(self, asked, session)

    def _opened(self, asked: SessionFetch, ident: int) -> _Session | None:
        """Record the session that a full request opened, or check that there was no room for it."""
        parts, limits, now = {part.where: part for part in asked.parts}, self._limits, self._clock()
        full = len(self._open) >= limits.slots_max
        if ident == NO_SESSION:
            if parts and not full and self._have_room(len(parts)):
                raise Violation(MATCHES, f"{self._name(asked)} opened no session, though not all slots are taken")
            return None
        if full:
            for each in self._open.values():
                old = now - each.made_ms > limits.keep_ms and len(each.parts) < len(parts)
                each.evictable = each.evictable or old or now - each.used_ms > limits.keep_ms
        session = self._open[ident] = _Session(asked.owner, now, now, parts=parts)
        return session

    def _have_room(self, more: int) -> bool:
        """Return whether all sessions together may certainly have so many more partitions."""
        return sum(len(each.parts) for each in self._open.values()) + more <= self._limits.partitions_max

    def _name(self, asked: SessionFetch) -> str:
        return f"broker {self._broker}: request of {asked.owner} with session id {asked.ident} and epoch {asked.epoch}"

    @staticmethod
    def _expected(session: _Session | None) -> str:
        if session is None:
            return "there is no such session"
        evicted = ", which may have been evicted" if session.evictable else ""
        return f"the session of {session.owner} expects epoch {session.epoch}{evicted}"


@define(eq=False)
class Fetching:
    """A request that was accepted and has no response yet."""

    _sessions: FetchSessions
    _asked: SessionFetch
    _session: _Session | None

    @property
    def _name(self) -> str:
        return self._sessions._name(self._asked)

    def closed(self) -> None:
        """Check that the session was closed before the response."""
        session = self._session
        if session is None or (self._sessions._open.get(self._asked.ident) is session and not session.evictable):
            raise Violation(MATCHES, f"{self._name} lost its session while it waited, though nothing closed it")

    def answered(self, ident: int, results: Sequence[Fetched], named: Sequence[Fetched]) -> None:
        """Check a response: `results` were read, and `named` are in the response."""
        asked, session = self._asked, self._session
        if asked.epoch == BEGIN:
            session = self._sessions._opened(asked, ident)
        elif ident != (asked.ident if session is not None and session.parts else NO_SESSION):
            raise Violation(MATCHES, f"{self._name} has a response with session id {ident}")
        elif session is not None and session.parts and self._sessions._open.get(ident) is not session:
            raise Violation(MATCHES, f"{self._name} has a response, though another request closed the session")
        expected = [each.where for each in results if session is None or _changed(session, each)]
        if (found := [each.where for each in named]) != expected:
            raise Violation(NAMES, f"{self._name} has a response with {_text(found)}, not {_text(expected)}")


def _changed(session: _Session, result: Fetched) -> bool:
    """Return whether the client must receive a result, and record it as sent."""
    where, offsets = result.where, (result.high_watermark, result.stable_offset, result.start_offset)
    before = session.sent.pop(where, None)
    if result.error or result.diverging is not None or result.preferred >= 0:
        return True
    if where in session.parts:
        session.sent[where] = offsets
    return bool(result.records) or before != offsets


def _text(wheres: Iterable[TopicPartition]) -> str:
    return "[" + ", ".join(str(where) for where in wheres) + "]"
