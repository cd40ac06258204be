"""What happens to brokers with data, and what their clients ask; only where the machine is the partitions.

Brokers, topics and partitions are numbers, as in `harness.script.brokers`. `acks` is how much a producer waits for.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

ACKS: Final = ("all", "one", "none")

DURABILITIES: Final = ("cache", "each", "before")
"""cache: what is written is durable when the disk comes by; each: before an append returns; before: before it counts,
as a leader's own or as what a follower has."""

TRUNCATIONS: Final = ("fetched", "asked")
"""Where histories part a follower learns from the answer to its fetch, or asks before it fetches."""

READS: Final = ("leader", "anybody")
"""Whom consumers read from."""

LIBRARIES: Final = ("confluent", "python")
"""Whose clients are members of groups: confluent-kafka, kafka-python."""

ENDS: Final = ("leaves", "killed")
"""How a member ends."""

PARTS: Final = ("member", "alone", "hasty", "named")
"""Who commits positions: a member of a group, which shares it with others; somebody who keeps them by himself; a member
of whom something comes that it committed before the group was shared out anew; or a static member, which goes on under
its name when it is started again."""

FATES: Final = ("commits", "aborts", "vanishes")
"""How a producer ends a transaction; or it falls silent, and comes back when another one bears its name."""

OFFSETS: Final = 9
"""The number of the topic that groups are remembered in."""

UNCLEAN: Final = ("allowed", "forbidden")


@frozen
class Replication:
    """How all brokers are set up, from the beginning. The last one of a script counts."""

    at: int
    durability: str = "cache"
    truncation: str = "fetched"
    reads: str = "leader"
    in_sync: int = 1
    """`min.insync.replicas`"""
    lag_ms: int = 300
    """`replica.lag.time.max.ms`"""
    retention_bytes: int = 0
    """`retention.bytes`; 0: nothing goes for its size"""
    retention_ms: int = 0
    """`retention.ms`; 0: nothing goes for its age"""
    timeout_ms: int = 300
    """So long producers let a leader wait for the others, before they ask anew"""


# -- what clients ask ------------------------------------------------------------------------------------


@frozen
class Produce:
    """So many batches, of a record or a few. With acks all the producer is idempotent, and tries until it is told."""

    at: int
    client: int = 1
    topic: int = 1
    partition: int = 0
    count: int = 3
    acks: str = "all"


@frozen
class Consume:
    """From where this client has come to, for as long as it takes."""

    at: int
    client: int = 1
    topic: int = 1
    partition: int = 0


@frozen
class JoinGroup:
    """A client that nobody here has written reads a topic in a group, one for all of them.

    So long after it has read something it leaves, or is killed and has not said anything to anybody.
    """

    at: int
    for_ms: int = 1_500
    client: int = 1
    topic: int = 1
    library: str = "confluent"
    ends: str = "leaves"


@frozen
class DeleteRecords:
    """Of a partition, and so much of it: asked of its leader until he has answered."""

    at: int
    topic: int = 1
    partition: int = 0
    percent: int = 50


@frozen
class Transact:
    """Somebody writes so many records to each of two partitions in one transaction, and ends it."""

    at: int
    client: int = 1
    topic: int = 1
    partition: int = 0
    other: int = 1
    count: int = 2
    fate: str = "commits"


@frozen
class CommitPositions:
    """So many positions, one after the other, in a group of its number. Whoever has no more to commit leaves the group,
    or falls silent. The groups are remembered in topic 9, which the script makes as it makes others.
    """

    at: int
    client: int = 1
    group: int = 1
    part: str = "member"
    count: int = 3


# -- what people set -------------------------------------------------------------------------------------


@frozen
class AllowUnclean:
    """`unclean.leader.election.enable` of a topic."""

    at: int
    topic: int = 1
    unclean: str = "allowed"


# -- what happens to brokers -----------------------------------------------------------------------------


@frozen
class LosePower:
    """Its machine goes out, and what was not on the disk may be lost. Its session ends when its time is over.

    With `calls`: before its n-th call from here on that changes its disk.
    """

    at: int
    down_ms: int = 300
    broker: int = 0
    loss: str = "lose"
    calls: int = 0


@frozen
class Blackout:
    """Of all brokers at once."""

    at: int
    down_ms: int = 300
    loss: str = "lose"


@frozen
class WipeBroker:
    """It comes back with an empty disk."""

    at: int
    down_ms: int = 300
    broker: int = 1


@frozen
class BreakDisk:
    """The nth call of a kind fails, and every one after it. It is mended and the broker started again."""

    at: int
    down_ms: int = 500
    broker: int = 1
    error: str = "write"
    nth: int = 1


@frozen
class CutBroker:
    """No broker and no client of partitions reaches it, nor does it reach them. The store and the controller do."""

    at: int
    for_ms: int = 500
    broker: int = 0


@frozen
class PartBrokers:
    """These two do not reach each other."""

    at: int
    for_ms: int = 500
    broker: int = 1
    other: int = 2


@frozen
class SlowStore:
    """Its requests to the store take longer, so that it writes what it has read long before."""

    at: int
    for_ms: int = 500
    broker: int = 1
    more_ms: int = 100


@frozen
class SlowBroker:
    """Its messages take longer."""

    at: int
    for_ms: int = 500
    broker: int = 1
    more_ms: int = 100


PartitionOp: TypeAlias = (
    Replication | Produce | Consume | JoinGroup | CommitPositions | DeleteRecords | AllowUnclean | LosePower
    | Blackout | WipeBroker | BreakDisk | CutBroker | PartBrokers | SlowBroker
    | SlowStore | Transact
)  # fmt: skip
PARTITION_OPS: Final[tuple[type[PartitionOp], ...]] = (
    Replication, Produce, Consume, JoinGroup, CommitPositions, DeleteRecords, AllowUnclean, LosePower, Blackout,
    WipeBroker, BreakDisk, CutBroker, PartBrokers, SlowBroker, SlowStore, Transact,
)  # fmt: skip
