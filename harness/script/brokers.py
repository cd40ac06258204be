"""Operations of brokers: requests to their controller, faults of brokers, and requests of their clients.

The first half is for the machines `controller` and `partitions`, the second half only for `partitions`. Brokers, topics
and partitions are numbers; broker 0 is the present controller. `way` is the way of a request of an operator: through a
node, or by a call to the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from harness.script import names
from harness.script.values import Among, Kind, Scale, Short, Upto, Value, drawn, fields_of, kinds
from harness.script.workload import Op

BROKERS_MIN, BROKERS_MAX = 3, 5
TOPICS_MAX: Final = 3
TOPIC: Final = Upto(1, TOPICS_MAX)
PARTITION: Final = Short(0, 2)
FACTOR: Final = Among((1, 2, 2, 3, 3))
BROKER: Final = Among((names.CONTROLLER, names.CONTROLLER, 1, 2, 3, 4, 5))
WAY: Final = Among(names.WAYS)
LOSS: Final = Among(names.LOSSES)


@frozen
class BrokerOp(Op):
    """An operation of the machines `controller` and `partitions`."""


@frozen
class PartitionOp(Op):
    """An operation of the machine `partitions` alone."""


# -- requests to the controller --------------------------------------------------------------------------


@frozen
class CreateTopic(BrokerOp):
    """Each partition has its replicas on consecutive brokers, and begins at the next broker."""

    topic: int = drawn(1, TOPIC)
    partitions: int = drawn(2, Upto(1, 3))
    factor: int = drawn(2, FACTOR)


@frozen
class GrowTopic(BrokerOp):
    """Add `partitions` partitions, each with as many replicas as the first one."""

    topic: int = drawn(1, TOPIC)
    partitions: int = drawn(1, Upto(1, 2))


@frozen
class DeleteTopic(BrokerOp):
    """Delete the topic, also during a reassignment."""

    topic: int = drawn(1, TOPIC)


@frozen
class Reassign(BrokerOp):
    """Move a partition to `factor` consecutive brokers, beginning with `first`."""

    topic: int = drawn(1, TOPIC)
    partition: int = drawn(0, PARTITION)
    first: int = drawn(1, Upto(1, 5))
    factor: int = drawn(2, FACTOR)
    way: str = drawn("node", WAY)


@frozen
class CancelMove(BrokerOp):
    """Cancel a reassignment, always by a call to the controller."""

    topic: int = drawn(1, TOPIC)
    partition: int = drawn(0, PARTITION)


@frozen
class ElectPreferred(BrokerOp):
    """Elect the preferred leader, the first replica."""

    topic: int = drawn(1, TOPIC)
    partition: int = drawn(0, PARTITION)
    way: str = drawn("node", WAY)


@frozen
class Balance(BrokerOp):
    """The timer of automatic leader rebalancing expires."""


@frozen
class Resign(BrokerOp):
    """The term of the controller ends, but not its session: an error ends it, or an operator deletes `/controller`."""


# -- faults of brokers -----------------------------------------------------------------------------------


@frozen
class KillBroker(BrokerOp):
    """The broker crashes. Its session expires unless it is back before."""

    down_ms: int = drawn(300, Short(1, 2_000))
    broker: int = drawn(names.CONTROLLER, BROKER)


@frozen
class BounceBroker(BrokerOp):
    """The broker closes its session, ends, and is back at once."""

    broker: int = drawn(names.CONTROLLER, BROKER)


@frozen
class Depart(BrokerOp):
    """The broker asks the controller for a controlled shutdown, and ends."""

    down_ms: int = drawn(300, Short(1, 1_500))
    broker: int = drawn(1, BROKER)


@frozen
class PauseBroker(BrokerOp):
    """The process is stopped, and continues when its session may have expired."""

    for_ms: int = drawn(1_500, Short(10, 3_000))
    broker: int = drawn(names.CONTROLLER, BROKER)


@frozen
class LoseStore(BrokerOp):
    """The broker cannot reach the store, and works in every other way."""

    for_ms: int = drawn(1_500, Short(10, 3_000))
    broker: int = drawn(names.CONTROLLER, BROKER)


@frozen
class LoseController(BrokerOp):
    """No controller can reach the broker."""

    for_ms: int = drawn(500, Short(10, 1_000))
    broker: int = drawn(1, BROKER)


@frozen
class StrikeWrite(BrokerOp):
    """The broker crashes or loses the store right before or after its n-th write to the store from then on.

    Broker 0 is the controller at the time of each write: a new controller continues the count of its predecessor.
    """

    for_ms: int = drawn(300, Short(1, 1_500))
    """The time for which a crashed broker is down, or a disconnected one cannot reach the store."""
    broker: int = drawn(names.CONTROLLER, Among((names.CONTROLLER, names.CONTROLLER, names.CONTROLLER, 1, 2, 3, 4, 5)))
    nth: int = drawn(1, Scale(1, 30))
    edge: str = drawn("before", Among(names.EDGES))
    strike: str = drawn("crash", Among((*names.STRIKES[:1] * 2, *names.STRIKES)))


BROKER_WEIGHTS: Final[Mapping[type[Op], float]] = {
    CreateTopic: 2.0, GrowTopic: 1.0, DeleteTopic: 1.0, Reassign: 4.0, CancelMove: 1.0, ElectPreferred: 1.0,
    Balance: 0.7, Resign: 1.0, KillBroker: 3.0, BounceBroker: 2.0, Depart: 1.5, PauseBroker: 2.0, LoseStore: 2.0,
    LoseController: 1.5,
}  # fmt: skip
"""The weights of the operations in scripts for the machine `controller`."""
BROKER_KINDS: Final = kinds(BROKER_WEIGHTS)
BROKER_OPS: Final[tuple[type[Op], ...]] = (*BROKER_WEIGHTS, StrikeWrite)

# -- partitions: settings --------------------------------------------------------------------------------

HELD_MAX: Final = 2
"""The most topics with data, and the most partitions of each: so many events concern each partition."""
VALID: Final = Among((1, 1, 2))
SLICE: Final = Among((0, 0, 1))
CLIENT: Final = Upto(1, 3)


@frozen
class Replication(PartitionOp):
    """The configuration of all brokers, from the beginning of the run. Only the last one of a script counts."""

    durability: str = drawn("cache", Among((*names.DURABILITIES, names.DURABILITIES[0])))
    truncation: str = drawn("fetched", Among((*names.TRUNCATIONS, names.TRUNCATIONS[0])))
    reads: str = drawn("leader", Among(names.READS))
    in_sync: int = drawn(1, Among((1, 1, 2)))
    """`min.insync.replicas`"""
    lag_ms: int = drawn(300, Upto(150, 500))
    """`replica.lag.time.max.ms`"""
    retention_bytes: int = drawn(0, Among((0, 0, 600, 2_000)))
    """`retention.bytes`; 0: no limit"""
    retention_ms: int = 0
    """`retention.ms`; 0: no limit"""
    timeout_ms: int = drawn(300, Among((300, 300, 300, 600, 1_500, 3_000, 3_000)))
    """`request.timeout.ms` of producers. A short one leads to more retries; with a long one a request is still pending
    when a deposed leader leads again."""


@frozen
class AllowUnclean(PartitionOp):
    """Set `unclean.leader.election.enable` of a topic."""

    topic: int = drawn(1, VALID)
    unclean: str = drawn("allowed", Among((*names.UNCLEAN[:1] * 2, *names.UNCLEAN)))


# -- partitions: requests of clients ---------------------------------------------------------------------


@frozen
class Produce(PartitionOp):
    """Send `count` batches of a few records. With acks=all the producer is idempotent, and retries until a reply."""

    client: int = drawn(1, CLIENT)
    topic: int = drawn(1, VALID)
    partition: int = drawn(0, SLICE)
    count: int = drawn(3, Short(1, 8))
    acks: str = drawn("all", Among((*names.ACKS[:1] * 3, *names.ACKS)))


@frozen
class Consume(PartitionOp):
    """Consume from the client's position on, until the end of the run."""

    client: int = drawn(1, CLIENT)
    topic: int = drawn(1, VALID)
    partition: int = drawn(0, SLICE)


