"""Measure the times without a leader: how long a server looks for one, and how long it does not serve.

The module is pure: times are seconds of a monotonic clock, unless a name says otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from attrs import frozen

from zab.core.messages import State
from zab.service.health.status import RoleChange

ELECTIONS_KEPT: Final = 20


@frozen
class PastElection:
    """An election after which this server began to serve: at `at_ms` (wall clock), after `took_ms` without service."""

    at_ms: int
    epoch: int
    leader: int
    took_ms: int
    mode: str


@frozen
class Outages:
    """The lengths of the election and the outage that a change of the role has ended; None if it has not ended one."""

    election_ms: float | None = None
    unavailable_ms: int | None = None


class Availability:
    """Measures the outages of a server. The first one begins at the start, because the server is LOOKING then."""

    def __init__(self, now: float) -> None:
        self.elections: deque[PastElection] = deque(maxlen=ELECTIONS_KEPT)
        """The last `ELECTIONS_KEPT` elections, the oldest first."""
        self._looking_since: float | None = now
        """The time since which this server is LOOKING; None while it leads, follows or observes."""
        self._lost_since: float | None = now
        """The time since which this server does not serve; None while it serves."""

    def role_changed(self, role: RoleChange, mode: str, now: float, wall_ms: int) -> Outages:
        """Record the server's new role. Return the outages that end with it."""
        election_ms = unavailable_ms = None
        if role.state is State.LOOKING:
            if self._looking_since is None:
                self._looking_since = now
        elif self._looking_since is not None:
            election_ms = (now - self._looking_since) * 1000
            self._looking_since = None
        if not role.serving:
            if self._lost_since is None:
                self._lost_since = now
        elif self._lost_since is not None:
            unavailable_ms = round((now - self._lost_since) * 1000)
            self._lost_since = None
            self.elections.append(PastElection(wall_ms, role.epoch, role.leader or 0, unavailable_ms, mode))
        return Outages(election_ms, unavailable_ms)
