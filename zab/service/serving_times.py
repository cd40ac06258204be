"""Since when a server serves, and leads: for the metrics and the status page."""

from __future__ import annotations

from zab.core.zxid import Epoch, Millis


class ServingTimes:
    """The times of a server by the clock of its event loop, in milliseconds. A new epoch begins both anew."""

    def __init__(self, now: Millis) -> None:
        self.started_ms = now
        """The start of this server."""
        self.serving_since_ms: Millis | None = None
        """The time since which this server serves in the present epoch; None while it does not serve."""
        self.leading_since_ms = now
        """The time at which this server began to lead for the last time; its start if it never led."""
        self._served_epoch = Epoch(-1)
        self._led_epoch = Epoch(-1)

    def role_changed(self, epoch: Epoch, now: Millis, *, serving: bool, leading: bool) -> None:
        """Take the role of the server from now on."""
        assert serving or not leading, "a leader counts only while it serves"
        if not serving:
            self.serving_since_ms = None
        elif self.serving_since_ms is None or epoch != self._served_epoch:
            self.serving_since_ms, self._served_epoch = now, epoch
        if leading and epoch != self._led_epoch:
            self._led_epoch, self.leading_since_ms = epoch, now

    def serving_ms(self, now: Millis) -> Millis:
        """Return how long this server has served in the present epoch."""
        return 0 if self.serving_since_ms is None else now - self.serving_since_ms
