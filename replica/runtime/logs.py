"""Log lines as `event key=value`. What a stranger can cause again and again is said once, then counted for a while."""

from __future__ import annotations

import logging
from typing import Final

import trio

from zab.runtime.logs import shown

QUIET_S: Final = 10.0
KEYS_MAX: Final = 256


class Log:
    """One broker's voice."""

    def __init__(self, broker: int) -> None:
        self._logger = logging.getLogger("replica")
        self._broker = broker
        self._said: dict[tuple[str, object], tuple[float, int]] = {}

    def say(self, event: str, level: int = logging.INFO, /, **fields: object) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s %s", event, self._line(fields))

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        """Something that should not be: whoever mends it needs the traceback."""
        self._logger.error("%s %s", event, self._line(fields), exc_info=error)

    def grumble(self, event: str, key: object, level: int = logging.WARNING, /, **fields: object) -> None:
        """About `key`, at most every ten seconds; the next one tells how many were swallowed."""
        now = trio.current_time()
        last, swallowed = self._said.get((event, key), (-QUIET_S, 0))
        if now - last < QUIET_S:
            self._said[event, key] = (last, swallowed + 1)
            return
        if len(self._said) >= KEYS_MAX:
            self._said.clear()
        self._said[event, key] = (now, 0)
        if swallowed:
            fields["repeated"] = swallowed
        self.say(event, level, **fields)

    def _line(self, fields: dict[str, object]) -> str:
        return " ".join(f"{key}={shown(value)}" for key, value in {"broker": self._broker, **fields}.items())
