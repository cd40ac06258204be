"""A bound on what replicas that are on the move may fetch, so that those who have to keep up get their share.

What was taken in one go may be more than the rate allows, since a batch is never taken apart; then nothing more is
taken until time has made up for it.
"""

from __future__ import annotations

from attrs import define


@define
class Throttle:
    """free_at   when what was taken so far is made up for"""

    bytes_s: int | None
    free_at: float = 0.0

    def took(self, size: int, now: int) -> None:
        if self.bytes_s:
            self.free_at = max(self.free_at, now) + size * 1000 / self.bytes_s

    def open_at(self, now: int) -> int:
        return now if self.bytes_s is None or self.free_at <= now else int(self.free_at) + 1
