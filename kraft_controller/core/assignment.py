"""Which brokers get the replicas of new partitions.

`plain` is the formula that everybody quotes. `spread` is what is used: the start is drawn by lot, so that not every
topic begins at the first broker, and the followers are shifted after each round, so that when one broker dies its
partitions do not all go to its neighbour. With racks, the replicas of a partition stand in different ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from attrs import frozen

from kraft_controller.core.names import BrokerId

NEW_PARTITIONS_MAX: Final = 10_000
"""Of one request: it is one write into one node, and thousands of logs to be made at once."""


class Policy(Enum):
    SPREAD = "spread"
    """From where a lot says, with a shift, and over racks."""
    PLAIN = "plain"
    """Replica j of partition i on broker (i + j) mod n: the same each time, and regardless of racks."""


class AssignmentError(ValueError):
    """What was asked for cannot be done; says why."""


class InvalidPartitions(AssignmentError):
    pass


class InvalidReplicationFactor(AssignmentError):
    pass


class InvalidReplicaAssignment(AssignmentError):
    pass


@frozen
class Start:
    """Where the first partition's leader stands, and how far its followers are shifted: drawn by lot, or fixed."""

    broker: int
    shift: int
    partition: int = 0
    """The number of the first new partition."""


def plain(brokers: Sequence[BrokerId], partitions: int, factor: int) -> list[tuple[BrokerId, ...]]:
    """Replica j of partition i on broker (i + j) mod n."""
    _check(len(brokers), partitions, factor)
    ids, n = sorted(brokers), len(brokers)
    return [tuple(ids[(i + j) % n] for j in range(factor)) for i in range(partitions)]


def spread(brokers: Sequence[BrokerId], partitions: int, factor: int, start: Start) -> list[tuple[BrokerId, ...]]:
    """Regardless of racks."""
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
    """No two replicas in a rack while another has none, and no two on a broker."""
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
    """One of each rack in turn, racks and the brokers in them in order."""
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
    """Spread over racks if every broker has one, and regardless of them if none has."""
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if policy is Policy.PLAIN:
        return plain(sorted(brokers), partitions, factor)
    if not racks:
        return spread(sorted(brokers), partitions, factor, start)
    if len(racks) != len(brokers):
        bare = sorted(set(brokers) - set(racks))
        raise AssignmentError(f"brokers {bare} have no rack, and the others have one: give one to all, or to none")
    return spread_over_racks(racks, partitions, factor, start)


def growth(brokers: Sequence[BrokerId], first_replica: BrokerId, existing: int) -> Start:
    """How to go on from where the `existing` partitions end: from the place of the leader of the first of them."""
    ids = sorted(brokers)
    place = next((place for place, broker in enumerate(ids) if broker >= first_replica), 0)
    return Start(place, place, existing)


def check_manual(assignment: Mapping[int, Sequence[int]], known: Sequence[BrokerId], first: int = 0) -> None:
    """What a person wrote down by hand, for partitions from `first` on."""
    numbers = sorted(assignment)
    if not numbers:
        raise InvalidPartitions("no partitions: at least one is needed")
    if numbers != list(range(first, first + len(numbers))):
        raise InvalidReplicaAssignment(f"partitions are numbered from {first} without a gap, not {numbers}")
    length = len(assignment[first])
    for number in numbers:
        replicas = assignment[number]
        if not replicas:
            raise InvalidReplicaAssignment(f"partition {number} has no replicas")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"partition {number} names a broker twice: {list(replicas)}")
        if len(replicas) != length:
            raise InvalidReplicaAssignment(
                f"partition {number} has {len(replicas)} replicas, partition {first} has {length}: give all as many"
            )
        unknown = sorted(set(replicas) - set(known))
        if unknown:
            raise InvalidReplicaAssignment(
                f"partition {number} names unknown brokers {unknown}; there are {sorted(known)}"
            )


def _check(brokers: int, partitions: int, factor: int) -> None:
    if partitions <= 0:
        raise InvalidPartitions(f"{partitions} partitions: at least one is needed")
    if partitions > NEW_PARTITIONS_MAX:
        raise InvalidPartitions(
            f"{partitions} partitions: {NEW_PARTITIONS_MAX} are the most at a time; a topic can be given more later"
        )
    if factor <= 0:
        raise InvalidReplicationFactor(f"a replication factor of {factor}: at least one replica is needed")
    if factor > brokers:
        raise InvalidReplicationFactor(
            f"a replication factor of {factor} needs as many live brokers; there are {brokers}"
        )
