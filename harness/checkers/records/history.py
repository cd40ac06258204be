"""The history of the clients of brokers, which `harness.checkers.records` checks.

The events are one list. For one client, the order of the list is the order in which it saw the events; between clients
only the times count. The list has no internal state of brokers, so it can be recorded with any brokers that use Kafka's
protocol.

A partition has one name, such as `orders-0`. A value is a string that is sent only once: a producer that repeats a send
with an unknown outcome must use a new value.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from attrs import frozen

ALL: Final = -1
"""The value of `acks` that requires all replicas in sync."""
NOWHERE: Final = -1
"""An unknown offset. As the offset of a group: no offset was ever committed."""
NOBODY: Final = 0
"""The client of an event that no client has recorded."""
POSITIONS: Final = "__consumer_offsets-"
"""The prefix of the names of the partitions that hold the offsets of groups."""
NO_GENERATION: Final = -1
"""An unknown generation of a group."""


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


# -- producers -----------------------------------------------------------------------------------------


@frozen
class Sent:
    """A producer is about to send a record. The events of one client are in the order of its sends."""

    at: int
    """The time in microseconds since the run began."""
    client: int
    call: int
    """The number of the call, unique in the run."""
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
    """The offset in the reply, or `NOWHERE`."""


# -- consumers -----------------------------------------------------------------------------------------


@frozen
class Assigned:
    """The consumer reads only these partitions from now on, by its own choice or after a rebalance."""

    at: int
    client: int
    begins: tuple[Place, ...] = ()
    """The newly assigned partitions with the starting offsets; `NOWHERE`: unknown."""
    goes_on: tuple[str, ...] = ()
    """The partitions that the consumer had before, and keeps."""
    group: str = ""
    """The group that assigned the partitions. Empty: no group."""
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
    """The positions before and after the poll. The default is from the first record of a partition to after its
    last."""


# -- offsets of groups ---------------------------------------------------------------------------------


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


# -- failures ------------------------------------------------------------------------------------------


@frozen
class Failed:
    """The call was refused: it certainly has no effect."""

    at: int
    client: int
    call: int
    error: str


@frozen
class Unknown:
    """The call may have taken effect, may still do so, or never will, like a call without any reply."""

    at: int
    client: int
    call: int
    error: str = ""


@frozen
class Ended:
    """The client has ended. A later client with the same number has none of its state."""

    at: int
    client: int


# -- allowed losses ------------------------------------------------------------------------------------


@frozen
class Trimmed:
    """A client is about to send a DeleteRecords request: from now on, records below `upto` may be missing."""

    at: int
    client: int
    partition: str
    upto: int


@frozen
class Undone:
    """Records that were written, acknowledged and read before this event may be lost, and their offsets reused.

    A leader was elected that lacked committed records: by an allowed unclean election, or with a disk that had lost
    them. The observer of the run records the event after the election.
    """

    at: int
    client: int
    """Always `NOBODY`: the observer of the run records this event, and no client does."""
    partition: str
    """The partition. For one of the offsets topic, committed offsets of all groups may be lost."""


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
    """True if a client has read every partition to its end after the last write, so that no unread record remains."""
