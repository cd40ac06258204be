"""The steps of a broker that was elected controller (onControllerFailover in Apache Kafka).

Lists, and the nodes of brokers, topics and requests, are watched from their first read on, so no change is missed.
Operations that the previous controller left unfinished are resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from kraft_controller.core.broker_changes import BrokerChanges
from kraft_controller.core.broker_request_batch import BrokerRequestBatch
from kraft_controller.core.controller_context import ControllerContext, Replica
from kraft_controller.core.controller_store import ControllerStore
from kraft_controller.core.names import BrokerId
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.store_requests import ControllerMoved, StoreRequests, in_parallel
from kraft_controller.core.topics.partition_state_machine import Failures, PartitionStateMachine
from kraft_controller.core.topics.preferred_election import PreferredElection
from kraft_controller.core.topics.reassignment import PartitionReassignment
from kraft_controller.core.topics.replica_state_machine import ReplicaStateMachine
from kraft_controller.core.topics.topic_changes import TopicChanges
from kraft_controller.core.topics.topic_deletion import TopicDeletionManager
from kraft_controller.core.topics.topic_registry import TopicRegistry
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase


class ControllerFailover:
    """Fills the context from the store, and brings the cluster to the state that the context describes."""

    def __init__(
        self,
        context: ControllerContext,
        batch: BrokerRequestBatch,
        flush: Callable[[], None],
        store: ControllerStore,
        topics: TopicRegistry,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletionManager,
        reassignment: PartitionReassignment,
        elections: PreferredElection,
        brokers: BrokerChanges,
        topic_changes: TopicChanges,
        log: OperatorLog,
    ) -> None:
        self._context = context
        self._batch = batch
        self._flush = flush
        """Sends the collected commands and writes the operator log. Call it only when all preceding writes are
        confirmed."""
        self._store = store
        self._topics = topics
        self._partitions = partitions
        self._replicas = replicas
        self._deletion = deletion
        self._reassignment = reassignment
        self._elections = elections
        self._brokers = brokers
        self._topic_changes = topic_changes
        self._log = log

    def run(self) -> StoreRequests[None]:
        context, batch = self._context, self._batch
        deletions = yield from self._read_cluster()
        yield from self._check_epoch()
        yield from self._deletion.enqueue(deletions)
        restarted = {broker: context.brokers.pop(broker) for broker in self._restarted()}
        context.returning.update(restarted)
        # Each broker receives its full state, since it may have missed commands of the previous controller.
        batch.add_full_metadata(context.brokers)
        batch.mark_full(context.brokers)
        offline = self._start_replicas()
        yield from self._start_partitions()
        # Shrink the ISRs after the elections, which already shrink those of partitions with a new leader.
        yield from self._replicas.take_offline(_restarted_last(offline, restarted))
        if restarted:
            # Start them before processing administrators' requests, which may concern these brokers.
            self._log.report("restarted", brokers=tuple(restarted))
            context.brokers.update(restarted)
            context.returning.clear()
            yield from self._brokers.on_startup(tuple(restarted))
            self._log.retract_no_leader({str(tp) for tp in context.in_phase(PartitionPhase.ONLINE)})
        self._flush()  # announce the leaders before processing requests
        yield from self._reassignment.resume()
        yield from self._reassignment.process_node()
        self._deletion.resume()
        yield from self._elections.process_node()
        counts = {"brokers": len(context.brokers), "topics": len(context.topics), "partitions": len(context.states)}
        self._log.report("took_over", **counts)

    def _read_cluster(self) -> StoreRequests[tuple[str, ...]]:
        """Read brokers, topics, configurations and states into the context; return the requested topic deletions.

        Pending notifications of brokers are removed, and are not needed: the states are read afterwards, and the
        replies to the first LeaderAndIsr name unusable replicas.
        """
        context, store = self._context, self._store
        lists: list[StoreRequests[Any]] = [
            store.registered_brokers(),
            store.topic_names(),
            store.topic_deletions(),
            self._topic_changes.follow_config_changes(),
            store.take_isr_changes(),
            store.take_log_dir_events(),
        ]
        registered, names, deletions, *_ = yield from in_parallel(lists)
        yield from self._topics.read_defaults()
        context.brokers.update((yield from self._brokers.read(*registered)))
        yield from self._topics.read_topics(sorted(names))
        # A partition without a state node is new: no replica was available, or no controller has processed it yet.
        failures: Failures = {}
        yield from self._partitions.read_states(list(context.all_partitions()), failures)
        return tuple(deletions)

    def _check_epoch(self) -> StoreRequests[None]:
        """Raise `/controller_epoch` if a state was written under a newer epoch than this controller's.

        In that case the node was removed or set back by hand, and brokers would ignore this controller's commands as
        outdated. The write fences this controller, so its term ends with `ControllerMoved`. The next controller
        continues from the raised epoch.
        """
        context = self._context
        newest = max((state.controller_epoch for state in context.states.values()), default=context.epoch)
        if newest > context.epoch:
            why = "/controller_epoch was removed or set back; it is raised to the newest epoch found"
            self._log.report("epoch_set_back", epoch=context.epoch, found=newest, why=why)
            self._flush()
            yield from self._store.raise_controller_epoch(newest)
            raise ControllerMoved(
                f"controller epoch {context.epoch} is older than {newest}, the epoch of a partition state"
            )

    def _restarted(self) -> list[BrokerId]:
        """Return the brokers that are in the ISR of a partition whose state was last written before they registered.

        Perhaps no controller has processed their failure, and they may have lost records, so they count as bounced.
        Otherwise a restarted leader would continue in the same leader epoch, and write different records at the offsets
        that it lost.
        """
        context = self._context
        return [
            broker
            for broker, known in context.brokers.items()
            if any(
                broker in state.isr and 0 < state.written < known.epoch
                for tp in context.held_by(broker)
                if not context.is_deleting(tp.topic) and (state := context.states.get(tp)) is not None
            )
        ]

    def _start_replicas(self) -> list[Replica]:
        """Initialize the replica state machine. Return the replicas whose brokers have failed or restarted, except
        those of topics that are being deleted and of partitions without a state."""
        context = self._context
        online: list[Replica] = []
        offline: list[Replica] = []
        for tp in context.all_partitions():
            for broker in context.replicas_of(tp):
                live = broker in context.brokers
                context.start_replica((tp, broker), ReplicaPhase.ONLINE if live else ReplicaPhase.DELETION_INELIGIBLE)
                if not context.is_deleting(tp.topic) and tp in context.states:
                    (online if live else offline).append((tp, broker))
        self._replicas.move(online, ReplicaPhase.ONLINE)
        return offline

    def _start_partitions(self) -> StoreRequests[None]:
        """Initialize the partition state machine, and elect leaders for partitions without a live one."""
        context = self._context
        for tp in context.all_partitions():
            state = context.states.get(tp)
            if state is None:
                context.phases[tp] = PartitionPhase.NEW
            else:
                led = state.leader in context.brokers
                context.phases[tp] = PartitionPhase.ONLINE if led else PartitionPhase.OFFLINE
        yield from self._partitions.bring_online(context.without_leader())


def _restarted_last(offline: Sequence[Replica], restarted: Container[BrokerId]) -> list[Replica]:
    """Order replicas for their removal from the ISR: failed brokers first, then restarted ones, with the preferred
    replica last.

    The last member of an ISR is never removed. It should be a running broker, since a failed one may never return.
    """
    return [
        *(replica for replica in offline if replica[1] not in restarted),
        *(replica for replica in reversed(offline) if replica[1] in restarted),
    ]
