"""The history of the clients of brokers, which `harness.checkers.records` checks.

One list, in the order in which things were seen from outside. For any one client that order is the truth; between
clients only the times count. It contains nothing about the inside of brokers, so it can be recorded of any that use
Kafka's protocol.

A partition has one name, `orders-0`. A value is text and never sent twice: a producer that sends again what may have
been written sends another value.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from attrs import frozen

ALL: Final = -1
"""`acks`: by every replica in sync."""
NOWHERE: Final = -1
"""An offset that is unknown; as the offset of a group, that none was ever committed."""
NOBODY: Final = 0
"""The client of an event that no client has seen."""
POSITIONS: Final = "__consumer_offsets-"
"""The prefix of the names of the partitions that hold the offsets of groups."""
NO_GENERATION: Final = -1
"""The generation is unknown."""


class Record(NamedTuple):
    partition: str
    offset: int
    value: str


class Span(NamedTuple):
    """A consumer's position before and after a poll."""

    partition: str
    start: int
    end: int


class Place(NamedTuple):
    partition: str
    offset: int


# -- writing -------------------------------------------------------------------------------------------


@frozen
class Sent:
    """Right before the record left. The events of one client are in the order of its sends."""

    at: int
    """Microseconds since the run began."""
    client: int
    call: int
    """Its number, unique in the run."""
    partition: str
    value: str
    acks: int = ALL
    producer: int = 0
    """The number of the idempotent producer, unique in the run. 0: not idempotent, so the record may be written
    twice."""


@frozen
class Acked:
    at: int
    client: int
    call: int
    offset: int = NOWHERE
    """The offset in the reply, if it has one."""


# -- reading -------------------------------------------------------------------------------------------


@frozen
class Assigned:
    """From now on the consumer reads these partitions and no others, by its own choice or after a rebalance."""

    at: int
    client: int
    begins: tuple[Place, ...] = ()
    """Where it begins; `NOWHERE`: unknown."""
    goes_on: tuple[str, ...] = ()
    """Partitions that it had before, and keeps."""
    group: str = ""
    """The group that assigned them, if one did."""
    generation: int = NO_GENERATION
    """The generation of the group."""


@frozen
class Sought:
    """The consumer moved on purpose, or because its offset was out of range."""

    at: int
    client: int
    partition: str
    offset: int = NOWHERE


@frozen
class Polled:
    at: int
    client: int
    asked: int
    """The time when the poll began."""
    records: tuple[Record, ...] = ()
    spans: tuple[Span, ...] = ()
    """For a partition without one: from its first record to behind its last."""


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
    """A client requests the offsets of a group."""

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
    """The call was refused: it certainly did not happen, and will not."""

    at: int
    client: int
    call: int
    error: str


@frozen
class Unknown:
    """The call may have happened, may still happen, or never will, like a call without any answer."""

    at: int
    client: int
    call: int
    error: str = ""


@frozen
class Ended:
    """The client has ended. A later client of its number knows nothing of it."""

    at: int
    client: int


# -- what may go ---------------------------------------------------------------------------------------


@frozen
class Trimmed:
    """Right before a DeleteRecords request: from here on records before `upto` may be gone."""

    at: int
    client: int
    partition: str
    upto: int


@frozen
class Undone:
    """Records that were written, acknowledged and read up to here may be gone, and others have their offsets.

    A leader was elected that lacked committed records, because unclean elections are allowed, or because a disk had
    lost them. The world records this when it is over.
    """

    at: int
    client: int
    """`NOBODY`: no client has seen it."""
    partition: str
    """If it is one of the offsets topic, offsets of all groups may be forgotten."""


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
    """After the last write a client has read every partition to its end: a record unseen by now is never seen."""
