"""The progress of a new coordinator that reads a partition of its topic."""

from __future__ import annotations

from attrs import define


@define(eq=False)
class Reading:
    """A read of a log, from its start to its end at the election.

    Records may be on this broker alone, and be lost with it. So the state that was read counts only when all of it is
    committed: no client may see what is taken back later.
    """

    at: int
    end: int

    @property
    def unread(self) -> bool:
        return self.at < self.end

    def safe(self, high_watermark: int) -> bool:
        return not self.unread and high_watermark >= self.end
