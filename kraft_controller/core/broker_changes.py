"""Brokers that start, fail, restart or shut down (processBrokerChange and its callbacks in Apache Kafka)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from kraft_controller.core.broker_request_batch import BrokerRequestBatch
from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.controller_store import ControllerStore, Damaged
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.state import Broker
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics.partition_state_machine import PartitionStateMachine
from kraft_controller.core.topics.reassignment import PartitionReassignment
from kraft_controller.core.topics.replica_state_machine import ReplicaStateMachine
from kraft_controller.core.topics.topic_deletion import TopicDeletionManager
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase


@frozen
class BrokerDifference:
    new: tuple[BrokerId, ...]
    dead: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]
    """Brokers that registered again with a newer broker epoch (KAFKA-7235)."""


def difference(known: Mapping[BrokerId, Broker], registered: Mapping[BrokerId, BrokerEpoch]) -> BrokerDifference:
    return BrokerDifference(
        tuple(broker for broker in sorted(registered) if broker not in known),
        tuple(broker for broker in sorted(known) if broker not in registered),
        tuple(broker for broker in sorted(known) if broker in registered and registered[broker] > known[broker].epoch),
    )


class BrokerChanges:
    """Processes registrations and their end, controlled shutdowns and failed log directories."""

    def __init__(
        self,
        context: ControllerContext,
        batch: BrokerRequestBatch,
        store: ControllerStore,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletionManager,
        reassignment: PartitionReassignment,
        log: OperatorLog,
    ) -> None:
        self._context = context
        self._batch = batch
        self._store = store
        self._partitions = partitions
        self._replicas = replicas
        self._deletion = deletion
        self._reassignment = reassignment
        self._log = log

    # -- registrations -----------------------------------------------------------------------------------

    def process_list(self) -> StoreRequests[BrokerDifference]:
        """Read the registered brokers, and process and return the differences. A bounced broker is processed as failed
        and then started."""
        registered = yield from self._store.registered_brokers()
        return (yield from self.process(registered))

    def process(self, registered: Mapping[BrokerId, BrokerEpoch]) -> StoreRequests[BrokerDifference]:
        context = self._context
        seen = difference(context.brokers, registered)
        started = yield from self.read(*seen.new, *seen.bounced)
        failed = (*seen.dead, *seen.bounced)
        for broker in failed:
            del context.brokers[broker]
        if failed:
            context.returning.update(broker for broker in seen.bounced if broker in started)
            yield from self.on_failure(failed)
            context.returning.clear()
        if started:
            context.brokers.update(started)
            yield from self.on_startup(tuple(started))
        if failed or started:
            live = tuple(context.brokers)
            self._log.report("brokers_changed", new=seen.new, dead=seen.dead, bounced=seen.bounced, live=live)
        return seen

    def read(self, *brokers: BrokerId) -> StoreRequests[dict[BrokerId, Broker]]:
        """Read registrations. Return those that exist and can be parsed, and report damaged ones."""
        wanted = sorted(brokers)
        if not wanted:
            return {}
        results = yield from self._store.read_brokers(wanted)
        found = {}
        for broker, result in zip(wanted, results, strict=True):
            if isinstance(result, Broker):
                found[broker] = result
            elif isinstance(result, Damaged):
                self._log.report_damage(result)
        return found

    def process_modification(self, broker: BrokerId) -> StoreRequests[None]:
        """Process a changed registration: new endpoints, for example."""
        context = self._context
        before = context.brokers.get(broker)
        if before is None:
            yield from self.process_list()  # perhaps the registration could not be parsed before, and was repaired
            return
        after = (yield from self.read(broker)).get(broker)
        if after is not None and after.epoch == before.epoch and not after.looks_like(before):
            context.brokers[broker] = after
            self._batch.add_update_metadata(context.brokers)

    # -- failure and startup -------------------------------------------------------------------------------

    def on_failure(self, dead: Iterable[BrokerId]) -> StoreRequests[None]:
        """Elect new leaders for the partitions that failed brokers led, and remove these brokers from ISRs
        (onBrokerFailure). The last member of an ISR stays. The caller has removed the brokers from the context.

        As in Apache Kafka, all leaderless partitions take part in the election. If a topic is being deleted, the
        deletion of its replicas on the failed brokers is suspended instead.
        """
        context = self._context
        dead = tuple(dead)
        context.shutting_down.difference_update(dead)
        held = [(tp, broker) for broker in dead for tp in context.started_on(broker)]
        leaderless = [tp for broker in dead for tp in context.led_by(broker) if not context.is_deleting(tp.topic)]
        self._partitions.move(leaderless, PartitionPhase.OFFLINE)
        yield from self._partitions.bring_online(context.without_leader())
        yield from self._replicas.take_offline(
            [replica for replica in held if not context.is_deleting(replica[0].topic)]
        )
        self._deletion.fail([replica for replica in held if context.is_deleting(replica[0].topic)])
        if not leaderless:
            self._batch.add_update_metadata(context.brokers)
        for broker in dead:
            context.offline_dirs.pop(broker, None)

    def on_startup(self, started: Iterable[BrokerId]) -> StoreRequests[None]:
        """Send started brokers their full state, and resume operations that waited for them (onBrokerStartup)."""
        context, batch = self._context, self._batch
        started = tuple(started)
        for broker in started:
            context.offline_dirs.pop(broker, None)
        batch.add_update_metadata([broker for broker in context.brokers if broker not in started])
        batch.add_full_metadata(started)
        batch.mark_full(started)
        held = [
            (tp, broker) for broker in started for tp in context.started_on(broker) if not context.is_deleting(tp.topic)
        ]
        self._replicas.move(held, ReplicaPhase.ONLINE)
        yield from self._partitions.bring_online(context.without_leader())
        waiting = [tp for tp in context.moving if set(started) & set(context.assignment(tp).target)]
        yield from self._reassignment.complete_if_caught_up(*waiting)
        self._deletion.resume()

    def resend_full_state(self, broker: BrokerId) -> StoreRequests[None]:
        """Send a broker its full state again after its command queue overflowed, as if it had just started.

        The broker's session has lasted, so the broker has lost no records and is not processed as failed. It keeps its
        leaderships and stays in ISRs. The deletions of its replicas are ordered again.
        """
        context = self._context
        started = [
            (tp, broker)
            for tp in context.held_by(broker)
            if context.replica_phase(tp, broker) is ReplicaPhase.DELETION_STARTED
        ]
        self._deletion.fail(started)
        self._log.report("full_state_resent", broker=broker)
        yield from self.on_startup([broker])

    # -- controlled shutdown -------------------------------------------------------------------------------

    def controlled_shutdown(self, broker: BrokerId) -> StoreRequests[tuple[TopicPartition, ...]]:
        """Move leaderships to other brokers, and stop the broker's follower replicas (processControlledShutdown).

        Return the partitions that the broker still leads. If there are any, it repeats its request. Partitions with a
        single replica or without a known state, and those of topics that are being deleted, are left alone, and are
        not returned.
        """
        context = self._context
        context.shutting_down.add(broker)
        shared = [
            tp
            for tp in context.held_by(broker)
            if len(context.replicas_of(tp)) > 1 and not context.is_deleting(tp.topic) and tp in context.states
        ]
        led = [tp for tp in shared if context.states[tp].leader == broker]
        yield from self._partitions.bring_online(led, self._partitions.shutdown_election)
        followed = [tp for tp in shared if tp not in led]
        for tp in followed:
            self._batch.add_stop_replica(broker, tp, delete=False)
        yield from self._replicas.take_offline([(tp, broker) for tp in followed])
        return tuple(tp for tp in led if context.states[tp].leader == broker)

    # -- failed log directories ----------------------------------------------------------------------------

    def process_log_dir_events(self) -> StoreRequests[None]:
        """Send LeaderAndIsr to brokers with a failed log directory. Their replies name the replicas in it."""
        context = self._context
        brokers = yield from self._store.take_log_dir_events()
        for broker in brokers:
            for tp in context.held_by(broker):
                if tp in context.states:
                    self._batch.add_leader_and_isr([broker], tp)

    def replicas_failed(self, broker: BrokerId, failed: Iterable[TopicPartition]) -> StoreRequests[None]:
        """Take replicas offline that a broker cannot use, in a failed log directory for example."""
        context = self._context
        known = context.offline_dirs.setdefault(broker, set())
        new = [tp for tp in failed if tp not in known and broker in context.replicas_of(tp)]
        known.update(new)
        if not new:
            return
        self._log.report("offline_replicas", broker=broker, partitions=tuple(map(str, new)))
        staying = [tp for tp in new if not context.is_deleting(tp.topic)]
        led = [tp for tp in staying if tp in context.states and context.states[tp].leader == broker]
        self._partitions.move(led, PartitionPhase.OFFLINE)
        yield from self._partitions.bring_online(led)
        yield from self._replicas.take_offline([(tp, broker) for tp in staying])
        self._deletion.fail([(tp, broker) for tp in new if context.is_deleting(tp.topic)])
