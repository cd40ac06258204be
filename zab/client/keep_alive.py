"""Pings that keep a session alive while its client is silent, and notice a connection whose server is silent.

The client pings whenever one side was silent for a third of the session's timeout. The connection ends if nothing was
received for another third, and a little more, after a ping. Silence without a ping does not end the connection: a
client whose process was suspended has sent nothing that the server could answer.
"""

from __future__ import annotations

from zab.client.connection_failures import ConnectionOver


class KeepAlive:
    """The times of the last bytes of both sides of one connection, in seconds of the caller's clock."""

    def __init__(self, timeout_ms: int, now: float) -> None:
        """`timeout_ms` is the session's timeout."""
        self.sent_at = self._received_at = self._pinged_at = now
        self.unanswered_at: float | None = None
        """The time of the oldest ping after which nothing was received; None if there is no such ping."""
        self._ends_at: float | None = None
        """The time at which the connection ends unless bytes arrive before; None if no ping is overdue."""
        self._silence_s = timeout_ms / 3000
        """The silence of one side, in seconds, after which the client pings; also the time to wait for the reply."""

    def received(self, now: float) -> None:
        """Note that bytes were received: all pings so far count as answered."""
        self._received_at = now
        self.unanswered_at = self._ends_at = None

    @property
    def _due(self) -> float:
        return max(min(self.sent_at, self._received_at), self._pinged_at) + self._silence_s

    @property
    def next_at(self) -> float:
        """The time at which `must_ping` has to be called next."""
        if self._ends_at is not None:
            return self._ends_at
        return self._due if self.unanswered_at is None else min(self._due, self.unanswered_at + self._silence_s)

    def must_ping(self, now: float) -> bool:
        """Return True if the caller must send a ping now. Raise `ConnectionOver` if the server was silent too long."""
        if self._ends_at is not None:
            if now >= self._ends_at:
                raise ConnectionOver(f"nothing was received for {now - self._received_at:.3g} s")
            return False
        if self.unanswered_at is not None and now >= self.unanswered_at + self._silence_s:
            self._ends_at = now + self._silence_s / 10  # the reply may have arrived without having been read
            return False
        if now < self._due:
            return False
        self._pinged_at = now
        if self.unanswered_at is None:
            self.unanswered_at = now
        return True
