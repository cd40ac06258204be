"""A bound on what replicas that are on the move may fetch, so that those who have to keep up get their share.

What was taken in one go may be more than the rate allows, since a batch is never taken apart; then nothing more is
taken until time has made up for it.
"""

from __future__ import annotations

from typing import Final

from attrs import define

LONG_MS: Final = 3_600_000
"""Until it is looked at again, where nothing may be taken at all."""


@define
class Throttle:
    """bytes_s   None: as much as comes; 0: nothing
    free_at   when what was taken so far is made up for
    """

    bytes_s: int | None
    free_at: float = 0.0

    def took(self, size: int, now: int) -> None:
        if self.bytes_s:
            self.free_at = max(self.free_at, now) + size * 1000 / self.bytes_s

    def open_at(self, now: int) -> int:
        if self.bytes_s == 0:
            return now + LONG_MS
        return now if self.bytes_s is None or self.free_at <= now else int(self.free_at) + 1
