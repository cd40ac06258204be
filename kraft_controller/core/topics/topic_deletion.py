"""Topic deletion (TopicDeletionManager in Apache Kafka).

The controller orders the deletion of every replica of the topic. When all brokers have confirmed it, the topic's nodes
are deleted: those of its partitions, then the topic's own, and the request last. So another controller finds an
unfinished deletion and repeats it. Deleting a replica twice is harmless.

A large topic is deleted in parts, each in an event of its own. Between them the controller processes other events: a
broker failure does not wait for the end of the deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from kraft_controller.core.broker_request_batch import BrokerRequestBatch
from kraft_controller.core.controller_context import ControllerContext, Replica
from kraft_controller.core.controller_events import TopicDeletionResumed
from kraft_controller.core.controller_store import ControllerStore
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.store_requests import StoreRequests, in_parallel
from kraft_controller.core.topics.partition_state_machine import PartitionStateMachine
from kraft_controller.core.topics.replica_state_machine import ReplicaStateMachine
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase

PARTITIONS_DELETED_MAX: Final = 500
"""The maximum number of partitions whose replicas or nodes are deleted in one event. Other events wait meanwhile."""
_STARTED: Final = (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL)
_UNKNOWN: Final = "the topic does not exist, or its node cannot be read"
_DISABLED: Final = "topic deletion is disabled (delete.topic.enable)"


class TopicDeletionManager:
    """Executes topic deletions, from the request to the removal of the topic's nodes."""

    def __init__(
        self,
        context: ControllerContext,
        batch: BrokerRequestBatch,
        store: ControllerStore,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        note: Callable[[TopicDeletionResumed], None],
        log: OperatorLog,
    ) -> None:
        self._context = context
        self._batch = batch
        self._store = store
        self._partitions = partitions
        self._replicas = replicas
        self._note = note
        """Queues the event with which the deletion continues."""
        self._log = log

    def process_requests(self) -> StoreRequests[None]:
        """Read the deletion requests, accept or refuse each, and resume all deletions."""
        names = yield from self._store.topic_deletions()
        yield from self.enqueue(names)
        self.resume()

    def enqueue(self, names: Iterable[str]) -> StoreRequests[None]:
        """Accept or refuse deletion requests (enqueueTopicsForDeletion)."""
        context = self._context
        drops: list[StoreRequests[Any]] = []
        for name in names:
            if name not in context.topics or not context.settings.deletion:
                why = _DISABLED if name in context.topics else _UNKNOWN
                self._log.report("deletion_refused", topic=name, why=why)
                drops.append(self._store.drop_topic_deletion(name))
            elif name not in context.deleting:
                context.deleting[name] = None
                # The topic's reassignments end, since both old and new replicas are deleted. Completing them first
                # could block the deletion on replicas that never catch up.
                moving = [tp for tp in context.partitions_of(name) if context.moving.pop(tp, True) is None]
                if moving:
                    drops.append(self._store.drop_reassignments(moving))
        if drops:
            yield from in_parallel(drops)

    def resume(self) -> None:
        """Resume every deletion that can proceed (resumeDeletions)."""
        context = self._context
        for name in context.deleting:
            why = None if self._are_replicas_deleted(name) else self._ineligible(name)
            if why is None:
                context.deletion_waits.pop(name, None)
                self._note(TopicDeletionResumed(name))
            else:
                self._wait([(name, why)])

    def _wait(self, reasons: Iterable[tuple[str, str]]) -> None:
        """Record the reason why each of these topics waits: the first one given. Log it unless it is the same as
        before."""
        first: dict[str, str] = {}
        for name, why in reasons:
            first.setdefault(name, why)
        for name, why in first.items():
            if self._context.deletion_waits.get(name) != why:
                self._context.deletion_waits[name] = why
                self._log.report("deletion_waits", topic=name, why=why)

    def _ineligible(self, name: str) -> str | None:
        """Return the reason if the deletion of a topic cannot proceed, because a replica cannot be deleted; else
        None."""
        reasons = (self._obstacle(*replica) for replica in self._replicas_of(name))
        return next((why for why in reasons if why is not None), None)

    def _obstacle(self, tp: TopicPartition, broker: BrokerId) -> str | None:
        """Return the reason if a replica cannot be deleted, because the broker is not registered or cannot use the
        replica; else None."""
        context = self._context
        if broker not in context.brokers and broker not in context.returning:
            return f"broker {broker}, which holds {tp}, is not registered"
        if tp in context.offline_dirs.get(broker, ()):
            return f"broker {broker} cannot use its replica of {tp}"
        return None

    def proceed(self, name: str) -> StoreRequests[None]:
        """Carry out the next part of a topic's deletion: order the deletion of replicas, or delete nodes if all
        replicas are deleted. Each part concerns up to `PARTITIONS_DELETED_MAX` partitions; another event does the next
        one."""
        context = self._context
        if not context.is_deleting(name):
            return  # the deletion is complete, or the topic's node was removed by hand
        if self._are_replicas_deleted(name):
            yield from self._delete_nodes(name)
        elif name not in context.deletion_waits:
            waiting = (tp for tp in context.partitions_of(name) if not self._is_started(tp))
            yield from self._start(list(islice(waiting, PARTITIONS_DELETED_MAX)))
            if next(waiting, None) is not None:
                self._note(TopicDeletionResumed(name))

    def _is_started(self, tp: TopicPartition) -> bool:
        """Return whether a partition was taken offline, and the deletion of all its replicas was ordered."""
        context = self._context
        return context.phase(tp) is PartitionPhase.NON_EXISTENT and all(
            context.replica_phase(tp, broker) in _STARTED for broker in context.replicas_of(tp)
        )

    def _are_replicas_deleted(self, name: str) -> bool:
        context, deleted = self._context, ReplicaPhase.DELETION_SUCCESSFUL
        return all(context.replica_phase(*replica) is deleted for replica in self._replicas_of(name))

    def _replicas_of(self, name: str) -> Iterator[Replica]:
        context = self._context
        return ((tp, broker) for tp in context.partitions_of(name) for broker in context.replicas_of(tp))

    def _start(self, partitions: list[TopicPartition]) -> StoreRequests[None]:
        """Take partitions offline, and order the deletion of all replicas whose deletion was not ordered yet."""
        context = self._context
        existing = [tp for tp in partitions if context.phase(tp) is not PartitionPhase.NON_EXISTENT]
        if existing:
            offline = self._partitions.move(existing, PartitionPhase.OFFLINE)
            self._partitions.move(offline, PartitionPhase.NON_EXISTENT)
            self._batch.add_update_metadata(context.brokers, partitions)
        replicas = [(tp, broker) for tp in partitions for broker in context.replicas_of(tp)]
        remaining = [replica for replica in replicas if context.replica_phase(*replica) not in _STARTED]
        for replica in remaining:
            # a replica that never started may still have files on the broker's disk
            context.start_replica(replica, ReplicaPhase.NEW)
        yield from self._replicas.take_offline(remaining)
        self._replicas.move(remaining, ReplicaPhase.DELETION_STARTED)

    def _delete_nodes(self, name: str) -> StoreRequests[None]:
        """Delete nodes of a topic whose replicas are all deleted (completeDeleteTopic): first those of the partitions,
        then the others. The deletion waits if other clients keep creating nodes below the topic."""
        if (yield from self._store.delete_partitions(name, PARTITIONS_DELETED_MAX)):
            self._note(TopicDeletionResumed(name))
        elif (yield from self._store.delete_topic(name)):
            self._replicas.move(list(self._replicas_of(name)), ReplicaPhase.NON_EXISTENT)
            self._context.remove_topic(name)
            self._log.report("topic_deleted", topic=name)
        else:
            self._wait([(name, "another client creates nodes below the topic's node")])

    def replicas_answered(
        self, broker: BrokerId, done: Iterable[TopicPartition], failed: Iterable[TopicPartition]
    ) -> StoreRequests[None]:
        """Process a StopReplica reply, which names the replicas that the broker deleted, and those that it could not
        delete."""
        context = self._context
        self._replicas.move(self._in_deletion(broker, done), ReplicaPhase.DELETION_SUCCESSFUL)
        ineligible = self._replicas.move(self._in_deletion(broker, failed), ReplicaPhase.DELETION_INELIGIBLE)
        self._wait((tp.topic, f"broker {broker} could not delete {tp}") for tp, _ in ineligible)
        for name in {tp.topic: None for tp in done}:
            if name in context.deleting:
                self._note(TopicDeletionResumed(name))
        yield from ()  # like all procedures of events, this is a generator, but it sends nothing to the store

    def _in_deletion(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[Replica]:
        started = ReplicaPhase.DELETION_STARTED
        return [(tp, broker) for tp in partitions if self._context.replica_phase(tp, broker) is started]

    def fail(self, replicas: Iterable[Replica]) -> None:
        """Suspend the deletion of these replicas until `resume` finds that it can proceed.

        A topic waits only if the context has the reason. Otherwise the broker is about to receive its full state, and
        the deletion is ordered again.
        """
        failed = [replica for replica in replicas if self._context.fail_replica_deletion(replica)]
        self._wait((tp.topic, why) for tp, broker in failed if (why := self._obstacle(tp, broker)) is not None)
