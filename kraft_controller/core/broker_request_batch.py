"""Commands of the controller, collected for each broker until they are sent together (ControllerBrokerRequestBatch in
Apache Kafka)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from attrs import evolve

from kraft_controller.core.commands import (
    EPOCH_OF_DELETION,
    EPOCH_UNKNOWN,
    Command,
    LeaderAndIsr,
    Role,
    Stop,
    StopReplica,
    UpdateMetadata,
)
from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.names import DELETED, BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from kraft_controller.core.state import Broker


class CommandSink(Protocol):
    """Delivers commands to brokers. Implemented by `command_channel.CommandChannel`."""

    def update_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """Open a queue for each registration without one, and drop the queues of former registrations."""

    def send(self, to: BrokerId, command: Command) -> None:
        """Append a command to the broker's queue. Drop the command if there is no queue for its broker epoch."""

    def close(self) -> None:
        """Drop all queues at the end of a term, so that none of their commands is sent any more."""


class BrokerRequestBatch:
    """Collects at most one LeaderAndIsr, one UpdateMetadata and one StopReplica for each broker.

    The batch is sent when the preceding writes are confirmed, in the order LeaderAndIsr, UpdateMetadata, StopReplica.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._roles: dict[BrokerId, dict[TopicPartition, Role]] = {}
        """The roles for LeaderAndIsr, by broker."""
        self._stops: dict[BrokerId, dict[TopicPartition, Stop]] = {}
        """The replicas to stop, by broker."""
        self._metadata: dict[BrokerId, dict[TopicPartition, None]] = {}
        """Partitions for the UpdateMetadata of single brokers."""
        self._metadata_of_all: dict[TopicPartition, None] = {}
        """Partitions for every broker's UpdateMetadata. Their roles are built once for all brokers."""
        self._all_brokers = False
        """True if every broker receives an UpdateMetadata."""
        self._full: set[BrokerId] = set()
        """Brokers whose LeaderAndIsr is marked as full."""
        self._full_metadata: set[BrokerId] = set()
        """Brokers whose UpdateMetadata is marked as full."""

    def add_leader_and_isr(self, brokers: Iterable[BrokerId], tp: TopicPartition, *, is_new: bool = False) -> None:
        """Add the partition to the LeaderAndIsr of these brokers, and to the UpdateMetadata of all."""
        context = self._context
        state = context.states[tp]
        topic = context.topics[tp.topic]
        for broker in brokers:
            if broker in context.brokers:
                roles = self._roles.setdefault(broker, {})
                new = is_new or (tp in roles and roles[tp].is_new)
                roles[tp] = Role(tp, topic.id, state, context.assignment(tp), new)
        self.add_update_metadata(context.brokers, [tp])

    def mark_full(self, brokers: Iterable[BrokerId]) -> None:
        """Mark the LeaderAndIsr of these brokers as full. A broker without replicas receives an empty one.

        While a topic or state is unreadable, no command is full, so that the brokers keep their replicas of it.
        """
        for broker in brokers:
            if broker in self._context.brokers:
                if not self._context.unreadable:
                    self._full.add(broker)
                self._roles.setdefault(broker, {})

    def add_update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        if brokers is self._context.brokers:
            self._all_brokers = True
            self._metadata_of_all.update(dict.fromkeys(partitions))
            return
        partitions = list(partitions)
        for broker in brokers:
            if broker in self._context.brokers:
                self._metadata.setdefault(broker, {}).update(dict.fromkeys(partitions))

    def add_full_metadata(self, brokers: Iterable[BrokerId]) -> None:
        """Add all partitions to the UpdateMetadata of these brokers, and mark it as full if all are readable."""
        self.add_update_metadata(brokers, self._context.all_partitions())
        if not self._context.unreadable:
            self._full_metadata.update(brokers)

    def add_stop_replica(self, broker: BrokerId, tp: TopicPartition, *, delete: bool) -> None:
        context = self._context
        if broker not in context.brokers:
            return
        if context.is_deleting(tp.topic):
            epoch = EPOCH_OF_DELETION
        else:
            state = context.states.get(tp)
            epoch = EPOCH_UNKNOWN if state is None else state.leader_epoch
        stops = self._stops.setdefault(broker, {})
        stops[tp] = Stop(tp, epoch, delete or (tp in stops and stops[tp].delete))

    def send(self, sink: CommandSink) -> None:
        """Report the registered brokers to the sink, pass it all collected commands, and start an empty batch
        (sendRequestsToBrokers)."""
        sink.update_brokers(self._context.brokers)
        for broker, command in self.take():
            sink.send(broker, command)

    def take(self) -> list[tuple[BrokerId, Command]]:
        """Return the collected commands of registered brokers, and start an empty batch."""
        context = self._context
        live = tuple(context.brokers.values())
        made: list[tuple[BrokerId, Command]] = []
        for broker, roles in self._roles.items():
            leaders = {role.state.leader: None for role in roles.values()}
            endpoints = tuple(context.brokers[leader] for leader in leaders if leader in context.brokers)
            full = broker in self._full
            made.append((broker, LeaderAndIsr(*self._header(broker), full, tuple(roles.values()), endpoints)))
        common = self._metadata_roles(self._metadata_of_all)
        for broker in {**(dict.fromkeys(context.brokers) if self._all_brokers else {}), **self._metadata}:
            own = [tp for tp in self._metadata.get(broker, ()) if tp not in self._metadata_of_all]
            known = (*common, *self._metadata_roles(own)) if own else common
            full = broker in self._full_metadata
            made.append((broker, UpdateMetadata(*self._header(broker), known, live, full)))
        for broker, stops in self._stops.items():
            made.append((broker, StopReplica(*self._header(broker), tuple(stops.values()))))
        self._clear()
        return [(broker, command) for broker, command in made if broker in context.brokers]

    def _clear(self) -> None:
        for gathered in (
            self._roles, self._stops, self._metadata, self._metadata_of_all, self._full, self._full_metadata,
        ):  # fmt: skip
            gathered.clear()
        self._all_brokers = False

    def _header(self, broker: BrokerId) -> tuple[BrokerId, ControllerEpoch, BrokerEpoch]:
        context = self._context
        known = context.brokers.get(broker)
        return context.me, context.epoch, BrokerEpoch(-1) if known is None else known.epoch

    def _metadata_roles(self, partitions: Iterable[TopicPartition]) -> tuple[Role, ...]:
        """Return the roles of the partitions whose topic and state are known. If the topic is being deleted, the leader
        is `DELETED`."""
        context = self._context
        roles = []
        for tp in partitions:
            topic, state = context.topics.get(tp.topic), context.states.get(tp)
            if topic is None or state is None:
                continue
            if context.is_deleting(tp.topic):
                state = evolve(state, leader=DELETED)
            roles.append(Role(tp, topic.id, state, context.assignment(tp)))
        return tuple(roles)
