"""The server's contact with a leader: how long there is none, and whether its clients may read meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from zab.core.zxid import Epoch, Millis

READABLE_MS_MIN: Final = 10
"""The minimum interval between two checks whether the state may be read."""


class ReadOnlySettings(Protocol):
    """The settings of `ClientPortSettings` that decide about reads without a leader."""

    @property
    def read_only_mode_enabled(self) -> bool: ...
    @property
    def read_only_after_ms(self) -> int: ...


class LeaderContact:
    """Decides whether the state may be read: by all clients (`readable`), or by read-only clients (`read_only`)."""

    def __init__(
        self, settings: ReadOnlySettings, clock_ms: Callable[[], Millis], cut_off_since: Callable[[], Millis | None]
    ) -> None:
        self.restoring = False
        """True while a snapshot is being restored."""
        self.lost_ms: Millis | None = clock_ms()
        """The time since which this server does not serve; None while it serves."""
        self.leads: Epoch | None = None
        """The epoch that this server leads; None while it does not lead, or does not serve."""
        self._settings = settings
        self._clock_ms = clock_ms
        self._cut_off_since = cut_off_since

    def role_changed(self, *, serving: bool, leading: bool, epoch: Epoch) -> None:
        self.leads = epoch if serving and leading else None
        if serving:
            self.lost_ms = None
        elif self.lost_ms is None:
            self.lost_ms = self._clock_ms()
        assert self.leads is None or self.lost_ms is None, "a server that leads has a leader"

    @property
    def readable(self) -> bool:
        """True if the state may be read: this server serves, and no snapshot is being restored."""
        return self.lost_ms is None and not self.restoring

    @property
    def read_only(self) -> bool:
        """True if read-only clients may read the last known state.

        The conditions are that read-only mode is enabled, that this server has not served for `read_only_after_ms`, and
        that no snapshot is being restored.
        """
        return (
            self._settings.read_only_mode_enabled
            and self.lost_ms is not None
            and not self.restoring
            and self._clock_ms() - self.lost_ms >= self._settings.read_only_after_ms
        )

    @property
    def unreadable_ms(self) -> Millis:
        """The milliseconds until `readable` and `read_only` should be checked again; 0 if one of them is true."""
        if self.readable or self.read_only:
            return 0
        since_ms = 0 if self.lost_ms is None else self._clock_ms() - self.lost_ms
        return max(self._settings.read_only_after_ms - since_ms, READABLE_MS_MIN)

    @property
    def cut_off_ms(self) -> Millis | None:
        """The start of the current election if no quorum has sent votes in it; else None."""
        return self._cut_off_since()
