"""What a judge says of a broken promise: for whom, where, and by what it is proved."""

from __future__ import annotations

from attrs import frozen

from harness.checkers.records.history import Event


def proof(*events: Event) -> tuple[Event, ...]:
    """Each once, in the order in which they were seen."""
    return tuple(sorted(dict.fromkeys(events), key=lambda event: event.at))


@frozen
class Broken:
    promise: str
    what: str
    evidence: tuple[Event, ...]
    """As few events as prove it, and of polls no more than that: without any one of them it would not be proved."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"
