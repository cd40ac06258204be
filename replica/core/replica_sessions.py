"""Fetch sessions of followers, at their leader (KIP-227).

A session keeps what its follower last asked of each partition and what it was last told, so a request names only what
changed and an answer holds only news. The leader looks only at the session's *dirty* partitions. A partition is clean
when its follower is in the ISR, has everything, and was told so: a fetch of it would find nothing and change nothing,
but for the time at which the follower was last seen, which `Follower.rest_in` takes from the session. Whatever happens
to a partition (an append, a moved high watermark or log start, another role, ISR or follower) makes it dirty in all
sessions that hold it. So the cost of a request does not depend on partitions in which nothing happens.

A follower has at most one session, and a request that does not fit it is refused: the follower then begins anew with a
complete request, which is always right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import define, field

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetch_sessions import EPOCH_MAX
from replica.core.wants import Fetch, Fetched, Wanted

BEGIN: Final = 0


@define(eq=False)
class ReplicaSession:
    """epoch        of the next request
    fetched_ms   the time of the last request
    told         high watermark and log start, as last told without an error
    dirty        partitions to look at, in the order in which they are served
    """

    id: int
    replica: BrokerId
    broker_epoch: BrokerEpoch
    fetched_ms: int
    epoch: int = 1
    wishes: dict[TopicPartition, Wanted] = field(factory=dict)
    told: dict[TopicPartition, tuple[int, int]] = field(factory=dict)
    dirty: dict[TopicPartition, None] = field(factory=dict)

    def to_look_at(self) -> tuple[Wanted, ...]:
        return tuple(self.wishes[where] for where in self.dirty)

    def is_news(self, result: Fetched) -> bool:
        if result.error or result.diverging is not None or result.records:
            return True
        return self.told.get(result.where) != (result.high_watermark, result.start_offset)

    def tell(self, result: Fetched) -> None:
        """Note what an answer says. A partition that got records is served last next time: else the first of them might
        be all that ever fits."""
        if result.error or result.diverging is not None:
            self.told.pop(result.where, None)
            return
        self.told[result.where] = result.high_watermark, result.start_offset
        if result.records:
            self.dirty[result.where] = self.dirty.pop(result.where)


@define(eq=False)
class ReplicaSessions:
    """partitions_max   of one session; a larger one is not kept, and its follower always fetches in full"""

    partitions_max: int
    _open: dict[BrokerId, ReplicaSession] = field(factory=dict)
    _holding: dict[TopicPartition, dict[BrokerId, ReplicaSession]] = field(factory=dict)
    _last_id: int = 0

    def __len__(self) -> int:
        return len(self._open)

    def of(self, replica: BrokerId) -> ReplicaSession | None:
        return self._open.get(replica)

    def holding(self, where: TopicPartition) -> Iterable[ReplicaSession]:
        found = self._holding.get(where)
        return found.values() if found else ()

    def begin(self, asked: Fetch, now: int) -> ReplicaSession | None:
        """Of a follower that has none. None: it would be too large."""
        if not 0 < len(asked.parts) <= self.partitions_max:
            return None
        # An id of the process before this one comes again only if its clock was ahead.
        self._last_id = max(self._last_id, now % EPOCH_MAX) % EPOCH_MAX + 1
        session = ReplicaSession(self._last_id, asked.replica, asked.broker_epoch, now)
        self._open[asked.replica] = session
        for part in asked.parts:
            self.wish(session, part)
        return session

    def next_of(self, asked: Fetch) -> ReplicaSession:
        """The session of this request, which is counted. `KafkaError` if the request is not the next of a session."""
        place = asked.session
        assert place is not None
        session = self._open.get(asked.replica)
        if session is None or session.id != place.id:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"broker {asked.replica} has no session {place.id}")
        if session.epoch != place.epoch:
            text = f"request {place.epoch} of session {place.id} of broker {asked.replica}: {session.epoch} is the next"
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, text)
        new = sum(part.where not in session.wishes for part in asked.parts)
        if asked.broker_epoch != session.broker_epoch or len(session.wishes) + new > self.partitions_max:
            self.close(asked.replica)
            text = f"session {place.id} of broker {asked.replica} is too large, or of another life of that broker"
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, text)
        session.epoch = 1 if place.epoch == EPOCH_MAX else place.epoch + 1
        return session

    def wish(self, session: ReplicaSession, part: Wanted) -> None:
        session.wishes[part.where] = part
        session.dirty[part.where] = None
        self._holding.setdefault(part.where, {})[session.replica] = session

    def forget(self, session: ReplicaSession, where: TopicPartition) -> None:
        if session.wishes.pop(where, None) is not None:
            session.told.pop(where, None)
            session.dirty.pop(where, None)
            self._let_go(session, where)

    def close(self, replica: BrokerId) -> None:
        session = self._open.pop(replica, None)
        if session is not None:
            for where in session.wishes:
                self._let_go(session, where)

    def _let_go(self, session: ReplicaSession, where: TopicPartition) -> None:
        holding = self._holding[where]
        del holding[session.replica]
        if not holding:
            del self._holding[where]
