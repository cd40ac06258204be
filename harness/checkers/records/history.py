"""What the clients of brokers did and were told: the record that `harness.checkers.records` judges.

One list, in the order in which things were seen from outside. For any one client that order is the truth; between
clients only the times count. It says nothing of how brokers work, so it can be written of any that speak Kafka's
protocol.

A partition has one name, `orders-0`. A value is text, and never sent twice: who sends again what may have been written
gives it another one.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from attrs import frozen

ALL: Final = -1
"""`acks`: of every replica in sync."""
NOWHERE: Final = -1
"""An offset that was not told, or a position that is not known; of a group, that none was ever committed."""
NOBODY: Final = 0
"""As a client."""
POSITIONS: Final = "__consumer_offsets-"
"""How the partitions are called in which positions of groups stand."""
NO_GENERATION: Final = -1
"""Of a member that was not told, or does not say."""


class Record(NamedTuple):
    partition: str
    offset: int
    value: str


class Span(NamedTuple):
    """Where a consumer stood before and after a poll."""

    partition: str
    start: int
    end: int


class Place(NamedTuple):
    partition: str
    offset: int


# -- writing -------------------------------------------------------------------------------------------


@frozen
class Sent:
    """Right before the record left. Of one client in the order in which it sent them."""

    at: int
    """Microseconds since the run began."""
    client: int
    call: int
    """Its number, another one for each call of the run."""
    partition: str
    value: str
    acks: int = ALL
    producer: int = 0
    """Which idempotent producer it is, another number for each that was ever begun. 0: none, so it may stand twice."""


@frozen
class Acked:
    at: int
    client: int
    call: int
    offset: int = NOWHERE
    """Where it was written, if that was told."""


# -- reading -------------------------------------------------------------------------------------------


@frozen
class Assigned:
    """From now on the consumer reads these and no others, because it was told to, or because its group shares anew."""

    at: int
    client: int
    begins: tuple[Place, ...] = ()
    """It begins there; `NOWHERE`: at a place that is not known."""
    goes_on: tuple[str, ...] = ()
    """Partitions that it had before, and keeps."""
    group: str = ""
    """Who shares them out among its members, if somebody does."""
    generation: int = NO_GENERATION
    """In which of its rounds."""


@frozen
class Sought:
    """It moved on purpose, or because its place was out of range."""

    at: int
    client: int
    partition: str
    offset: int = NOWHERE


@frozen
class Polled:
    at: int
    client: int
    asked: int
    """When it began to wait."""
    records: tuple[Record, ...] = ()
    spans: tuple[Span, ...] = ()
    """Of a partition without one it is taken that it began at the first record of it and ended behind the last."""


# -- positions of groups -------------------------------------------------------------------------------


@frozen
class Committing:
    at: int
    client: int
    call: int
    group: str
    places: tuple[Place, ...]


@frozen
class Committed:
    at: int
    client: int
    call: int


@frozen
class Looking:
    """Somebody asks where a group is."""

    at: int
    client: int
    call: int
    group: str
    partitions: tuple[str, ...]


@frozen
class Found:
    at: int
    client: int
    call: int
    places: tuple[Place, ...]


# -- what goes wrong -----------------------------------------------------------------------------------


@frozen
class Failed:
    """It was refused: it certainly did not happen, and will not."""

    at: int
    client: int
    call: int
    error: str


@frozen
class Unknown:
    """It may have happened, may still happen, or never will. So it is with a call that was never answered."""

    at: int
    client: int
    call: int
    error: str = ""


@frozen
class Ended:
    """The client is gone, in whatever way. If one of its number goes on, it knows nothing of before."""

    at: int
    client: int


# -- what may go ---------------------------------------------------------------------------------------


@frozen
class Trimmed:
    """Right before somebody asks for it: from here on what stands before `upto` may be gone."""

    at: int
    client: int
    partition: str
    upto: int


@frozen
class Undone:
    """Nobody promises any more what was written, answered and read up to here: it may be gone, and others stand there.

    Somebody was made to lead the partition who lacked what others had had, since that was allowed, or since a disk
    had lost it. Who knows of that says so when it is over.
    """

    at: int
    client: int
    """`NOBODY`: it is no client that has seen it."""
    partition: str
    """One of the topic in which positions of groups stand: then those may be forgotten, of all groups."""


Event: TypeAlias = (
    Sent
    | Acked
    | Assigned
    | Sought
    | Polled
    | Committing
    | Committed
    | Looking
    | Found
    | Failed
    | Unknown
    | Ended
    | Trimmed
    | Undone
)
EVENTS: Final[tuple[type[Event], ...]] = (
    Sent, Acked, Assigned, Sought, Polled, Committing, Committed, Looking, Found, Failed, Unknown, Ended, Trimmed,
    Undone,
)  # fmt: skip


@frozen
class History:
    events: tuple[Event, ...] = ()
    complete: bool = False
    """After the last write somebody has read every partition to its end: what is not seen by now will not be."""
