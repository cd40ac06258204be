"""Pings that keep a session alive while its client is silent, and notice a connection whose server is silent."""

from __future__ import annotations

from collections.abc import Callable

import trio

from zab.client.connection_failures import ConnectionOver


class KeepAlive:
    """The times of the last bytes of both sides of one connection, in seconds of Trio's clock."""

    def __init__(self, timeout_ms: int) -> None:
        """`timeout_ms` is the session's timeout."""
        self.sent_at = self.received_at = self._pinged_at = trio.current_time()
        self.unanswered_at: float | None = None
        """The time of the oldest ping after which nothing was received; None if there is no such ping."""
        self._silence_s = timeout_ms / 3000
        """The longest silence of a side without a ping."""

    async def run(self, ping: Callable[[], object]) -> None:
        """Ping whenever one side was silent for a third of the timeout.

        Raise `ConnectionOver` if nothing was received for another third, and a little more, after a ping. Silence alone
        does not end the connection: while this process is suspended, it sends nothing to be answered.
        """
        silence_s = self._silence_s
        while True:
            due = max(min(self.sent_at, self.received_at), self._pinged_at) + silence_s
            asked = self.unanswered_at
            await trio.sleep_until(due if asked is None else min(due, asked + silence_s))
            now = trio.current_time()
            if asked is not None and now >= asked + silence_s and self.unanswered_at == asked:
                await trio.sleep(silence_s / 10)  # the reply may have arrived without having been read
                if self.unanswered_at == asked:
                    raise ConnectionOver(f"nothing was received for {now - self.received_at:.3g} s")
            elif now >= due:
                self._pinged_at = now
                if self.unanswered_at is None:
                    self.unanswered_at = now
                ping()
