"""The outcomes of attempts to reach each server: logged once while they stay the same, and listed in full on giving up.

A client that cannot connect tries again and again. Its log is for people: one line for each new outcome, and one from
time to time while nothing changes.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from zab.client.hosts import Host, shown

QUIET_S: Final = 60.0
"""The same outcome of the same server is not logged more often than this."""
SERVERS_MAX: Final = 1_000
"""Servers remembered for that. Names change their addresses; beyond this number an outcome may be logged twice."""

_log: Final = logging.getLogger("zab.client")


class ConnectAttempts:
    def __init__(self, hosts: tuple[Host, ...]) -> None:
        self._whys: dict[Host, dict[str, str]] = {host: {} for host in hosts}
        self._now: tuple[Host, str, str] | None = None
        self._said: dict[str, tuple[str, float]] = {}

    def begin(self, host: Host, server: str, doing: str) -> None:
        """Begin an attempt. `doing`: the text to report if the caller gives up before its end."""
        self._now = host, server, doing

    @property
    def doing(self) -> str:
        return "" if self._now is None else self._now[2]

    def reached(self) -> None:
        """One of them serves: what was wrong with the others is of no interest any more."""
        for whys in self._whys.values():
            whys.clear()

    def failed(self, host: Host, server: str, why: str, event: str = "client_cannot_connect", *, warn: bool) -> None:
        self._now = None
        self._whys[host][server] = why
        now = trio.current_time()
        before, said_at = self._said.get(server, ("", 0.0))
        if why != before or now - said_at >= QUIET_S:
            if len(self._said) >= SERVERS_MAX:
                self._said.clear()
            self._said[server] = why, now
            _log.log(logging.WARNING if warn else logging.INFO, "%s server=%s why=%r", event, server, why)

    def told(self) -> str:
        """Each server, and what it did."""
        parts: list[str] = []
        for host, whys in self._whys.items():
            found = dict(whys)
            if self._now is not None and self._now[0] == host:
                _, server, doing = self._now
                found.setdefault(server, doing)
            parts += [f"{server}: {why}" for server, why in found.items()] or [f"{shown(host)}: not tried"]
        return "; ".join(parts)
