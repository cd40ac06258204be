"""The creation, growth, disappearance and reconfiguration of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from attrs import evolve

from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.controller_events import PartitionCreationResumed
from kraft_controller.core.controller_store import ConfigChanges, ControllerStore, Damaged, Missing
from kraft_controller.core.names import TopicPartition
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.state import Topic
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics.partition_state_machine import PartitionStateMachine
from kraft_controller.core.topics.replica_state_machine import ReplicaStateMachine
from kraft_controller.core.topics.topic_registry import TopicRegistry
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase

PARTITIONS_CREATED_MAX: Final = 1000
"""The maximum number of partitions that are created in one event. Other events wait meanwhile."""
BROKER_DEFAULTS: Final = "brokers/<default>"


class TopicChanges:
    """Processes changes of topic nodes, repairs of damaged nodes, and changes of configurations."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        topics: TopicRegistry,
        note: Callable[[PartitionCreationResumed], None],
        log: OperatorLog,
    ) -> None:
        self._context = context
        self._store = store
        self._partitions = partitions
        self._replicas = replicas
        self._topics = topics
        self._note = note
        """Queues the event with which a creation continues."""
        self._log = log
        self._new: dict[TopicPartition, None] = {}
        """Partitions that are to be created. An event is queued if there are any."""
        self.config_changes = ConfigChanges((), -1)
        """The configuration notifications that were read last."""

    def process_list(self) -> StoreRequests[None]:
        """Create the partitions of new topics, and forget topics whose node was removed by hand."""
        context = self._context
        names = set((yield from self._store.topic_names()))  # a set: there may be thousands of topics
        for name in [name for name in context.topics if name not in names]:
            self._log.report("topic_gone", topic=name)
            context.remove_topic(name)
        context.unreadable.difference_update(
            [name for name in context.unreadable if name not in names and isinstance(name, str)]
        )
        new = yield from self._topics.read_topics([name for name in sorted(names) if name not in context.topics])
        yield from self._create([tp for name in new for tp in context.partitions_of(name)])

    def process_modification(self, name: str) -> StoreRequests[None]:
        """Process a topic's changed node: create added partitions (processPartitionModifications).

        The change may also be a write of this controller, or a repair or damage by hand.
        """
        context = self._context
        before = context.topics.get(name)
        if before is None:
            yield from self.process_list()  # it was deleted, or its node could not be parsed before
            return
        [read] = yield from self._store.read_topics([name])
        if isinstance(read, Damaged):
            self._log.report_damage(read)
        if not isinstance(read, Topic):
            return
        if context.is_deleting(name):
            yield from self._refuse_growth(before, read)
            return
        lost = sorted(set(before.partitions) - set(read.partitions))
        if lost:
            why = f"topic {name}: partitions {lost} were removed from its node; the controller keeps them"
            self._log.report_damage(Damaged(why, read.version))
            read = evolve(read, partitions={**before.partitions, **read.partitions})
        context.update_topic(read)
        if read.id is None and before.id is not None:
            # The node was written by a tool without topic ids. With a new id, the existing logs would belong to another
            # topic.
            self._log.report("topic_id_kept", topic=name, id=before.id)
            yield from self._topics.set_id(name, before.id)
        # Find new partitions by their phase. `before` may already contain them, if the topic was read for another
        # reason.
        partitions = [TopicPartition(name, number) for number in read.partitions]
        new = [tp for tp in partitions if context.phase(tp) is PartitionPhase.NON_EXISTENT]
        yield from self._create(new)

    def _refuse_growth(self, before: Topic, read: Topic) -> StoreRequests[None]:
        """Write the former assignment of a topic back if partitions were added to it while it is being deleted."""
        if set(read.partitions) - set(before.partitions):
            self._log.report("growth_refused", topic=before.name, why="the topic is being deleted")
            self._context.update_topic(evolve(before, version=read.version))
            yield from self._topics.write_topic(before.name, lambda topic: topic)

    def _create(self, new: Iterable[TopicPartition]) -> StoreRequests[None]:
        """Create new partitions: up to `PARTITIONS_CREATED_MAX` now, the others in further events."""
        self._new.update(dict.fromkeys(new))
        yield from self.create_next()

    def create_next(self) -> StoreRequests[None]:
        """Move the next new partitions and their replicas to their online phases (onNewPartitionCreation). Partitions
        that were deleted or created meanwhile are left out."""
        context = self._context
        part = list(islice(self._new, PARTITIONS_CREATED_MAX))
        for tp in part:
            del self._new[tp]
        if self._new:
            self._note(PartitionCreationResumed())
        new = [tp for tp in part if context.has(tp) and not context.is_deleting(tp.topic)]
        new = [tp for tp in new if context.phase(tp) is PartitionPhase.NON_EXISTENT]
        created = self._partitions.move(new, PartitionPhase.NEW)
        held = [(tp, broker) for tp in created for broker in context.replicas_of(tp)]
        self._replicas.move(held, ReplicaPhase.NEW)
        yield from self._partitions.bring_online(created)
        self._replicas.move(held, ReplicaPhase.ONLINE)
        # Partitions of a repaired topic have a state already.
        yield from self._shrink_to_registered(created)
        if created:
            self._log.report("partitions_created", partitions=len(created))

    def process_repaired_state(self, tp: TopicPartition) -> StoreRequests[None]:
        """Bring a partition online after its damaged state node has changed."""
        if self._context.phase(tp) is PartitionPhase.NEW and not self._context.is_deleting(tp.topic):
            yield from self._partitions.bring_online([tp])
            yield from self._shrink_to_registered([tp])

    def _shrink_to_registered(self, partitions: Iterable[TopicPartition]) -> StoreRequests[None]:
        """Remove unregistered brokers from the ISR. They failed while the state was unreadable."""
        context = self._context
        dead = [
            (tp, broker)
            for tp in partitions
            if (state := context.states.get(tp)) is not None
            for broker in context.replicas_of(tp)
            if broker in state.isr and broker not in context.brokers
        ]
        if dead:
            yield from self._replicas.take_offline(dead)

    # -- configurations ------------------------------------------------------------------------------------

    def follow_config_changes(self) -> StoreRequests[None]:
        """Start to follow the configuration notifications, after the newest one."""
        found = yield from self._store.config_changes(None)
        if not isinstance(found, Missing):
            self.config_changes = found

    def process_config_changes(self) -> StoreRequests[None]:
        """Apply the configuration changes in new notifications.

        The configurations of all topics are read if the parent node was re-created, since notifications may have been
        lost, or if the default for unclean elections changed.
        """
        before = self.config_changes
        found = yield from self._store.config_changes(before.seen, before.of)
        if isinstance(found, Missing):
            return
        lost = found.of != before.of
        self.config_changes = found
        names = [entity.removeprefix("topics/") for entity in found.entities if entity.startswith("topics/")]
        defaults = {BROKER_DEFAULTS, f"brokers/{self._context.me}"}
        changed = (lost or defaults.intersection(found.entities)) and (yield from self._topics.read_defaults())
        if lost or changed:
            names = list(self._context.topics)
        yield from self._apply_configs(names)

    def _apply_configs(self, names: Iterable[str]) -> StoreRequests[None]:
        """Read topic configurations. Elect leaders of offline partitions if unclean election was enabled."""
        context = self._context
        known = [name for name in names if name in context.topics]
        before = set(context.unclean)
        yield from self._topics.read_configs(known)
        enabled = [name for name in known if name in context.unclean - before and not context.is_deleting(name)]
        partitions = [tp for name in enabled for tp in context.partitions_of(name)]
        offline = [tp for tp in partitions if context.phase(tp) is PartitionPhase.OFFLINE]
        yield from self._partitions.bring_online(offline)
