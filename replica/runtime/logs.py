"""Log lines as `event key=value`. What a stranger can cause again and again is said once, then counted for a while."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

import trio

from zab.runtime.logs import KEYS_MAX, QUIET_S, Repeats, shown

VALUE_MAX: Final = 1_000
"""Characters of one value of a line: clients choose names of 32 KB, and send thousands of them."""
LINES_MAX: Final = 100
"""Lines about different things that one cause may have in ten seconds."""


class Log:
    """One broker's voice."""

    def __init__(self, broker: int) -> None:
        self._logger = logging.getLogger("replica")
        self._broker = broker
        self._repeats = Repeats()
        self._lines: dict[Hashable, tuple[float, int]] = {}

    def say(self, event: str, level: int = logging.INFO, /, **fields: object) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s %s", event, self._line(fields))

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        """Something that should not be: whoever mends it needs the traceback."""
        self._logger.error("%s %s", event, self._line(fields), exc_info=error)

    def grumble(
        self, event: str, key: object, level: int = logging.WARNING, /, *, cause: Hashable = None, **fields: object
    ) -> None:
        """About `key`, at most every ten seconds; the next one tells how many were swallowed. `cause`: who decides how
        many keys there are; more than `LINES_MAX` lines because of it in ten seconds are dropped."""
        now = trio.current_time()
        swallowed = self._repeats.swallowed((event, key), now) if self._has_lines_left(event, cause, now) else None
        if swallowed is None:
            return
        if swallowed:
            fields["repeated"] = swallowed
        self.say(event, level, **fields)

    def _has_lines_left(self, event: str, cause: Hashable, now: float) -> bool:
        if cause is None:
            return True
        since, lines = self._lines.get((event, cause), (now, 0))
        if now - since >= QUIET_S:
            since, lines = now, 0
        if len(self._lines) >= KEYS_MAX:
            self._lines.clear()
        self._lines[event, cause] = since, lines + 1
        if lines == LINES_MAX:
            self.say(
                event, logging.WARNING, cause=cause, why=f"more than {LINES_MAX} lines: no more for {QUIET_S:.0f} s"
            )
        return lines < LINES_MAX

    def _line(self, fields: dict[str, object]) -> str:
        return " ".join(f"{key}={_clipped(shown(value))}" for key, value in {"broker": self._broker, **fields}.items())


def _clipped(text: str) -> str:
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}...({len(text)} characters)"
