"""Notices that the process was suspended, and keeps a coordinator from acting on outdated state afterwards.

If a broker is suspended for longer than its session lasts, others may have been elected in its place. When it resumes,
it must not answer from memory before the store has confirmed its session. Requests that arrived meanwhile are still
unread in sockets. They are read before the clock is, since otherwise all members of groups would be expired, and all
transactions be overdue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

CHECK_S: Final = 0.25
SUSPENDED_MS: Final = 1_000
"""A check that comes this late was kept from running: the process was stopped, or swapped out."""
GRACE_MS: Final = 1_000
"""How long requests are read after a suspension, before the clock counts."""


class SuspensionMonitor:
    """Checks four times a second whether the process has run since the last check."""

    def __init__(
        self,
        now: Callable[[], int],
        still_leads: Callable[[], Awaitable[bool]],
        report: Callable[[int], None],
        resign: Callable[[], None],
    ) -> None:
        self._now = now
        self._still_leads = still_leads
        """Returns whether the store confirms that no other broker was elected meanwhile."""
        self._report = report
        """Receives the length of a suspension in milliseconds."""
        self._resign = resign
        """Called if the session is over."""
        self._checked_at = now()
        self._confirmed = trio.Event()
        """Set, and replaced, when a suspension has been dealt with."""
        self._grace_ends = 0

    @property
    def suspended(self) -> bool:
        """The process was suspended, and the store has not been asked yet."""
        return self._now() - self._checked_at > SUSPENDED_MS

    @property
    def grace_ms(self) -> int:
        """How long requests are still read before the clock counts; not positive without a recent suspension."""
        return self._grace_ends - self._now()

    async def confirmed(self) -> None:
        """Wait until the suspension has been dealt with."""
        await self._confirmed.wait()

    def begin(self) -> None:
        """Count from now on: nothing was missed before `run`."""
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