@frozen
class JoinGroup(PartitionOp):
    """A client of another library reads a topic in a group; all such clients share one group.

    `for_ms` after its first record the client leaves the group, or is killed.
    """

    for_ms: int = 1_500
    client: int = 1
    topic: int = 1
    library: str = "confluent"
    ends: str = "leaves"


@frozen
class CommitPositions(PartitionOp):
    """Commit `count` offsets, one after the other, in a group. Then the client leaves the group or stops sending.

    The script must create topic 9, the topic of committed offsets, like any other.
    """

    client: int = 1
    group: int = 1
    part: str = "member"
    count: int = 3


@frozen
class DeleteRecords(PartitionOp):
    """Delete this share of a partition. The request is repeated until the leader replies."""

    topic: int = drawn(1, VALID)
    partition: int = drawn(0, SLICE)
    percent: int = drawn(50, Among((20, 50, 90, 100)))


@frozen
class Transact(PartitionOp):
    """Write `count` records to each of two partitions in one transaction, and end it.

    If the script creates topic 9, the transaction also commits offsets of a group.
    """

    client: int = 1
    topic: int = 1
    partition: int = 0
    other: int = 1
    count: int = 2
    fate: str = "commits"


# -- partitions: faults of brokers -----------------------------------------------------------------------


@frozen
class LosePower(PartitionOp):
    """The broker's machine loses its power, and unsynced data may be lost. Its session expires if it is not back.

    With `calls` this happens before the n-th call from then on that changes the disk.
    """

    down_ms: int = drawn(300, Short(1, 1_500))
    broker: int = drawn(names.CONTROLLER, BROKER)
    loss: str = drawn("lose", LOSS)
    calls: int = 0


