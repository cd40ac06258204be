"""The progress of a long synchronization, for the log of either side."""

from __future__ import annotations

from typing import Any, Final

from zab.core.zxid import Millis

PROGRESS_LOG_MS: Final = 10_000
"""The minimum time between two progress lines of one synchronization. A shorter synchronization logs none."""


class SyncProgress:
    """Decides when the progress of one synchronization is due for the log, and computes the fields of the line."""

    def __init__(self, now: Millis, held: int = 0, total: int | None = None) -> None:
        """Start at `now`. The learner had `held` bytes before; the whole snapshot has `total` bytes, if known."""
        self._held = held
        self._total = total
        self._logged_at = now
        """The time of the last line; at first, the time of the beginning."""
        self._logged = 0
        """The number of bytes that had moved at `_logged_at`."""

    def fields(self, moved: int, now: Millis) -> dict[str, Any]:
        """Return the fields of the line that is due now, or no fields. `moved`: the bytes that have moved so far.

        The rate covers the time since the last line.
        """
        took = now - self._logged_at
        if took < PROGRESS_LOG_MS:
            return {}
        rate = (moved - self._logged) * 1_000 // took
        self._logged_at, self._logged = now, moved
        fields = {"bytes": self._held + moved}
        if self._total is not None:
            fields["of"] = self._total
        return {**fields, "bytes_per_s": rate}
