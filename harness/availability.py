"""The times at which clients could be served, the times of faults, and the durations of the recoveries.

Nothing in here is judged: it is what campaigns add up. A quorum serves while a leader and enough of its followers
all say that they serve. What came before the first such moment is the start, and no outage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from attrs import frozen

from harness.quorums import is_quorum
from zab.core.messages import State

if TYPE_CHECKING:
    from harness.checkers.oracle_state import OracleState

NOTHING_YET: Final = "nothing"
"""Blamed for an outage before any fault has struck: members that change also stop to serve."""


@frozen
class Outage:
    """From `at_ms` on nobody served for `took_ms`. `after` is the kind of the last fault that struck before."""

    at_ms: int
    took_ms: int
    after: str


@frozen
class Strike:
    """So often a fault of this kind struck while the ensemble, or whatever it struck, was in this phase."""

    kind: str
    phase: str
    times: int


class Availability:
    def __init__(self, ghost: OracleState, now: Callable[[], int]) -> None:
        self._ghost = ghost
        self._now = now
        self._strikes: dict[tuple[str, str], int] = {}
        self._last = NOTHING_YET
        self.hits: list[tuple[str, int, int]] = []
        """Which kind, from when to when, in microseconds."""
        self.beside: list[tuple[str, int, int]] = []
        """As `hits`, of those who are no servers: brokers."""
        self._served = False
        self._first: int | None = None
        """When anybody was served for the first time."""
        self._lost: tuple[int, str] | None = None
        """Since when nobody is served any more, and what is blamed."""
        self._outages: list[Outage] = []

    def struck(self, kind: str, phase: str, lasts_ms: int = 0) -> None:
        self._strike(self.hits, kind, phase, lasts_ms)
        self._last = kind

    def struck_beside(self, kind: str, phase: str, lasts_ms: int = 0) -> None:
        """Later acts of servers have other causes."""
        self._strike(self.beside, kind, phase, lasts_ms)

    def _strike(self, hits: list[tuple[str, int, int]], kind: str, phase: str, lasts_ms: int) -> None:
        now = self._now()
        hits.append((kind, now, now + lasts_ms * 1_000))
        self._strikes[kind, phase] = self._strikes.get((kind, phase), 0) + 1

    def looked(self) -> None:
        """A server's role has changed, or its process is gone."""
        serves = self._quorum_serves()
        if serves is self._served:
            return
        self._served = serves
        if not serves:
            self._lost = self._now(), self._last
            return
        if self._first is None:
            self._first = self._now()
        self._outages += self._ongoing()
        self._lost = None

    def _ongoing(self) -> list[Outage]:
        if self._lost is None:
            return []
        since, blamed = self._lost
        return [Outage(since // 1_000, (self._now() - since) // 1_000, blamed)]

    def _quorum_serves(self) -> bool:
        ghost = self._ghost
        ensemble = ghost.governing[ghost.committed]
        for leader in ghost.servers:
            if leader.serving and leader.state == State.LEADING:
                serving = [each.id for each in ghost.servers if each.serving and each.leader == leader.id]
                if is_quorum(ensemble, serving):
                    return True
        return False

    # -- what it adds up to ----------------------------------------------------------------------------

    def outages(self) -> tuple[Outage, ...]:
        """All that are over, and the one that is not, as long as it is by now."""
        return (*self._outages, *self._ongoing())

    def quiet(self) -> list[tuple[int, int]]:
        """From when to when nobody served, in milliseconds, the start included."""
        first = self._now() if self._first is None else self._first
        return [(0, first // 1_000), *((each.at_ms, each.at_ms + each.took_ms) for each in self.outages())]

    def strikes(self) -> tuple[Strike, ...]:
        return tuple(Strike(kind, phase, times) for (kind, phase), times in sorted(self._strikes.items()))
