"""Log lines as `event key=value`. Lines that a stranger can cause at will are rate-limited."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Final

import trio

from zab.core.ready import Note
from zab.core.zxid import Epoch, ServerId

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
QUIET_S: Final = 10.0
"""The minimum time between two rate-limited lines about the same key."""
KEYS_MAX: Final = 256
"""The maximum number of remembered keys, and of remembered causes. Above it, all of them are forgotten."""
LINES_MAX: Final = 100
"""The maximum number of lines of one event, about different keys, that one cause may produce in `QUIET_S`."""


class TextFormatter(logging.Formatter):
    """Begin each line with the local date and time, to the millisecond and with its zone, and the level."""

    def __init__(self, form: str = "%(message)s") -> None:
        super().__init__(f"%(asctime)s %(levelname)s {form}")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # logging's name
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


class RateLimit:
    """Decides whether a log line is due, by the recent lines with the same key or cause. Its memory is bounded."""

    def __init__(self, quiet_s: float = QUIET_S, keys_max: int = KEYS_MAX) -> None:
        self._quiet_s = quiet_s
        """The minimum time between two lines about the same key."""
        self._keys_max = keys_max
        self._logged: dict[Hashable, tuple[float, int]] = {}
        """key -> the time of the last line, and the number of lines suppressed since"""
        self._by_cause: dict[Hashable, tuple[float, int]] = {}
        """cause -> when its interval began, and the number of its lines in the interval"""

    def is_quiet(self, what: Hashable, now: float) -> bool:
        """Return whether a line about the key would be suppressed now."""
        last, _ = self._logged.get(what, (-self._quiet_s, 0))
        return now - last < self._quiet_s

    def suppressed(self, what: Hashable, now: float) -> int | None:
        """Return None if this line is suppressed, else how many lines about the key were suppressed before it."""
        last, suppressed = self._logged.get(what, (-self._quiet_s, 0))
        if now - last < self._quiet_s:
            self._logged[what] = (last, suppressed + 1)
            return None
        if len(self._logged) >= self._keys_max:
            self._logged.clear()
        self._logged[what] = (now, 0)
        return suppressed

    def lines_of(self, cause: Hashable, now: float) -> int:
        """Count one line of a cause. Return the number of its earlier lines in the interval."""
        since, lines = self._by_cause.get(cause, (now, 0))
        if now - since >= self._quiet_s:
            since, lines = now, 0
        if len(self._by_cause) >= self._keys_max:
            self._by_cause.clear()
        self._by_cause[cause] = since, lines + 1
        return lines


class KeyValueLog:
    """A log of `event key=value` lines in one logger. `always` returns the first fields of each line."""

    value_chars_max: int | None = None
    """The maximum length of one value; None: no limit."""

    def __init__(self, logger: str, always: Callable[[], dict[str, object]]) -> None:
        self._logger = logging.getLogger(logger)
        self._always = always
        self._limit = RateLimit()

    def say(self, event: str, level: str | int = "info", /, **fields: object) -> None:
        number = _number(level)
        if self._logger.isEnabledFor(number):
            self._write(number, event, tuple(fields.items()))

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        """Log an error that should not happen, with its traceback."""
        self._write(logging.ERROR, event, tuple(fields.items()), error)

    def warn_rate_limited(
        self, event: str, key: object, level: str | int = "warning", /, *, cause: Hashable = None, **fields: object
    ) -> None:
        """Log a line of this event about `key` at most every ten seconds. The next one shows how many were suppressed.

        `cause` is the party that chooses the keys. If it causes more than `LINES_MAX` lines of this event in ten
        seconds, the rest is suppressed. Lines about a key that is suppressed anyway do not count: a client that tries
        again and again does not hide other clients.
        """
        now = trio.current_time()
        repeats = cause is None or self._limit.is_quiet((event, key), now)
        lines = 0 if repeats else self._limit.lines_of((event, cause), now)
        if lines == LINES_MAX:
            why = f"more than {LINES_MAX} lines of this cause: the rest is suppressed for up to {QUIET_S:.0f} s"
            self.say(event, "warning", cause=cause, why=why)
        if lines >= LINES_MAX:
            return
        suppressed = self._limit.suppressed((event, key), now)
        if suppressed is None:
            return
        if suppressed:
            fields["repeated"] = suppressed
        self.say(event, level, **fields)

    def _write(
        self, level: int, event: str, fields: tuple[tuple[str, object], ...], error: BaseException | None = None
    ) -> None:
        shown_fields = {**self._always(), **dict(fields)}
        line = " ".join(f"{key}={self._clipped(shown(value))}" for key, value in shown_fields.items())
        # Other formats take the parts from the record: see `zab.cli.kit.log_options`.
        self._logger.log(level, "%s %s", event, line, exc_info=error, extra={"event": event, "fields": shown_fields})

    def _clipped(self, text: str) -> str:
        most = self.value_chars_max
        return text if most is None or len(text) <= most else f"{text[:most]}...({len(text)} characters)"


class Log(KeyValueLog):
    """The log of one server, with its id and epoch in each line."""

    def __init__(self, server: ServerId, epoch: Callable[[], Epoch]) -> None:
        super().__init__("zab", lambda: {"server": server, "epoch": epoch()})

    def note(self, note: Note) -> None:
        """Log a note of the core."""
        level = LEVELS[note.level]
        if self._logger.isEnabledFor(level):
            self._write(level, note.event, note.fields)


def _number(level: str | int) -> int:
    return level if isinstance(level, int) else LEVELS[level]


def shown(value: object) -> str:
    """Return `str(value)`, quoted if it is empty or has whitespace, `=`, quotes or unprintable characters.

    Clients choose names that are logged. Unquoted they could imitate fields, or send escape sequences to a terminal.
    """
    text = str(value)
    plain = text.isprintable() and not any(char.isspace() or char in "=\"'" for char in text)
    return text if text and plain else repr(text)
