"""What the controller tells brokers, and how the commands of one event are gathered: one of a kind for each broker.

Whoever receives one compares three epochs before he obeys: his own (was it meant for this life of mine?), the
controller's (is there a newer one?), and for each partition the leader's (is this news?).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from attrs import evolve, frozen

from kraft_controller.core.cluster import Cluster
from kraft_controller.core.names import (
    DELETED,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from kraft_controller.core.state import Assignment, Broker, PartitionState

EPOCH_UNKNOWN: Final = LeaderEpoch(-1)
EPOCH_OF_DELETION: Final = LeaderEpoch(-2)


@frozen
class Role:
    """Of one partition: who leads it and who is in sync, and who holds it."""

    where: TopicPartition
    topic_id: TopicId | None
    state: PartitionState
    assignment: Assignment
    is_new: bool = False
    """The replica is to begin, so an empty log is no loss."""


@frozen
class Stop:
    where: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


@frozen
class LeaderAndIsr:
    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    full: bool
    """All that this broker holds is named: what it holds beside is astray."""
    roles: tuple[Role, ...]
    leaders: tuple[Broker, ...]
    """Where those live who lead."""


@frozen
class UpdateMetadata:
    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    roles: tuple[Role, ...]
    """A leader of `DELETED` means: forget it."""
    brokers: tuple[Broker, ...]
    """All that are alive, always."""
    full: bool = False
    """All that there is is named: what is known beside is of topics that are gone, of whose end nobody told in time."""


@frozen
class StopReplica:
    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    stops: tuple[Stop, ...]


Command: TypeAlias = LeaderAndIsr | UpdateMetadata | StopReplica


def in_pieces(command: Command, most: int) -> Iterator[Command]:
    """The same, said so that each piece begins or ends `most` replicas at most.

    That one names all is known only at its end: it comes whole then, and of what the pieces have said already it says
    nothing new. What is only remembered, of partitions that may be anywhere, is cheap and comes whole.
    """
    match command:
        case LeaderAndIsr() if len(command.roles) > most:
            for at in range(0, len(command.roles), most):
                yield evolve(command, full=False, roles=command.roles[at : at + most])
            if command.full:
                yield command
        case StopReplica() if len(command.stops) > most:
            for at in range(0, len(command.stops), most):
                yield evolve(command, stops=command.stops[at : at + most])
        case _:
            yield command


class Batch:
    """What one event has to say. Sent when its writes stand, in the order: roles, metadata, stops."""

    def __init__(self, cluster: Cluster, controller: BrokerId) -> None:
        self._cluster = cluster
        self._controller = controller
        self._roles: dict[BrokerId, dict[TopicPartition, Role]] = {}
        self._stops: dict[BrokerId, dict[TopicPartition, Stop]] = {}
        self._metadata: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._everybodys: dict[TopicPartition, None] = {}
        """What all are told of partitions: most of it, so it is kept and made once."""
        self._everybody = False
        self._full: set[BrokerId] = set()
        self._all_metadata: set[BrokerId] = set()

    def tell_role(self, brokers: Iterable[BrokerId], where: TopicPartition, *, is_new: bool = False) -> None:
        """Its role in this partition, and to everybody what has become of the partition."""
        cluster = self._cluster
        state = cluster.states[where]
        topic = cluster.topics[where.topic]
        for broker in brokers:
            if broker in cluster.brokers:
                told = self._roles.setdefault(broker, {})
                new = is_new or (where in told and told[where].is_new)
                told[where] = Role(where, topic.id, state, cluster.assignment(where), new)
        self.tell_metadata(cluster.brokers, [where])

    def tell_all(self, brokers: Iterable[BrokerId]) -> None:
        """What is said to these now is all that concerns them, and if that is nothing they hear so. Where something
        cannot be read it is not all: what they hold of that they go on with."""
        for broker in brokers:
            if broker in self._cluster.brokers:
                if not self._cluster.unreadable:
                    self._full.add(broker)
                self._roles.setdefault(broker, {})

    def tell_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        if brokers is self._cluster.brokers:
            self._everybody = True
            self._everybodys.update(dict.fromkeys(partitions))
            return
        partitions = list(partitions)
        for broker in brokers:
            if broker in self._cluster.brokers:
                self._metadata.setdefault(broker, {}).update(dict.fromkeys(partitions))

    def tell_all_metadata(self, brokers: Iterable[BrokerId]) -> None:
        """What is said to these now of partitions is all that there is, if all of it can be read."""
        self.tell_metadata(brokers, self._cluster.all_partitions())
        if not self._cluster.unreadable:
            self._all_metadata.update(brokers)

    def tell_stop(self, broker: BrokerId, where: TopicPartition, *, delete: bool) -> None:
        cluster = self._cluster
        if broker not in cluster.brokers:
            return
        if cluster.is_deleting(where.topic):
            epoch = EPOCH_OF_DELETION
        else:
            state = cluster.states.get(where)
            epoch = EPOCH_UNKNOWN if state is None else state.leader_epoch
        told = self._stops.setdefault(broker, {})
        told[where] = Stop(where, epoch, delete or (where in told and told[where].delete))

    def commands(self) -> list[tuple[BrokerId, Command]]:
        """All of it, as of now; then the batch is empty."""
        cluster = self._cluster
        everybody = tuple(cluster.brokers.values())
        made: list[tuple[BrokerId, Command]] = []
        for broker, roles in self._roles.items():
            leaders = {role.state.leader: None for role in roles.values()}
            living = tuple(cluster.brokers[leader] for leader in leaders if leader in cluster.brokers)
            made.append(
                (broker, LeaderAndIsr(*self._from(broker), broker in self._full, tuple(roles.values()), living))
            )
        common = self._as_metadata(self._everybodys)
        for broker in {**(dict.fromkeys(cluster.brokers) if self._everybody else {}), **self._metadata}:
            own = [where for where in self._metadata.get(broker, ()) if where not in self._everybodys]
            known = (*common, *self._as_metadata(own)) if own else common
            made.append((broker, UpdateMetadata(*self._from(broker), known, everybody, broker in self._all_metadata)))
        for broker, stops in self._stops.items():
            made.append((broker, StopReplica(*self._from(broker), tuple(stops.values()))))
        self.clear()
        return [(broker, command) for broker, command in made if broker in cluster.brokers]

    def clear(self) -> None:
        for told in (
            self._roles, self._stops, self._metadata, self._everybodys, self._full, self._all_metadata,
        ):  # fmt: skip
            told.clear()
        self._everybody = False

    def _from(self, broker: BrokerId) -> tuple[BrokerId, ControllerEpoch, BrokerEpoch]:
        known = self._cluster.brokers.get(broker)
        return self._controller, self._cluster.epoch, BrokerEpoch(-1) if known is None else known.epoch

    def _as_metadata(self, partitions: Iterable[TopicPartition]) -> tuple[Role, ...]:
        """Of those of which there is something to say."""
        cluster = self._cluster
        roles = []
        for where in partitions:
            topic, state = cluster.topics.get(where.topic), cluster.states.get(where)
            if topic is None or state is None:
                continue
            if cluster.is_deleting(where.topic):
                state = evolve(state, leader=DELETED)
            roles.append(Role(where, topic.id, state, cluster.assignment(where)))
        return tuple(roles)
