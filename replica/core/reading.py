"""How far somebody has read who takes over what a coordinator before him has written."""

from __future__ import annotations

from attrs import define


@define(eq=False)
class Reading:
    """From where a log begins to where it ended when he began.

    What he found there may be on this broker alone, and be lost with it. Nobody shall be shown something that is taken
    back then: so it counts when all of that is committed.
    """

    at: int
    end: int

    @property
    def unread(self) -> bool:
        return self.at < self.end

    def safe(self, high_watermark: int) -> bool:
        return not self.unread and high_watermark >= self.end
