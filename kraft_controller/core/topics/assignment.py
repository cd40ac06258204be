"""The assignment of new partitions to brokers (AdminUtils.assignReplicasToBrokers in Apache Kafka).

`spread` is the default. A new topic starts at a random broker, so that topics start at different brokers. The followers
are shifted after each round over the brokers, so that the leaderships of a failed broker do not all move to its
neighbour. With racks, the replicas of a partition are in different racks if there are enough (KIP-36). `plain` is the
simple formula, for reproducible assignments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from attrs import frozen

from kraft_controller.core.names import BrokerId

NEW_PARTITIONS_MAX: Final = 10_000
"""The maximum number of new partitions in one request without a manual assignment. One write adds all of them to the
topic's node, and the brokers then create thousands of logs in a short time."""


class Policy(Enum):
    SPREAD = "spread"
    """Random start, shifted followers, spread over racks."""
    PLAIN = "plain"
    """Replica j of partition i on broker (i + j) mod n: reproducible, without regard to racks."""


class AssignmentError(ValueError):
    """The requested assignment is impossible. The message gives the reason."""


class InvalidPartitions(AssignmentError):
    pass


class InvalidReplicationFactor(AssignmentError):
    pass


class InvalidReplicaAssignment(AssignmentError):
    pass


@frozen
class Start:
    """The parameters of `spread` and `spread_over_racks`."""

    broker: int
    """The index of partition 0's leader among the ordered brokers."""
    shift: int
    """The shift of the followers in the first round."""
    partition: int = 0
    """The number of the first new partition."""


def plain(brokers: Sequence[BrokerId], partitions: int, factor: int) -> list[tuple[BrokerId, ...]]:
    """Assign replica j of partition i to broker (i + j) mod n."""
    _check(len(brokers), partitions, factor)
    ids, n = sorted(brokers), len(brokers)
    return [tuple(ids[(i + j) % n] for j in range(factor)) for i in range(partitions)]


def spread(brokers: Sequence[BrokerId], partitions: int, factor: int, start: Start) -> list[tuple[BrokerId, ...]]:
    """Spread leaders and followers without regard to racks."""
    _check(len(brokers), partitions, factor)
    ids, n = sorted(brokers), len(brokers)
    made, shift = [], start.shift
    for partition in range(start.partition, start.partition + partitions):
        if partition > 0 and partition % n == 0:
            shift += 1
        first = (partition + start.broker) % n
        replicas = [ids[first]]
        replicas += [ids[(first + 1 + (shift + j) % (n - 1)) % n] for j in range(factor - 1)]
        made.append(tuple(replicas))
    return made


def spread_over_racks(
    racks: Mapping[BrokerId, str], partitions: int, factor: int, start: Start
) -> list[tuple[BrokerId, ...]]:
    """Spread the replicas of each partition: a rack gets a second one only after every rack has one.

    As in assignReplicasToBrokersRackAware, candidates are tried in an order in which the racks alternate. A candidate
    is skipped if its rack already has a replica while another rack has none, or if it already has the partition.
    """
    _check(len(racks), partitions, factor)
    ids = alternated(racks)
    n, rack_count = len(ids), len(set(racks.values()))
    made, shift = [], start.shift
    for partition in range(start.partition, start.partition + partitions):
        if partition > 0 and partition % n == 0:
            shift += 1
        first = (partition + start.broker) % n
        replicas = [ids[first]]
        used = {racks[ids[first]]}
        probe = 0
        while len(replicas) < factor:
            broker = ids[(first + 1 + (shift * rack_count + probe) % (n - 1)) % n]
            probe += 1
            rack = racks[broker]
            if (rack not in used or len(used) == rack_count) and (broker not in replicas or len(replicas) == n):
                replicas.append(broker)
                used.add(rack)
        made.append(tuple(replicas))
    return made


def alternated(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Return the brokers in an order in which the racks alternate."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    waiting = [by_rack[rack] for rack in sorted(by_rack)]
    most = max(map(len, waiting), default=0)
    return [brokers[place] for place in range(most) for brokers in waiting if place < len(brokers)]


def assign(
    brokers: Mapping[BrokerId, str | None],
    partitions: int,
    factor: int,
    start: Start,
    policy: Policy = Policy.SPREAD,
) -> list[tuple[BrokerId, ...]]:
    """Assign replicas by policy. `SPREAD` uses racks if all brokers have one, and raises `AssignmentError` if only some
    have one."""
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if policy is Policy.PLAIN:
        return plain(sorted(brokers), partitions, factor)
    if not racks:
        return spread(sorted(brokers), partitions, factor, start)
    if len(racks) != len(brokers):
        bare = sorted(set(brokers) - set(racks))
        raise AssignmentError(f"brokers {bare} have no rack, but the others do: give a rack to all, or to none")
    return spread_over_racks(racks, partitions, factor, start)


def growth(brokers: Sequence[BrokerId], first_replica: BrokerId, existing: int) -> Start:
    """Return the start for partitions added after `existing` ones. It depends on the first replica of the first
    partition."""
    ids = sorted(brokers)
    place = next((place for place, broker in enumerate(ids) if broker >= first_replica), 0)
    return Start(place, place, existing)


def check_manual(assignment: Mapping[int, Sequence[int]], known: Sequence[BrokerId], first: int = 0) -> None:
    """Check a manual assignment for partitions from `first` on. Raise `AssignmentError` if it is invalid."""
    numbers = sorted(assignment)
    if not numbers:
        raise InvalidPartitions("no partitions: at least one is needed")
    if numbers != list(range(first, first + len(numbers))):
        raise InvalidReplicaAssignment(f"partitions must be numbered from {first} without a gap, not {numbers}")
    length = len(assignment[first])
    for number in numbers:
        replicas = assignment[number]
        if not replicas:
            raise InvalidReplicaAssignment(f"partition {number} has no replicas")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"partition {number} names a broker twice: {list(replicas)}")
        if len(replicas) != length:
            raise InvalidReplicaAssignment(
                f"partition {number} has replication factor {len(replicas)}, but partition {first} has {length};"
                " use the same for all"
            )
        unknown = sorted(set(replicas) - set(known))
        if unknown:
            raise InvalidReplicaAssignment(
                f"partition {number} names unknown brokers {unknown}; registered are {sorted(known)}"
            )


def _check(brokers: int, partitions: int, factor: int) -> None:
    if partitions <= 0:
        raise InvalidPartitions(f"{partitions} partitions: at least one is needed")
    if partitions > NEW_PARTITIONS_MAX:
        raise InvalidPartitions(
            f"{partitions} partitions: one request may add at most {NEW_PARTITIONS_MAX}; add more later"
        )
    if factor <= 0:
        raise InvalidReplicationFactor(f"a replication factor of {factor}: at least one replica is needed")
    if factor > brokers:
        raise InvalidReplicationFactor(
            f"a replication factor of {factor} needs {factor} available brokers, but there are {brokers}"
        )
