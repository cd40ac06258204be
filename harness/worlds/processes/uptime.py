"""The times at which a quorum serves, by the logs of the servers, and the recovery times after faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from attrs import frozen

from harness.availability import NOTHING_YET, Outage, Strike
from harness.history import Event, Response
from harness.outcome import Recovery
from harness.worlds.processes.server import Server


@frozen
class _Injected:
    kind: str
    phase: str
    at_us: int


class Uptime:
    def __init__(
        self, servers: dict[int, Server], is_quorum: Callable[[Collection[int]], bool], now: Callable[[], int]
    ) -> None:
        self._servers = servers
        self._is_quorum = is_quorum
        self._now = now
        self._served = False
        self._since: int | None = None
        self._blamed = NOTHING_YET
        self._outages: list[Outage] = []
        self._faults: list[_Injected] = []

    def leader(self) -> Server | None:
        """Return the leader. If several servers lead, prefer one that serves, and the newest epoch."""
        best, best_rank = None, (False, -1)
        for server in self._servers.values():
            if server.leads and server.role is not None:
                rank = (server.role.serving, server.role.epoch)
                if best is None or rank > best_rank:
                    best, best_rank = server, rank
        return best

    def quorum(self) -> bool:
        leader = self.leader()
        if leader is None or not leader.serves:
            return False
        return self._is_quorum([sid for sid, server in self._servers.items() if server.serves_under(leader.sid)])

    def fault_injected(self, kind: str) -> None:
        leader = self.leader()
        phase = "election" if leader is None else "broadcast" if leader.serves else "discovery"
        self._faults.append(_Injected(kind, phase, self._now()))

    def update(self) -> None:
        """Update the outages after the role of a server has changed or its process has ended."""
        serves = self.quorum()
        if serves is self._served:
            return
        self._served = serves
        now = self._now()
        if serves:
            if self._since is not None:
                self._outages.append(Outage(self._since // 1_000, (now - self._since) // 1_000, self._blamed))
        else:
            self._since = now
            self._blamed = self._faults[-1].kind if self._faults else NOTHING_YET

    def outages(self) -> tuple[Outage, ...]:
        return tuple(self._outages)

    def strikes(self) -> tuple[Strike, ...]:
        counted = Counter((each.kind, each.phase) for each in self._faults)
        return tuple(Strike(kind, phase, times) for (kind, phase), times in sorted(counted.items()))

    def recoveries(self, events: Iterable[Event], writes: frozenset[int]) -> tuple[Recovery, ...]:
        """Return the recovery after each fault. `writes`: the numbers of calls that are writes."""
        acknowledged = [
            event.at
            for event in events
            if isinstance(event, Response) and event.call in writes and not event.reply.error
        ]
        found = []
        for each in self._faults:
            outage = next((o for o in self._outages if o.at_ms + o.took_ms >= each.at_us // 1_000), None)
            leader_ms = None
            if outage is not None and outage.at_ms <= each.at_us // 1_000 + _SOON_MS:
                leader_ms = max(0, outage.at_ms + outage.took_ms - each.at_us // 1_000)
            write = next((at for at in acknowledged if at > each.at_us), None)
            found.append(
                Recovery(
                    each.kind,
                    each.at_us // 1_000,
                    leader_ms,
                    None if write is None else (write - each.at_us) // 1_000,
                )
            )
        return tuple(found)


_SOON_MS = 3_000
"""The maximum time from a fault to an outage that is attributed to it."""
