"""One term of a broker as controller: its parts, and the procedure for each event (KafkaController in Apache Kafka).

Events are processed one at a time. Commands are sent when all preceding writes are confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kraft_controller.core.broker_changes import BrokerChanges
from kraft_controller.core.broker_request_batch import BrokerRequestBatch, CommandSink
from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.controller_events import (
    AlterPartitionRequested,
    AlterReassignmentsRequested,
    AutoPreferredElection,
    BrokerModified,
    BrokerNotAvailable,
    BrokersChanged,
    CommandQueueOverflowed,
    ConfigsChanged,
    ControlledShutdownRequested,
    ControllerElected,
    ElectLeadersRequested,
    Event,
    IsrChangeNotification,
    LeaderAndIsrReplied,
    LogDirEventNotification,
    PartitionCreationResumed,
    PartitionStateChanged,
    PartitionStatesChanged,
    PreferredElectionRequested,
    ReassignmentRequested,
    StaleBrokerEpoch,
    StopReplicaReplied,
    TopicDeletionRequested,
    TopicDeletionResumed,
    TopicModified,
    TopicsChanged,
)
from kraft_controller.core.controller_failover import ControllerFailover
from kraft_controller.core.controller_store import ControllerStore
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicId, TopicPartition
from kraft_controller.core.operator_log import OperatorLog, OperatorMessage
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics.alter_partition import AlterPartition
from kraft_controller.core.topics.partition_state_machine import PartitionStateMachine
from kraft_controller.core.topics.preferred_election import PreferredElection
from kraft_controller.core.topics.reassignment import PartitionReassignment
from kraft_controller.core.topics.replica_state_machine import ReplicaStateMachine
from kraft_controller.core.topics.topic_changes import TopicChanges
from kraft_controller.core.topics.topic_deletion import TopicDeletionManager
from kraft_controller.core.topics.topic_registry import TopicRegistry


class KafkaController:
    """The controller's parts around one context. Each term has its own instance."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        sink: CommandSink,
        note: Callable[[Event], None],
        write_log: Callable[[OperatorMessage], None],
        new_id: Callable[[], TopicId],
    ) -> None:
        """`note` queues an event, with which a long procedure continues after the events that wait already."""
        log, batch = OperatorLog(write_log), BrokerRequestBatch(context)
        self._sink = sink
        self.context = context
        self.log = log
        self.batch = batch
        self.topics = TopicRegistry(context, store, log, new_id)
        self.partitions = PartitionStateMachine(context, batch, store, log)
        self.replicas = ReplicaStateMachine(context, batch, self.partitions, log)
        self.deletion = TopicDeletionManager(context, batch, store, self.partitions, self.replicas, note, log)
        self.reassignment = PartitionReassignment(
            context, batch, self.flush, store, self.partitions, self.replicas, self.topics, log
        )
        self.elections = PreferredElection(context, store, self.partitions, log)
        self.brokers = BrokerChanges(
            context, batch, store, self.partitions, self.replicas, self.deletion, self.reassignment, log
        )
        self.topic_changes = TopicChanges(context, store, self.partitions, self.replicas, self.topics, note, log)
        self.isr_changes = AlterPartition(context, batch, store, self.partitions, self.reassignment)
        self.failover = ControllerFailover(
            context, batch, self.flush, store, self.topics, self.partitions, self.replicas, self.deletion,
            self.reassignment, self.elections, self.brokers, self.topic_changes, log,
        )  # fmt: skip

    def flush(self) -> None:
        """Send the collected commands, and write the collected operator messages."""
        self.batch.send(self._sink)
        self.log.flush()

    def process(self, event: Event) -> StoreRequests[Any]:
        """Run the procedure for an event, then `flush`. Return the result for the requester, if any."""
        result = yield from self._procedure(event)
        self.flush()
        return result

    def _procedure(self, event: Event) -> StoreRequests[Any]:
        """Return the procedure for an event (the `process` methods of KafkaController)."""
        match event:
            case ControllerElected():
                return self.failover.run()
            case BrokersChanged():
                return self.brokers.process_list()
            case BrokerModified(broker):
                return self.brokers.process_modification(broker)
            case TopicsChanged():
                return self.topic_changes.process_list()
            case TopicModified(name):
                return self.topic_changes.process_modification(name)
            case PartitionCreationResumed():
                return self.topic_changes.create_next()
            case ConfigsChanged():
                return self.topic_changes.process_config_changes()
            case PartitionStateChanged(where):
                return self._states_changed([where])
            case PartitionStatesChanged(partitions):
                return self._states_changed(partitions)
            case TopicDeletionRequested():
                return self.deletion.process_requests()
            case TopicDeletionResumed(name):
                return self.deletion.proceed(name)
            case ReassignmentRequested():
                return self.reassignment.process_node()
            case PreferredElectionRequested():
                return self.elections.process_node()
            case IsrChangeNotification():
                return self.isr_changes.process_notifications()
            case LogDirEventNotification():
                return self.brokers.process_log_dir_events()
            case AutoPreferredElection():
                return self.elections.balance()
            case LeaderAndIsrReplied(broker, epoch, offline):
                return self.brokers.replicas_failed(broker, offline) if self._is_current(broker, epoch) else _nothing()
            case StopReplicaReplied(broker, epoch, done, failed):
                current = self._is_current(broker, epoch)
                return self.deletion.replicas_answered(broker, done, failed) if current else _nothing()
            case CommandQueueOverflowed(broker, epoch):
                return self.brokers.resend_full_state(broker) if self._is_current(broker, epoch) else _nothing()
            case ControlledShutdownRequested(broker, epoch):
                return self._controlled_shutdown(broker, epoch)
            case AlterPartitionRequested(broker, epoch, changes):
                return self.isr_changes.process(broker, epoch, changes)
            case ElectLeadersRequested(wanted, unclean):
                return self.elections.elect(wanted, unclean=unclean)
            case AlterReassignmentsRequested(moved):
                return self.reassignment.alter(moved)

    def _states_changed(self, partitions: Sequence[TopicPartition]) -> StoreRequests[None]:
        for tp in partitions:
            if tp not in self.context.states:
                yield from self.topic_changes.process_repaired_state(tp)
        yield from self.reassignment.complete_if_caught_up(*partitions)

    def _controlled_shutdown(self, broker: BrokerId, epoch: BrokerEpoch) -> StoreRequests[tuple[TopicPartition, ...]]:
        if broker not in self.context.brokers:
            raise BrokerNotAvailable(f"broker {broker} is not registered")
        if not self._is_current(broker, epoch):
            raise StaleBrokerEpoch(f"broker {broker} is not registered with epoch {epoch}")
        return (yield from self.brokers.controlled_shutdown(broker))

    def _is_current(self, broker: BrokerId, epoch: BrokerEpoch) -> bool:
        """Return whether a reply or request belongs to the broker's current registration."""
        known = self.context.brokers.get(broker)
        return known is not None and known.epoch == epoch


def _nothing() -> StoreRequests[None]:
    yield from ()
