"""A violation that a checker of the store reports: the promise, the client, the place, and the right answer."""

from __future__ import annotations

from attrs import frozen

from harness.history import Change, Event


@frozen
class Broken:
    promise: str
    what: str
    at: int
    """Microseconds since the run began: when a client could first know. 0: what servers decided is itself wrong."""
    session: int = 0
    call: int = 0
    zxid: int = 0
    evidence: tuple[Event | Change, ...] = ()
    """What was seen and decided, as far as it shows this."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"


def hexed(zxid: int) -> str:
    return f"{zxid:#x}"
