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
    """After a fault of this kind struck; in virtual time, after it was over.

    `leader_ms`: until a quorum served again; None where it went on serving.
    """

    kind: str
    at_ms: int
    leader_ms: int | None
    write_ms: int | None
    """Until the first write was acknowledged, which was asked whenever."""
    sessions_ms: int | None = None
    """Until every client that was without a connection had one again, and its watches; None where none was without."""


@frozen
class Outcome:
    """The outcome of a run."""

    script: Script
    invariant: str | None
    """The violated invariant, None if none was."""
    what: str
    at_ms: int
    events: int
    simulated_ms: int
    committed: int
    acknowledged: int
    elections: int
    recovered_ms: int
    """From the healing of everything to equal servers."""
    counts: tuple[tuple[str, int], ...]
    """Things that happened, and how often: sorted by name."""
    messages: int = 0
    """Words that left a server for another."""
    strikes: tuple[Strike, ...] = ()
    outages: tuple[Outage, ...] = ()
    overlaps: frozenset[tuple[str, str]] = frozenset()
    """The pairs of kinds of faults of which one struck while the other lasted."""
    recoveries: tuple[Recovery, ...] = ()
    """In virtual time all faults that struck, in the order of their ends."""
    trace: Trace | None = None
    history: History | None = None
    """What the clients of the store saw; None where there were none."""
    records: Records | None = None
    """What the clients of brokers saw; None where there were none."""
    unknown: bool = False
    """It was given up before it had come to its end, before an invariant was violated. `what` says what was spent."""
    explanation: str = ""
    """The history of the clients and the objection of the checker, if a user's own machine violated an invariant."""
    place: str | None = None
    """Where logs and data of the run are kept, when something is to be looked at."""

    @property
    def valid(self) -> bool:
        """Undecided is not held."""
        return self.invariant is None and not self.unknown
