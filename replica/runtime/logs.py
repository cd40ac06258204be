"""The log lines of one broker."""

from __future__ import annotations

from zab.host.logs import KeyValueLog


class Log(KeyValueLog):
    """Writes the log lines of a broker. Values are truncated, since clients may send thousands of names of 32 KB."""

    value_chars_max = 1_000

    def __init__(self, broker: int) -> None:
        super().__init__("replica", lambda: {"broker": broker})
