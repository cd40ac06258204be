"""A follower as its leader sees it: by what it asks for. A fetch at an offset says that all before it is there.

Who keeps up is judged by time alone. A follower that had everything there was when it asked last time, and asks for
more now, has caught up as of then: so one that always lags a little behind a busy leader stays in sync, and one that
falls back steadily, or is silent, does not, however many messages that may be.
"""

from __future__ import annotations

from typing import Final, Protocol

from attrs import define

from kraft_controller.core.names import BrokerEpoch, BrokerId
from replica.core.settings import Settings

UNKNOWN: Final = -1
STUCK_REPEATS: Final = 5
"""A request or an answer may be lost, or full of other partitions. This often, perhaps what comes is not taken."""
NEVER: Final = -(1 << 62)
"""Before every time there is."""


class Clock(Protocol):
    """A fetch session of the follower."""

    @property
    def fetched_ms(self) -> int:
        """The time of the session's last request."""
        ...


@define
class Follower:
    """end_offset     its LEO, as of its last fetch in this leader epoch; `UNKNOWN` until there was one
    start_offset   its first offset
    caught_up_ms   when it last had everything that was there at that time
    broker_epoch   which of its lives fetches
    repeats        how often it has asked again for what it could have had before
    """

    id: BrokerId
    caught_up_ms: int = NEVER
    end_offset: int = UNKNOWN
    start_offset: int = UNKNOWN
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    repeats: int = 0
    _fetched_ms: int = NEVER
    _leader_end_then: int = 0
    _session: Clock | None = None
    """Set while the follower has everything: each request of the session then counts for this partition too, although
    neither names the other."""

    def fetched(self, offset: int, start_offset: int, leader_end: int, now: int) -> None:
        """It asks for what begins at `offset`, while the leader's log ends at `leader_end`."""
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

    def rest_in(self, session: Clock) -> None:
        """The follower has everything; nothing happens here until `wake`."""
        self._session = session

    def wake(self) -> None:
        """Something happens in the partition: from here on only fetches of the partition itself count."""
        if self._session is not None:
            self.caught_up_ms = self.last_caught_up_ms
            self._fetched_ms = max(self._fetched_ms, self._session.fetched_ms)
            self._session = None

    @property
    def last_caught_up_ms(self) -> int:
        return self.caught_up_ms if self._session is None else max(self.caught_up_ms, self._session.fetched_ms)

    @property
    def is_stuck(self) -> bool:
        """Once in so many times."""
        return self.repeats > 0 and self.repeats % STUCK_REPEATS == 0

    def in_sync(self, leader_end: int, now: int, settings: Settings) -> bool:
        if self.end_offset == leader_end:
            return True
        if settings.lag_messages_max is not None and self.end_offset != UNKNOWN:
            return leader_end - self.end_offset <= settings.lag_messages_max and self._recently(now, settings)
        return self._recently(now, settings)

    def _recently(self, now: int, settings: Settings) -> bool:
        return now - self.last_caught_up_ms <= settings.lag_time_max_ms
