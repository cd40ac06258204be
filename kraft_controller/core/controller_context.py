"""The controller's view of the cluster (ControllerContext in Apache Kafka).

Each controller term has one context. Its topics and partition states change only after the store has confirmed a write
or returned a read, so decisions are not based on a write that may fail. There are two exceptions:
`PartitionReassignment._complete`, whose docstring describes the state meanwhile, and a change of a topic's node that
the controller does not accept (`TopicChanges.process_modification`). Indexes by broker find the replicas and the
leaderships of a failed broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from attrs import frozen

from kraft_controller.core.names import NO_LEADER, BrokerId, ControllerEpoch, TopicPartition
from kraft_controller.core.state import Assignment, Broker, PartitionState, Topic
from kraft_controller.core.transitions import PARTITION_FROM, REPLICA_FROM, PartitionPhase, ReplicaPhase, may

Replica: TypeAlias = tuple[TopicPartition, BrokerId]


@frozen
class ControllerSettings:
    """Settings of the cluster that the controller takes from the broker's file."""

    unclean_election: bool = False
    """`unclean.leader.election.enable` of the broker's file."""
    deletion: bool = True
    """`delete.topic.enable`."""
    imbalance_percent: int = 10
    """`leader.imbalance.per.broker.percentage`."""
    min_isr: int = 1
    """`min.insync.replicas` of the broker's file. The controller only counts the partitions with too few in-sync
    replicas."""


@frozen
class TopicDefaults:
    """The defaults of topics. Each is set by the dynamic configuration of the controller's own broker, else by the
    cluster-wide one, else by the settings."""

    unclean_election: bool = False
    min_isr: int = 1


