"""Log lines as `event key=value`. What a stranger can cause again and again is said once, then counted for a while."""

from __future__ import annotations

import logging

import trio

from zab.runtime.logs import Repeats, shown


class Log:
    """One broker's voice."""

    def __init__(self, broker: int) -> None:
        self._logger = logging.getLogger("replica")
        self._broker = broker
        self._repeats = Repeats()

    def say(self, event: str, level: int = logging.INFO, /, **fields: object) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s %s", event, self._line(fields))

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        """Something that should not be: whoever mends it needs the traceback."""
        self._logger.error("%s %s", event, self._line(fields), exc_info=error)

    def grumble(self, event: str, key: object, level: int = logging.WARNING, /, **fields: object) -> None:
        """About `key`, at most every ten seconds; the next one tells how many were swallowed."""
        swallowed = self._repeats.swallowed((event, key), trio.current_time())
        if swallowed is None:
            return
        if swallowed:
            fields["repeated"] = swallowed
        self.say(event, level, **fields)

    def _line(self, fields: dict[str, object]) -> str:
        return " ".join(f"{key}={shown(value)}" for key, value in {"broker": self._broker, **fields}.items())
