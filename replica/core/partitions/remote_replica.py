"""The leader's view of a follower. A fetch at an offset acknowledges all records before it.

A follower is in sync if it has all records, or has caught up recently. The number of records that it lacks matters
only if `lag_messages_max` is set. If its fetch offset reaches the log end that the leader had at the previous fetch,
the follower had caught up at the time of that previous fetch. So a follower that always lags a little behind a busy
leader stays in sync; one that falls back steadily, or is silent while the leader appends, does not.
"""

from __future__ import annotations

from typing import Final, Protocol

from attrs import define

from kraft_controller.core.names import BrokerEpoch, BrokerId
from replica.core.replica_settings import ReplicaSettings

UNKNOWN: Final = -1
STUCK_REPEATS: Final = 5
"""The number of repeats of a fetch after which the follower may be unable to append the records. Fewer repeats are
normal: an answer may be lost, or full of other partitions' records."""
NEVER: Final = -(1 << 62)
"""A time before all other times."""


class SessionClock(Protocol):
    """A fetch session of the follower."""

    @property
    def fetched_ms(self) -> int:
        """The time of the session's last request."""
        ...


@define
class RemoteReplica:
    """The leader's view of one follower, from the follower's fetches in this leader epoch."""

    id: BrokerId
    caught_up_ms: int = NEVER
    """The last time at which the follower had all records of the leader. `last_caught_up_ms` also counts the requests
    of `_session`."""
    end_offset: int = UNKNOWN
    """The follower's log end at its last fetch; UNKNOWN before the first one."""
    start_offset: int = UNKNOWN
    """The follower's log start at its last fetch; UNKNOWN before the first one."""
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    """The broker epoch under which the follower fetches; -1: unknown."""
    repeats: int = 0
    """The number of times in a row that the follower fetched the same offset again although records were available."""
    _fetched_ms: int = NEVER
    _leader_end_then: int = 0
    _session: SessionClock | None = None
    """The follower's fetch session, while the follower has all records. Each request of the session then counts as a
    fetch of this partition, although it does not name the partition."""

    def fetched(self, offset: int, start_offset: int, leader_end: int, now: int) -> None:
        """Record a fetch at `offset`. `leader_end`: the leader's log end."""
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
        """Count the session's requests as fetches of this partition until `wake`: the follower has all records."""
        self._session = session

    def wake(self) -> None:
        """Count only fetches that name the partition from now on."""
        if self._session is not None:
            self.caught_up_ms = self.last_caught_up_ms
            self._fetched_ms = max(self._fetched_ms, self._session.fetched_ms)
            self._session = None

    @property
    def last_caught_up_ms(self) -> int:
        return self.caught_up_ms if self._session is None else max(self.caught_up_ms, self._session.fetched_ms)

    @property
    def is_stuck(self) -> bool:
        """True after every `STUCK_REPEATS` repeats of a fetch."""
        return self.repeats > 0 and self.repeats % STUCK_REPEATS == 0

    def in_sync(self, leader_end: int, now: int, settings: ReplicaSettings) -> bool:
        """Return whether the follower has all records now, or has caught up within `replica.lag.time.max.ms` and does
        not lack more records than `lag_messages_max`."""
        if self.end_offset == leader_end:
            return True
        if settings.lag_messages_max is not None and self.end_offset != UNKNOWN:
            return leader_end - self.end_offset <= settings.lag_messages_max and self._recently(now, settings)
        return self._recently(now, settings)

    def _recently(self, now: int, settings: ReplicaSettings) -> bool:
        return now - self.last_caught_up_ms <= settings.lag_time_max_ms
