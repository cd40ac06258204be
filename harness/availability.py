"""The times at which clients could be served, the times of faults, and the durations of the recoveries.

No invariant depends on this module: campaigns add up its numbers. A quorum serves while a leader and enough of its
followers all report that they serve. The time before the first such moment is the start, and not an outage.
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
"""The cause of an outage before the first fault: servers also stop serving when the membership changes."""


@frozen
class Outage:
    """No quorum served for `took_ms`, from `at_ms` on. `after` is the kind of the last fault before."""

    at_ms: int
    took_ms: int
    after: str


@frozen
class Strike:
    """The number of faults of this kind in one phase of their target: the ensemble, a server or a broker."""

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
        """The kind, begin and end of each fault of servers. Times are in microseconds."""
        self.broker_hits: list[tuple[str, int, int]] = []
        """The same for faults of brokers."""
        self._served = False
        self._first: int | None = None
        """The time at which a quorum served for the first time."""
        self._lost: tuple[int, str] | None = None
        """The begin of the present outage and its cause; None while a quorum serves."""
        self._outages: list[Outage] = []

    def struck(self, kind: str, phase: str, lasts_ms: int = 0) -> None:
        self._strike(self.hits, kind, phase, lasts_ms)
        self._last = kind

    def struck_broker(self, kind: str, phase: str, lasts_ms: int = 0) -> None:
        """Count a fault of a broker. It is never the cause of an outage of servers."""
        self._strike(self.broker_hits, kind, phase, lasts_ms)

    def _strike(self, hits: list[tuple[str, int, int]], kind: str, phase: str, lasts_ms: int) -> None:
        now = self._now()
        hits.append((kind, now, now + lasts_ms * 1_000))
        self._strikes[kind, phase] = self._strikes.get((kind, phase), 0) + 1

    def update(self) -> None:
        """Begin or end an outage. Called when the role of a server has changed, or its process has ended."""
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

    # -- the results -----------------------------------------------------------------------------------

    def outages(self) -> tuple[Outage, ...]:
        """Return all outages. The last one may still last: its length is then that until now."""
        return (*self._outages, *self._ongoing())

    def quiet(self) -> list[tuple[int, int]]:
        """Return the begin and end of each time without service, in milliseconds. The start is the first one."""
        first = self._now() if self._first is None else self._first
        return [(0, first // 1_000), *((each.at_ms, each.at_ms + each.took_ms) for each in self.outages())]

    def strikes(self) -> tuple[Strike, ...]:
        return tuple(Strike(kind, phase, times) for (kind, phase), times in sorted(self._strikes.items()))
