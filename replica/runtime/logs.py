"""The log of one broker."""

from __future__ import annotations

from zab.host.logs import KeyValueLog


class Log(KeyValueLog):
    """Clients choose names of 32 KB, and send thousands of them, so values are cut."""

    value_chars_max = 1_000

    def __init__(self, broker: int) -> None:
        super().__init__("replica", lambda: {"broker": broker})
