"""Detects that the process was suspended, and keeps a coordinator from acting on outdated state afterwards.

If a broker is suspended for longer than its session timeout, other brokers may lead its partitions afterwards. When it
resumes, it must not answer from memory before the store has confirmed that its session lasts. Requests that arrived
during the suspension are still unread. They are read before timers run; otherwise group members would expire, and
transactions would time out, although their requests have arrived.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

CHECK_S: Final = 0.25
SUSPENDED_MS: Final = 1_000
"""The time since the last check, in ms, above which the process counts as suspended."""
GRACE_MS: Final = 1_000
"""The time for reading requests after a suspension, before timers run."""


class SuspensionMonitor:
    """Checks four times a second whether the process has been suspended since the last check."""

    def __init__(
        self,
        now: Callable[[], int],
        still_leads: Callable[[], Awaitable[bool]],
        report: Callable[[int], None],
        resign: Callable[[], None],
    ) -> None:
        self._now = now
        self._still_leads = still_leads
        """Returns whether the store confirms that the session has lasted."""
        self._report = report
        """Receives the length of a suspension in milliseconds."""
        self._resign = resign
        """Called after a suspension if the session has ended."""
        self._checked_at = now()
        self._confirmed = trio.Event()
        """Set, and replaced, after each suspension, when it is known whether the session has lasted."""
        self._grace_ends = 0

    @property
    def suspended(self) -> bool:
        """True after a suspension, until it is known whether the session has lasted."""
        return self._now() - self._checked_at > SUSPENDED_MS

    @property
    def grace_ms(self) -> int:
        """The remaining time in ms before timers may run; 0 or negative without a recent suspension."""
        return self._grace_ends - self._now()

    async def confirmed(self) -> None:
        """Wait after a suspension until it is known whether the session has lasted."""
        await self._confirmed.wait()

    def begin(self) -> None:
        """Take this moment as the last check. The time before it does not count as a suspension."""
        self._checked_at = self._now()

    async def run(self) -> None:
        while True:
            await trio.sleep(CHECK_S)
            if self.suspended:
                self._report(self._now() - self._checked_at)
                if not await self._still_leads():
                    self._resign()
                self._grace_ends = self._now() + GRACE_MS
                confirmed, self._confirmed = self._confirmed, trio.Event()
                confirmed.set()
            self._checked_at = self._now()