@frozen
class Blackout(PartitionOp):
    """All brokers lose their power at once."""

    down_ms: int = drawn(300, Short(1, 600))
    loss: str = drawn("lose", LOSS)


@frozen
class WipeBroker(PartitionOp):
    """The broker crashes and comes back with an empty disk."""

    down_ms: int = drawn(300, Short(1, 1_000))
    broker: int = drawn(1, BROKER)


@frozen
class BreakDisk(PartitionOp):
    """The n-th call of a kind fails, and every later one. Then the disk is repaired and the broker is started again."""

    down_ms: int = drawn(500, Short(100, 1_000))
    broker: int = drawn(1, BROKER)
    error: str = drawn("write", Among(names.DISK_ERRORS))
    nth: int = drawn(1, Short(1, 12))


@frozen
class CutBroker(PartitionOp):
    """The broker is disconnected from all brokers and all clients of partitions, but not from the store and the
    controller."""

    for_ms: int = drawn(500, Short(10, 1_500))
    broker: int = drawn(names.CONTROLLER, BROKER)


@frozen
class PartBrokers(PartitionOp):
    """These two brokers cannot reach each other."""

    for_ms: int = drawn(500, Short(10, 1_500))
    broker: int = drawn(1, Upto(1, 4))
    other: int = drawn(2, Upto(1, 4))


@frozen
class SlowStore(PartitionOp):
    """The broker's requests to the store take longer, so its writes follow long after its reads."""

    for_ms: int = 500
    broker: int = 1
    more_ms: int = 100


@frozen
class SlowBroker(PartitionOp):
    """The broker's messages take longer."""

    for_ms: int = drawn(500, Short(50, 1_500))
    broker: int = drawn(1, BROKER)
    more_ms: int = drawn(100, Short(10, 400))


@frozen
class ThrottleReplica(PartitionOp):
    """An operator throttles a replica to 0 bytes/s, and its broker still fetches other partitions from the same leader.
    It is the `nth` ISR member that is not exempt: it was not in sync when it began to follow."""

    for_ms: int = drawn(800, Upto(500, 1_500))
    nth: int = drawn(1, Upto(1, 6))


_HELD: Final[Mapping[str, Value]] = {"topic": VALID, "partition": SLICE}
_OTHERS: Final[Mapping[type[Op], tuple[float, Mapping[str, Value]]]] = {
    KillBroker: (3.0, {"down_ms": Short(1, 1_500)}),
    BounceBroker: (2.0, {}),
    Depart: (1.0, {"down_ms": Short(1, 1_000)}),
    PauseBroker: (2.0, {"for_ms": Short(10, 2_000)}),
    LoseStore: (1.5, {"for_ms": Short(10, 2_000)}),
    LoseController: (1.0, {}),
    Resign: (0.5, {}),
    Reassign: (1.0, {**_HELD, "first": Upto(1, 4)}),
    CancelMove: (0.5, _HELD),
    ElectPreferred: (1.0, _HELD),
    GrowTopic: (0.3, {"topic": VALID, "partitions": Upto(1, 1)}),
    DeleteTopic: (0.3, {"topic": VALID}),
    CreateTopic: (0.5, {"topic": VALID, "partitions": Upto(1, 2)}),
    DeleteRecords: (1.0, {}),
    AllowUnclean: (0.7, {}),
    LosePower: (2.0, {}),
    Blackout: (0.5, {}),
    WipeBroker: (0.7, {}),
    BreakDisk: (0.7, {}),
    CutBroker: (2.5, {}),
    PartBrokers: (2.5, {}),
    SlowBroker: (1.0, {}),
}
"""The weights of the operations in scripts for the machine `partitions`, and the fields with other values there."""
PARTITION_KINDS: Final = tuple(Kind(weight, op, {**fields_of(op), **other}) for op, (weight, other) in _OTHERS.items())
PARTITION_OPS: Final[tuple[type[Op], ...]] = (
    Replication, Produce, Consume, JoinGroup, CommitPositions, DeleteRecords, AllowUnclean, LosePower, Blackout,
    WipeBroker, BreakDisk, CutBroker, PartBrokers, SlowBroker, SlowStore, ThrottleReplica, Transact,
)  # fmt: skip
