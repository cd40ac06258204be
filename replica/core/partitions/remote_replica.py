"""The leader's view of a follower. A fetch at an offset acknowledges all records before it.

Time alone decides whether a follower keeps up. A follower that had everything at its previous fetch, and asks for more
now, was caught up at that time. So a follower that always lags a little behind a busy leader stays in sync; one that
falls back steadily, or is silent, does not, however many records it lacks.
"""

from __future__ import annotations

from typing import Final, Protocol

from attrs import define

from kraft_controller.core.names import BrokerEpoch, BrokerId
from replica.core.replica_settings import ReplicaSettings

UNKNOWN: Final = -1
STUCK_REPEATS: Final = 5
"""Requests and answers may get lost, or be full of other partitions. After this many repeats, the follower may be
unable to append what it receives."""
NEVER: Final = -(1 << 62)
"""A time before all others."""


class SessionClock(Protocol):
    """A fetch session of the follower."""

    @property
    def fetched_ms(self) -> int:
        """The time of the session's last request."""
        ...


@define
class RemoteReplica:
    """A follower as its leader sees it, by its fetches in this leader epoch."""

    id: BrokerId
    caught_up_ms: int = NEVER
    """The last time at which it had every record that existed then."""
    end_offset: int = UNKNOWN
    """Its log end as of its last fetch."""
    start_offset: int = UNKNOWN
    """Its log start as of its last fetch."""
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    """The broker epoch of the process that fetches."""
    repeats: int = 0
    """How often it has repeated a fetch that records were available for."""
    _fetched_ms: int = NEVER
    _leader_end_then: int = 0
    _session: SessionClock | None = None
    """Set while the follower has everything: each request of the session then counts for this partition too, although
    neither names the other."""

    def fetched(self, offset: int, start_offset: int, leader_end: int, now: int) -> None:
        """Note a fetch at `offset` while the leader's log ends at `leader_end`."""
        self.wake()
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now)
        else:
            self.repeats = self.repeats + 1 if offset == self.end_offset else 0
            if offset >= self._leader_end_then:
                self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset = offset
        self.start_offset = start_offset
        self._fetched_ms = now
        self._leader_end_then = leader_end

    def rest_in(self, session: SessionClock) -> None:
        """Count the session's requests as fetches of this partition until `wake`: the follower has everything."""
        self._session = session

    def wake(self) -> None:
        """Count only fetches of the partition itself from here on: something happens in it."""
        if self._session is not None:
            self.caught_up_ms = self.last_caught_up_ms
            self._fetched_ms = max(self._fetched_ms, self._session.fetched_ms)
            self._session = None

    @property
    def last_caught_up_ms(self) -> int:
        return self.caught_up_ms if self._session is None else max(self.caught_up_ms, self._session.fetched_ms)

    @property
    def is_stuck(self) -> bool:
        """True for one of every `STUCK_REPEATS` repeated fetches."""
        return self.repeats > 0 and self.repeats % STUCK_REPEATS == 0

    def in_sync(self, leader_end: int, now: int, settings: ReplicaSettings) -> bool:
        """Return whether the follower has caught up within `replica.lag.time.max.ms`."""
        if self.end_offset == leader_end:
            return True
        if settings.lag_messages_max is not None and self.end_offset != UNKNOWN:
            return leader_end - self.end_offset <= settings.lag_messages_max and self._recently(now, settings)
        return self._recently(now, settings)

    def _recently(self, now: int, settings: ReplicaSettings) -> bool:
        return now - self.last_caught_up_ms <= settings.lag_time_max_ms
