"""What became of a run, in whichever world it was."""

from __future__ import annotations

from attrs import frozen

from harness.availability import Outage, Strike
from harness.faults import Script
from harness.history import History
from harness.trace import Trace


@frozen
class Outcome:
    """What became of a run."""

    script: Script
    promise: str | None
    """The promise that was broken, None when all were kept."""
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
    trace: Trace | None = None
    history: History | None = None
    """What the clients of the store saw; None where there were none."""

    @property
    def held(self) -> bool:
        return self.promise is None
