"""Log lines as `event key=value`, with the server and its epoch always among them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Final

import trio

from zab.core.ready import Note
from zab.core.zxid import Epoch, ServerId

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
QUIET_S: Final = 10.0
KEYS_MAX: Final = 256


class Repeats:
    """What was said of late, and how often it would have been said since. The memory is bounded, too."""

    def __init__(self) -> None:
        self._said: dict[Hashable, tuple[float, int]] = {}

    def swallowed(self, what: Hashable, now: float) -> int | None:
        """None: it was said less than ten seconds ago. Else how many were swallowed since it was said last."""
        last, swallowed = self._said.get(what, (-QUIET_S, 0))
        if now - last < QUIET_S:
            self._said[what] = (last, swallowed + 1)
            return None
        if len(self._said) >= KEYS_MAX:
            self._said.clear()
        self._said[what] = (now, 0)
        return swallowed


class Log:
    """One member's voice. What a stranger can cause again and again is said once, then counted for a while."""

    def __init__(self, server: ServerId, epoch: Callable[[], Epoch]) -> None:
        self._logger = logging.getLogger("zab")
        self._server = server
        self._epoch = epoch
        self._repeats = Repeats()

    def note(self, note: Note) -> None:
        level = LEVELS[note.level]
        if self._logger.isEnabledFor(level):
            self._write(level, note.event, note.fields)

    def say(self, event: str, level: str = "info", /, **fields: object) -> None:
        number = LEVELS[level]
        if self._logger.isEnabledFor(number):
            self._write(number, event, tuple(fields.items()))

    def failed(self, event: str, error: Exception, /, **fields: object) -> None:
        """Code that is not ours raised what it should not have: whoever mends it needs the traceback."""
        self._write(logging.ERROR, event, tuple(fields.items()), error)

    def grumble(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None:
        """A warning, or worse, about `key`, at most every ten seconds; the next one tells how many were swallowed."""
        swallowed = self._repeats.swallowed((event, key), trio.current_time())
        if swallowed is None:
            return
        if swallowed:
            fields["repeated"] = swallowed
        self.say(event, level, **fields)

    def _write(
        self, level: int, event: str, fields: tuple[tuple[str, object], ...], error: Exception | None = None
    ) -> None:
        told: dict[str, object] = {"server": self._server, "epoch": self._epoch(), **dict(fields)}
        line = " ".join(f"{key}={shown(value)}" for key, value in told.items())
        # Whoever writes another format finds the parts beside the line: see `zab.cli.logs`.
        self._logger.log(level, "%s %s", event, line, exc_info=error, extra={"event": event, "fields": told})


def shown(value: object) -> str:
    """As it is, or between quotes where it could be taken for something else: what strangers call themselves ends up in
    logs, and terminals obey escapes."""
    text = str(value)
    plain = text.isprintable() and not any(char.isspace() or char in "=\"'" for char in text)
    return text if text and plain else repr(text)