class ControllerContext:
    """The registered brokers, the topics with their partition states, and operations in progress."""

    def __init__(self, me: BrokerId, epoch: ControllerEpoch, settings: ControllerSettings | None = None) -> None:
        self.me = me
        """The id of the broker that runs this controller."""
        self.epoch = epoch
        """The controller epoch of this term."""
        self.settings = settings or ControllerSettings()
        self.defaults = TopicDefaults(self.settings.unclean_election, self.settings.min_isr)
        """The defaults of topics, as read from the store."""
        self.brokers: dict[BrokerId, Broker] = {}
        """The registered brokers, including those in controlled shutdown, but not those in `returning`."""
        self.shutting_down: set[BrokerId] = set()
        """Brokers in controlled shutdown. They receive commands but no new leadership. A subset of `brokers`."""
        self.returning: set[BrokerId] = set()
        """Restarted brokers while they are processed as failed. They are added to `brokers` again afterwards."""
        self.topics: dict[str, Topic] = {}
        """Topics as last read or written, by name. Changed only through `update_topic` and `remove_topic`."""
        self.states: dict[TopicPartition, PartitionState] = {}
        """Leader and ISR as last read or written. Changed only through `update_state` and `remove_topic`."""
        self.unreadable: set[str | TopicPartition] = set()
        """Topics and partitions whose nodes could not be parsed. No such topic is in `topics`: a topic whose node
        is damaged later stays in `topics`, and is not added here. A partition may still have its former state in
        `states`."""
        self.phases: dict[TopicPartition, PartitionPhase] = {}
        """The phase of each partition in the partition state machine. A missing entry means NonExistentPartition."""
        self.replicas: dict[Replica, ReplicaPhase] = {}
        """The phase of each replica in the replica state machine. A missing entry means NonExistentReplica."""
        self.offline_dirs: dict[BrokerId, set[TopicPartition]] = {}
        """Replicas that their brokers reported as unusable, in failed log directories for example."""
        self.deleting: dict[str, None] = {}
        """Topics being deleted, in the order of the requests."""
        self.deletion_waits: dict[str, str] = {}
        """The reason why the deletion of a topic in `deleting` cannot proceed at present
        (topicsIneligibleForDeletion)."""
        self.moving: dict[TopicPartition, None] = {}
        """Partitions whose reassignment is in progress."""
        self.unclean: set[str] = set()
        """Topics for which unclean leader election is enabled."""
        self.min_isr: dict[str, int] = {}
        """`min.insync.replicas` of the topics that set it."""
        self._held: dict[BrokerId, dict[TopicPartition, None]] = {}
        """An index of `topics`: the partitions of which each broker has a replica."""
        self._led: dict[BrokerId, dict[TopicPartition, None]] = {}
        """An index of `states`: the partitions that each broker leads."""

    # -- brokers -------------------------------------------------------------------------------------

    @property
    def live(self) -> list[BrokerId]:
        """The registered brokers that are not in a controlled shutdown."""
        return [broker for broker in self.brokers if broker not in self.shutting_down]

    def is_live(self, broker: BrokerId) -> bool:
        return broker in self.brokers and broker not in self.shutting_down

    def online(self, tp: TopicPartition, *, shutting_down_too: bool = False) -> frozenset[BrokerId]:
        """Return the brokers whose replica of this partition is usable: the live brokers that have not reported it as
        unusable. With `shutting_down_too`, brokers in controlled shutdown count as live."""
        return frozenset(
            broker
            for broker in self.assignment(tp).replicas
            if (broker in self.brokers if shutting_down_too else self.is_live(broker))
            and tp not in self.offline_dirs.get(broker, ())
        )

    # -- topics --------------------------------------------------------------------------------------

    def assignment(self, tp: TopicPartition) -> Assignment:
        topic = self.topics.get(tp.topic)
        found = None if topic is None else topic.partitions.get(tp.partition)
        return Assignment(()) if found is None else found

    def has(self, tp: TopicPartition) -> bool:
        """Return whether the partition exists, according to the topic's node as last read or written."""
        return tp.topic in self.topics and tp.partition in self.topics[tp.topic].partitions

    def replicas_of(self, tp: TopicPartition) -> tuple[BrokerId, ...]:
        return self.assignment(tp).replicas

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        found = self.topics.get(topic)
        for number in () if found is None else found.partitions:
            yield TopicPartition(topic, number)

    def all_partitions(self) -> Iterator[TopicPartition]:
        for topic in self.topics:
            yield from self.partitions_of(topic)

    def held_by(self, broker: BrokerId) -> list[TopicPartition]:
        return list(self._held.get(broker, ()))

    def started_on(self, broker: BrokerId) -> list[TopicPartition]:
        """Return the partitions assigned to a broker, except new ones whose creation was not processed yet."""
        return [
            tp
            for tp in self.held_by(broker)
            if self.phase(tp) is not PartitionPhase.NON_EXISTENT or self.is_deleting(tp.topic)
        ]

    def led_by(self, broker: BrokerId) -> list[TopicPartition]:
        return list(self._led.get(broker, ()))

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deleting

    # -- updates after a read or a confirmed write --------------------------------------------------------

    def update_topic(self, topic: Topic) -> None:
        before = self.topics.get(topic.name)
        for number, held in ({} if before is None else before.partitions).items():
            self._remove_from_index(TopicPartition(topic.name, number), held)
        self.topics[topic.name] = topic
        self.unreadable.discard(topic.name)
        for number, held in topic.partitions.items():
            tp = TopicPartition(topic.name, number)
            for broker in held.replicas:
                self._held.setdefault(broker, {})[tp] = None
            if held.moving:
                self.moving[tp] = None
            else:
                self.moving.pop(tp, None)

    def update_state(self, tp: TopicPartition, state: PartitionState) -> None:
        before = self.states.get(tp)
        if before is not None:
            self._led.get(before.leader, {}).pop(tp, None)
        self.states[tp] = state
        self.unreadable.discard(tp)
        if state.leader != NO_LEADER:
            self._led.setdefault(state.leader, {})[tp] = None

    def remove_topic(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        for number, held in ({} if topic is None else topic.partitions).items():
            tp = TopicPartition(name, number)
            self._remove_from_index(tp, held)
            self._remove_partition(tp, held)
        self.deleting.pop(name, None)
        self.deletion_waits.pop(name, None)
        self.unclean.discard(name)
        self.min_isr.pop(name, None)

    def _remove_partition(self, tp: TopicPartition, held: Assignment) -> None:
        state = self.states.pop(tp, None)
        if state is not None:
            self._led.get(state.leader, {}).pop(tp, None)
        self.phases.pop(tp, None)
        self.unreadable.discard(tp)
        self.moving.pop(tp, None)
        for broker in held.replicas:
            self.replicas.pop((tp, broker), None)
        for offline in self.offline_dirs.values():
            offline.discard(tp)

    def _remove_from_index(self, tp: TopicPartition, held: Assignment) -> None:
        for broker in held.replicas:
            self._held.get(broker, {}).pop(tp, None)

    # -- the two state machines --------------------------------------------------------------------------

    def phase(self, tp: TopicPartition) -> PartitionPhase:
        return self.phases.get(tp, PartitionPhase.NON_EXISTENT)

    def replica_phase(self, tp: TopicPartition, broker: BrokerId) -> ReplicaPhase:
        return self.replicas.get((tp, broker), ReplicaPhase.NON_EXISTENT)

    def move_partition(self, tp: TopicPartition, to: PartitionPhase) -> None:
        """Record a transition that the partition state machine allows."""
        assert may(PARTITION_FROM, self.phase(tp), to), f"{tp}: {self.phase(tp)} to {to}"
        if to is PartitionPhase.NON_EXISTENT:
            self.phases.pop(tp, None)
        else:
            self.phases[tp] = to

    def move_replica(self, replica: Replica, to: ReplicaPhase) -> None:
        """Record a transition that the replica state machine allows."""
        assert may(REPLICA_FROM, self.replica_phase(*replica), to), f"{replica}: {self.replica_phase(*replica)} to {to}"
        if to is ReplicaPhase.NON_EXISTENT:
            self.replicas.pop(replica, None)
        else:
            self.replicas[replica] = to

    def start_replica(self, replica: Replica, phase: ReplicaPhase) -> None:
        """Set a replica's first phase, unless it already has a phase."""
        self.replicas.setdefault(replica, phase)

    def fail_replica_deletion(self, replica: Replica) -> bool:
        """Record that a replica cannot be deleted at present, unless its deletion has succeeded (failReplicaDeletion).
        Return whether this was recorded."""
        if self.replicas.get(replica) is ReplicaPhase.DELETION_SUCCESSFUL:
            return False
        self.replicas[replica] = ReplicaPhase.DELETION_INELIGIBLE
        return True

    def in_phase(self, *phases: PartitionPhase) -> list[TopicPartition]:
        return [tp for tp, phase in self.phases.items() if phase in phases]

    def without_leader(self) -> list[TopicPartition]:
        """Return the new and offline partitions that need a leader.

        Partitions of a topic that is being deleted are left out: the previous controller may have deleted some of its
        nodes, and a partition without a state node would start again from leader epoch 0.
        """
        found = self.in_phase(PartitionPhase.OFFLINE, PartitionPhase.NEW)
        return [tp for tp in found if not self.is_deleting(tp.topic)]

    def imbalance(self) -> Mapping[BrokerId, tuple[int, int]]:
        """Return two counts for each preferred leader: its partitions, and those of them that another broker leads or
        that have no leader. Topics that are being deleted do not count."""
        counted: dict[BrokerId, tuple[int, int]] = {}
        for tp, state in self.states.items():
            replicas = self.assignment(tp).replicas
            if replicas and not self.is_deleting(tp.topic):
                total, elsewhere = counted.get(replicas[0], (0, 0))
                counted[replicas[0]] = (total + 1, elsewhere + (state.leader != replicas[0]))
        return counted
