"""The outcomes of the attempts to reach each server, for the log and for the final error.

A client that cannot connect tries again and again. The log has one line for each new outcome of a server, and at most
one a minute for an outcome that repeats itself.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from zab.client.hosts import Host, shown
from zab.host.logs import RateLimit

REPEATED_S: Final = 60.0
"""The shortest time between two log lines with the same outcome of the same server."""
OUTCOMES_MAX: Final = 1_000
"""The number of logged outcomes to remember. With more of them, one may be logged again within `REPEATED_S`."""

_log: Final = logging.getLogger("zab.client")


class ConnectAttempts:
    """The last outcome of each server since a server was last reached."""

    def __init__(self, hosts: tuple[Host, ...]) -> None:
        self._failures: dict[Host, dict[str, str]] = {host: {} for host in hosts}
        """host -> address -> the reason for its last failure since a server was last reached"""
        self._now: tuple[Host, str, str] | None = None
        """(host, address, the outcome if the caller gives up now) of the attempt in progress"""
        self._limit = RateLimit(REPEATED_S, OUTCOMES_MAX)

    def begin(self, host: Host, server: str, doing: str) -> None:
        """Begin an attempt, or its next step. `doing` is the outcome if the caller gives up before the attempt ends."""
        self._now = host, server, doing

    @property
    def doing(self) -> str:
        return "" if self._now is None else self._now[2]

    def reached(self) -> None:
        """Forget all failures: a server is connected."""
        for failures in self._failures.values():
            failures.clear()

    def failed(self, host: Host, server: str, why: str, event: str = "client_cannot_connect", *, warn: bool) -> None:
        self._now = None
        self._failures[host][server] = why
        if self._limit.suppressed((server, why), trio.current_time()) is not None:
            _log.log(logging.WARNING if warn else logging.INFO, "%s server=%s why=%r", event, server, why)

    def summary(self) -> str:
        """Return the last outcome of each server, or "not tried", as one text."""
        parts: list[str] = []
        for host, failures in self._failures.items():
            found = dict(failures)
            if self._now is not None and self._now[0] == host:
                _, server, doing = self._now
                found.setdefault(server, doing)
            parts += [f"{server}: {why}" for server, why in found.items()] or [f"{shown(host)}: not tried"]
        return "; ".join(parts)
