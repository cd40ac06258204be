"""The role of a server as its clients and operators see it, and since when."""

from __future__ import annotations

from typing import Final

from zab.core.messages import State
from zab.core.zxid import Epoch, Millis
from zab.service.health.status import RoleChange

_MODES: Final = {State.LEADING: "leader", State.FOLLOWING: "follower", State.OBSERVING: "observer"}


class ServerRole:
    """The role that the member reported last. Times are milliseconds of its event loop's clock."""

    def __init__(self, now: Millis) -> None:
        self.current: RoleChange | None = None
        """The role; None before the first report."""
        self.started_ms = now
        """The time at which this server started."""
        self.serving_since_ms: Millis | None = None
        """The time since which this server serves in the present epoch; None while it does not serve."""
        self.leading_since_ms = now
        """The time at which this server began to lead for the last time; its start if it never led."""
        self._served_epoch = Epoch(-1)
        self._led_epoch = Epoch(-1)

    def changed(self, role: RoleChange, now: Millis) -> None:
        """Record a new role of the server. In a new epoch the times of serving and leading start again."""
        self.current = role
        if not role.serving:
            self.serving_since_ms = None
        elif self.serving_since_ms is None or role.epoch != self._served_epoch:
            self.serving_since_ms, self._served_epoch = now, role.epoch
        if self.leading and role.epoch != self._led_epoch:
            self._led_epoch, self.leading_since_ms = role.epoch, now

    @property
    def epoch(self) -> Epoch:
        return Epoch(0) if self.current is None else self.current.epoch

    @property
    def serving(self) -> bool:
        return self.current is not None and self.current.serving

    @property
    def leading(self) -> bool:
        """True if this server leads and serves."""
        role = self.current
        return role is not None and role.serving and role.state is State.LEADING

    def mode(self, *, read_only: bool, alone: bool) -> str:
        """Return the role in the words of ZooKeeper's tools. A server that is `alone` is its whole ensemble."""
        role = self.current
        if role is None or not role.serving:
            return "read-only" if read_only else "looking"
        return "standalone" if alone else _MODES.get(role.state, "looking")

    def serving_ms(self, now: Millis) -> Millis:
        """Return the time for which this server has served in the present epoch; 0 if it does not serve."""
        return 0 if self.serving_since_ms is None else now - self.serving_since_ms
