"""Fetch sessions of followers, at their leader (KIP-227).

A session keeps the newest request for each partition, and the offsets in the newest answer for it. So a request names
only changed partitions, and an answer contains only changes. The leader examines only the session's *dirty* partitions.
A partition is clean if all its records are committed, and the follower is in the ISR, has all records, and has received
the newest high watermark and log start. A fetch of a clean partition would only update the time of the follower's last
fetch; `RemoteReplica.rest_in` takes that time from the session. Every event in a partition (an append, a new high
watermark or log start, a change of role, ISR or follower) makes it dirty in all sessions that contain it. So the cost
of a request does not depend on idle partitions.

A follower has at most one session. If a request does not match the session, it is refused, and the follower opens a new
session with a full request.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_session_cache import EPOCH_MAX
from replica.core.partitions.remote_replica import RemoteReplica
from replica.core.replica_messages import Fetch, Fetched, FetchPartition


@define(eq=False)
class FollowerFetchSession:
    """The fetch session of one follower."""

    id: int
    replica: BrokerId
    broker_epoch: BrokerEpoch
    fetched_ms: int
    """The time of the last request."""
    epoch: int = 1
    """The epoch of the next request."""
    requests: dict[TopicPartition, FetchPartition] = field(factory=dict)
    """The newest request for each partition."""
    last_sent: dict[TopicPartition, tuple[int, int]] = field(factory=dict)
    """High watermark and log start in the newest answer for each partition, unless it was an error or a divergence."""
    dirty: dict[TopicPartition, None] = field(factory=dict)
    """The partitions to examine, in the order in which they are read. All are in `requests`."""
    _resting: dict[TopicPartition, RemoteReplica] = field(factory=dict)
    """The leader's view of this follower, for each clean partition."""

    def to_look_at(self) -> tuple[FetchPartition, ...]:
        return tuple(self.requests[where] for where in self.dirty)

    def is_news(self, result: Fetched) -> bool:
        if result.error or result.diverging is not None or result.records:
            return True
        return self.last_sent.get(result.where) != (result.high_watermark, result.start_offset)

    def tell(self, result: Fetched) -> None:
        """Record an answer. A partition that returned records moves to the end of the order: otherwise the first
        partitions could fill every answer."""
        if result.error or result.diverging is not None:
            self.last_sent.pop(result.where, None)
            return
        self.last_sent[result.where] = result.high_watermark, result.start_offset
        if result.records:
            self.dirty[result.where] = self.dirty.pop(result.where)

    def rest(self, where: TopicPartition, follower: RemoteReplica) -> None:
        """Mark a partition as clean."""
        self.dirty.pop(where, None)
        self._resting[where] = follower
        follower.rest_in(self)

    def rouse(self, where: TopicPartition) -> None:
        """Stop counting the session's requests as fetches of a partition that was clean."""
        follower = self._resting.pop(where, None)
        if follower is not None:
            follower.wake()

    def update(self, part: FetchPartition) -> None:
        self.rouse(part.where)
        self.requests[part.where] = part
        self.dirty[part.where] = None


@define(eq=False)
class FollowerFetchSessions:
    """The fetch sessions of all followers of this broker."""

    partitions_max: int
    """A follower that fetches more partitions gets no session: all its requests are full."""
    _open: dict[BrokerId, FollowerFetchSession] = field(factory=dict)
    _holding: dict[TopicPartition, dict[BrokerId, FollowerFetchSession]] = field(factory=dict)
    """The sessions that contain each partition."""
    _last_id: int = 0

    def __len__(self) -> int:
        return len(self._open)

    def of(self, replica: BrokerId) -> FollowerFetchSession | None:
        return self._open.get(replica)

    def holding(self, where: TopicPartition) -> Iterable[FollowerFetchSession]:
        found = self._holding.get(where)
        return found.values() if found else ()

    def disturb(self, where: TopicPartition) -> None:
        """Mark a partition as dirty in all sessions, because something changed in it."""
        for session in self.holding(where):
            if where not in session.dirty:
                session.dirty[where] = None
                session.rouse(where)

    def begin(self, asked: Fetch, now: int) -> FollowerFetchSession | None:
        """Open a session for a follower that has none; return None if it would be empty or too large."""
        if not 0 < len(asked.parts) <= self.partitions_max:
            return None
        # Ids start at the current time, so a restarted leader is unlikely to repeat an id of its earlier process.
        self._last_id = max(self._last_id, now % EPOCH_MAX) % EPOCH_MAX + 1
        session = FollowerFetchSession(self._last_id, asked.replica, asked.broker_epoch, now)
        self._open[asked.replica] = session
        self._update(session, asked)
        return session

    def next_of(self, asked: Fetch, now: int) -> FollowerFetchSession:
        """Apply the next request of a session.

        Raise `KafkaError` if the session does not exist or expects another epoch. Close the session and raise
        `KafkaError` if it has another broker epoch or would be too large.
        """
        place = asked.session
        assert place is not None
        session = self._open.get(asked.replica)
        if session is None or session.id != place.id:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"broker {asked.replica} has no fetch session {place.id}"
            )
        if session.epoch != place.epoch:
            text = (
                f"fetch session {place.id} of broker {asked.replica}: expected epoch {session.epoch}, not {place.epoch}"
            )
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, text)
        new = sum(part.where not in session.requests for part in asked.parts)
        if asked.broker_epoch != session.broker_epoch or len(session.requests) + new > self.partitions_max:
            self.close(asked.replica)
            text = f"fetch session {place.id} of broker {asked.replica} would be too large, or has another broker epoch"
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, text)
        session.epoch = 1 if place.epoch == EPOCH_MAX else place.epoch + 1
        for where in place.forgotten:
            self._forget(session, where)
        self._update(session, asked)
        session.fetched_ms = now
        return session

    def _update(self, session: FollowerFetchSession, asked: Fetch) -> None:
        for part in asked.parts:
            session.update(part)
            self._holding.setdefault(part.where, {})[session.replica] = session

    def _forget(self, session: FollowerFetchSession, where: TopicPartition) -> None:
        session.rouse(where)
        if session.requests.pop(where, None) is not None:
            session.last_sent.pop(where, None)
            session.dirty.pop(where, None)
            self._let_go(session, where)

    def close(self, replica: BrokerId) -> None:
        session = self._open.pop(replica, None)
        if session is not None:
            for where in session.requests:
                self._let_go(session, where)

    def _let_go(self, session: FollowerFetchSession, where: TopicPartition) -> None:
        holding = self._holding[where]
        del holding[session.replica]
        if not holding:
            del self._holding[where]
