"""The controller's picture of the cluster: what it has read and what it has written, as far as it knows.

One controller owns one picture. Decisions read it and never write it; it changes when the store has confirmed a
write, or when something was read. What is asked often (who leads what, what lives where) is kept beside it, so that
the death of one broker costs what that broker held and not what the cluster holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kraft_controller.core.names import NOBODY, BrokerId, ControllerEpoch, TopicPartition
from kraft_controller.core.state import Assignment, Broker, PartitionState, Topic
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase

Replica = tuple[TopicPartition, BrokerId]


class Cluster:
    def __init__(self, epoch: ControllerEpoch) -> None:
        self.epoch = epoch
        """Of this controller."""
        self.brokers: dict[BrokerId, Broker] = {}
        """All that are registered, also those that are leaving."""
        self.leaving: set[BrokerId] = set()
        """Asked to be let go: they still hear, and are given nothing more."""
        self.returning: set[BrokerId] = set()
        """Treated as dead at this moment, and known to be there again: as soon as that is done they count as alive."""
        self.topics: dict[str, Topic] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.unreadable: set[str | TopicPartition] = set()
        """Topics and partitions that are there, and of which nobody can tell what they are."""
        self.phases: dict[TopicPartition, PartitionPhase] = {}
        self.replicas: dict[Replica, ReplicaPhase] = {}
        self.offline_dirs: dict[BrokerId, set[TopicPartition]] = {}
        """Replicas on disks that failed, by their brokers' own word."""
        self.deleting: dict[str, None] = {}
        """Topics whose deletion was asked for, in that order."""
        self.deletion_waits: dict[str, str] = {}
        """Of those, which cannot go on now, and why."""
        self.moving: dict[TopicPartition, None] = {}
        """Partitions whose replicas are on the move."""
        self.unclean: set[str] = set()
        """Topics that may be led by anybody when nobody in sync is left."""
        self.min_isr: dict[str, int] = {}
        """Of topics that say how many must be in sync for acks=all."""
        self._on: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._led: dict[BrokerId, dict[TopicPartition, None]] = {}

    # -- brokers -------------------------------------------------------------------------------------

    @property
    def live(self) -> list[BrokerId]:
        """Who may be given something to do."""
        return [broker for broker in self.brokers if broker not in self.leaving]

    def is_live(self, broker: BrokerId) -> bool:
        return broker in self.brokers and broker not in self.leaving

    def online(self, where: TopicPartition, *, leaving_too: bool = False) -> frozenset[BrokerId]:
        """Whose replica of this partition can be used."""
        return frozenset(
            broker
            for broker in self.assignment(where).replicas
            if (broker in self.brokers if leaving_too else self.is_live(broker))
            and where not in self.offline_dirs.get(broker, ())
        )

    # -- topics --------------------------------------------------------------------------------------

    def assignment(self, where: TopicPartition) -> Assignment:
        topic = self.topics.get(where.topic)
        found = None if topic is None else topic.partitions.get(where.partition)
        return Assignment(()) if found is None else found

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        found = self.topics.get(topic)
        for number in () if found is None else found.partitions:
            yield TopicPartition(topic, number)

    def all_partitions(self) -> Iterator[TopicPartition]:
        for topic in self.topics:
            yield from self.partitions_of(topic)

    def on(self, broker: BrokerId) -> list[TopicPartition]:
        """Of which partitions this broker is to hold a replica."""
        return list(self._on.get(broker, ()))

    def led_by(self, broker: BrokerId) -> list[TopicPartition]:
        return list(self._led.get(broker, ()))

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deleting

    # -- what was read or confirmed --------------------------------------------------------------------

    def learn_topic(self, topic: Topic) -> None:
        before = self.topics.get(topic.name)
        for number, held in ({} if before is None else before.partitions).items():
            self._unplace(TopicPartition(topic.name, number), held)
        self.topics[topic.name] = topic
        self.unreadable.discard(topic.name)
        for number, held in topic.partitions.items():
            where = TopicPartition(topic.name, number)
            for broker in held.replicas:
                self._on.setdefault(broker, {})[where] = None
            if held.moving:
                self.moving[where] = None
            else:
                self.moving.pop(where, None)

    def learn_state(self, where: TopicPartition, state: PartitionState) -> None:
        before = self.states.get(where)
        if before is not None:
            self._led.get(before.leader, {}).pop(where, None)
        self.states[where] = state
        self.unreadable.discard(where)
        if state.leader != NOBODY:
            self._led.setdefault(state.leader, {})[where] = None

    def forget_topic(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        for number, held in ({} if topic is None else topic.partitions).items():
            where = TopicPartition(name, number)
            self._unplace(where, held)
            self.forget_partition(where)
        self.deleting.pop(name, None)
        self.deletion_waits.pop(name, None)
        self.unclean.discard(name)
        self.min_isr.pop(name, None)

    def forget_partition(self, where: TopicPartition) -> None:
        state = self.states.pop(where, None)
        if state is not None:
            self._led.get(state.leader, {}).pop(where, None)
        self.phases.pop(where, None)
        self.unreadable.discard(where)
        self.moving.pop(where, None)
        for replica in [(where, broker) for broker in self.brokers_of(where)]:
            self.replicas.pop(replica, None)
        for gone in self.offline_dirs.values():
            gone.discard(where)

    def brokers_of(self, where: TopicPartition) -> tuple[BrokerId, ...]:
        return self.assignment(where).replicas

    def _unplace(self, where: TopicPartition, held: Assignment) -> None:
        for broker in held.replicas:
            self._on.get(broker, {}).pop(where, None)

    # -- phases --------------------------------------------------------------------------------------

    def phase(self, where: TopicPartition) -> PartitionPhase:
        return self.phases.get(where, PartitionPhase.NON_EXISTENT)

    def replica_phase(self, where: TopicPartition, broker: BrokerId) -> ReplicaPhase:
        return self.replicas.get((where, broker), ReplicaPhase.NON_EXISTENT)

    def in_phase(self, *phases: PartitionPhase) -> list[TopicPartition]:
        return [where for where, phase in self.phases.items() if phase in phases]

    def waiting(self) -> list[TopicPartition]:
        """Nobody leads them, and somebody is to. Where the topic is being deleted nobody is, whatever comes or goes:
        the one before this controller may have removed half of its nodes, and what has no state would begin anew."""
        without = self.in_phase(PartitionPhase.OFFLINE, PartitionPhase.NEW)
        return [where for where in without if not self.is_deleting(where.topic)]

    # -- what operators ask ----------------------------------------------------------------------------

    def leaderless(self) -> list[TopicPartition]:
        """Nobody who is alive leads them."""
        return [
            where
            for where in self.all_partitions()
            if not self.is_deleting(where.topic)
            and ((state := self.states.get(where)) is None or state.leader not in self.brokers)
        ]

    def under_replicated(self) -> list[TopicPartition]:
        return [
            where
            for where, state in self.states.items()
            if len(state.isr) < len(self.assignment(where).target) and not self.is_deleting(where.topic)
        ]

    def imbalance(self) -> Mapping[BrokerId, tuple[int, int]]:
        """For each broker: how many partitions prefer it, and how many of these are led by another."""
        counted: dict[BrokerId, tuple[int, int]] = {}
        for where, state in self.states.items():
            replicas = self.assignment(where).replicas
            if replicas and not self.is_deleting(where.topic):
                all_, elsewhere = counted.get(replicas[0], (0, 0))
                counted[replicas[0]] = (all_ + 1, elsewhere + (state.leader != replicas[0]))
        return counted
