"""The outcome of a run, in any world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from harness.availability import Outage, Strike
from harness.faults import Script
from harness.history import History
from harness.trace import Trace

if TYPE_CHECKING:
    from harness.checkers.records import History as Records


@frozen
class Recovery:
    """The recovery after one fault. Durations begin at the end of the fault, in virtual time.

    `leader_ms`: the time until a quorum served again; None if a quorum served all the time.
    """

    kind: str
    at_ms: int
    leader_ms: int | None
    write_ms: int | None
    """The time until a write was acknowledged, no matter when it was invoked."""
    sessions_ms: int | None = None
    """The time until every disconnected client had a connection and its watches again; None if there was none."""


@frozen
class Outcome:
    """The outcome of a run."""

    script: Script
    invariant: str | None
    """The violated invariant, or None."""
    what: str
    at_ms: int
    events: int
    simulated_ms: int
    committed: int
    acknowledged: int
    elections: int
    recovered_ms: int
    """The time from the end of all faults until all servers are equal."""
    counts: tuple[tuple[str, int], ...]
    """The counters of the run: names and numbers, sorted by name."""
    messages: int = 0
    """The messages that servers sent to other servers."""
    strikes: tuple[Strike, ...] = ()
    outages: tuple[Outage, ...] = ()
    overlaps: frozenset[tuple[str, str]] = frozenset()
    """The pairs of kinds of faults that overlapped: one struck while the other lasted."""
    recoveries: tuple[Recovery, ...] = ()
    """The recovery after each fault, in the order of the ends of the faults. Empty in real time."""
    trace: Trace | None = None
    history: History | None = None
    """The history of the clients of the store; None if there were no clients."""
    records: Records | None = None
    """The history of the clients of brokers; None if there were no clients."""
    unknown: bool = False
    """True if the run exceeded its budget before its end, without a violation. `what` has the cost so far."""
    explanation: str = ""
    """The history of the clients and the verdict of the checker, if a user's machine violated an invariant."""
    place: str | None = None
    """The folder of the logs and data of the run, if it is kept for inspection."""

    @property
    def valid(self) -> bool:
        """True if the run ended and no invariant was violated. An unknown run is not valid."""
        return self.invariant is None and not self.unknown
