"""The cluster's live brokers, topics and leaders, as the controller's UpdateMetadata commands describe them.

A command is applied as a whole, in one step that does not wait. So a reader that does not wait between two queries sees
one state of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field

from kraft_controller.core.commands import Role, UpdateMetadata
from kraft_controller.core.names import DELETED, BrokerId, TopicId, TopicPartition
from kraft_controller.core.state import Broker, Endpoint, PartitionState


@define
class TopicMetadata:
    name: str
    id: TopicId | None
    partitions: dict[int, Role] = field(factory=dict)


class MetadataCache:
    def __init__(self) -> None:
        self.brokers: Mapping[BrokerId, Broker] = {}
        """The live brokers."""
        self.topics: dict[str, TopicMetadata] = {}
        """The topics by name. Each has at least one partition."""
        self.controller: BrokerId | None = None
        """The controller that sent the newest command; None before the first one."""
        self._names: dict[TopicId, str] = {}
        """The names of `topics` by id."""

    # -- commands of the controller --------------------------------------------------------------------------

    def update(self, command: UpdateMetadata) -> None:
        self.controller = command.controller
        self.brokers = {broker.id: broker for broker in command.brokers}
        if command.full:
            self._forget_all_but({role.where for role in command.roles})
        for role in command.roles:
            if role.state.leader == DELETED:
                self._forget(role.where)
            else:
                self._set(role)

    def _set(self, role: Role) -> None:
        name = role.where.topic
        topic = self.topics.get(name)
        if topic is None or topic.id != role.topic_id:
            if topic is not None and topic.id is not None:
                self._names.pop(topic.id, None)
            topic = self.topics[name] = TopicMetadata(name, role.topic_id)
            if role.topic_id is not None:
                self._names[role.topic_id] = name
        topic.partitions[role.where.partition] = role

    def _forget_all_but(self, named: set[TopicPartition]) -> None:
        known = [TopicPartition(topic.name, number) for topic in self.topics.values() for number in topic.partitions]
        for where in known:
            if where not in named:
                self._forget(where)

    def _forget(self, where: TopicPartition) -> None:
        topic = self.topics.get(where.topic)
        if topic is None:
            return
        topic.partitions.pop(where.partition, None)
        if not topic.partitions:
            del self.topics[where.topic]
            if topic.id is not None:
                self._names.pop(topic.id, None)

    # -- queries ---------------------------------------------------------------------------------------------

    def __contains__(self, where: TopicPartition) -> bool:
        return self.role(where) is not None

    def role(self, where: TopicPartition) -> Role | None:
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.partitions.get(where.partition)

    def state(self, where: TopicPartition) -> PartitionState | None:
        role = self.role(where)
        return None if role is None else role.state

    def leader(self, where: TopicPartition) -> BrokerId | None:
        """Return the leader of a partition, or None if it has no live leader."""
        state = self.state(where)
        return state.leader if state is not None and state.leader in self.brokers else None

    def topic_id(self, topic: str) -> TopicId | None:
        found = self.topics.get(topic)
        return None if found is None else found.id

    def name_of(self, ident: TopicId) -> str | None:
        return self._names.get(ident)

    def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None:
        """Return a broker's address on this listener; None if the broker is not live, or lacks the listener."""
        found = self.brokers.get(broker)
        return None if found is None else endpoint_of(found, listener)

    def reachable(self, listener: str) -> Iterator[tuple[Broker, Endpoint]]:
        """Yield the live brokers that have this listener, each with its address, in the order of their ids."""
        for ident in sorted(self.brokers):
            endpoint = self.endpoint(ident, listener)
            if endpoint is not None:
                yield self.brokers[ident], endpoint

    def offline(self, replicas: Iterable[BrokerId]) -> list[BrokerId]:
        return [replica for replica in replicas if replica not in self.brokers]


def endpoint_of(broker: Broker, listener: str) -> Endpoint | None:
    return next((each for each in broker.endpoints if each.listener == listener), None)
